"""Nodes that cannot be had: which, why, until when, and what can be done."""

from __future__ import annotations

from dataclasses import replace

from support.queue import node, row

from gsched.explain.unavailable import unavailable_nodes
from gsched.explain.words import moment
from gsched.model.cluster import ReservationView

NOW = 1_800_000_000
NODES = (node("n1"), replace(node("n2"), flags=("drain",)), node("n3", partition="other"))


def found(job, required="", reservations=(), nodes=NODES):
    return unavailable_nodes(job, required, nodes, reservations, NOW)


def test_a_job_that_names_its_nodes_may_leave_them_out():
    drained = found(row(1), "n[1-2]")
    assert drained.words == "n2 is down, drained or not responding"
    assert drained.advice == "leave out --nodelist, or wait"
    unseen = found(row(1), "n1")
    assert (unseen.words, unseen.advice) == ("", "leave out --nodelist, or wait")


def test_a_job_that_names_none_waits_for_all_nodes_of_its_partitions():
    down = replace(NODES[0], state="down")
    answer = found(row(1), nodes=(down, *NODES[1:]))
    assert answer.words == "n[1-2] are down, drained or not responding"
    assert answer.advice == "it starts by itself when they can be had again"


def test_a_reservation_is_named_with_its_end():
    held = ReservationView("course", ("n1", "n2", "n3"), NOW - 10, NOW + 600)
    answer = found(row(1), "n[1-2]", [held])
    assert answer.words == f"n[1-2] are reserved (course) until {moment(NOW + 600)}"
    assert answer.advice == "leave out --nodelist, or wait"
    own = found(row(1, reservation="course"), "n1", [held])
    assert own.words == ""
    over = found(row(1), "n1", [replace(held, end_time=NOW)])
    assert over.words == ""


def test_a_reservation_ahead_leaves_room_for_shorter_jobs():
    maint = ReservationView("maint", ("n1",), NOW + 1800, NOW + 3600)
    job = row(1, time_limit_s=1801)
    answer = found(job, "n1", [maint])
    assert f"(maint) from {moment(NOW + 1800)} until" in answer.words
    assert answer.advice == "a --time below 30:00 would end before; or leave out --nodelist"
    assert found(replace(job, time_limit_s=1800), "n1", [maint]).words == ""
    assert found(replace(job, time_limit_s=None), "n1", [maint]).words != ""
