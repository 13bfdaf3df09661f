"""Draws a trace from a fit: the same seed gives the same trace.

Volumes are calibrated, not left to chance: every pool has its share of the jobs, and the run times
of each size class are those of the fit at even steps of probability. Chance says only which job
comes when, beside which, and how long it is among its class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.errors import UsageError
from gsched.synth.columns import Ints
from gsched.synth.fit import Fit
from gsched.synth.quantiles import Floats, Quantiles, ranks
from gsched.synth.recurring import Recurring, recur

DAY_S = 86_400
HOUR_S = 3_600
_THURSDAY = 3  # the weekday of day 0 of the epoch
MOST_JOBS = 100_000_000
MOST_DAYS = 36_525


@dataclass(frozen=True, eq=False)
class Drawn:
    """A drawn trace by column, in order of submission; codes as in TraceJobs.

    `state` is a word for each job, empty where the fit tells none; what the fit does not
    tell is None: `user`; `recipe` and `number` (of its run); `time_limit_s`.
    """

    submit_s: Ints
    duration_s: Ints
    size: Ints
    pool: Ints
    user: Ints | None
    recipe: Ints | None
    number: Ints | None
    state: NDArray[np.str_]
    time_limit_s: Ints | None

    def __len__(self) -> int:
        return len(self.submit_s)


@dataclass(frozen=True, eq=False)
class _Batches:
    pool: Ints
    size: Ints
    length: Ints
    begin_s: Ints


def draw(
    fit: Fit,
    seed: int,
    *,
    days: float | None = None,
    jobs: int | None = None,
    start: int | None = None,
) -> Drawn:
    """A trace of `days` days (the fit's own), or of `jobs` jobs, from `start` (epoch) on.

    With `jobs` alone the time follows from the fit's rate, with both the rate from them. Raises
    UsageError where that makes no job, or more than MOST_JOBS or MOST_DAYS.
    """
    if days is None:
        days = fit.days if jobs is None else jobs / fit.arrivals.jobs_a_day
    count = round(fit.arrivals.jobs_a_day * days) if jobs is None else jobs
    if not 1 <= count <= MOST_JOBS or not 0 < days <= MOST_DAYS:
        raise UsageError(
            f"{days:g} days like {fit.name} would have {count} jobs",
            f"between 1 and {MOST_JOBS:,} jobs, and {MOST_DAYS:,} days, can be drawn",
        )
    rng = np.random.default_rng(seed)
    begin = fit.start if start is None else start
    batches = _batches(fit, count, days, begin, rng)
    batch = np.repeat(np.arange(len(batches.length)), batches.length)
    follows = np.ones(count, dtype=np.bool_)
    follows[np.cumsum(batches.length) - batches.length] = False
    submit = batches.begin_s[batch] + _since_begin(fit, batch, follows, rng)
    span_s = max(int(days * DAY_S), 1)
    beyond = (submit - begin) // span_s  # how often the end was passed
    submit -= beyond * span_s  # as many jobs reach in from before the beginning as beyond the end
    follows[1:] &= beyond[1:] == beyond[:-1]
    order = np.argsort(submit, kind="stable")
    kept = Recurring(
        pool=batches.pool[batch], size=batches.size[batch], batch=batch, follows=follows
    ).ordered(order)
    again = recur(fit, kept, rng)
    own = _mixed(again.level, fit.alike.recipe, rng)
    duration = _durations(fit, kept, own)
    state, limit = _endings(fit, duration, own, rng)
    return Drawn(
        submit_s=submit[order],
        duration_s=duration,
        size=kept.size,
        pool=kept.pool,
        user=again.user,
        recipe=again.recipe,
        number=again.number,
        state=state,
        time_limit_s=limit,
    )


def _even(count: int, rng: np.random.Generator) -> Floats:
    """Probabilities at even steps, in random order: a sample with little chance in its sums."""
    return rng.permutation((np.arange(count) + rng.random(count)) / count)


def _pick(shares: Floats, probability: Floats) -> Ints:
    """Which of the shares each probability falls into."""
    edges = np.cumsum(shares) / shares.sum()
    picked: Ints = np.minimum(np.searchsorted(edges, probability, side="right"), len(shares) - 1)
    return picked


def _parts(total: int, weights: Floats, least: int) -> Ints:
    """`total` in whole parts as the weights go, none below `least`; sum: total, where it can be."""
    exact = weights / weights.sum() * total
    parts: Ints = np.maximum(np.floor(exact).astype(np.int64), least)
    missing = total - int(parts.sum())
    if missing > 0:
        parts[np.argsort(np.floor(exact) - exact, kind="stable")[:missing]] += 1
    while missing < 0:  # what was raised to `least` is taken from the largest
        place = int(parts.argmax())
        if parts[place] <= least:
            break
        taken = min(-missing, max(1, int(parts[place] - least) // 2))
        parts[place] -= taken
        missing += taken
    return parts


def _batches(fit: Fit, count: int, days: float, start: int, rng: np.random.Generator) -> _Batches:
    jobs = _parts(count, np.array([pool.jobs for pool in fit.pools]), 0)
    kinds = np.array([c.largest for c in fit.classes])
    pools, sizes, lengths = [], [], []
    for code, (pool, number) in enumerate(zip(fit.pools, jobs.tolist(), strict=True)):
        shares = np.array([entry.jobs for entry in pool.sizes])
        for entry, jobs_of_size in zip(pool.sizes, _parts(number, shares, 0), strict=True):
            many = min(int(jobs_of_size), max(1, round(jobs_of_size * entry.batches_a_job)))
            if not many:
                continue
            kind = min(int(np.searchsorted(kinds, entry.size)), len(kinds) - 1)
            length = fit.classes[kind].batch_jobs.at(_even(many, rng))
            pools.append(np.full(many, code))
            sizes.append(np.full(many, entry.size))
            lengths.append(_parts(int(jobs_of_size), np.maximum(length, 1e-9), 1))
    pool_of = np.concatenate(pools)
    begin = _begins(fit, len(pool_of), days, start, rng)
    return _Batches(pool_of, np.concatenate(sizes), np.concatenate(lengths), begin)


def _begins(fit: Fit, count: int, days: float, start: int, rng: np.random.Generator) -> Ints:
    """When batches begin: by the hours' weights, at any second of an hour."""
    told = fit.arrivals
    first = start // HOUR_S
    hours = np.arange(first, int(start + days * DAY_S - 1) // HOUR_S + 1)
    day = hours // 24
    factor = np.exp(_walk(int(day[-1] - day[0]) + 1, told.day_memory, rng) * told.day_sigma)
    weight = (
        np.array(told.by_hour)[hours % 24]
        * np.array(told.by_weekday)[(day + _THURSDAY) % 7]
        * factor[day - day[0]]
        * np.exp(rng.standard_normal(len(hours)) * told.hour_sigma)
    )
    share = np.minimum(hours * HOUR_S + HOUR_S, start + days * DAY_S) - np.maximum(
        hours * HOUR_S, start
    )
    weight *= share
    if not weight.sum():
        weight = np.ones(len(hours))  # a few hours at which nobody ever comes
    picked = hours[_pick(weight, np.sort(_even(count, rng)))]
    begin = picked * HOUR_S + rng.integers(0, HOUR_S, count)
    return rng.permutation(np.clip(begin, start, int(start + days * DAY_S) - 1))


def _walk(count: int, memory: float, rng: np.random.Generator) -> Floats:
    """Standard normal values, each correlated with the one before."""
    values = rng.standard_normal(count)
    for place in range(1, count):
        values[place] = memory * values[place - 1] + np.sqrt(1 - memory**2) * values[place]
    return values


def _mixed(shared: Floats, weight: float, rng: np.random.Generator) -> Floats:
    """Standard normal values of which `weight` of the variance is `shared`."""
    mixed: Floats = shared * weight**0.5 + rng.standard_normal(len(shared)) * (1 - weight) ** 0.5
    return mixed


def _since_begin(
    fit: Fit, batch: Ints, follows: NDArray[np.bool_], rng: np.random.Generator
) -> Ints:
    """Seconds from the beginning of each job's batch to the job."""
    gaps = np.zeros(len(batch))
    pace = _mixed(rng.standard_normal(batch[-1] + 1)[batch], fit.arrivals.pace_memory, rng)
    gaps[follows] = _at_ranks(fit.arrivals.gap_s, pace[follows])
    upto = np.cumsum(gaps)
    begin = upto[~follows]
    return np.rint(upto - begin[batch]).astype(np.int64)


def _at_ranks(told: Quantiles, values: Floats) -> Floats:
    """The told distribution at even steps of probability, in the order of the values."""
    return told.at(ranks(values)) if len(values) else values


def _durations(fit: Fit, jobs: Recurring, own: Floats) -> Ints:
    """Run times in the order of `own` within each pool and size class."""
    kinds = np.array([c.largest for c in fit.classes])
    kind = np.minimum(np.searchsorted(kinds, jobs.size), len(kinds) - 1)
    group = jobs.pool * len(kinds) + kind
    duration = np.empty(len(own))
    for number in np.unique(group):
        pool, place = divmod(int(number), len(kinds))
        told = fit.pools[pool].duration_s[place] or fit.classes[place].duration_s
        rows = np.flatnonzero(group == number)
        duration[rows] = _at_ranks(told, own[rows])
    return np.maximum(np.rint(duration), 1).astype(np.int64)


def _endings(
    fit: Fit, duration: Ints, own: Floats, rng: np.random.Generator
) -> tuple[NDArray[np.str_], Ints | None]:
    """Final states by the tenth of the run time, and time limits that allow the run."""
    state = np.full(len(duration), "", dtype="<U16")
    if fit.states is not None:
        steps = len(fit.states)
        tenth = np.minimum((ranks(duration.astype(np.float64)) * steps).astype(np.int64), steps - 1)
        for place, shares in enumerate(fit.states):
            rows = np.flatnonzero(tenth == place)
            picked = _pick(np.array(list(shares.values())), _even(len(rows), rng))
            state[rows] = np.array(list(shares))[picked]
    if fit.limits is None:
        return state, None
    values, weights = (np.array(column) for column in zip(*fit.limits.shares, strict=True))
    wanted = _mixed(own, fit.limits.follows**2, rng)
    limit = values[_pick(weights, ranks(wanted))].astype(np.int64)
    allowing = np.searchsorted(values, duration)
    longer = np.where(
        allowing < len(values),
        values[np.minimum(allowing, len(values) - 1)],
        -(-duration // 60) * 60,
    )
    limit = np.maximum(limit, longer.astype(np.int64))
    return state, np.where(state == "TIMEOUT", duration, limit)
