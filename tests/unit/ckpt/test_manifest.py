"""The manifest: what is written is read back, and hostile ones are refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.ckpt import layout, manifest
from gsched.ckpt.manifest import Job, Manifest, Reason, Shard
from gsched.errors import DataError

MADE = Manifest(
    step=18240,
    world_size=2,
    run="0123456789ab",
    reason=Reason.SIGNAL,
    created=1_800_000_000.5,
    shards=(
        Shard("rank-00000-of-00002.safetensors", 1000, 0x00C0FFEE),
        Shard("rank-00001-of-00002.safetensors", 0, 0xFFFFFFFF),
    ),
    job=Job("4711_3", 2),
    versions={"gsched": "1.0", "torch": "2.13.0"},
)


def document() -> dict[str, Any]:
    return json.loads(manifest.encode(MADE))


def test_it_is_read_back():
    assert manifest.decode(manifest.encode(MADE)) == MADE
    assert MADE.num_bytes == 1000


def test_it_is_as_documented():
    made = document()
    assert made["format"] == "gsched-checkpoint"
    assert made["version"] == 1
    assert made["shards"][0] == {
        "file": "rank-00000-of-00002.safetensors",
        "bytes": 1000,
        "crc32": "00c0ffee",
    }
    assert made["job"] == {"id": "4711_3", "restart": 2}
    assert made["reason"] == "signal"


def test_a_job_need_not_be():
    without = {**document(), "job": None}
    assert manifest.decode(json.dumps(without).encode()).job is None


def test_the_largest_world_fits():
    files = (layout.rank_file_name(r, layout.MAX_WORLD_SIZE) for r in range(layout.MAX_WORLD_SIZE))
    shards = tuple(Shard(file, 2**50, 0xFFFFFFFF) for file in files)
    large = Manifest(10**12 - 1, layout.MAX_WORLD_SIZE, "0" * 12, Reason.INTERVAL, 1e9, shards)
    assert manifest.decode(manifest.encode(large)) == large


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "no gsched-checkpoint"),
        ({"version": 2}, "version 2 is not known"),
        ({"version": "x" * 10_000}, "is not known"),
        ({"step": -1}, "step"),
        ({"step": True}, "step"),
        ({"step": 1.0}, "step"),
        ({"step": 10**12}, "step"),
        ({"world_size": 0}, "world_size"),
        ({"world_size": 3}, "shards is not a list of 3"),
        ({"world_size": 10**9}, "world_size"),
        ({"run": "../../etc/pas"}, "12 hex digits"),
        ({"run": None}, "run is no text"),
        ({"reason": "because"}, "reason"),
        ({"created": "now"}, "created"),
        ({"created": -1}, "created"),
        ({"created": 1e300}, "created"),
        ({"created": True}, "created"),
        ({"shards": None}, "shards"),
        ({"shards": [1, 2]}, "shard"),
        ({"job": 4711}, "job"),
        ({"job": {"id": "1", "restart": -1}}, "restart"),
        ({"job": {"id": "1" * 1000, "restart": 0}}, "id"),
        ({"versions": None}, "versions"),
        ({"versions": {"torch": 2}}, "torch"),
        ({"versions": {"x" * 1000: "1"}}, "versions"),
        ({"versions": {str(i): "1" for i in range(1000)}}, "versions"),
    ],
)
def test_a_wrong_field_is_named(change, words):
    with pytest.raises(DataError, match=words):
        manifest.decode(json.dumps({**document(), **change}).encode())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": "rank-00001-of-00002.safetensors"}, "rank 0 of 2"),
        ({"file": "../rank-00000-of-00002.safetensors"}, "rank 0 of 2"),
        ({"file": "/etc/passwd"}, "rank 0 of 2"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": 2**61}, "bytes"),
        ({"crc32": "c0ffee"}, "crc32"),
        ({"crc32": "not hex!"}, "crc32"),
        ({"crc32": 5}, "crc32"),
    ],
)
def test_a_wrong_shard_is_refused(change, words):
    made = document()
    made["shards"][0].update(change)
    with pytest.raises(DataError, match=words):
        manifest.decode(json.dumps(made).encode())


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"created": NaN}'),
        b'{"format": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_manifest(data):
    with pytest.raises(DataError):
        manifest.decode(data)


def test_a_very_long_one_is_not_parsed():
    with pytest.raises(DataError, match="more than"):
        manifest.decode(manifest.encode(MADE) + b" " * manifest.MAX_BYTES)


def test_a_number_that_is_none_is_no_time():
    data = manifest.encode(MADE).replace(b"1800000000.5", b"NaN")
    with pytest.raises(DataError, match="created"):
        manifest.decode(data)


@given(st.binary(max_size=64), st.integers(0, 400))
def test_damage_is_refused_or_harmless(noise, position):
    data = manifest.encode(MADE)
    try:
        found = manifest.decode(data[:position] + noise + data[position + len(noise) :])
    except DataError:
        return
    assert len(found.shards) == found.world_size == 2
