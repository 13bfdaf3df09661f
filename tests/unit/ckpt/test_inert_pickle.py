"""A pickle is read as data: nothing in it is imported or called."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import pickletools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.ckpt import inert_pickle
from gsched.ckpt.inert_pickle import Inert, TooLargeError, read_tree
from gsched.errors import DataError

KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)
VALUES = st.recursive(
    KEYS | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(VALUES, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back(value, protocol):
    if protocol < 3:  # older protocols say bytes by a call
        value = _without_bytes(value)
    assert read_tree(pickle.dumps(value, protocol)) == value


def _without_bytes(value):
    if isinstance(value, bytes):
        return None
    if isinstance(value, list | tuple):
        return type(value)(_without_bytes(item) for item in value)
    if isinstance(value, dict):
        return {key: _without_bytes(item) for key, item in value.items()}
    return value


class Command:
    def __reduce__(self):
        return os.system, ("touch made-by-a-pickle",)


def test_no_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = read_tree(pickle.dumps({"step": 5, "x": Command()}))
    assert tree["step"] == 5
    assert (tree["x"].name, tree["x"].args) == ("posix.system", ("touch made-by-a-pickle",))
    assert list(tmp_path.iterdir()) == []
    pickle.loads(pickle.dumps(Command()))  # noqa: S301 - what it would have done
    assert len(list(tmp_path.iterdir())) == 1


class Old:
    """With a state, as old classes have it."""

    def __init__(self):
        self.depth = 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_objects_are_told_with_their_state(protocol):
    found = read_tree(pickle.dumps({"a": Old(), "o": collections.OrderedDict(x=1)}, protocol))
    assert found["a"].state == {"depth": 3}
    assert found["o"] == {"x": 1}


def test_every_operation_of_the_format_is_known():
    known = (
        inert_pickle._VALUES
        | set(inert_pickle._CONSTANTS)
        | inert_pickle._STORES
        | inert_pickle._FETCHES
        | inert_pickle._NOTHING
        | set(inert_pickle._STEPS)
    )
    assert {operation.name for operation in pickletools.opcodes} == known | {"STOP"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80",
        b"\x80\x04N",  # no end
        b"0.",  # pops what is not there
        b"\x80\x04h\x05.",  # fetches what was never stored
        b"\x80\x04]]s.",  # a list as a key
        b"\x80\x04}(]]u.",
        b"\x80\x04u.",
        b"\x80\x04\x8e" + b"\xff" * 8 + b"x.",  # bytes of 2^64
        b"\x80\x05\x96" + b"\xff" * 7 + b"\x0fx.",  # a byte array of 2^60
        b"I" + b"9" * 5000 + b"\n.",
        b"not a pickle at all",
        b"(" * 1000,
    ],
)
def test_what_is_no_pickle_is_refused(data):
    with pytest.raises(DataError):
        read_tree(data)


@given(st.lists(st.sampled_from([bytes([c]) for c in range(256)] + [b"N", b"(", b"u", b"h\x00"])))
def test_any_bytes_are_a_value_or_refused(parts):
    with contextlib.suppress(DataError):
        read_tree(b"".join(parts) + b".")


def test_an_index_of_the_memo_costs_no_memory():
    assert read_tree(b"\x80\x02Nr\xff\xff\xff\xff.") is None


def test_deep_nesting_is_no_recursion():
    deep = b"\x80\x02)" + b"\x85" * 200_000
    assert isinstance(read_tree(deep + b"."), tuple)
    assert read_tree(b"\x80\x02}" + deep[2:] + b"Ns.").popitem()[1] is None  # as a key


def test_what_takes_too_long_is_given_up():
    with pytest.raises(TooLargeError, match="more than 100 operations"):
        read_tree(b"N0" * 100 + b"N.", 100)


def test_inert_values_are_no_values():
    assert read_tree(pickle.dumps({1, 2})) != {1, 2}
    assert Inert("a") != Inert("a")
