"""Edges of what is shown: signs, widths, completed words, nodes that are down."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.queue import node

from gsched.app.watch import count_nodes
from gsched_cli import completion, output
from gsched_cli.top import view


@pytest.mark.parametrize(("seconds", "text"), [(-0.5, "-0:00"), (-0.49, "0:00"), (-0.6, "-0:01")])
def test_the_sign_of_less_than_a_second(seconds, text):
    assert output.duration(seconds) == text


def widths(columns):
    return {column.name: width for column, width in view.columns_for(columns, True, True)}


def test_on_a_wide_terminal_the_name_widens_first_and_then_the_reason():
    wide, wider = widths(160), widths(200)
    assert wide["name"] == wider["name"] == 28
    assert wider["why"] == wide["why"] + 40
    assert sum(wider.values()) + len(wider) - 1 == 200


@pytest.mark.parametrize(
    ("begun", "found"),
    [
        ("a", "all"),
        ("al", "all"),
        ("pd,a", "pd,all"),
        ("pend", "PENDING"),
        ("PD,pend", "PD,PENDING"),
    ],
)
def test_states_are_completed_in_capitals_and_all_is_not(begun, found):
    assert found in [item.value for item in completion.states(None, None, begun)]


def test_gpus_that_are_down_are_those_that_nobody_uses():
    drained = replace(node("n1"), state="drained", flags=("drain",), gpus_used=3)
    counts = count_nodes([drained, node("n2")])
    assert (counts.down, counts.gpus, counts.gpus_used, counts.gpus_down) == (1, 16, 3, 5)
