"""Fits a trace: from past jobs to the numbers of `gsched.synth.fit.Fit`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.synth.columns import UNTOLD, Ints, TraceJobs, previous_in
from gsched.synth.compare import facts
from gsched.synth.fit import (
    BATCH_GAP_S,
    Alike,
    Arrivals,
    Fit,
    Limits,
    Names,
    People,
    Pool,
    Recurrence,
    SizeClass,
    SizeShare,
)
from gsched.synth.quantiles import Floats, Quantiles, correlation, normal_scores, ranks

DAY_S = 86_400
HOUR_S = 3_600
_THURSDAY = 3  # the weekday of day 0 of the epoch

_MOST_SIZES = 40
_MOST_LIMITS = 40
_FEWEST = 50  # jobs that tell a distribution
_LEAST_SHARE_OF_A_CLASS = 0.01


@dataclass(frozen=True, eq=False)
class _Batches:
    """Jobs by batch; columns go by job, in order of submission, but `head` and `length`."""

    previous: Ints  # the sender's job of the same size before, UNTOLD for its first
    batch: Ints
    head: Ints  # the first job of each batch
    length: Ints

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Whether a job is not the first of its batch."""
        first: NDArray[np.bool_] = np.ones(len(self.batch), dtype=np.bool_)
        first[self.head] = False
        return first


def fit(jobs: TraceJobs, name: str, sources: tuple[str, ...]) -> Fit:
    """The numbers of a trace; `sources` says where it comes from."""
    batches = _batches(jobs)
    bounds = class_bounds(jobs.size)
    kind = np.searchsorted(bounds, jobs.size)
    own = _own_scores(jobs, kind)
    days = max(float(jobs.submit_s[-1] - jobs.submit_s[0]) / DAY_S, 1 / 24)
    return Fit(
        name=name,
        sources=sources,
        unit=jobs.unit,
        pool_field=jobs.pool_field,
        start=int(jobs.submit_s[0]),
        num_jobs=len(jobs),
        days=round(days, 4),
        arrivals=_arrivals(jobs, batches, days),
        classes=tuple(
            SizeClass(
                int(bound),
                Quantiles.of(jobs.duration_s[kind == number]),
                Quantiles.of(batches.length[kind[batches.head] == number].astype(np.float64)),
            )
            for number, bound in enumerate(bounds)
        ),
        pools=_pools(jobs, batches, kind, len(bounds)),
        alike=_alike(jobs, batches, own),
        people=_people(jobs, batches) if jobs.tells_users else None,
        states=_states(jobs),
        limits=_limits(jobs, own),
        facts=facts(jobs),
    )


def class_bounds(size: Ints) -> Ints:
    """The largest size of each class: powers of two, merged until each class has enough jobs."""
    least = max(_FEWEST, _LEAST_SHARE_OF_A_CLASS * len(size))
    bounds, before = [], 0
    power = 1
    while power < 2 * size.max():
        upto = int((size <= power).sum())
        if upto - before >= least:
            bounds.append(power)
            before = upto
        power *= 2
    rest = len(size) - before
    if not bounds or rest >= least:
        bounds.append(power)
    bounds[-1] = int(max(bounds[-1], size.max()))
    return np.array(bounds, dtype=np.int64)


def _batches(jobs: TraceJobs) -> _Batches:
    previous = previous_in(jobs.sender, jobs.size)
    follows = (previous > UNTOLD) & (jobs.submit_s - jobs.submit_s[previous] <= BATCH_GAP_S)
    # among a sender's jobs of a size, a batch begins where none follows: beginnings number them
    by_sender = np.lexsort((np.arange(len(jobs)), jobs.sender, jobs.size))
    batch = np.empty(len(jobs), dtype=np.int64)
    batch[by_sender] = np.cumsum(~follows[by_sender]) - 1
    head = by_sender[~follows[by_sender]]
    return _Batches(previous, batch, head, np.bincount(batch))


