"""Bytes of what a node's GPUs do: what is written is read; whatever else is there is refused."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.telemetry.gpu_file import (
    FILE_BYTES,
    MAX_GPUS,
    MAX_NAME,
    SLOT_BYTES,
    GpuReading,
    GpuRecord,
    GpuUse,
    decode,
    encode,
)
from gsched.telemetry.slots import encode_slot

READING = GpuReading(0, "GPU-1", "A100", 1 / 3, 2**30, 2**36, 412.5, 700.0, 61.0, 2)
LITTLE = GpuUse(GpuReading(1, "MIG-1", "A100"))
RECORD = GpuRecord(
    4, "5_3", 1, "gn01", 15.0, 1000.5, 1060.5, [GpuUse(READING, 0.5, 2**31, 1060.5), LITTLE]
)


def slot(fields: dict[str, Any]) -> bytes:
    """One whose checksum is right, whatever `fields` are."""
    return encode_slot(b"gsched-gpus 1", fields, SLOT_BYTES)


@pytest.mark.parametrize("record", [RECORD, replace(RECORD, gpus=[], ended_time=1061.0)], ids=str)
def test_what_is_written_is_read(record):
    data = encode(record)
    assert len(data) == SLOT_BYTES == FILE_BYTES / 2
    assert decode(data) == record
    assert decode(bytes(SLOT_BYTES) + data) == record


def test_the_later_of_two_slots_counts_whichever_is_cut_off():
    old, new = encode(RECORD), encode(replace(RECORD, seq=5))
    assert decode(old + new).seq == decode(new + old).seq == 5
    assert decode(old + new[:100]).seq == 4


def test_the_most_that_can_be_told_fits():
    longest = replace(
        READING, index=MAX_GPUS, uuid="u" * MAX_NAME, name="n" * MAX_NAME,
        memory_used_bytes=2**53, memory_total_bytes=2**53, power_w=1 / 3, power_limit_w=1 / 3,
        temperature_c=-1 / 3, num_processes=10**6,
    )  # fmt: skip
    use = GpuUse(longest, 1 / 3, 2**53, 1e9 + 1 / 3)
    full = replace(RECORD, node="n" * 256, gpus=[use] * MAX_GPUS)
    assert decode(encode(full)) == full


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": -1}, {"job": 7}, {"node": "a\x1b[2J"}, {"interval_s": "15"}, {"restart": True},
        {"started_time": 1e300}, {"ended_time": float("1e13")}, {"gpus": None}, {"gpus": {}},
        {"gpus": ["x"]}, {"gpus": [asdict(LITTLE)] * (MAX_GPUS + 1)}, {"gpus": [{}]},
        {"gpus": [{"last": "x"}]},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_values_are_refused(wrong):
    with pytest.raises(DataError):
        decode(slot(asdict(RECORD) | wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": None}, {"uuid": "x" * (MAX_NAME + 1)}, {"name": "\n"}, {"utilisation": 1.01},
        {"utilisation": -0.1}, {"memory_used_bytes": 0.5}, {"power_w": -1.0},
        {"temperature_c": "hot"}, {"num_processes": -1},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_values_of_a_gpu_are_refused(wrong):
    gpu = asdict(LITTLE) | {"last": asdict(READING) | wrong}
    with pytest.raises(DataError):
        decode(slot(asdict(RECORD) | {"gpus": [gpu]}))


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data):
    for text in (data, b"gsched-gpus 1 " + data):
        with pytest.raises(DataError):
            decode(text)
