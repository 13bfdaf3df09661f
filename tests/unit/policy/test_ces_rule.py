"""How many nodes CES wakes and puts to sleep, and the reason of each number."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.decision import Reason
from gsched.model.demand_forecast import DemandForecast, constant_forecast, known_forecast
from gsched.policy import ces_rule as rule
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesMemory, CesSettings, PoolDemand, PoolLook, Room

NOW = 1_700_000_000
STEP_S = 600
SETTINGS = CesSettings(
    sigma=5, wake_sigma=7, past_window_s=1800, future_window_s=3600, xi_h=0, xi_p=0,
    min_idle_s=0, max_sleep=0,
)  # fmt: skip
FALLING = (60.0, 60.0, 60.0, 50.0)
MADE = Reason("demand.forecast")


def forecast(*values: float) -> DemandForecast:
    return known_forecast(values, NOW, STEP_S, "test")


def look(*, wanted: int = 0, running: int = 50, idle: int = 30, **other: object) -> PoolLook:
    past = other.pop("past", FALLING)
    told = other.pop("forecast", constant_forecast(running, NOW, STEP_S, 24, "test"))
    demand = PoolDemand(wanted, past, STEP_S, told, MADE)
    counts = {"sleepable": idle, "waking": 0, "asleep": 20} | other
    return PoolLook("gpu", running, idle, demand=demand, **counts)


def asked(seen: PoolLook, settings: CesSettings = SETTINGS, **memory: dict[str, int]):
    return Ces(settings).size(seen, CesMemory(**memory), NOW)[0]


def test_a_shortage_wakes_what_is_missing_and_the_buffer():
    verdict, memory = Ces(SETTINGS).size(look(wanted=40, waking=4), CesMemory(), NOW)
    assert (verdict.wake, verdict.sleep, verdict.reason.code) == (6 + 7, 0, rule.ARRIVAL)
    assert verdict.reason.params == {"wanted": 40, "idle": 30, "waking": 4, "spare": 7}
    assert memory.last_wake == {"gpu": NOW}


def test_what_waiting_jobs_will_take_does_not_sleep():
    assert asked(look(wanted=12)).sleep == 18
    assert asked(look(wanted=3)).sleep == 25


def test_no_more_wake_than_sleep():
    assert asked(look(wanted=99)).wake == 20
    assert asked(look(wanted=99, asleep=0)).wake == 0
    assert asked(look(wanted=30)).wake == 0


def test_down_to_what_runs_and_the_buffer_when_demand_has_fallen_and_stays():
    verdict = asked(look())
    assert (verdict.sleep, verdict.wake, verdict.reason.code) == (25, 0, rule.SURPLUS)
    assert asked(look(sleepable=3)).sleep == 3
    assert asked(look(), replace(SETTINGS, least_idle={"gpu": 12})).sleep == 18
    assert asked(look(), replace(SETTINGS, least_idle={"cpu": 12})).sleep == 25


def test_what_ran_within_the_last_step_counts_as_running():
    assert asked(look(past=(90.0, 80.0, 60.0), forecast=forecast(*[50.0] * 24))).sleep == 15


@pytest.mark.parametrize(
    ("changed", "settings", "code"),
    [
        ({"past": (40.0, 40.0, 40.0, 50.0)}, {}, rule.NOT_FALLEN),
        ({"past": (52.0, 52.0, 52.0, 50.0)}, {"xi_h": 3}, rule.NOT_FALLEN),
        ({"forecast": forecast(*[51.0] * 24)}, {}, rule.COMING),
        ({"forecast": forecast(*[50.0] * 6, *[52.0] * 6)}, {"max_rise": 0.5}, rule.RISES),
        ({"forecast": None}, {}, rule.NO_FORECAST),
        ({"forecast": forecast(50.0, 50.0)}, {}, rule.SHORT_FORECAST),
        ({"forecast": constant_forecast(50, NOW - 1801, STEP_S, 24, "x")}, {}, rule.OLD_FORECAST),
        ({"forecast": constant_forecast(50, NOW + 1801, STEP_S, 24, "x")}, {}, rule.OLD_FORECAST),
        ({"wanted": 31, "asleep": 0}, {}, rule.NEEDED),
        ({"idle": 5}, {}, rule.NEEDED),
        ({"idle": 8}, {"min_change": 4}, rule.TOO_FEW),
        ({"sleepable": 0}, {}, rule.NOBODY_IDLE),
    ],
)
def test_why_nothing_sleeps(changed, settings, code):
    verdict = asked(look(**changed), replace(SETTINGS, **settings))
    assert (verdict.sleep, verdict.reason.code) == (0, code)


def test_a_threshold_that_is_just_met_lets_sleep():
    met = {"past": (53.0, 53.0, 53.0, 50.0), "forecast": forecast(*[48.0] * 6, *[49.0] * 6)}
    settings = replace(SETTINGS, xi_h=3, xi_p=2, max_rise=0.5)
    assert asked(look(**met), settings).sleep == 25
    for stricter in ({"xi_h": 3.01}, {"xi_p": 2.01}, {"max_rise": 0.49}):
        assert asked(look(**met), replace(settings, **stricter)).sleep == 0


def test_without_a_forecast_reactive_sleep_goes_on_and_ces_does_nothing():
    blind = look(forecast=None, past=(40.0, 50.0))
    assert asked(blind).sleep == 0
    assert asked(blind, replace(SETTINGS, needs_forecast=False)).sleep == 25
    assert asked(blind).reason.params["why"] == MADE.code


def test_the_upper_bound_of_the_forecast_stays_awake():
    bound = DemandForecast(
        NOW, STEP_S, (50.0,) * 12, (45.0,) * 12, (60.0,) * 12,
        (55.0,) * 6 + (70.0,) * 6, 0.9, "test",
    )  # fmt: skip
    assert asked(look(forecast=bound)).sleep == 25
    assert asked(look(forecast=bound), replace(SETTINGS, peak_window_s=3600)).sleep == 25
    assert asked(look(forecast=bound), replace(SETTINGS, peak_window_s=7200)).sleep == 10


def test_no_sleep_within_the_hold_after_a_wake_up():
    hold = replace(SETTINGS, hold_s=7200)
    verdict = asked(look(), hold, last_wake={"gpu": NOW - 7199})
    assert (verdict.sleep, verdict.reason.code) == (0, rule.HOLD)
    assert verdict.reason.params == {"until": NOW + 1}
    assert asked(look(), hold, last_wake={"gpu": NOW - 7200}).sleep == 25
    assert asked(look(), hold, last_wake={"cpu": NOW}).sleep == 25


def test_the_periodic_check_comes_once_a_period_and_arrivals_at_any_time():
    early = {"last_check": {"gpu": NOW - 599}}
    assert asked(look(), **early).reason.code == rule.NOT_DUE
    assert asked(look(wanted=31), **early).wake == 8
    _, memory = Ces(SETTINGS).size(look(), CesMemory(), NOW)
    assert memory.last_check == {"gpu": NOW}
    assert Ces(SETTINGS).size(look(), memory, NOW + 600)[0].sleep == 25


def test_all_sleeping_stops_when_nodes_do_not_wake():
    size = Ces(SETTINGS).size
    assert size(look(), CesMemory(), NOW, wake_failures=2)[0].sleep == 25
    verdict = size(look(), CesMemory(), NOW, wake_failures=3)[0]
    assert (verdict.sleep, verdict.reason.code) == (0, rule.FAILURES)
    assert size(look(wanted=31), CesMemory(), NOW, wake_failures=3)[0].wake == 8


def test_a_large_wake_up_is_staggered_and_then_goes_on():
    policy = Ces(replace(SETTINGS, max_wake=5, stagger_s=60))
    seen = look(wanted=36)
    verdict, memory = policy.size(seen, CesMemory(), NOW)
    assert (verdict.wake, memory.owed) == (5, {"gpu": 8})
    later = look(wanted=36, waking=5, asleep=15)
    verdict, memory = policy.size(later, memory, NOW + 59)
    assert (verdict.wake, verdict.sleep) == (0, 0)
    verdict, memory = policy.size(later, memory, NOW + 60)
    assert (verdict.wake, memory.owed) == (5, {"gpu": 3})
    last = look(wanted=36, waking=10, asleep=10)
    verdict, memory = policy.size(last, memory, NOW + 120)
    assert (verdict.wake, verdict.reason.code, memory.owed) == (3, rule.STAGGERED, {})


def test_what_is_owed_is_forgotten_when_nobody_wants_it_any_more():
    policy = Ces(replace(SETTINGS, max_wake=5))
    verdict, memory = policy.size(look(), CesMemory(owed={"gpu": 8, "cpu": 2}), NOW)
    assert (verdict.wake, memory.owed) == (0, {"cpu": 2})


def test_a_cap_on_sleep_leaves_the_rest_for_the_next_round():
    assert asked(look(), replace(SETTINGS, max_sleep=10)).sleep == 10
    verdict, _ = rule.size(look(), SETTINGS, CesMemory(), NOW, Room(sleep=4))
    assert verdict.sleep == 4


def test_waking_ahead_of_demand_within_the_wake_lead_time():
    rising = look(idle=2, forecast=forecast(55.0, 58.0, *[90.0] * 10))
    assert asked(rising).wake == 0
    verdict = asked(rising, replace(SETTINGS, wakes_ahead=True))
    assert (verdict.wake, verdict.reason.code) == (6, rule.AHEAD)  # 300 s to wake and a period
    assert asked(rising, replace(SETTINGS, wakes_ahead=True, min_change=7)).wake == 0
    old = look(idle=2, forecast=known_forecast([90.0] * 12, NOW - 1801, STEP_S, "test"))
    assert asked(old, replace(SETTINGS, wakes_ahead=True)).wake == 0


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="negative: sigma, hold_s"):
        CesSettings(sigma=-1, hold_s=-1)
    with pytest.raises(ValueError, match="period_s"):
        CesSettings(period_s=0)


counts = st.integers(0, 60)


@given(
    wanted=counts, running=counts, idle=counts, sleepable=counts, waking=counts, asleep=counts,
    future=st.lists(st.floats(0, 150), min_size=12, max_size=12), past=st.floats(0, 150),
    sigma=counts, caps=st.tuples(st.integers(0, 9), st.integers(0, 9)), ahead=st.booleans(),
    owed=st.integers(0, 30),
)  # fmt: skip
def test_whatever_is_seen_no_verdict_breaks_the_rules(
    wanted, running, idle, sleepable, waking, asleep, future, past, sigma, caps, ahead, owed
):
    settings = replace(
        SETTINGS, sigma=sigma, wake_sigma=sigma, max_wake=caps[0], max_sleep=caps[1],
        wakes_ahead=ahead,
    )  # fmt: skip
    seen = look(
        wanted=wanted, running=running, idle=idle, sleepable=min(sleepable, idle), waking=waking,
        asleep=asleep, past=(past, past), forecast=forecast(*future),
    )  # fmt: skip
    verdict, memory = Ces(settings).size(seen, CesMemory(owed={"gpu": owed}), NOW)
    assert not (verdict.wake and verdict.sleep)
    assert 0 <= verdict.wake <= (caps[0] or math.inf)
    assert verdict.wake <= asleep
    assert 0 <= verdict.sleep <= min(sleepable, idle, caps[1] or math.inf)
    if verdict.sleep:
        assert wanted <= idle + waking
        assert running + idle + waking - verdict.sleep >= running + max(sigma, wanted)
    if wanted > idle + waking and asleep and not owed:
        assert verdict.wake
    assert CesMemory.from_json(memory.to_json()) == memory


@pytest.mark.parametrize(
    "wrong", [{"owed": [1]}, {"last_wake": {"gpu": "now"}}, {"owed": {"g": True}}]
)
def test_a_kept_memory_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="kept memory"):
        CesMemory.from_json(wrong)


def woken(number: int, **facts) -> PoolLook:
    seen = look(**facts)
    return replace(seen, demand=replace(seen.demand, woken_by_slurm=number))


def test_nodes_that_slurm_woke_for_jobs_are_a_shortage_and_the_spare_follows():
    verdict, memory = Ces(SETTINGS).size(woken(3, idle=0, waking=0), CesMemory(), NOW)
    assert (verdict.wake, verdict.sleep, verdict.reason.code) == (7, 0, rule.ARRIVAL)
    assert verdict.reason.params["woken_by_slurm"] == 3
    assert memory.last_wake == {"gpu": NOW}
    assert asked(woken(3, idle=5, waking=0)).wake == 2
    assert asked(woken(3, idle=5, waking=1)).wake == 1
    verdict, memory = Ces(SETTINGS).size(woken(1), CesMemory(), NOW)  # the spare is there
    assert (verdict.wake, verdict.sleep, memory.last_wake) == (0, 0, {"gpu": NOW})


def test_the_spare_of_a_pool_goes_before_the_common_one():
    settings = replace(SETTINGS, spare={"gpu": 2})
    assert asked(look(), settings).sleep == 28
    assert asked(look(wanted=40, waking=4), settings).wake == 6 + 2
    assert asked(look(), replace(SETTINGS, spare={"cpu": 2})).sleep == 25


def test_jobs_on_excluded_nodes_are_in_the_demand_and_nowhere_else():
    # 50 run, and 10 more on nodes that are left alone: history and forecast count 60
    seen = replace(
        look(past=(60.0,) * 7, forecast=forecast(*[60.0] * 24)), busy_excluded=10
    )  # fmt: skip
    assert asked(seen).sleep == asked(look()).sleep == 25
    bound = constant_forecast(65.0, NOW, STEP_S, 24, "x")
    ahead = replace(look(idle=0, forecast=bound), busy_excluded=10)
    assert asked(ahead, replace(SETTINGS, wakes_ahead=True)).wake == 5


def test_nothing_sleeps_where_nobody_would_switch_it_off():
    room = rule.room_of(SETTINGS)
    verdict, memory = rule.size(look(), SETTINGS, CesMemory(), NOW, room, stopped="broken")
    assert (verdict.sleep, verdict.reason) == (0, Reason(rule.STOPPED, {"why": "broken"}))
    stopped = rule.size(look(wanted=31), SETTINGS, memory, NOW, room, stopped="broken")
    assert stopped[0].wake == 8


def test_wake_ups_that_came_to_nothing_are_owed_until_they_are_not_needed():
    policy = Ces(replace(SETTINGS, stagger_s=60))
    memory = CesMemory(last_wake={"gpu": NOW}).owing({"gpu": 2})
    assert memory.owed == {"gpu": 2}
    assert memory.owing({"gpu": 1, "cpu": 4}).owed == {"gpu": 3, "cpu": 4}
    waiting, kept = policy.size(look(idle=3), memory, NOW + 59)
    assert (waiting.wake, kept.owed) == (0, {"gpu": 2})
    verdict, after = policy.size(look(idle=3), memory, NOW + 60)
    assert (verdict.wake, verdict.reason.code, after.owed) == (2, rule.STAGGERED, {})
    _, after = policy.size(look(idle=30), memory, NOW + 60)
    assert after.owed == {}


def test_memory_of_a_clock_that_was_ahead_and_of_pools_that_are_gone():
    memory = CesMemory(
        last_wake={"gpu": NOW + 99, "old": 1}, last_check={"gpu": NOW - 5}, owed={"old": 3}
    )
    assert memory.as_of(NOW, {"gpu"}) == CesMemory({"gpu": NOW}, {"gpu": NOW - 5}, {})
