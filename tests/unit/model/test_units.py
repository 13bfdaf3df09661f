"""Slurm's grammars of time, memory, counts, TRES and GRES."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.job import UNLIMITED_S
from gsched.model.units import (
    Gres,
    Memory,
    count_gres,
    parse_count,
    parse_gres,
    parse_memory,
    parse_time_limit,
    parse_tres,
    tres_gres,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("0", 0),
        ("90:30", 90 * 60 + 30),
        ("1:02:03", 3723),
        ("2-3", 2 * 86400 + 3 * 3600),
        ("2-03:04", 2 * 86400 + 3 * 3600 + 4 * 60),
        ("1-02:03:04", 86400 + 2 * 3600 + 3 * 60 + 4),
        ("365-00:00:00", 365 * 86400),
        (" 10:00 ", 600),
        ("UNLIMITED", UNLIMITED_S),
        ("infinite", UNLIMITED_S),
        ("-1", UNLIMITED_S),
        ("999999999-00:00:00", UNLIMITED_S),
    ],
)
def test_time_limits(text, seconds):
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["Partition_Limit", "INVALID", "N/A", "NOT_SET", "(null)", ""])
def test_no_time_limit_known(text):
    assert parse_time_limit(text) is None


@pytest.mark.parametrize(
    "text", ["1:2:3:4", "1d", "-5", "1-", "a", "1:-2", "1.5", "١٢", "5 minutes"]
)
def test_what_is_no_time(text):
    with pytest.raises(DataError, match="not a Slurm time"):
        parse_time_limit(text)


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("512", Memory(512 * 2**20)),
        ("1000M", Memory(1000 * 2**20)),
        ("1.5G", Memory(3 * 2**29)),
        ("2T", Memory(2**41)),
        ("3P", Memory(3 * 2**50)),
        ("1E", Memory(2**60)),
        ("4g", Memory(2**32)),
        ("100K", Memory(102400)),
        ("4Gn", Memory(2**32, "node")),
        ("2000Mc", Memory(2000 * 2**20, "cpu")),
        ("0n", Memory(0, "node")),
    ],
)
def test_memory(text, memory):
    assert parse_memory(text) == memory


@pytest.mark.parametrize("text", ["", "G", "-4G", "4X", "4 GG", "nan", "1e3"])
def test_what_is_no_memory(text):
    with pytest.raises(DataError, match="not an amount of memory"):
        parse_memory(text)


def test_counts_plain_and_shortened():
    assert parse_count("17") == 17
    assert parse_count("2K") == 2048
    assert parse_count("18446744073709551615") == 2**64 - 1  # exact: no float in between
    with pytest.raises(DataError):
        parse_count("many")


def test_tres_lists():
    tres = parse_tres("cpu=4,mem=1.5G,node=1,gres/gpu=2,gres/gpu:a100=2,license/x=y=3")
    assert dict(tres) == {
        "cpu": 4,
        "mem": 3 * 2**29,
        "node": 1,
        "gres/gpu": 2,
        "gres/gpu:a100": 2,
        "license/x=y": 3,
    }
    assert dict(parse_tres("(null)")) == {}
    # Slurm's NO_VAL64 in the energy of jobs without a sensor
    assert dict(parse_tres("cpu=1,energy=18446744073709551614")) == {"cpu": 1}
    largest = 2**63 - 1
    assert dict(parse_tres(f"energy={largest},billing={largest + 1}")) == {"energy": largest}


@pytest.mark.parametrize("text", ["cpu", "=4", "cpu=", "cpu=1,,mem=2G", "cpu=one"])
def test_what_is_no_tres(text):
    with pytest.raises(DataError):
        parse_tres(text)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("gres:gpu:a100:2", [Gres("gpu", "a100", 2)]),
        ("gres/gpu:a100:2", [Gres("gpu", "a100", 2)]),
        ("gres/gpu:2", [Gres("gpu", "", 2)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:a100", [Gres("gpu", "a100", 1)]),
        ("gpu:1080:2", [Gres("gpu", "1080", 2)]),
        ("gpu:2(S:0)", [Gres("gpu", "", 2)]),
        ("gpu:a100:8(S:0-1),gpu:v100:4(S:0,2)", [Gres("gpu", "a100", 8), Gres("gpu", "v100", 4)]),
        ("gpu:a100:3(IDX:0,2-3),shard:a100:0(IDX:N/A)",
         [Gres("gpu", "a100", 3), Gres("shard", "a100", 0)]),
        ("bandwidth:lustre:no_consume:4G", [Gres("bandwidth", "lustre", 4 * 2**30)]),
        ("(null)", []),
        ("", []),
    ],
)  # fmt: skip
def test_gres_in_every_spelling(text, entries):
    assert list(parse_gres(text)) == entries


@pytest.mark.parametrize("text", ["gpu:a:b:2", "gpu:a100:x", ":2", "gres:"])
def test_what_is_no_gres(text):
    with pytest.raises(DataError):
        parse_gres(text)


def test_typed_and_untyped_entries_are_not_added_up():
    both = tres_gres(parse_tres("cpu=1,gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1,gres/shard=4"))
    assert count_gres(both, "gpu") == (3, (("a100", 2), ("v100", 1)))
    assert count_gres(both, "shard") == (4, ())
    assert count_gres(tres_gres(parse_tres("gres/gpu=3,gres/gpu:a100=2")), "gpu") == (
        3,
        (("a100", 2),),
    )
    assert count_gres(parse_gres("gpu:a100:2,gpu:a100:1"), "gpu") == (3, (("a100", 3),))
    assert count_gres((), "gpu") == (0, ())


@given(st.dictionaries(st.sampled_from(["", "a100", "v100", "h200"]), st.integers(1, 64)))
def test_gres_lists_come_back(kinds):
    text = ",".join(f"gpu:{kind}:{n}" if kind else f"gpu:{n}" for kind, n in kinds.items())
    typed = {kind: n for kind, n in kinds.items() if kind}
    total = max(kinds.get("", 0), sum(typed.values()))
    assert count_gres(parse_gres(text), "gpu") == (total, tuple(sorted(typed.items())))


@given(st.text(max_size=40))
def test_any_text_gives_a_value_or_a_data_error(text):
    for parse in (parse_time_limit, parse_memory, parse_count, parse_tres, parse_gres):  # fmt: skip
        with contextlib.suppress(DataError):
            parse(text)
