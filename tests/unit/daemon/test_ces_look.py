"""From what Slurm shows to what energy saving decides on: who is left alone, and how long idle."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from support.queue import node as node_view
from support.queue import partition, row

from gsched.config.node_settings import CesTable
from gsched.daemon.ces_look import Ground, Scene, ces_settings, pool_sights, scene_of
from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_sight import NodeSight
from gsched.daemon.ces_spans import SpanBook
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.model.cluster import ReservationView
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    NodeVerb,
    PowerCause,
    PowerPhase,
    PowerSpan,
)
from gsched.policy.ces_state import CesNode, CesSettings, NodeExclusion, NodePower
from gsched.power.state import Failure, State
from gsched.slurm.power_saving import PowerSaving

NOW = 1_800_000_000
RESUME_S = 300
TABLE = CesTable(mode="act", period_s=600, hold_s=1200, failure_memory_s=86400)
SAVING = PowerSaving(8_640_000, 30, RESUME_S)
GROUND = Ground(table=TABLE, saving=SAVING, rows=(), partitions=(partition("gpu"),))
ASLEEP, AWAKE = NodePower.ASLEEP, NodePower.AWAKE
FALLING, WAKING = NodePower.FALLING, NodePower.WAKING


def sight(name: str = "n1", power: NodePower = AWAKE, flags: tuple[str, ...] = (), **facts: Any):
    own = {each.name for each in fields(NodeSight)} & facts.keys()
    known: dict[str, Any] = {
        "pool": "p", "is_running": False, "is_down": False, "failed_to_wake": False,
        "boot_time": None, "last_busy_time": NOW - 9000,
        **{key: facts.pop(key) for key in own},
    }  # fmt: skip
    view = replace(node_view(name), **{"partitions": ("gpu",), "flags": flags, **facts})
    return NodeSight(name=name, power=power, view=view, flags=frozenset(flags), **known)


def span(
    phase: PowerPhase, cause: PowerCause, start: int, end: int | None = None, name: str = "n1"
) -> PowerSpan:
    outcome = "awake" if phase is PowerPhase.WAKING and end is not None else ""
    return PowerSpan(name, "p", phase, start, end, cause, outcome)


def scene(*sights: NodeSight, spans: tuple[PowerSpan, ...] = (), orders=(), **facts: Any) -> Scene:
    asleep = [s.name for s in sights if s.power is ASLEEP]
    by_ces = [span(PowerPhase.ASLEEP, PowerCause.CES, NOW - 5000, name=name) for name in asleep]
    named = {each.node for each in spans if each.end is None}
    open_spans = [s for s in spans if s.end is None] + [s for s in by_ces if s.node not in named]
    book = SpanBook(open_spans, [each for each in spans if each.end is not None])
    outlook = Outlook((), 600, None, Reason("demand.level"))
    return scene_of(
        NOW,
        sights,
        replace(GROUND, **facts),
        book,
        OrderBook(SaverTimes(), TABLE.failure_memory_s, orders),
        {s.pool: outlook for s in sights},
        {},
    )


def judged(of: NodeSight, **facts: Any) -> CesNode:
    (found,) = scene(of, **facts).state.nodes
    return found


def table(**facts: Any) -> dict[str, Any]:
    return {"table": replace(TABLE, **facts)}


def saving(**facts: Any) -> dict[str, Any]:
    return {"saving": replace(SAVING, **facts)}


def reserved(start: int, end: int = NOW + 10**6, **facts: Any) -> dict[str, Any]:
    return {"reservations": (ReservationView("course", ("n1",), start, end),), **facts}


# -- who is left alone -------------------------------------------------------------------------

SITE, DOWN = NodeExclusion.SITE, NodeExclusion.DOWN
TWO = {"partitions": (partition("gpu"), partition("debug"))}


@pytest.mark.parametrize(
    ("of", "facts", "exclusion"),
    [
        (sight(), {}, None),
        (sight(), table(partitions=("gpu",)), None),
        (sight(partitions=("gpu", "debug")), TWO | table(partitions=("gpu",)), SITE),
        (sight(partitions=("gpu", "debug")), TWO | table(partitions=("gpu", "debug")), None),
        (sight(partitions=()), {}, SITE),
        (sight(), table(exclude_nodes=("n[1-3]",)), SITE),
        (sight(), table(exclude_nodes=("n[2-3]",)), None),
        (sight(), {"helper_nodes": frozenset({"n2"})}, SITE),
        (sight(), {"helper_nodes": frozenset({"n1"})}, None),
        (sight("-n1"), {}, SITE),
        (sight(), saving(excluded_nodes=frozenset({"n1"})), SITE),
        (sight(), saving(excluded_partitions=frozenset({"gpu"})), SITE),
        (sight(), saving(excluded_states=frozenset({"idle"})), SITE),
        (sight(flags=("cloud",)), saving(excluded_states=frozenset({"cloud"})), SITE),
        (sight(), saving(excluded_states=frozenset({"mixed"})), None),
        (sight(), saving(problem="SuspendExcNodes is not understood"), SITE),
        (sight(failed_to_wake=True, is_down=True, state="down"), {}, NodeExclusion.FAILED),
        (sight(flags=("drain",)), {}, NodeExclusion.DRAINED),
        (sight(power=FALLING, flags=("drain",)), {}, NodeExclusion.OTHERS),
        (sight(is_down=True, state="down"), {}, DOWN),
        (sight(flags=("not_responding",)), {}, DOWN),
        (sight(flags=("invalid_reg",)), {}, DOWN),
        (sight(state="allocated", is_running=True), {}, None),
        (sight(state="planned"), {}, DOWN),
        (sight(flags=("maint",)), {}, NodeExclusion.RESERVED),
        (sight(flags=("reboot_requested",)), {}, NodeExclusion.OTHERS),
    ],
)
def test_who_is_left_alone(of: NodeSight, facts: dict[str, Any], exclusion: Any) -> None:
    assert judged(of, **facts).exclusion is exclusion


def test_failures_that_gsched_power_has_given_up() -> None:
    state = State(failures=(Failure("n1", "suspend", NOW, 3, "no answer"),))
    assert judged(sight(), power_state=state).exclusion is NodeExclusion.FAILED
    assert judged(sight("n2"), power_state=state).exclusion is None


@pytest.mark.parametrize(
    ("power", "cause", "exclusion"),
    [
        (ASLEEP, PowerCause.CES, None),
        (ASLEEP, PowerCause.OTHERS, NodeExclusion.OTHERS),
        (ASLEEP, PowerCause.SLURM, NodeExclusion.OTHERS),
        (FALLING, PowerCause.CES, None),
        (FALLING, PowerCause.OTHERS, NodeExclusion.OTHERS),
        (WAKING, PowerCause.CES, None),
        (WAKING, PowerCause.SLURM, None),
        (WAKING, PowerCause.OTHERS, NodeExclusion.OTHERS),
    ],
)
def test_power_that_another_hand_has_changed(
    power: NodePower, cause: PowerCause, exclusion
) -> None:
    spans = (span(PowerPhase(power.value), cause, NOW - 60),)
    assert judged(sight(power=power), spans=spans).exclusion is exclusion
    if power is WAKING:  # for a job, whoever has woken it
        assert judged(sight(power=power, is_running=True), spans=spans).exclusion is None


@pytest.mark.parametrize(
    ("ago_s", "cause", "exclusion"),
    [
        (1199, PowerCause.OTHERS, NodeExclusion.OTHERS),
        (1200, PowerCause.OTHERS, None),
        (60, PowerCause.CES, None),
        (60, PowerCause.SLURM, None),
    ],
)
def test_what_another_hand_woke_is_left_for_the_hold(ago_s, cause, exclusion) -> None:
    spans = (span(PowerPhase.WAKING, cause, NOW - ago_s - 60, NOW - ago_s),)
    assert judged(sight(), spans=spans).exclusion is exclusion


# -- reservations --------------------------------------------------------------------------------

AHEAD_S = RESUME_S + TABLE.period_s


@pytest.mark.parametrize(
    ("start", "end", "is_reserved"),
    [
        (NOW - 100, NOW + 1, True),
        (NOW - 100, NOW, False),  # over
        (NOW - 9000, NOW - 100, False),
        (NOW + AHEAD_S, NOW + 10**6, True),  # a look later it would come too late
        (NOW + AHEAD_S + 1, NOW + 10**6, False),
        (NOW + AHEAD_S - TABLE.period_s // 2, NOW + 10**6, True),
    ],
)
def test_a_node_is_reserved_from_when_it_would_have_to_wake(start, end, is_reserved) -> None:
    found = judged(sight(), **reserved(start, end))
    assert (found.exclusion is NodeExclusion.RESERVED) is is_reserved
    assert judged(sight("n2"), **reserved(start, end)).exclusion is None


def test_what_gsched_put_to_sleep_is_due_before_a_reservation_and_nothing_else_is() -> None:
    facts = reserved(NOW + 100)
    due = judged(sight(power=ASLEEP), **facts).due
    assert due is not None
    assert due.params == {"reservation": "course", "start": NOW + 100}
    for cause in (PowerCause.OTHERS, PowerCause.SLURM):
        spans = (span(PowerPhase.ASLEEP, cause, NOW - 60),)
        assert judged(sight(power=ASLEEP), spans=spans, **facts).due is None
    assert judged(sight(), **facts).due is None
    site = facts | table(exclude_nodes=("n1",))
    assert judged(sight(power=ASLEEP), **site).due is None


def test_times_of_reservations_and_failures_are_slurms() -> None:
    shifted = {"slurm_time": lambda at: at + 10**6}
    found = judged(sight(), **reserved(NOW - 10**6 + 100, NOW - 10**6 + 200), **shifted)
    assert found.exclusion is NodeExclusion.RESERVED
    state = State(failures=(Failure("n1", "resume", NOW - 10**6 - 5, 3, "no answer"),))
    assert scene(sight(), power_state=state, **shifted).state.wake_failures == 1
    assert scene(sight(), power_state=state).state.wake_failures == 0  # too long ago


# -- idleness, keep, and the rest of a node -----------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "woken_at", "clock_set_at", "since"),
    [
        ({}, None, None, NOW - 9000),
        ({"last_busy_time": None}, None, None, None),
        ({"boot_time": NOW - 8000}, None, None, NOW - 8000),
        ({"boot_time": NOW + 10}, None, None, NOW - 9000),  # a node's clock may be ahead
        ({}, NOW - 7000, None, NOW - 7000),
        ({}, None, NOW - 500, NOW - 500),
        ({"boot_time": NOW - 400}, NOW - 300, NOW - 500, NOW - 300),
    ],
)
def test_since_when_a_node_is_idle(facts, woken_at, clock_set_at, since) -> None:
    waking = span(PowerPhase.WAKING, PowerCause.SLURM, NOW - 8500, woken_at)
    spans = () if woken_at is None else (waking,)
    found = judged(sight(**facts), spans=spans, clock_set_at=clock_set_at)
    assert found.idle_since == since


def _order(verb: NodeVerb, state: ChangeState, detail: str = "", ago_s: int = 5) -> NodeOrderEntry:
    order = NodeOrder("o1", "n1", "p", verb, Reason("ces.woken"), NOW - ago_s, NOW + 55)
    return NodeOrderEntry(order, state, NOW - ago_s, detail)


@pytest.mark.parametrize(
    ("power", "verb", "shown"),
    [
        (AWAKE, NodeVerb.SLEEP, FALLING),
        (ASLEEP, NodeVerb.WAKE, WAKING),
        (ASLEEP, NodeVerb.SLEEP, ASLEEP),
        (AWAKE, NodeVerb.WAKE, AWAKE),
    ],
)
def test_an_order_under_way_counts_as_done(power, verb, shown) -> None:
    found = judged(sight(power=power), orders=[_order(verb, ChangeState.SENT)])
    assert found.power is shown


def test_a_node_that_an_order_missed_is_left_as_it_is_for_a_while() -> None:
    lost = ChangeState.VOID, "Slurm does not show it"
    for power, verb, other in (
        (AWAKE, NodeVerb.SLEEP, NodeVerb.WAKE),
        (ASLEEP, NodeVerb.WAKE, NodeVerb.SLEEP),
    ):
        kept = judged(sight(power=power), orders=[_order(verb, *lost)]).keep
        assert kept is not None
        assert kept.code == "ces.order-failed-lately"
        assert judged(sight(power=power), orders=[_order(other, *lost)]).keep is None


def test_what_the_backfill_scheduler_plans_with_is_kept() -> None:
    kept = judged(sight(flags=("planned",))).keep
    assert kept is not None
    assert kept.code == "ces.planned-for-a-job"


def test_switch_partitions_and_power_cycles() -> None:
    spans = tuple(
        span(PowerPhase.WAKING, PowerCause.CES, NOW - at - 60, NOW - at) for at in (9000, 5000)
    )
    found = judged(sight(), spans=spans, switches={"n1": "leaf7", "n2": "leaf8"})
    assert (found.switch, found.partitions, found.power_cycles) == ("leaf7", ("gpu",), 2)
    assert judged(sight()).switch == ""


# -- what jobs want ------------------------------------------------------------------------------

WHOLE = {"min_nodes": 2, "num_gpus": 16, "num_cpus": 2}


@pytest.mark.parametrize(
    ("second", "facts", "wanted"),
    [
        (sight("n2"), {}, 2),
        (sight("n2", ASLEEP), {}, 2),
        (sight("n2", FALLING, flags=("drain",)), {"falls": True}, 0),
        (sight("n2", is_running=True, state="allocated"), {}, 0),
        (sight("n2", flags=("drain",)), {}, 0),
        (sight("n2", ASLEEP), {"missed": True}, 0),  # orders do not wake it
        (sight("n2"), {"is_up": False}, 0),
    ],
)
def test_only_nodes_that_a_job_could_begin_on_are_wanted(second, facts, wanted) -> None:
    lost = _order(NodeVerb.WAKE, ChangeState.VOID, "Slurm does not show it")
    lost = replace(lost, order=replace(lost.order, node="n2"))
    gpu = replace(partition("gpu"), is_up=facts.get("is_up", True))
    found = scene(
        sight(),
        second,
        rows=(row(1, **WHOLE),),
        partitions=(gpu,),
        orders=[lost] if "missed" in facts else (),
        spans=(span(PowerPhase.FALLING, PowerCause.CES, NOW - 9, name="n2"),)
        if "falls" in facts
        else (),
    )
    assert found.state.demands["p"].wanted == wanted


def test_jobs_that_may_begin_on_nodes_left_to_slurm_want_no_others() -> None:
    facts = {"rows": (row(1, min_nodes=1, num_gpus=8, num_cpus=1),)}
    two = sight(), sight("n2")
    assert scene(*two, **facts).state.demands["p"].wanted == 1
    excluded = facts | table(exclude_nodes=("n2",))
    assert scene(*two, **excluded).state.demands["p"].wanted == 0
    busy = sight(), sight("n2", is_running=True, state="allocated")
    assert scene(*busy, **excluded).state.demands["p"].wanted == 1


# -- settings --------------------------------------------------------------------------------------


def test_each_setting_goes_where_it_belongs() -> None:
    chosen = CesTable(
        mode="act", spare=21, least_idle={"gpu": 22}, min_idle_s=23, hold_s=24, period_s=25,
        past_window_s=26, future_window_s=27, fall_h=28.0, fall_p=29.0, peak_window_s=30,
        max_sleep=31, max_wake=32, stagger_s=33, wakes_ahead=False, max_failures=34,
    )  # fmt: skip
    found = ces_settings(chosen, {"p": PoolSight(("n1",), 0)}, SaverTimes(max_forecast_age_s=35))
    told: dict[str, Any] = {
        "spare": {"p": 21}, "least_idle_in_partition": {"gpu": 22}, "min_idle_s": 23, "hold_s": 24,
        "period_s": 25, "past_window_s": 26, "future_window_s": 27, "xi_h": 28.0, "xi_p": 29.0,
        "peak_window_s": 30, "max_sleep": 31, "max_wake": 32, "stagger_s": 33,
        "wakes_ahead": False, "max_failures": 34, "max_forecast_age_s": 35,
    }  # fmt: skip
    assert found == CesSettings(**told)


@pytest.mark.parametrize(("nodes", "spare"), [(1, 1), (20, 1), (21, 2), (40, 2), (200, 10)])
def test_where_no_spare_is_named_it_is_a_share_of_the_pool_and_one_at_least(nodes, spare) -> None:
    pools = pool_sights(sight(f"n{number}") for number in range(nodes))
    assert ces_settings(TABLE, pools).spare == {"p": spare}
    assert ces_settings(replace(TABLE, spare=0), pools).spare == {"p": 0}
