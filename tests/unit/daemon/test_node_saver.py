"""Energy saving step by step on a Slurm in memory: nodes sleep, wake, get lost, are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.saving import INTERVAL_S, Saving, asleep
from support.sleeping_slurm import BOOT_S, SleepingSlurm

from gsched.model.cluster import ReservationView
from gsched.model.node_power import PowerCause, PowerPhase

# -- the ordinary way -------------------------------------------------------------------------


def test_idle_nodes_sleep_down_to_the_spare_and_each_order_is_confirmed():
    saving = asleep()
    assert saving.slurm.powers().count("U") == 1
    assert saving.told() == [("sleep", f"gn0{n}", "confirmed") for n in range(1, 8)]
    spans = saving.log.open_spans()
    assert {(s.phase, s.cause) for s in spans} == {(PowerPhase.ASLEEP, PowerCause.CES)}
    assert len(spans) == 7
    assert (saving.pool["asleep"], saving.pool["idle"], saving.pool["excluded"]) == (7, 1, 0)
    assert saving.saver.document()["acting"]


def test_nothing_is_asked_of_the_helper_twice():
    saving = asleep()
    asked = len(saving.helper.asked)
    saving.rounds(3000)
    assert len(saving.helper.asked) == asked == 1


def test_a_job_that_slurm_wakes_nodes_for_brings_the_spare_and_the_hold():
    saving = asleep()
    saving.slurm.submit(nodes=3)
    saving.round()
    woken = saving.told()[7:]
    assert woken == [("wake", node, "sent") for _, node, _ in woken]
    assert len(woken) == 1
    assert saving.orders()[-1].order.reason.params["because"] == "ces.arrival"
    saving.slurm.pass_time(BOOT_S + 5)
    saving.rounds(600)
    assert saving.slurm.powers().count("U") == 4  # three with the job, and the spare again
    saving.slurm.end(1)
    saving.rounds(500)
    assert saving.pool["reason"]["code"] == "ces.held-after-wake-up"
    saving.rounds(1500)
    assert saving.slurm.powers().count("O") == 7


def test_what_it_sees_is_kept_spans_counts_and_the_jobs_that_waited():
    saving = asleep()
    saving.slurm.submit(nodes=3)
    saving.rounds(120)
    spans = [s for s in saving.log.spans(0, 2**40) if s.phase is PowerPhase.WAKING]
    assert sorted((s.cause.value, s.job, s.outcome) for s in spans) == [
        ("ces", "", "awake"),
        ("slurm", "1", "awake"),
        ("slurm", "1", "awake"),
    ]
    (delay,) = saving.log.delays(0, 2**40)
    assert (delay.job, delay.nodes_waking, delay.delay_s) == ("1", 2, BOOT_S)
    assert delay.pool == "a100x8@gpu"
    counts = saving.log.counts(0, 2**40)
    assert {c.total + c.excluded for c in counts} == {8}
    assert counts[-1].running == 3


def test_observing_records_each_wish_once_and_orders_nothing():
    saving = Saving(mode="observe")
    saving.rounds(3000)
    assert saving.told() == [("sleep", f"gn0{n}", "observed") for n in range(1, 8)]
    assert not saving.helper.asked
    assert saving.saver.document()["why"] == "ces.mode is observe"


def test_off_does_not_even_look(monkeypatch):
    saving = Saving(mode="off")
    monkeypatch.setattr(saving.slurm, "read_nodes", lambda: pytest.fail("looked"))
    saving.rounds(60)
    assert saving.saver.document() == {}


def test_switched_off_nodes_stay_asleep_and_slurm_wakes_them():
    saving = asleep()
    saving.configure(mode="off")
    saving.slurm.submit(nodes=5)
    saving.rounds(60)
    assert saving.slurm.powers().count("U") == 5
    assert len(saving.helper.asked) == 1


def test_at_most_so_many_nodes_a_round_and_the_rest_of_a_wake_up_later():
    saving = Saving(max_sleep=2, max_wake=1, stagger_s=60, spare=4)
    saving.rounds(30)
    assert saving.slurm.powers().count("U") == 6
    saving.rounds(600)
    assert saving.slurm.powers().count("O") == 4
    saving.slurm.submit(nodes=5)  # leaves three asleep
    saving.rounds(30)
    saving.rounds(30)
    woken = [order for order in saving.told() if order[0] == "wake"]
    assert len(woken) == 1
    saving.rounds(600)
    assert len([order for order in saving.told() if order[0] == "wake"]) == 3


# -- never another hand's ---------------------------------------------------------------------


def test_a_node_that_an_administrator_powered_down_is_never_woken():
    saving = Saving(spare=2)
    saving.rounds(INTERVAL_S)
    saving.slurm.order(["gn08"], "power_down_asap")
    saving.rounds(60)
    assert saving.pool["excluded"] == 1
    saving.slurm.submit(nodes=7)
    saving.rounds(120)
    assert saving.slurm.machines["gn08"].power == "off"
    assert saving.slurm.machines["gn08"].orders == ["power_down_asap"]


def test_a_node_that_an_administrator_woke_is_left_awake_for_the_hold():
    saving = asleep(min_idle_s=0)
    saving.slurm.order(["gn01"], "power_up")
    saving.slurm.pass_time(INTERVAL_S)
    saving.rounds(1000)
    assert saving.slurm.machines["gn01"].power == "up"
    assert saving.pool["excluded"] == 1
    saving.rounds(1000)
    assert saving.slurm.powers().count("U") == 1


@pytest.mark.parametrize(
    "flags", [("DRAIN",), ("MAINT",), ("RESERVED",), ("REBOOT_REQUESTED",), ("FAIL",), ("PLANNED",)]
)
def test_nodes_that_are_meant_for_something_else_are_left_alone(flags):
    saving = Saving(spare=0)
    saving.slurm.machines["gn03"].flags = flags
    saving.rounds(120)
    assert saving.slurm.powers() == "OOUOOOOO"
    assert not saving.slurm.machines["gn03"].orders


def test_a_node_that_does_not_answer_is_left_alone_and_not_counted_on():
    saving = Saving(spare=1)
    saving.slurm.machines["gn03"].flags = ("NOT_RESPONDING",)
    saving.rounds(120)
    assert saving.slurm.powers().count("U") == 2
    assert saving.pool["excluded"] == 1


@pytest.mark.parametrize(
    ("table", "config"),
    [
        ({"exclude_nodes": ("gn[01-04]",)}, {}),
        ({}, {"SuspendExcNodes": "gn[01-04]:2"}),
    ],
)
def test_nodes_that_the_site_or_slurm_conf_excludes(table, config):
    saving = Saving(spare=0, **table)
    saving.slurm.config_values |= config
    saving.rounds(120)
    assert saving.slurm.powers() == "UUUUOOOO"


def test_partitions_that_the_site_or_slurm_conf_excludes():
    slurm = SleepingSlurm(4)
    for name, partitions in zip(slurm.machines, ("a", "a,b", "b", "c"), strict=True):
        slurm.machines[name].partitions = partitions
    saving = Saving(slurm, spare=0, partitions=("a", "b"))
    slurm.config_values["SuspendExcParts"] = "b"
    saving.rounds(120)
    assert slurm.powers() == "OUUU"


def test_a_setting_of_slurm_that_is_not_understood_stops_all():
    saving = Saving()
    saving.slurm.config_values["SuspendExcNodes"] = "gn[01-"
    saving.rounds(120)
    assert not saving.helper.asked
    assert "SuspendExcNodes" in saving.saver.document()["why"]


def test_without_slurms_power_saving_nothing_is_ordered():
    saving = Saving()
    saving.slurm.config_values["SuspendTime"] = "NONE"
    saving.rounds(120)
    assert not saving.helper.asked
    assert "SuspendTime" in saving.saver.document()["why"]
    assert {state for *_, state in saving.told()} == {"observed"}


def test_nodes_that_the_helper_may_not_switch_are_never_asked_of_it():
    saving = Saving(spare=0)
    saving.settings = replace(saving.settings, helper_nodes=frozenset({"gn01", "gn02"}))
    saving.restart()
    saving.rounds(120)
    assert saving.slurm.powers() == "OOUUUUUU"


def test_reserved_nodes_stay_awake_and_sleeping_ones_are_woken_before_it_begins():
    saving = asleep()
    now = saving.slurm.time
    names = ("gn01", "gn02")
    saving.slurm.reservations = (ReservationView("course", names, now + 1500, now + 9000),)
    saving.rounds(600)
    assert saving.slurm.machines["gn01"].power == "off"
    saving.rounds(900)
    assert [saving.slurm.machines[name].power for name in names] == ["up", "up"]
    woken = [e.order for e in saving.orders() if e.order.verb.value == "wake"]
    assert {order.node for order in woken} == set(names)
    assert {order.reason.code for order in woken} == {"ces.reserved-soon"}
    saving.rounds(5000)
    assert [saving.slurm.machines[name].power for name in names] == ["up", "up"]
