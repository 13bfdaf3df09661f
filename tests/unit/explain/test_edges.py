"""Edges of what is read from reasons, constraints and licences."""

from __future__ import annotations

import pytest
from support.queue import node, partition, row

from gsched.explain.features import FeatureCount, parse_constraint
from gsched.explain.never import Ask, Site, never_starts
from gsched.explain.slurm_reasons import explain_reason, is_held


@pytest.mark.parametrize(
    "code",
    [
        "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "BadConstraints", "ReservationDeleted",
        "launch failed requeued held", "job requeued in held state",
        "user env retrieval failed requeued held",
    ],
)  # fmt: skip
def test_what_slurm_looks_at_no_more_until_it_is_released(code):
    assert is_held(explain_reason(code))


def test_nodes_that_slurm_does_not_name_are_not_shown():
    words = explain_reason("ReqNodeNotAvail, UnavailableNodes:(null)").words
    assert words == "nodes that it needs are down, drained, reserved or taken"


@pytest.mark.parametrize(
    ("text", "counts", "alternatives"),
    [
        ("a*2", [("a", 2)], [{"a"}]),
        ("a*2&b*3", [("a", 2), ("b", 3)], [{"a"}, {"b"}]),
        ("a&b*3", [("b", 3)], [{"a"}, {"b"}]),
        ("a*2&b", [("a", 2)], [{"a"}, {"b"}]),
        ("[a*2&b]", [("a", 2)], [{"a"}, {"b"}]),
        ("[a*2]&b", [("a", 2)], [{"a"}, {"b"}]),
        ("b&[a*2]", [("a", 2)], [{"b"}, {"a"}]),
        ("a&b", [], [{"a", "b"}]),
    ],
)
def test_counted_features_are_those_of_different_nodes(text, counts, alternatives):
    found = parse_constraint(text)
    assert found is not None
    assert found.counts == tuple(FeatureCount(*pair) for pair in counts)
    assert found.alternatives == tuple(map(frozenset, alternatives))


NODES = (node("n1"), node("n2"))


def never(nodes=NODES, have=None, **facts):
    site = Site(nodes, [partition()], licences=have)
    found = never_starts(Ask(row(1, **facts)), site)
    return None if found is None else found.code


def test_a_count_of_a_feature_needs_as_many_nodes():
    nodes = (node("n1", features=("a",)), node("n2", features=("b",)))
    assert never(nodes, features="a*1") is None
    assert never(nodes, features="a*2") == "features"


@pytest.mark.parametrize("others", ["a|b", "a;b", "a@site", "a b"])
def test_alternatives_and_others_licences_are_not_judged(others):
    have = {"matlab": 2, "ansys": 2}
    asked = f"{others},matlab:9"
    assert never(have=have, licences=asked) is None
    assert never(have=have, licences="ansys:1,matlab:9") == "licences"
    assert never(have=have, licences="ansys:2,matlab:2") is None
