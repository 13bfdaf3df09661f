"""Bytes of a heartbeat: what is written is read, and whatever else is there is refused."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.heartbeats import record

from gsched.errors import DataError
from gsched.telemetry.heartbeat_file import (
    CURVE_BYTES,
    RECORD_BYTES,
    decode_curve,
    decode_record,
    encode_curve,
    encode_record,
)
from gsched.telemetry.loss_curve import MAX_ATTEMPTS, MAX_POINTS, Attempt, LossCurve, Point

FULL = record(
    restart=3, rank=5, world_size=8, ended_time=5001.5, loss=-2.5, bad_losses=2, tokens=2**52,
    tokens_per_s=1e6, iteration_s=0.25, checkpoint_dir="/scratch/ä\n", committed_step=350,
    committed_time=4990.0, saving_since=4999.5,
)  # fmt: skip


def slot(fields, size=RECORD_BYTES):
    """A slot whose checksum is right, whatever `fields` (an object, or text) are."""
    text = fields if isinstance(fields, str) else json.dumps(fields)
    payload = text.encode()
    header = b"gsched-heartbeat 1 %08x %06d\n" % (zlib.crc32(payload), len(payload))
    return (header + payload).ljust(size)


@pytest.mark.parametrize("told", [record(), FULL], ids=["little", "all"])
def test_what_is_written_is_read(told):
    data = encode_record(told)
    assert len(data) == RECORD_BYTES
    assert decode_record(data) == told
    assert decode_record(bytes(RECORD_BYTES) + data) == told


def test_the_later_of_two_slots_counts():
    old, new = record(seq=4, step=1), record(seq=5, step=2)
    assert decode_record(encode_record(old) + encode_record(new)) == new
    assert decode_record(encode_record(new) + encode_record(old)) == new


@pytest.mark.parametrize("cut", [0, 1, 18, 35, 60, 150, 200, 300, 700])
def test_a_write_that_was_cut_off_leaves_the_one_before(cut):
    """Of every length: the bytes behind the cut are those of two writes before."""
    old, before, new = (encode_record(record(seq=seq, step=seq * 1111)) for seq in (1, 2, 3))
    torn = new[:cut] + old[cut:]
    if torn != new and torn != old:
        assert decode_record(before + torn) == decode_record(before)
    else:
        assert decode_record(before + torn).seq in (2, 3)


def test_a_folder_whose_name_is_too_long_is_left_out():
    told = record(checkpoint_dir="/" + "ü" * 2000)
    assert decode_record(encode_record(told)) == replace(told, checkpoint_dir=None)


def test_a_full_curve_fits():
    points = [Point(2**53 - 200 + i, -1.23456e-100, 2**40) for i in range(MAX_POINTS)]
    attempts = [
        Attempt(10_000, 2**53, 2**53, 1796027571.407514, 1796027571.407514)
        for _ in range(MAX_ATTEMPTS)
    ]
    data = encode_curve(LossCurve(points, attempts, 2**40), 2**53)
    assert len(data) == CURVE_BYTES
    seq, curve = decode_curve(data)
    assert (seq, curve.points, curve.attempts, curve.stride) == (2**53, points, attempts, 2**40)


@given(st.binary(max_size=2 * RECORD_BYTES))
def test_any_bytes_are_refused_or_read(data):
    for parse in (decode_record, decode_curve):
        with pytest.raises(DataError):
            parse(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(asdict(FULL))), json_values)
def test_any_value_with_a_right_checksum_is_refused_or_harmless(key, value):
    try:
        found = decode_record(slot(asdict(FULL) | {key: value}))
    except DataError:
        return
    told = asdict(found)
    json.dumps(told, allow_nan=False)
    for name, number in told.items():
        if isinstance(number, int | float) and name != "loss":
            assert 0 <= number <= 2**53
    assert found.host.isprintable()
    assert found.run.isprintable()


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "gn01\x1b[2J"},
        {"step": -1},
        {"step": True},
        {"step": 2**53 + 1},
        {"step": 1.5},
        {"step": "1"},
        {"loss": float("nan")},
        {"loss": float("inf")},
        {"loss": 10**400},
        {"step_time": -1.0},
        {"step_time": 1e300},
        {"checkpoint_dir": "relative"},
        {"checkpoint_dir": "/a\0b"},
        {"job": None},
        {"host": "x" * 257},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_refused(wrong):
    (key,) = wrong
    with pytest.raises(DataError, match=key):
        decode_record(slot(asdict(FULL) | wrong))


@pytest.mark.parametrize("text", ["[]", "{", "[" * 3000, "9" * 3900, "null", '{"seq": 1}'])
def test_json_that_is_no_heartbeat_is_refused(text):
    with pytest.raises(DataError):
        decode_record(slot(text))


@pytest.mark.parametrize(
    "wrong",
    [
        {"points": [[1, 1.0, 1]] * (MAX_POINTS + 1)},
        {"points": [[2, 1.0, 1], [1, 1.0, 1]]},
        {"points": [[1, float("nan"), 1]]},
        {"points": [[1, 1.0]]},
        {"points": {"a": 1}},
        {"attempts": [[0, 0, 0, 0, 0]] * (MAX_ATTEMPTS + 1)},
        {"attempts": [[0, 0, 0, 0, "x"]]},
        {"stride": -1},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_curve_that_cannot_be_is_refused(wrong):
    fields = {"seq": 1, "stride": 1, "points": [], "attempts": []}
    assert decode_curve(slot(fields, CURVE_BYTES))[1] == LossCurve()
    with pytest.raises(DataError):
        decode_curve(slot(fields | wrong, CURVE_BYTES))
