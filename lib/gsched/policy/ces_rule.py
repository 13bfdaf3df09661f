"""How many nodes of a pool should wake or sleep: algorithm 2 of Helios (SC'21), by numbers alone.

The arrival check wakes what jobs wait for, and a buffer. The periodic check puts idle nodes to
sleep down to what runs and the buffer, only when demand has fallen and is forecast to stay below.
From the published code come the hold after a wake-up and the check that the forecast does not rise
after its window. Ours are the bound by the forecast's upper interval, the least idle time, the cap
and the hysteresis, and waking ahead.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gsched.model.decision import JsonValue, Reason
from gsched.model.demand_forecast import DemandForecast
from gsched.policy.ces_state import CesMemory, CesSettings, PoolLook, PoolVerdict, Room

ARRIVAL = "ces.arrival"
STAGGERED = "ces.staggered"
AHEAD = "ces.demand-expected"
NOT_DUE = "ces.not-due"
FAILURES = "ces.nodes-failed-to-wake"
STOPPED = "ces.suspending-stopped"
HOLD = "ces.held-after-wake-up"
NOBODY_IDLE = "ces.none-idle-for-long"
NO_FORECAST = "ces.no-forecast"
OLD_FORECAST = "ces.forecast-too-old"
SHORT_FORECAST = "ces.forecast-too-short"
NOT_FALLEN = "ces.demand-has-not-fallen"
COMING = "ces.demand-comes"
RISES = "ces.demand-rises-later"
NEEDED = "ces.needed-as-spare"
TOO_FEW = "ces.too-few-to-change"
SURPLUS = "ces.surplus"


def room_of(settings: CesSettings) -> Room:
    """What one round may change at most."""
    return Room(settings.max_wake or None, settings.max_sleep or None)


def size(
    look: PoolLook,
    settings: CesSettings,
    memory: CesMemory,
    now: int,
    room: Room,
    wake_failures: int = 0,
    stopped: str = "",
) -> tuple[PoolVerdict, CesMemory]:
    """What is to become of a pool within `room`, and what to remember of it."""
    pool = look.pool
    wake, reason = _to_wake(look, settings, memory, now)
    if reason is not None:
        woken = wake if room.wake is None else min(wake, room.wake)
        others = {name: owed for name, owed in memory.owed.items() if name != pool}
        owed = {pool: wake - woken} if wake > woken else {}
        has_woken = woken or look.demand.woken_by_slurm
        last_wake = {**memory.last_wake, pool: now} if has_woken else memory.last_wake
        memory = replace(memory, last_wake=last_wake, owed={**others, **owed})
        return PoolVerdict(pool, woken, 0, reason), memory
    if memory.owed.get(pool) and _missing(look, settings, now) <= 0:  # it has come by itself
        memory = replace(memory, owed={n: left for n, left in memory.owed.items() if n != pool})
    if now - memory.last_check.get(pool, now - settings.period_s) < settings.period_s:
        return PoolVerdict(pool, 0, 0, Reason(NOT_DUE)), memory
    checked = replace(memory, last_check={**memory.last_check, pool: now})
    if stopped:
        return PoolVerdict(pool, 0, 0, Reason(STOPPED, {"why": stopped})), checked
    number, why = _to_sleep(look, settings, memory, now, wake_failures)
    if number and room.sleep == 0:  # other pools have used the round up: this one is next
        return PoolVerdict(pool, 0, 0, why), memory
    most = number if room.sleep is None else min(number, room.sleep)
    return PoolVerdict(pool, 0, most, why), checked


def _to_wake(
    look: PoolLook, settings: CesSettings, memory: CesMemory, now: int
) -> tuple[int, Reason | None]:
    """How many have to wake; no reason where none has to.

    Where Slurm has woken nodes for jobs before we looked, there was a shortage: what it left asleep
    of the spare is woken now.
    """
    demand, shortage = look.demand, look.demand.wanted - look.idle - look.waking
    missing = _missing_now(look, settings)
    ahead = _missing_ahead(look, settings, now)
    owed = min(memory.owed.get(look.pool, 0), max(missing, ahead))
    if owed > 0 and now - memory.last_wake.get(look.pool, 0) < settings.stagger_s:
        return 0, None
    told: dict[str, JsonValue] = {
        "wanted": demand.wanted, "idle": look.idle, "waking": look.waking
    }  # fmt: skip
    if demand.woken_by_slurm or (shortage > 0 and missing > 0):
        spare = max(missing - max(shortage, 0), 0)
        if demand.woken_by_slurm:
            told["woken_by_slurm"] = demand.woken_by_slurm
        return missing, Reason(ARRIVAL, {**told, "spare": spare})
    if owed > 0:
        return owed, Reason(STAGGERED, {**told, "owed": owed})
    if ahead >= max(settings.min_change, 1):
        within_s = demand.wake_lead_s + settings.period_s
        return ahead, Reason(
            AHEAD, {"needed": _needed_ahead(look, settings, now), "within_s": within_s}
        )
    return 0, None


def _missing(look: PoolLook, settings: CesSettings, now: int) -> int:
    """How many would have to wake for whatever reason, at least 0."""
    return max(_missing_now(look, settings), _missing_ahead(look, settings, now))


def _missing_now(look: PoolLook, settings: CesSettings) -> int:
    """What jobs wait for and the spare, as far as it sleeps."""
    shortage = look.demand.wanted - look.idle - look.waking
    return max(min(shortage + settings.wake_sigma_of(look.pool), look.asleep), 0)


def _missing_ahead(look: PoolLook, settings: CesSettings, now: int) -> int:
    """What the forecast says may be missing before a node could wake, as far as it sleeps."""
    if not look.asleep:
        return 0
    there = look.busy_excluded + look.running + look.idle + look.waking
    return max(min(_needed_ahead(look, settings, now) - there, look.asleep), 0)


def _needed_ahead(look: PoolLook, settings: CesSettings, now: int) -> int:
    """The upper bound of the demand until a node that the next check wakes is there; else 0."""
    forecast = look.demand.forecast
    if not settings.wakes_ahead or forecast is None or _is_old(forecast, settings, now):
        return 0
    ahead_s = look.demand.wake_lead_s + settings.period_s
    return math.ceil(forecast.peak_until(ahead_s, now - forecast.made_at))


def _to_sleep(
    look: PoolLook, settings: CesSettings, memory: CesMemory, now: int, wake_failures: int
) -> tuple[int, Reason]:
    """How many may sleep, and why that many, or none."""
    if settings.max_failures and wake_failures >= settings.max_failures:
        return 0, Reason(FAILURES, {"failures": wake_failures, "limit": settings.max_failures})
    since_s = now - memory.last_wake.get(look.pool, now - settings.hold_s)
    if since_s < settings.hold_s:
        return 0, Reason(HOLD, {"until": now - since_s + settings.hold_s})
    if not look.sleepable:
        return 0, Reason(NOBODY_IDLE, {"min_idle_s": settings.min_idle_s, "idle": look.idle})
    past = look.demand.past
    current = max(float(look.running + look.busy_excluded), past[-1] if past else 0.0)
    forecast = look.demand.forecast if settings.needs_forecast else None
    no = _objection(look, settings, current, now)
    if no is not None:
        return 0, no
    return _surplus(look, settings, current, forecast, now)


def _objection(look: PoolLook, settings: CesSettings, current: float, now: int) -> Reason | None:
    """What speaks against any sleep: no forecast, or a trend that does not fall."""
    if not settings.needs_forecast:
        return None
    forecast, past = look.demand.forecast, look.demand.past
    if forecast is None:
        return Reason(NO_FORECAST, {"why": look.demand.why.code, **look.demand.why.params})
    if _is_old(forecast, settings, now):
        return Reason(OLD_FORECAST, {"made_at": forecast.made_at})
    window_s, age_s = settings.future_window_s, now - forecast.made_at
    if not forecast.covers(max(window_s, settings.peak_window_s), age_s):
        return Reason(SHORT_FORECAST, {"length_s": forecast.length_s, "window_s": window_s})
    steps = max(1, settings.past_window_s // look.demand.step_s)
    before = past[-1 - steps : -1] or past
    mean_past = sum(before) / len(before) if before else current
    mean_next = forecast.mean_until(window_s, age_s)
    trend: dict[str, JsonValue] = {
        "past": round(mean_past, 2), "now": current, "next": round(mean_next, 2)
    }  # fmt: skip
    if mean_past - current < settings.xi_h:
        return Reason(NOT_FALLEN, {**trend, "xi_h": settings.xi_h})
    if current - mean_next < settings.xi_p:
        return Reason(COMING, {**trend, "xi_p": settings.xi_p})
    later = forecast.mean_until(2 * window_s, age_s)
    if later - mean_next > settings.max_rise:
        return Reason(RISES, {**trend, "later": round(later, 2), "max_rise": settings.max_rise})
    return None


def _surplus(
    look: PoolLook,
    settings: CesSettings,
    current: float,
    forecast: DemandForecast | None,
    now: int,
) -> tuple[int, Reason]:
    """What is idle beyond what has to stay awake, where it is worth a change."""
    spare = max(settings.sigma_of(look.pool), settings.least_idle.get(look.pool, 0))
    keep = current + max(spare, look.demand.wanted)
    if forecast is not None and settings.peak_window_s:
        age_s = now - forecast.made_at
        keep = max(keep, forecast.peak_until(settings.peak_window_s, age_s))
    keep = max(keep - look.busy_excluded, 0.0)
    awake = look.running + look.idle + look.waking
    surplus = min(awake - math.ceil(keep - 1e-9), look.sleepable)
    told: dict[str, JsonValue] = {
        "awake": awake, "keep": math.ceil(keep - 1e-9), "spare": spare, "wanted": look.demand.wanted
    }  # fmt: skip
    if surplus <= 0:
        return 0, Reason(NEEDED, told)
    if surplus < settings.min_change:
        return 0, Reason(TOO_FEW, {**told, "min_change": settings.min_change})
    return surplus, Reason(SURPLUS, {**told, "surplus": surplus})


def _is_old(forecast: DemandForecast, settings: CesSettings, now: int) -> bool:
    """Whether whoever makes the forecasts has stopped, or has another clock."""
    return abs(now - forecast.made_at) > settings.max_forecast_age_s
