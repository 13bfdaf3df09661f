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
) -> tuple[PoolVerdict, CesMemory]:
    """What is to become of a pool within `room`, and what to remember of it."""
    pool = look.pool
    wake, reason = _to_wake(look, settings, memory, now)
    if reason is not None:
        woken = wake if room.wake is None else min(wake, room.wake)
        others = {name: owed for name, owed in memory.owed.items() if name != pool}
        owed = {pool: wake - woken} if wake > woken else {}
        last_wake = {**memory.last_wake, pool: now} if woken else memory.last_wake
        memory = replace(memory, last_wake=last_wake, owed={**others, **owed})
        return PoolVerdict(pool, woken, 0, reason), memory
    if now - memory.last_check.get(pool, now - settings.period_s) < settings.period_s:
        return PoolVerdict(pool, 0, 0, Reason(NOT_DUE)), memory
    memory = replace(memory, last_check={**memory.last_check, pool: now})
    number, why = _to_sleep(look, settings, memory, now, wake_failures)
    most = number if room.sleep is None else min(number, room.sleep)
    return PoolVerdict(pool, 0, most, why), memory


def _to_wake(
    look: PoolLook, settings: CesSettings, memory: CesMemory, now: int
) -> tuple[int, Reason | None]:
    """How many have to wake; no reason where none has to."""
    demand, usable = look.demand, look.idle + look.waking
    shortage = demand.wanted - usable
    missing = min(shortage + settings.wake_sigma, look.asleep)
    owed = min(memory.owed.get(look.pool, 0), missing)
    if owed > 0 and now - memory.last_wake.get(look.pool, 0) < settings.stagger_s:
        return 0, None
    told: dict[str, JsonValue] = {
        "wanted": demand.wanted, "idle": look.idle, "waking": look.waking
    }  # fmt: skip
    if shortage > 0 and missing > 0:
        return missing, Reason(ARRIVAL, {**told, "spare": max(missing - shortage, 0)})
    if owed > 0:
        return owed, Reason(STAGGERED, {**told, "owed": owed})
    forecast = demand.forecast if settings.wakes_ahead else None
    if forecast is not None and look.asleep and not _is_old(forecast, settings, now):
        ahead_s = demand.wake_lead_s + settings.period_s
        needed = math.ceil(forecast.peak_until(ahead_s))
        missing = min(needed - look.running - usable, look.asleep)
        if missing >= max(settings.min_change, 1):
            return missing, Reason(AHEAD, {"needed": needed, "within_s": ahead_s})
    return 0, None


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
    current = max(float(look.running), past[-1] if past else 0.0)
    forecast = look.demand.forecast if settings.needs_forecast else None
    no = _objection(look, settings, current, now)
    if no is not None:
        return 0, no
    return _surplus(look, settings, current, forecast)


def _objection(look: PoolLook, settings: CesSettings, current: float, now: int) -> Reason | None:
    """What speaks against any sleep: no forecast, or a trend that does not fall."""
    if not settings.needs_forecast:
        return None
    forecast, past = look.demand.forecast, look.demand.past
    if forecast is None:
        return Reason(NO_FORECAST, {"why": look.demand.why.code, **look.demand.why.params})
    if _is_old(forecast, settings, now):
        return Reason(OLD_FORECAST, {"made_at": forecast.made_at})
    window_s = settings.future_window_s
    if not forecast.covers(max(window_s, settings.peak_window_s)):
        return Reason(SHORT_FORECAST, {"length_s": forecast.length_s, "window_s": window_s})
    steps = max(1, settings.past_window_s // look.demand.step_s)
    before = past[-1 - steps : -1] or past
    mean_past = sum(before) / len(before) if before else current
    mean_next = forecast.mean_until(window_s)
    trend: dict[str, JsonValue] = {
        "past": round(mean_past, 2), "now": current, "next": round(mean_next, 2)
    }  # fmt: skip
    if mean_past - current < settings.xi_h:
        return Reason(NOT_FALLEN, {**trend, "xi_h": settings.xi_h})
    if current - mean_next < settings.xi_p:
        return Reason(COMING, {**trend, "xi_p": settings.xi_p})
    later = forecast.mean_until(2 * window_s)
    if later - mean_next > settings.max_rise:
        return Reason(RISES, {**trend, "later": round(later, 2), "max_rise": settings.max_rise})
    return None


def _surplus(
    look: PoolLook, settings: CesSettings, current: float, forecast: DemandForecast | None
) -> tuple[int, Reason]:
    """What is idle beyond what has to stay awake, where it is worth a change."""
    spare = max(settings.sigma, settings.least_idle.get(look.pool, 0))
    keep = current + max(spare, look.demand.wanted)
    if forecast is not None and settings.peak_window_s:
        keep = max(keep, forecast.peak_until(settings.peak_window_s))
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
