"""Events of nodes as sacctmgr tells them."""

from __future__ import annotations

import pytest

from gsched.model.history import NodeEvent
from gsched.slurm.parse_node_events import event_argv, parse_node_events

TEXT = (
    "bed|gn01|1795981167|Unknown|DRAIN|root(0)|again\n"
    "bed|gn02|1795981156|1795981157|DRAIN|root(0)|fan | broke\nsecond line\n\n"
    "bed|gn02|1795981157|1795981158|DOWN*||\n"
)


def test_events_with_their_reasons():
    found = parse_node_events(TEXT)
    assert found.rejects == ()
    assert found.events == (
        NodeEvent("bed", "gn01", 1795981167, "DRAIN", None, "again", "root"),
        NodeEvent(
            "bed", "gn02", 1795981156, "DRAIN", 1795981157, "fan | broke\nsecond line\n", "root"
        ),
        NodeEvent("bed", "gn02", 1795981157, "DOWN*", 1795981158, None, None),
    )


def test_nothing_happened():
    assert parse_node_events("").events == parse_node_events("\n").events == ()


@pytest.mark.parametrize(
    ("text", "line", "events"),
    [
        ("sacctmgr: error: x\n", 1, 0),
        (f"strange\n{TEXT}", 1, 3),
        (TEXT + "bed|gn03|Unknown|Unknown|DOWN|root(0)|no start\n", 6, 3),
    ],
)
def test_what_is_no_event_is_kept(text, line, events):
    found = parse_node_events(text)
    assert len(found.events) == events
    assert [(reject.source, reject.line) for reject in found.rejects] == [("sacctmgr", line)]


def test_the_window_is_given_in_utc():
    argv = event_argv(86400)
    assert "start=1970-01-02T00:00:00" in argv
    assert argv[-1] == "format=cluster,nodename,start,end,state,user,reason"
