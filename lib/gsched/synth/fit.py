"""What is kept of a trace: numbers from which one like it can be drawn, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.synth.quantiles import Quantiles

VERSION = 1

BATCH_GAP_S = 600
"""A job belongs to the batch of the one of the same sender and size so many seconds before it."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When batches begin. Weights have mean 1, hours and weekdays (Monday first) are UTC.

    Days differ by a log-normal factor whose logarithm has deviation `day_sigma` and correlation
    `day_memory` from one day to the next, hours of a day by one of `hour_sigma`. `pace_memory` is
    the correlation of consecutive gaps between the jobs of a batch, in normal scores.
    """

    jobs_a_day: float
    by_hour: tuple[float, ...]
    by_weekday: tuple[float, ...]
    day_sigma: float
    day_memory: float
    hour_sigma: float
    gap_s: Quantiles
    pace_memory: float


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Jobs of up to `largest` GPUs that no class before has: run times, and jobs in a batch."""

    largest: int
    duration_s: Quantiles
    batch_jobs: Quantiles


@dataclass(frozen=True, slots=True)
class SizeShare:
    """One size in a pool: its share of the pool's jobs, and how many batches there are a job."""

    size: int
    jobs: float
    batches_a_job: float


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool's share of all jobs, its sizes, and its run times by size class.

    None: it has too few jobs of the class to tell, and those of all pools hold.
    """

    name: str
    jobs: float
    sizes: tuple[SizeShare, ...]
    duration_s: tuple[Quantiles | None, ...]


@dataclass(frozen=True, slots=True)
class Alike:
    """How much a job's run time is like those before it (normal scores in its pool and class).

    `recipe`: correlation of consecutive jobs of one sender, size and recipe; `sender`: of a new
    recipe with the one before it.
    """

    recipe: float
    sender: float


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Which name a job has, given its user's earlier jobs of the same size.

    As the job before with probability `repeat`, as one before that with `back`; else a new one.
    """

    repeat: float
    back: float


@dataclass(frozen=True, slots=True)
class Names:
    """How names recur, at a batch's `first` job and at `later` ones.

    A name that is new for its user's jobs of that size is known from another size with probability
    `crosses`. A job of a known name has another number in it with probability `counts_up`.
    """

    first: Recurrence
    later: Recurrence
    crosses: float
    counts_up: float


