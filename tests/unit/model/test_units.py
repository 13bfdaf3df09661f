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
    parse_elapsed,
    parse_gpus,
    parse_gres,
    parse_memory,
    parse_requested_gres,
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
        ("1-", 86400),
        ("2-3", 2 * 86400 + 3 * 3600),
        ("1:60", 120),
        ("1-24:60:60", 2 * 86400 + 3660),
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
    "text",
    [
        "1:2:3:4",
        "1d",
        "-5",
        "-",
        "1--",
        "+5",
        "1:",
        ":1",
        "1-2:3:4:5",
        "a",
        "1:-2",
        "1.5",
        "١٢",
        "5 minutes",
    ],
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
        ("4GB", Memory(2**32)),
        ("62.50G", Memory(125 * 2**29)),
        ("100K", Memory(102400)),
        ("4Gn", Memory(2**32, "node")),
        ("2000Mc", Memory(2000 * 2**20, "cpu")),
        ("0n", Memory(0, "node")),
    ],
)
def test_memory(text, memory):
    assert parse_memory(text) == memory


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00.123", 0.123),
        ("05:30", 330),
        ("0:00", 0),
        ("01:02:03", 3723),
        ("1:02:03.5", 3723.5),
        ("1-02:03:04", 93784),
        ("100-00:00:00", 8640000),
        ("INVALID", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_times_used(text, seconds):
    assert parse_elapsed(text) == seconds


@pytest.mark.parametrize("text", ["5", "1-2", "1:2:3:4", "-1:00", "1-00:00", "1:00.", "x", "٣:00"])
def test_what_is_no_time_used(text):
    with pytest.raises(DataError, match="not a time used"):
        parse_elapsed(text)


@pytest.mark.parametrize("text", ["", "G", "-4G", "4B", "4GiB", "4X", "4 GG", "nan", "1e3"])
def test_what_is_no_memory(text):
    with pytest.raises(DataError, match="not an amount of memory"):
        parse_memory(text)


def test_counts_plain_and_shortened():
    assert parse_count("17") == 17
    assert parse_count("2K") == 2048
    assert parse_count("18446744073709551615") == 2**64 - 1  # exact: no float in between
    assert parse_count("1.50K") == 1536
    for text in ("many", "1.5", "-1", "", "1K2"):
        with pytest.raises(DataError, match="not a count"):
            parse_count(text)


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
    # TRESUsageInTot: the CPU is a time
    used = parse_tres("cpu=1-00:00:09,energy=0,fs/disk=2012,mem=3K,vmem=2K,gres/gpuutil=50")
    assert dict(used) == {"cpu": 86409, "energy": 0, "fs/disk": 2012, "mem": 3072, "vmem": 2048,
                          "gres/gpuutil": 50}  # fmt: skip
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
        ("gres/gpu=2", [Gres("gpu", "", 2)]),
        ("gres/gpu:a100=2", [Gres("gpu", "a100", 2)]),
        ("gres:gpu", [Gres("gpu", "", 1)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu(CNT:4)", [Gres("gpu", "", 4)]),
        ("mps:a100(CNT:200)", [Gres("mps", "a100", 200)]),
        ("shard:a100:3(3/8,0/8),gpu:0", [Gres("shard", "a100", 3), Gres("gpu", "", 0)]),
        ("shard:4(IDX:0(4/8),1(0/8)),gpu:1", [Gres("shard", "", 4), Gres("gpu", "", 1)]),
        ("gpu:a100_1g.5gb:2", [Gres("gpu", "a100_1g.5gb", 2)]),
        ("gpu:1K", [Gres("gpu", "", 1024)]),
        ("cpu=2,mem=4G,gres/gpu=1",
         [Gres("cpu", "", 2), Gres("mem", "", 2**32), Gres("gpu", "", 1)]),
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


def test_a_type_may_hold_what_stands_between_name_and_count():
    assert parse_gres("gres/gpu:gpu:a100:2") == (Gres("gpu", "gpu:a100", 2),)


@pytest.mark.parametrize(
    "text",
    ["gpu:a100:x", "gpu:a:b:x", ":2", "gres:", "gpu:1.5", "gpu:2(S:0", "gpu:2)", "gpu(CNT:x)"],
)
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


def test_of_what_is_asked_for_the_last_counts():
    for text in ("gpu:1,gpu:2", "gres:gpu:1,gres:gpu:2"):
        assert parse_requested_gres(text) == (Gres("gpu", "", 2),)
    asked = parse_requested_gres("gres/gpu:a100:2,gres/gpu:v100:1,gres/gpu:a100:3,shard:1")
    assert asked == (Gres("gpu", "a100", 3), Gres("gpu", "v100", 1), Gres("shard", "", 1))


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("2", [Gres("gpu", "", 2)]),
        ("a100", [Gres("gpu", "a100", 1)]),
        ("a100:2", [Gres("gpu", "a100", 2)]),
        ("a100=2", [Gres("gpu", "a100", 2)]),
        ("a100:2, v100:1", [Gres("gpu", "a100", 2), Gres("gpu", "v100", 1)]),
        ("1,2", [Gres("gpu", "", 2)]),
        ("0", [Gres("gpu", "", 0)]),
    ],
)
def test_the_values_of_gpus_options(text, entries):
    assert list(parse_gpus(text)) == entries


@pytest.mark.parametrize("text", ["a100:", "a100:x", "1.5"])
def test_what_is_no_value_of_a_gpus_option(text):
    with pytest.raises(DataError):
        parse_gpus(text)


_kinds = st.from_regex(r"\A[a-z][a-z0-9_.-]{0,8}\Z").filter(lambda kind: kind != "no_consume")
_gres = st.builds(Gres, st.sampled_from(["gpu", "shard", "mps"]), st.just("") | _kinds,
                  st.integers(0, 10**6))  # fmt: skip


@given(st.lists(_gres, max_size=5), st.sampled_from(["", "gres:", "gres/"]),
       st.sampled_from(["", "(S:0-1)", "(IDX:0,2-3)", "(IDX:N/A)"]))  # fmt: skip
def test_gres_come_back(entries, prefix, suffix):
    text = ",".join(f"{prefix}{entry}{suffix}" for entry in entries)
    assert list(parse_gres(text)) == entries


@given(st.dictionaries(
    st.sampled_from(["cpu", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/x", "energy"]),
    st.integers(0, 2**63 - 1),
))  # fmt: skip
def test_tres_come_back(tres):
    assert dict(parse_tres(",".join(f"{name}={count}" for name, count in tres.items()))) == tres


@given(st.integers(0, 10**8), st.integers(0, 999))
def test_times_used_come_back(seconds, thousandths):
    minutes, secs = divmod(seconds, 60)
    hours, mins = divmod(minutes, 60)
    days, hrs = divmod(hours, 24)
    texts = [f"{hours:02}:{mins:02}:{secs:02}", f"{days}-{hrs:02}:{mins:02}:{secs:02}"]
    if not hours:
        texts.append(f"{mins:02}:{secs:02}")
    for text in texts:
        assert parse_elapsed(text) == seconds
        assert parse_time_limit(text) == min(seconds, UNLIMITED_S)
        found = parse_elapsed(f"{text}.{thousandths:03}")
        assert found == pytest.approx(seconds + thousandths / 1000)


@given(st.integers(0, 2**53), st.sampled_from("KMGTP"), st.sampled_from(["", "n", "c"]))
def test_memory_comes_back(amount, suffix, per):
    factor = 1024 ** ("KMGTP".index(suffix) + 1)
    found = parse_memory(f"{amount}{suffix}{per}")
    assert found == Memory(amount * factor, {"n": "node", "c": "cpu"}.get(per, ""))


@given(st.dictionaries(st.sampled_from(["", "a100", "v100", "h200"]), st.integers(1, 64)))
def test_gres_lists_come_back(kinds):
    text = ",".join(f"gpu:{kind}:{n}" if kind else f"gpu:{n}" for kind, n in kinds.items())
    typed = {kind: n for kind, n in kinds.items() if kind}
    total = max(kinds.get("", 0), sum(typed.values()))
    assert count_gres(parse_gres(text), "gpu") == (total, tuple(sorted(typed.items())))


_ALL = (parse_time_limit, parse_elapsed, parse_memory, parse_count, parse_tres, parse_gres,
        parse_requested_gres, parse_gpus)  # fmt: skip
_words = st.lists(
    st.sampled_from(["gpu", "gres", "gres/", ":", "=", ",", "2", "a100", "(", ")", "S:0", "CNT:",
                     "-", "K", ".", "mem=", "cpu=", "[", " ", "٣", "\n"]),
    max_size=10,
).map("".join)  # fmt: skip


@given(st.one_of(st.text(max_size=40), _words))
def test_any_text_gives_a_value_or_a_data_error(text):
    for parse in _ALL:
        with contextlib.suppress(DataError):
            parse(text)


@pytest.mark.parametrize("text", ["(" * 10**5, "1," * 50_000, "9" * 10**5, "gpu:" * 25_000 + "x"])
def test_long_texts_end_soon_and_in_a_short_message(text):
    messages = []
    for parse in _ALL:
        try:
            parse(text)
        except DataError as error:
            messages.append(error.message)
    assert messages
    assert max(map(len, messages)) < 300
