"""Constraints of jobs against the features of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.explain.features import FeatureCount, parse_constraint


@pytest.mark.parametrize(
    ("text", "features", "takes"),
    [
        ("a", "a b", True),
        ("a", "b", False),
        ("a&b", "a b", True),
        ("a&b", "a", False),
        ("a,b", "a", False),
        ("a|b", "b", True),
        ("a|b&c", "b", False),
        ("a|b&c", "a", True),
        ("(a|b)&c", "a", False),
        ("(a|b)&c", "b c", True),
        ("[a|b]", "b", True),
        ("[a|b]&c", "b", False),
        ("[(a&x)|b]", "a", False),
        ("a*2&b*3", "b", True),
        ("[a*2&b*3]", "a", True),
        ("[a*2&b*3]", "c", False),
        ("a100_80g&nvlink-4.0", "a100_80g nvlink-4.0", True),
    ],
)
def test_which_nodes_are_candidates(text, features, takes):
    constraint = parse_constraint(text)
    assert constraint is not None
    assert constraint.takes(features.split()) is takes


def test_counts_are_kept():
    found = parse_constraint("[a*2&b*3]")
    assert found is not None
    assert found.counts == (FeatureCount("a", 2), FeatureCount("b", 3))


@pytest.mark.parametrize("text", ["", "a&", "&a", "(a", "a)", "[a|b", "a b", "!a", "a*x", "a**2"])
def test_what_is_not_understood_says_nothing(text):
    assert parse_constraint(text) is None


def test_very_many_alternatives_say_nothing():
    assert parse_constraint("&".join(["(a|b|c|d)"] * 12)) is None


@given(st.text(alphabet="ab&|()[]*,12! \x00", max_size=20))
def test_no_text_is_an_error(text):
    parse_constraint(text)
