"""Jobs as rows of numbers for the regression: categories, counts, limits, calendar, history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.names import bounded
from gsched.model.times import DAY_S
from gsched.predict.attributes import JobAttributes
from gsched.predict.memory import HISTORY, Look
from gsched.predict.names import mask_of, nearest

CATEGORICAL = ("user", "tenant", "partition", "name_cluster")
NUMERIC = ("num_gpus", "num_cpus", "num_nodes", "time_limit_s")
CALENDAR = ("month", "weekday", "hour", "minute")  # of the first submission, UTC
FEATURES = CATEGORICAL + NUMERIC + CALENDAR + HISTORY

MAX_CATEGORIES = 250
"""Most frequent values of a category that get a code (the regression takes up to 255)."""

MAX_MASKS = 2000
"""Most frequent masked names that are looked at to form clusters."""

_LAST_TIME = 2**33  # epoch seconds, in the year 2242; later ones are nonsense


class FeatureEncoder:
    """Codes categories as learnt from past jobs; a value it has not seen becomes NaN (unknown).

    Name clusters are led by the most frequent masked names; a name belongs to the most similar
    leader.
    """

    def __init__(self, codes: Mapping[str, Mapping[str, int]], leaders: Sequence[str]) -> None:
        self._codes = {name: dict(codes[name]) for name in CATEGORICAL if name != "name_cluster"}
        self._leaders = list(leaders)
        self._clusters: dict[str, float] = {}

    @classmethod
    def fit(cls, jobs: Sequence[JobAttributes]) -> FeatureEncoder:
        """Learn the categories of `jobs`."""
        codes = {
            "user": _codes(job.user for job in jobs),
            "tenant": _codes(job.tenant for job in jobs),
            "partition": _codes(job.partition for job in jobs),
        }
        leaders: list[str] = []
        names = Counter(bounded(job.name) for job in jobs)
        for mask in _frequent(_masks(names), MAX_MASKS):
            if len(leaders) < MAX_CATEGORIES and nearest(mask, leaders) is None:
                leaders.append(mask)
        return cls(codes, leaders)

    def matrix(self, looks: Sequence[Look]) -> NDArray[np.float64]:
        """One row a job, one column a name of FEATURES, NaN for what is not known."""
        jobs = [look.job for look in looks]
        users, tenants, partitions = (self._codes[name] for name in CATEGORICAL[:3])
        columns: list[Sequence[float] | NDArray[np.int64]] = [
            [users.get(job.user, np.nan) for job in jobs],
            [tenants.get(job.tenant, np.nan) for job in jobs],
            [partitions.get(job.partition, np.nan) for job in jobs],
            [self._cluster(job.name) for job in jobs],
            [_number(job.num_gpus) for job in jobs],
            [_number(job.num_cpus) for job in jobs],
            [_number(job.num_nodes) for job in jobs],
            [_number(job.time_limit_s) for job in jobs],
            *_calendar([job.submit_time for job in jobs]),
        ]
        history = np.array([look.history for look in looks], dtype=np.float64)
        return np.column_stack((*columns, history.reshape(len(looks), len(HISTORY))))

    def _cluster(self, name: str) -> float:
        mask = mask_of(bounded(name))
        if mask not in self._clusters:
            if len(self._clusters) >= MAX_MASKS:
                self._clusters.clear()  # a cache: bounded, rebuilt on demand
            found = nearest(mask, self._leaders) if mask else None
            self._clusters[mask] = np.nan if found is None else float(found)
        return self._clusters[mask]

    def to_json(self) -> dict[str, Any]:
        """The learnt categories as JSON values."""
        return {"codes": self._codes, "leaders": self._leaders}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> FeatureEncoder:
        """The encoder that `to_json` described. Raises KeyError, TypeError or ValueError."""
        codes = {
            str(category): {str(value): _code(code) for value, code in dict(values).items()}
            for category, values in dict(state["codes"]).items()
        }
        leaders = [str(leader) for leader in list(state["leaders"])[:MAX_CATEGORIES]]
        return cls(codes, leaders)


def _calendar(submit_times: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Month, weekday (Monday = 0), hour and minute of epoch times, in UTC."""
    bounded_times = np.array([min(max(time, 0), _LAST_TIME) for time in submit_times], dtype="i8")
    days, seconds = np.divmod(bounded_times, DAY_S)
    yield days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    yield (days + 3) % 7  # the epoch began on a Thursday
    yield seconds // 3600
    yield seconds // 60 % 60


def _number(value: int | None) -> float:
    return np.nan if value is None else float(value)


def _masks(names: Mapping[str, int]) -> Counter[str]:
    """How often each masked name comes."""
    counts: Counter[str] = Counter()
    for name, count in names.items():
        if name:
            counts[mask_of(name)] += count
    return counts


def _codes(values: Iterable[str]) -> dict[str, int]:
    return {value: code for code, value in enumerate(_frequent(Counter(values), MAX_CATEGORIES))}


def _frequent(counts: Mapping[str, int], limit: int) -> list[str]:
    """The `limit` most frequent values; equally frequent ones in alphabetical order."""
    return sorted(counts, key=lambda value: (-counts[value], value))[:limit]


def _code(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_CATEGORIES:
        raise ValueError(f"{value!r} is no category code")
    return value