def _arrivals(jobs: TraceJobs, batches: _Batches, days: float) -> Arrivals:
    heads = np.sort(jobs.submit_s[batches.head])
    by_hour = _weights(np.bincount(heads // HOUR_S % 24, minlength=24).astype(np.float64))
    day = heads // DAY_S
    first, last = int(jobs.submit_s[0] // DAY_S), int(jobs.submit_s[-1] // DAY_S)
    all_days = np.arange(first, last + 1)
    counts = np.bincount(day - first, minlength=len(all_days)).astype(np.float64)
    weekday = (all_days + _THURSDAY) % 7
    seen = np.bincount(weekday, minlength=7)
    if seen.min() > 0:
        by_weekday = _weights(np.bincount(weekday, counts, minlength=7) / seen)
    else:
        by_weekday = np.ones(7)
    day_sigma, memory = _day_factor(counts, by_weekday[weekday] * counts.mean())
    follows = np.flatnonzero(batches.follows)
    gaps = (jobs.submit_s[follows] - jobs.submit_s[batches.previous[follows]]).astype(np.float64)
    return Arrivals(
        jobs_a_day=round(len(jobs) / days, 4),
        by_hour=tuple(by_hour.round(4).tolist()),
        by_weekday=tuple(by_weekday.round(4).tolist()),
        day_sigma=round(day_sigma, 4),
        day_memory=round(memory, 4),
        hour_sigma=round(_hour_factor(heads, day - first, counts, by_hour), 4),
        gap_s=Quantiles.of(gaps),
        pace_memory=round(_pace_memory(batches, follows, gaps), 4),
    )


def _weights(counts: Floats) -> Floats:
    mean = counts.mean()
    return counts / mean if mean else np.ones(len(counts))


def _day_factor(counts: Floats, expected: Floats) -> tuple[float, float]:
    """Deviation of the logarithm of the factor of days, and its correlation day by day.

    What chance alone (Poisson) adds to the variance of counts is taken off. Days at both ends may
    be cut and do not count where there are more.
    """
    inner = slice(1, -1) if len(counts) > 4 else slice(None)
    ratio = counts[inner] / np.maximum(expected[inner], 1e-9)
    squared = max(0.0, float(ratio.var() - (1 / np.maximum(expected[inner], 1e-9)).mean()))
    variance = float(np.log1p(squared))
    if not variance or len(ratio) < 5:
        return float(np.sqrt(variance)), 0.0
    covariance = float(((ratio[1:] - ratio.mean()) * (ratio[:-1] - ratio.mean())).mean())
    return float(np.sqrt(variance)), float(
        np.clip(np.log1p(max(covariance, 0.0)) / variance, 0.0, 0.99)
    )


def _hour_factor(heads: Ints, day: Ints, counts: Floats, by_hour: Floats) -> float:
    """Deviation of the logarithm of the factor of single hours within their day."""
    number = day * 24 + heads // HOUR_S % 24
    seen = np.bincount(number, minlength=24 * len(counts)).astype(np.float64)
    expected = np.repeat(counts / 24, 24) * np.tile(by_hour, len(counts))
    excess = float(((seen - expected) ** 2 - expected).sum()) / max(
        float((expected**2).sum()), 1e-9
    )
    return float(np.sqrt(np.log1p(max(excess, 0.0))))


def _pace_memory(batches: _Batches, follows: Ints, gaps: Floats) -> float:
    place = np.full(len(batches.batch), UNTOLD, dtype=np.int64)
    place[follows] = np.arange(len(follows))
    before = place[batches.previous[follows]]
    pairs = np.flatnonzero(before > UNTOLD)
    if not len(pairs):
        return 0.0
    scores = normal_scores(gaps)
    return correlation(scores[pairs], scores[before[pairs]])


def _own_scores(jobs: TraceJobs, kind: Ints) -> Floats:
    """Normal scores of the durations among the jobs of their pool and size class."""
    group = jobs.pool * (int(kind.max()) + 1) + kind
    scores = np.empty(len(jobs))
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        scores[rows] = normal_scores(jobs.duration_s[rows])
    return scores


def _pools(jobs: TraceJobs, batches: _Batches, kind: Ints, num_classes: int) -> tuple[Pool, ...]:
    is_head = ~batches.follows
    pools = []
    for code, name in enumerate(jobs.pools):
        rows = np.flatnonzero(jobs.pool == code)
        durations = [jobs.duration_s[rows[kind[rows] == number]] for number in range(num_classes)]
        pools.append(
            Pool(
                name=name,
                jobs=round(len(rows) / len(jobs), 7),
                sizes=_sizes(jobs.size[rows], is_head[rows]),
                duration_s=tuple(
                    Quantiles.of(told) if len(told) >= _FEWEST else None for told in durations
                ),
            )
        )
    return tuple(pools)


def _sizes(size: Ints, is_head: NDArray[np.bool_]) -> tuple[SizeShare, ...]:
    """The most common sizes; every other is counted with the nearest of them."""
    kinds, codes, counts = np.unique(size, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_SIZES])
    nearest = np.abs(kinds[:, None] - kinds[kept][None, :]).argmin(axis=1)[codes]
    jobs = np.bincount(nearest, minlength=len(kept))
    heads = np.maximum(np.bincount(nearest, is_head, minlength=len(kept)), 1)
    return tuple(
        SizeShare(int(value), round(float(many / len(size)), 6), round(float(begun / many), 5))
        for value, many, begun in zip(kinds[kept], jobs, heads, strict=True)
    )


def _alike(jobs: TraceJobs, batches: _Batches, own: Floats) -> Alike:
    recipe = jobs.recipe if jobs.tells_names else batches.batch
    later = np.flatnonzero(batches.previous > UNTOLD)
    before = batches.previous[later]
    same = recipe[later] == recipe[before]
    within = correlation(own[later[same]], own[before[same]])
    across = correlation(own[later[~same]], own[before[~same]])
    return Alike(
        recipe=round(within, 4), sender=round(min(across / within, 0.999) if within else 0.0, 4)
    )


def _people(jobs: TraceJobs, batches: _Batches) -> People:
    of_user = np.bincount(jobs.user[jobs.user > UNTOLD])
    return People(
        num_users=len(of_user),
        num_tenants=jobs.num_tenants,
        activity=Quantiles.of(of_user / of_user.mean()),
        names=_names(jobs, batches) if jobs.tells_names else None,
    )


def _names(jobs: TraceJobs, batches: _Batches) -> Names:
    previous, recipe = batches.previous, jobs.recipe
    has = previous > UNTOLD
    repeats = np.zeros(len(jobs), dtype=np.bool_)
    repeats[has] = recipe[has] == recipe[previous[has]]
    known = previous_in(jobs.user, jobs.size, recipe) > UNTOLD
    new = ~known & (previous_in(jobs.user) > UNTOLD)
    crosses = previous_in(jobs.user, recipe)[new] > UNTOLD
    again = has & repeats
    changed = jobs.name[again] != jobs.name[previous[again]]

    def recurrence(rows: NDArray[np.bool_]) -> Recurrence:
        number = max(int(rows.sum()), 1)
        repeat, back = (repeats & rows).sum(), (known & ~repeats & rows).sum()
        return Recurrence(round(float(repeat / number), 4), round(float(back / number), 4))

    return Names(
        first=recurrence(has & ~batches.follows),
        later=recurrence(has & batches.follows),
        crosses=round(_mean(crosses), 4),
        counts_up=round(_mean(changed), 4),
    )


def _mean(is_so: NDArray[np.bool_]) -> float:
    return float(is_so.mean()) if len(is_so) else 0.0


def _states(jobs: TraceJobs) -> tuple[dict[str, float], ...] | None:
    if not jobs.states:
        return None
    tenth = np.minimum((ranks(jobs.duration_s) * 10).astype(np.int64), 9)
    told = []
    for number in range(10):
        counts = np.bincount(jobs.state[(tenth == number) & (jobs.state > UNTOLD)])
        total = max(int(counts.sum()), 1)
        told.append(
            {jobs.states[code]: round(float(n / total), 4) for code, n in enumerate(counts) if n}
        )
    return tuple(shares or {"COMPLETED": 1.0} for shares in told)


def _limits(jobs: TraceJobs, scores: Floats) -> Limits | None:
    told = np.flatnonzero(~np.isnan(jobs.time_limit_s) & (jobs.time_limit_s > 0))
    if len(told) < len(jobs) / 2:
        return None
    limits = jobs.time_limit_s[told]
    follows = correlation(normal_scores(limits), normal_scores(scores[told]))
    kinds, codes, counts = np.unique(limits, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LIMITS])
    nearest = np.abs(kinds[:, None] - kinds[kept][None, :]).argmin(axis=1)[codes]
    shares = np.bincount(nearest, minlength=len(kept)) / len(limits)
    return Limits(
        tuple((float(k), round(float(x), 6)) for k, x in zip(kinds[kept], shares, strict=True)),
        round(follows, 4),
    )
