"""What the saver tells of a helper, a daemon or a node that does not do as it should."""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import Metric
from support.saving import Saving, asleep

from gsched.daemon.ces_facts import CesFacts, helper_problem
from gsched.daemon.demand_facts import DemandFacts
from gsched.daemon.forecast_child import ChildState
from gsched.daemon.metrics_ces import ces_metrics
from gsched.errors import UnavailableError
from gsched.model.cluster import ReservationView
from gsched.model.node_power import PowerPhase
from gsched.power.state import Order, State


def metric(saving: Saving, name: str) -> float:
    facts = CesFacts(
        saving.saver.document(), Counter(), DemandFacts(None, 0, 0, 0, 0.0, ChildState())
    )
    found: list[Metric] = [m for m in ces_metrics(facts) if m.name == f"gsched_ces_{name}"]
    return found[0].samples[0].value


def test_a_helper_that_is_gone_is_a_problem_for_as_long_as_it_is_needed() -> None:
    saving = Saving()
    saving.helper.error = UnavailableError("no helper runs")
    for _ in range(40):  # while it is asked, and while it is left alone
        saving.round()
        saving.slurm.pass_time(30)
        if saving.helper.asked:
            document = saving.saver.document()
            assert not document["acting"]
            assert helper_problem(document) == "gsched-helper: no helper runs"
            assert (metric(saving, "acting"), metric(saving, "failing")) == (0, 1)
    saving.helper.error = None
    saving.rounds(7200)
    assert saving.saver.document()["acting"]
    assert (metric(saving, "acting"), metric(saving, "failing")) == (1, 0)


def test_why_the_daemon_does_not_act_is_told() -> None:
    saving = Saving()
    saving.may_act, saving.why_idle = False, "kill switch /etc/gsched/off: too hot"
    saving.round()
    told = "the daemon does not act: kill switch /etc/gsched/off: too hot"
    assert saving.saver.document()["why"] == told
    assert helper_problem(saving.saver.document()) == ""


def test_the_nodes_that_did_not_wake_are_named() -> None:
    saving = asleep()
    saving.slurm.machines["gn01"].breaks = True
    saving.slurm.run(saving.slurm.submit(), ["gn01"])
    saving.rounds(300)
    document = saving.saver.document()
    assert (document["wake_failures"], document["failed_nodes"]) == (1, ["gn01"])


def test_what_gsched_power_knows_to_be_on_has_not_slept() -> None:
    saving = Saving()
    failed = Order("suspend", 1, 0.0, 1, "failed")
    saving.power_state = State(orders={"gn01": failed, "gn02": failed})
    saving.rounds(600)
    assert saving.slurm.powers().count("O") == 7
    slept = [s.node for s in saving.log.spans(0, 2**40) if s.phase is PowerPhase.ASLEEP]
    off = {name for name, machine in saving.slurm.machines.items() if machine.power == "off"}
    assert (set(slept), len(slept)) == (off - {"gn01", "gn02"}, 5)


def test_no_node_is_put_to_sleep_that_a_reservation_would_wake_again() -> None:
    saving = Saving()
    now = saving.slurm.time
    begin = now + 60 + 300 + 600 + 900  # beyond the lead, within min_idle_s of it
    saving.slurm.reservations = (ReservationView("course", ("gn01", "gn02"), begin, begin + 9000),)
    saving.rounds(600)
    assert [saving.slurm.machines[name].power for name in ("gn01", "gn02")] == ["off", "off"]
    saving = Saving()
    now = saving.slurm.time
    begin = now + 60 + 300 + 600 - 60
    saving.slurm.reservations = (ReservationView("course", ("gn01", "gn02"), begin, begin + 9000),)
    saving.rounds(600)
    assert [saving.slurm.machines[name].power for name in ("gn01", "gn02")] == ["up", "up"]
    assert not [o for o in saving.orders() if o.order.node in ("gn01", "gn02")]
