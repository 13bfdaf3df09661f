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
    ],
)
def test_expand(hostlist, names):
    assert expand(hostlist) == names


@pytest.mark.parametrize(
    "hostlist", ["gn[1-", "gn1]", "gn[1-2", "gn[]", "gn[2-1]", "gn[a-b]", "gn[1-[2]]", "gn[1,,2]"]
)
def test_what_is_no_host_list(hostlist):
    with pytest.raises(DataError):
        expand(hostlist)


@pytest.mark.parametrize("hostlist", ["n[0-9999999]", "a[0-999]b[0-999]", "n[1-99999999999999999]"])
def test_a_short_text_cannot_fill_the_memory(hostlist):
    with pytest.raises(DataError, match=f"{MAX_HOSTS}|too long"):
        expand(hostlist)


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
        (["gn1-ib", "gn3-ib"], "gn[1,3]-ib"),
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