@dataclass(frozen=True, slots=True)
class People:
    """Users: `activity` is a user's number of jobs over the mean. `names` where jobs have any."""

    num_users: int
    num_tenants: int
    activity: Quantiles
    names: Names | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits that users ask for: (seconds, share).

    `follows` is their correlation with run times, in normal scores.
    """

    shares: tuple[tuple[float, float], ...]
    follows: float


@dataclass(frozen=True, slots=True)
class Fit:
    """One trace in numbers. `states` has, for each tenth of the run times from the shortest on, the
    share of jobs that end in each state. None: the source does not tell of it. `facts` are figures
    of the source (`gsched.synth.compare`), to hold a drawn trace against.
    """

    name: str
    sources: tuple[str, ...]
    unit: str
    pool_field: str
    start: int
    num_jobs: int
    days: float
    arrivals: Arrivals
    classes: tuple[SizeClass, ...]
    pools: tuple[Pool, ...]
    alike: Alike
    people: People | None
    states: tuple[Mapping[str, float], ...] | None
    limits: Limits | None
    facts: Mapping[str, float | None]

    def text(self) -> str:
        """The fit as a JSON document."""
        document = {"version": VERSION, **asdict(self)}
        return json.dumps(document, indent=None, separators=(", ", ": ")) + "\n"


def parse_fit(text: str, where: str) -> Fit:
    """The inverse of `Fit.text`. Raises DataError for what is no fit."""
    try:
        told = json.loads(text)
        if not isinstance(told, dict) or told.get("version") != VERSION:
            raise DataError(f"{where} is no fit of version {VERSION}")
        return _fit(told)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise DataError(
            f"{where} is no fit of a trace: {e}", "gsched trace synth --save-fit makes one"
        ) from None


def _fit(told: Mapping[str, Any]) -> Fit:
    people, limits, states = told["people"], told["limits"], told["states"]
    return Fit(
        name=str(told["name"]),
        sources=tuple(map(str, told["sources"])),
        unit=_one_of(told["unit"], ("gpus", "cpus")),
        pool_field=_one_of(told["pool_field"], ("partition", "tenant")),
        start=int(_number(told["start"], 0, 2**40)),
        num_jobs=int(_number(told["num_jobs"], 2, 2**40)),
        days=_number(told["days"], 1e-6, 1e6),
        arrivals=_arrivals(told["arrivals"]),
        classes=_some([_size_class(c) for c in told["classes"]]),
        pools=_some([_pool(p, len(told["classes"])) for p in told["pools"]]),
        alike=Alike(**{name: _share(told["alike"][name]) for name in Alike.__slots__}),
        people=None if people is None else _people(people),
        states=None if states is None else _states(states),
        limits=None
        if limits is None
        else Limits(_shares(limits["shares"]), _share(limits["follows"])),
        facts={str(k): None if v is None else float(v) for k, v in told["facts"].items()},
    )


def _arrivals(told: Mapping[str, Any]) -> Arrivals:
    return Arrivals(
        jobs_a_day=_number(told["jobs_a_day"], 1e-6, 1e9),
        by_hour=_weights(told["by_hour"], 24),
        by_weekday=_weights(told["by_weekday"], 7),
        day_sigma=_number(told["day_sigma"], 0, 5),
        day_memory=_share(told["day_memory"]),
        hour_sigma=_number(told["hour_sigma"], 0, 5),
        gap_s=Quantiles.told(told["gap_s"]["values"]),
        pace_memory=_share(told["pace_memory"]),
    )


def _size_class(told: Mapping[str, Any]) -> SizeClass:
    return SizeClass(
        int(_number(told["largest"], 1, 2**40)),
        Quantiles.told(told["duration_s"]["values"]),
        Quantiles.told(told["batch_jobs"]["values"]),
    )


def _pool(told: Mapping[str, Any], num_classes: int) -> Pool:
    durations = tuple(
        None if d is None else Quantiles.told(d["values"]) for d in told["duration_s"]
    )
    if len(durations) != num_classes:
        raise ValueError("a pool has run times for each size class")
    sizes = [
        SizeShare(
            int(_number(entry["size"], 1, 2**40)),
            _share(entry["jobs"]),
            _number(entry["batches_a_job"], 1e-9, 1),
        )
        for entry in told["sizes"]
    ]
    if not sum(entry.jobs for entry in sizes):
        raise ValueError("a pool without jobs")
    return Pool(str(told["name"]), _share(told["jobs"]), _some(sizes), durations)


def _people(told: Mapping[str, Any]) -> People:
    return People(
        num_users=int(_number(told["num_users"], 1, 1e7)),
        num_tenants=int(_number(told["num_tenants"], 0, 1e7)),
        activity=Quantiles.told(told["activity"]["values"]),
        names=None if told["names"] is None else _names(told["names"]),
    )


def _names(told: Mapping[str, Any]) -> Names:
    first, later = (
        Recurrence(_share(told[name]["repeat"]), _share(told[name]["back"]))
        for name in ("first", "later")
    )
    return Names(first, later, _share(told["crosses"]), _share(told["counts_up"]))


def _states(told: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, float], ...]:
    return _some(
        [{JobState(word).value: _share(share) for word, share in tenth.items()} for tenth in told]
    )


def _number(value: Any, least: float, most: float) -> float:
    number = float(value)
    if not (math.isfinite(number) and least <= number <= most):
        raise ValueError(f"{value} is not between {least:g} and {most:g}")
    return number


def _share(value: Any) -> float:
    return _number(value, 0.0, 1.0)


def _shares(told: Sequence[Any]) -> tuple[tuple[float, float], ...]:
    pairs = _some([(_number(value, 1, 2**40), _share(share)) for value, share in told])
    if not sum(share for _, share in pairs):
        raise ValueError("shares that are all 0")
    return pairs


def _weights(told: Sequence[Any], count: int) -> tuple[float, ...]:
    weights = tuple(_number(value, 0.0, count) for value in told)
    if len(weights) != count or not sum(weights):
        raise ValueError(f"{count} weights are needed, and not all 0")
    return weights


def _some(items: list[Any]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("an empty list")
    return tuple(items)


def _one_of(value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"{value!r} is none of {', '.join(words)}")
    return str(value)
