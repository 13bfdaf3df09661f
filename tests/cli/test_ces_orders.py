"""`gsched ces orders`: what a node was told, and what came of it, from the database."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime

import pytest
from support.ces_report import T0, keep, ordered, records

from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb
from gsched_cli.commands.ces.orders import orders
from gsched_sql import History


def at(second: int) -> str:
    return f"{datetime.fromtimestamp(T0 + second, UTC):%Y-%m-%dT%H:%M:%S+00:00}"


WINDOW = ("--since", at(0), "--until", at(1000))


@pytest.fixture
def cluster(gsched, environment, stand_in):
    """Three orders of cluster lab within the time asked for, and one after it."""
    stand_in("scontrol").answers("ClusterName = lab\n")
    assert gsched("db", "init").returncode == 0
    told = [
        ordered("gn01", NodeVerb.SLEEP, 100, "ces.surplus"),
        ordered("gn02", NodeVerb.SLEEP, 100, "ces.surplus", ChangeState.REJECTED),
        ordered("gn01", NodeVerb.WAKE, 900, "ces.arrival"),
        ordered("gn01", NodeVerb.SLEEP, 1000),
    ]
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        keep(history.power_log("lab"), records(orders=told))


def test_a_row_for_each_order_the_oldest_first(gsched, cluster):
    answer = gsched("ces", "orders", *WINDOW, "-P", "-o", "node,verb,state,reason")
    assert answer.returncode == 0, answer.stderr
    assert [line.split("|")[:3] for line in answer.stdout.splitlines()] == [
        ["node", "verb", "state"],
        ["gn01", "sleep", "confirmed"],
        ["gn02", "sleep", "rejected"],
        ["gn01", "wake", "confirmed"],
    ]
    assert "jobs waited for nodes; woken ?× before" in answer.stdout


def test_of_one_node_as_a_document_with_the_keys_that_the_manual_names(gsched, cluster):
    answer = gsched("ces", "orders", "gn[02-09]", *WINDOW, "--json")
    document = json.loads(answer.stdout)
    (order,) = document
    assert (order["node"], order["state"], order["decided_at"]) == ("gn02", "rejected", T0 + 100)
    assert order["reason_text"].startswith("more were idle than are kept as a spare; ")
    assert "list[]: " + ", ".join(order) in inspect.cleandoc(orders.help)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--since", at(9), "--until", at(5)), "no time between"), (("gn[01", *WINDOW), "gn[01")],
)  # fmt: skip
def test_what_is_wrong_is_said(gsched, cluster, words, says):
    answer = gsched("ces", "orders", *words)
    assert answer.returncode in (2, 65)
    assert says in answer.stderr
