"""What CES' numbers come to at the edges: several pools, old forecasts, caps, peaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gsched.model.decision import Reason
from gsched.model.demand_forecast import DemandForecast, constant_forecast, known_forecast
from gsched.policy import ces_rule as rule
from gsched.policy.ces import Ces
from gsched.policy.ces_state import (
    CesMemory,
    CesNode,
    CesSettings,
    CesState,
    NodePower,
    PoolDemand,
    PoolLook,
    Room,
)

NOW = 1_700_000_000
STEP_S = 600
SETTINGS = CesSettings(
    sigma=5, wake_sigma=7, past_window_s=1800, future_window_s=3600, xi_h=0, xi_p=0,
    min_idle_s=0, max_sleep=0,
)  # fmt: skip
AHEAD = replace(SETTINGS, wakes_ahead=True, period_s=600)
FALLING = (60.0, 60.0, 60.0, 50.0)


def look(*, wanted: int = 0, running: int = 50, idle: int = 30, **other: object) -> PoolLook:
    past = other.pop("past", FALLING)
    told = other.pop("forecast", constant_forecast(running, NOW, STEP_S, 24, "test"))
    demand = PoolDemand(wanted, past, STEP_S, told, Reason("demand.forecast"))
    counts = {"sleepable": idle, "waking": 0, "asleep": 20} | other
    return PoolLook("gpu", running, idle, demand=demand, **counts)


def asked(seen: PoolLook, settings: CesSettings = SETTINGS, **memory: dict[str, int]):
    return Ces(settings).size(seen, CesMemory(**memory), NOW)[0]


def bound(peak: list[float], made_at: int = NOW) -> DemandForecast:
    """Fifty on average, and so much at most."""
    level = (50.0,) * len(peak)
    return DemandForecast(made_at, STEP_S, level, level, level, tuple(peak), 0.9, "test")


# forecasts that are not fresh


def test_waking_ahead_takes_the_age_of_the_forecast_off():
    """Demand rises half an hour after a forecast that is 25 minutes old."""
    rises = bound([52.0] * 3 + [90.0] * 21, NOW - 1500)
    verdict = asked(look(idle=2, forecast=rises), AHEAD)
    assert (verdict.wake, verdict.reason.code) == (20, rule.AHEAD)
    assert asked(look(idle=2, forecast=replace(rises, made_at=NOW)), AHEAD).wake == 0


def test_what_stays_awake_is_bounded_from_now_on_not_from_when_it_was_foreseen():
    settings = replace(SETTINGS, peak_window_s=3600)
    fresh, old = (bound([50.0] * 7 + [70.0] * 17, NOW - age_s) for age_s in (0, 1500))
    assert [asked(look(forecast=each), settings).sleep for each in (fresh, old)] == [25, 10]


def test_the_mean_ahead_leaves_out_steps_that_have_passed():
    falls = known_forecast([40.0] * 2 + [51.0] * 22, NOW - 1200, STEP_S, "test")
    assert asked(look(forecast=falls)).reason.code == rule.COMING
    assert asked(look(forecast=replace(falls, made_at=NOW))).sleep == 25


def test_what_comes_after_the_window_is_counted_from_now_on_too():
    rises = known_forecast([50.0] * 12 + [80.0] * 12, NOW - 1200, STEP_S, "test")
    settings = replace(SETTINGS, max_rise=1.0)
    assert asked(look(forecast=rises), settings).reason.code == rule.RISES
    assert asked(look(forecast=replace(rises, made_at=NOW)), settings).sleep == 25


def test_a_forecast_covers_less_the_older_it_is():
    exact = known_forecast([50.0] * 6, NOW, STEP_S, "test")
    assert asked(look(forecast=exact)).sleep == 25
    aged = replace(exact, made_at=NOW - 1)
    assert asked(look(forecast=aged)).reason.code == rule.SHORT_FORECAST
    longer = replace(SETTINGS, peak_window_s=3601)
    assert asked(look(forecast=exact), longer).reason.code == rule.SHORT_FORECAST


# waking


def test_waking_ahead_keeps_to_the_stagger_whatever_is_idle():
    policy = Ces(replace(AHEAD, max_wake=5, stagger_s=60, wake_sigma=2))
    memory, woken, codes = CesMemory(), [], []
    for second in (0, 1, 59, 60, 61, 120, 180, 240):
        waking = sum(woken)
        seen = look(idle=2, waking=waking, asleep=20 - waking, forecast=bound([70.0] * 24))
        verdict, memory = policy.size(seen, memory, NOW + second)
        woken.append(verdict.wake)
        codes.append(verdict.reason.code)
    assert woken == [5, 0, 0, 5, 0, 5, 3, 0]
    assert (codes[0], codes[3]) == (rule.AHEAD, rule.STAGGERED)
    assert memory.owed == {}


def test_what_is_owed_ahead_is_forgotten_when_the_forecast_falls():
    policy = Ces(replace(AHEAD, max_wake=5, wake_sigma=2))
    _, memory = policy.size(look(idle=2, forecast=bound([70.0] * 24)), CesMemory(), NOW)
    assert memory.owed == {"gpu": 13}
    calm = look(idle=2, waking=5, asleep=15)
    verdict, memory = policy.size(calm, memory, NOW + 60)
    assert (verdict.wake, memory.owed) == (0, {})


def test_nodes_that_wake_already_are_counted_when_waking_ahead():
    rising = look(idle=2, forecast=bound([60.0] * 24))
    assert asked(rising, AHEAD).wake == 8
    assert asked(replace(rising, waking=5), AHEAD).wake == 3
    assert asked(replace(rising, waking=8), AHEAD).wake == 0
    assert asked(replace(rising, asleep=0), AHEAD).reason.code != rule.AHEAD


def test_a_bound_between_two_steps_is_that_of_the_later():
    """A node is there 240 s after the check at 600 s: the second step has begun."""
    seen = look(idle=0, forecast=bound([50.0, 58.0, *[90.0] * 22]))
    lead = replace(seen, demand=replace(seen.demand, wake_lead_s=240))
    assert asked(lead, AHEAD).wake == 8


def test_a_wake_up_for_which_there_is_no_room_is_owed_and_is_none():
    verdict, memory = rule.size(look(wanted=36), SETTINGS, CesMemory(), NOW, Room(wake=0))
    assert (verdict.wake, memory.last_wake, memory.owed) == (0, {}, {"gpu": 13})


def test_the_spare_that_is_told_is_never_below_nothing():
    verdict = asked(look(wanted=40, asleep=3))
    assert (verdict.wake, verdict.reason.params["spare"]) == (3, 0)


def test_one_pool_forgets_nothing_of_the_others():
    kept = {"last_wake": {"cpu": 11}, "last_check": {"cpu": 12}, "owed": {"cpu": 13}}
    _, memory = Ces(SETTINGS).size(look(wanted=36), CesMemory(**kept), NOW)
    assert memory == CesMemory({"cpu": 11, "gpu": NOW}, {"cpu": 12}, {"cpu": 13})
    _, memory = Ces(SETTINGS).size(look(), CesMemory(**kept), NOW)
    assert memory == CesMemory({"cpu": 11}, {"cpu": 12, "gpu": NOW}, {"cpu": 13})


# sleeping


def test_nodes_that_wake_count_as_awake():
    assert asked(look(waking=4)).sleep == 29


def test_part_of_a_node_that_may_be_needed_is_a_whole_one():
    settings = replace(SETTINGS, peak_window_s=3600)
    assert asked(look(forecast=bound([60.5] * 24)), settings).sleep == 19


def test_what_runs_counts_though_less_ran_before():
    assert asked(look(past=(60.0, 60.0, 60.0, 40.0))).sleep == 25


def test_the_past_is_as_long_as_its_window():
    assert asked(look(past=(60.0, 60.0, 40.0, 50.0))).sleep == 25
    assert asked(look(past=(90.0, 40.0, 40.0, 40.0, 50.0))).reason.code == rule.NOT_FALLEN


def test_no_failures_are_too_many_where_there_is_no_limit():
    settings = replace(SETTINGS, max_failures=0)
    assert Ces(settings).size(look(), CesMemory(), NOW, wake_failures=99)[0].sleep == 25


def test_reactive_sleep_asks_no_forecast_that_is_at_hand():
    settings = replace(SETTINGS, needs_forecast=False, peak_window_s=3600)
    assert asked(look(forecast=bound([75.0] * 24)), settings).sleep == 25


def test_a_window_of_no_length_is_refused():
    with pytest.raises(ValueError, match="future_window_s"):
        CesSettings(future_window_s=0)


# all pools together


def node(name: str, pool: str = "gpu", **other: object) -> CesNode:
    given = {"power": NodePower.AWAKE, "idle_since": NOW - 99_999} | other
    return CesNode(name, pool, **given)


def demand(wanted: int = 0) -> PoolDemand:
    told = constant_forecast(0, NOW, STEP_S, 24, "test")
    return PoolDemand(wanted, (5.0,) * 4 + (0.0,), STEP_S, told, Reason("why"))


def test_nodes_that_failed_to_wake_stop_all_sleep():
    nodes = [node(f"a{i}") for i in range(9)]
    seen = CesState(NOW, nodes, {"gpu": demand()}, wake_failures=3)
    told = Ces(SETTINGS).decide(seen, CesMemory())
    assert (told.sleep, told.verdicts[0].reason.code) == ((), rule.FAILURES)
    assert len(Ces(SETTINGS).decide(replace(seen, wake_failures=2), CesMemory()).sleep) == 4


def test_a_pool_for_which_the_round_had_no_room_is_next():
    nodes = [node(f"{pool}{i}", pool) for pool in "abc" for i in range(8)]
    demands = dict.fromkeys("abc", demand())
    policy, memory = Ces(replace(SETTINGS, max_sleep=3)), CesMemory()
    slept = []
    for second in range(4):
        told = policy.decide(CesState(NOW + second, nodes, demands), memory)
        memory = told.memory
        slept.append([change.pool for change in told.sleep])
    assert slept == [["a"] * 3, ["b"] * 3, ["c"] * 3, []]


def test_the_greatest_shortage_is_not_that_of_whom_most_is_wanted():
    nodes = [node(f"a{i}", "a", power=NodePower.ASLEEP) for i in range(4)]
    nodes += [node(f"b{i}", "b", power=NodePower.ASLEEP) for i in range(4)]
    nodes += [node(f"a{i}", "a") for i in range(10, 20)]
    demands = {"a": demand(11), "b": demand(3)}
    policy = Ces(replace(SETTINGS, wake_sigma=0, max_wake=3))
    told = policy.decide(CesState(NOW, nodes, demands), CesMemory())
    assert [change.pool for change in told.wake] == ["b"] * 3


def test_the_next_look_is_never_in_the_past():
    policy = Ces(SETTINGS)
    nodes = [node("a1", "a"), node("b1", "b")]
    memory = CesMemory(last_wake={"b": NOW - 500}, last_check={"b": NOW - 5000}, owed={"b": 1})
    told = policy.decide(CesState(NOW, nodes, {"a": demand()}), memory)
    assert told.next_check == NOW + SETTINGS.period_s


def test_a_look_tells_idle_nodes_from_those_that_may_sleep():
    nodes = [node("a1"), node("a2", idle_since=NOW - 5)]
    seen = Ces(replace(SETTINGS, min_idle_s=60)).look(CesState(NOW, nodes, {}), "gpu")
    assert (seen.idle, seen.sleepable) == (2, 1)
