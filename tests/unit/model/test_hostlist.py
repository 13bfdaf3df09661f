"""Host lists to names and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.hostlist import MAX_HOSTS, expand, fold


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("gn01", ["gn01"]),
        ("gn[01-03,7]", ["gn01", "gn02", "gn03", "gn7"]),
        ("gn[8-11]", ["gn8", "gn9", "gn10", "gn11"]),
        ("gn[08-11]", ["gn08", "gn09", "gn10", "gn11"]),
        ("login,gn[1-2],x", ["login", "gn1", "gn2", "x"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("gn[1-2]-ib,a", ["gn1-ib", "gn2-ib", "a"]),
        ("n[007]", ["n007"]),
        ("", []),
        ("gn1,gn1", ["gn1", "gn1"]),
        (",a,, b\tc\n", ["a", "b", "c"]),
        ("r[1-2][3-4]", ["r13", "r14", "r23", "r24"]),
        (
            "r[1-2]c[01,3]n[0-1]",
            ["r1c01n0", "r1c01n1", "r1c3n0", "r1c3n1", "r2c01n0", "r2c01n1", "r2c3n0", "r2c3n1"],
        ),
        ("gn[8-011]", ["gn8", "gn9", "gn10", "gn11"]),
        ("gn[098-101]", ["gn098", "gn099", "gn100", "gn101"]),
        ("[1-3]", ["1", "2", "3"]),
    ],
)
def test_expand(hostlist, names):
    assert expand(hostlist) == names


@pytest.mark.parametrize(
    "hostlist",
    ["gn[1-", "gn1]", "gn[1-2", "gn[]", "gn[2-1]", "gn[a-b]", "gn[1-[2]]", "gn[1,,2]", "gn[1-2:2]",
     "gn[-2]", "gn[1-]", "[", "]", "gn[ 1-2]"],
)  # fmt: skip
def test_what_is_no_host_list(hostlist):
    with pytest.raises(DataError):
        expand(hostlist)


@pytest.mark.parametrize(
    "hostlist",
    ["n[0-9999999]", "a[0-999]b[0-999]", "n[1-99999999999999999]", "[0-200000]" * 10_000,
     f"n[{'0-200000,' * 10_000}0]", f"{'a' * 90_000}[1-2]", "n[1-200000]," * 8_000],
)  # fmt: skip
def test_a_short_text_cannot_fill_the_memory(hostlist):
    with pytest.raises(DataError, match=f"{MAX_HOSTS}|too long|255") as caught:
        expand(hostlist)
    assert len(caught.value.message) < 300


def test_long_lists_of_many_items():
    names = [f"n{number}" for number in range(20_000)]
    assert expand(",".join(names)) == names
    assert expand("," * 10**5) == []
    assert expand("[1]" * 100) == ["1" * 100]
    for text in ("[" * 10**5, "[a," * 30_000, "a]" * 50_000):
        with pytest.raises(DataError):
            expand(text)


def test_the_longest_lists():
    longest = f"n[1-{MAX_HOSTS}]"
    assert len(expand(longest)) == MAX_HOSTS
    for longer in (f"{longest},x", f"n[0-{MAX_HOSTS}]", f"x,a[1-2]b[1-{MAX_HOSTS // 2}]"):
        with pytest.raises(DataError):
            expand(longer)


@pytest.mark.parametrize(
    ("names", "hostlist"),
    [
        (["gn03", "gn01", "gn02", "gn01"], "gn[01-03]"),
        (["gn9", "gn10", "gn11"], "gn[9-11]"),
        (["gn09", "gn10", "gn11"], "gn[09-11]"),
        (["gn09", "gn9"], "gn09,gn9"),
        (["gn099", "gn100", "gn1000"], "gn1000,gn[099-100]"),
        (["login", "gn1"], "gn1,login"),
        (["gn1-ib", "gn3-ib"], "gn1-ib,gn3-ib"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        ([], ""),
    ],
)
def test_fold(names, hostlist):
    assert fold(names) == hostlist


_names = st.from_regex(r"\A[a-z]{1,3}[0-9]{0,4}(-[a-z])?([0-9]{1,3})?\Z")


@given(st.lists(_names, max_size=30))
def test_names_come_back(names):
    assert sorted(expand(fold(names))) == sorted(set(names))


@given(st.text(alphabet="gn[]-,0123456789", max_size=30))
def test_any_text_gives_names_or_a_data_error(text):
    try:
        names = expand(text)
    except DataError:
        return
    assert sorted(expand(fold(names))) == sorted(set(names))
