"""Spans: when the daemon acted and when it only observed, folded from its rounds."""

from __future__ import annotations

import pytest
from support.history import CLUSTER
from support.servers import each_engine

from gsched.model.journal import DaemonSpan

pytestmark = each_engine


@pytest.fixture
def spans(history):
    return history.spans(CLUSTER)


def test_rounds_of_one_mode_make_one_span(spans):
    assert spans.between(None, None) == []
    for at in (1000, 1030, 1060):
        spans.note("act", "qssf", at, 90, writes=at - 1000)
    assert spans.between(None, None) == [DaemonSpan("act", "qssf", 1000, 1060, 3, 90)]


def test_another_mode_or_policy_begins_a_span_where_the_former_ends(spans):
    spans.note("observe", "qssf", 1000, 90)
    spans.note("act", "qssf", 1030, 90, writes=4)
    spans.note("act", "fifo", 1060, 90)
    assert spans.between(None, None) == [
        DaemonSpan("observe", "qssf", 1000, 1030, 1, 0),
        DaemonSpan("act", "qssf", 1030, 1060, 1, 4),
        DaemonSpan("act", "fifo", 1060, 1060, 1, 0),
    ]


def test_a_gap_is_in_no_span(spans):
    spans.note("act", "qssf", 1000, 90)
    spans.note("act", "qssf", 1090, 90)
    spans.note("act", "qssf", 1181, 90)
    spans.note("observe", "qssf", 2000, 90)
    assert [(s.mode, s.begin_time, s.end_time) for s in spans.between(None, None)] == [
        ("act", 1000, 1090),
        ("act", 1181, 1181),
        ("observe", 2000, 2000),
    ]


def test_a_clock_that_is_set_back_makes_no_span_that_ends_before_it_begins(spans):
    for mode, at in (("act", 5000), ("act", 4970), ("observe", 4990), ("observe", 1000)):
        spans.note(mode, "qssf", at, 90)
    found = [(s.mode, s.begin_time, s.end_time, s.rounds) for s in spans.between(None, None)]
    assert found == [("observe", 1000, 1000, 1), ("act", 5000, 5000, 2), ("observe", 5000, 5000, 1)]


def test_what_lies_in_part_in_a_time_is_told_whole(spans, history):
    for at in (1000, 1050, 2000, 2050, 3000):
        spans.note("act", "qssf", at, 90)
    history.spans("beta").note("act", "qssf", 2010, 90)
    assert [s.begin_time for s in spans.between(1050, 2000)] == [1000]
    assert [s.begin_time for s in spans.between(1051, 2001)] == [2000]
    assert [s.begin_time for s in spans.between(2030, None)] == [2000, 3000]
    assert [s.begin_time for s in spans.between(None, 2040)] == [1000, 2000]
    assert [s.begin_time for s in history.spans("beta").between(None, None)] == [2010]
    assert history.spans("gamma").between(None, None) == []
