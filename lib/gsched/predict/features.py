"""Jobs as rows of numbers for the regression: categories, counts, limits, calendar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.job import UNLIMITED_S
from gsched.model.names import masked
from gsched.predict.attributes import JobAttributes
from gsched.predict.names import nearest

CATEGORICAL = ("user", "tenant", "partition", "name_cluster")
NUMERIC = ("num_gpus", "num_cpus", "num_nodes", "time_limit_s")
CALENDAR = ("month", "weekday", "hour", "minute")  # of the first submission, UTC
FEATURES = CATEGORICAL + NUMERIC + CALENDAR

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
        for mask in _frequent((masked(job.name) for job in jobs), MAX_MASKS):
            if len(leaders) < MAX_CATEGORIES and nearest(mask, leaders) is None:
                leaders.append(mask)
        return cls(codes, leaders)

    def matrix(self, jobs: Sequence[JobAttributes]) -> NDArray[np.float64]:
        """One row a job, one column a name of FEATURES, NaN for an unknown category."""
        rows = [self._row(job) for job in jobs]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(FEATURES))

    def _row(self, job: JobAttributes) -> list[float]:
        submitted = datetime.fromtimestamp(min(max(job.submit_time, 0), _LAST_TIME), UTC)
        return [
            self._codes["user"].get(job.user, np.nan),
            self._codes["tenant"].get(job.tenant, np.nan),
            self._codes["partition"].get(job.partition, np.nan),
            self._cluster(job.name),
            job.num_gpus,
            job.num_cpus,
            job.num_nodes,
            UNLIMITED_S if job.time_limit_s is None else job.time_limit_s,
            submitted.month,
            submitted.weekday(),
            submitted.hour,
            submitted.minute,
        ]

    def _cluster(self, name: str) -> float:
        mask = masked(name)
        if mask not in self._clusters:
            if len(self._clusters) >= MAX_MASKS:
                self._clusters.clear()  # a cache: bounded, rebuilt on demand
            found = nearest(mask, self._leaders)
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


def _codes(values: Iterable[str]) -> dict[str, int]:
    return {value: code for code, value in enumerate(_frequent(values, MAX_CATEGORIES))}


def _frequent(values: Iterable[str], limit: int) -> list[str]:
    """The `limit` most frequent values; equally frequent ones in alphabetical order."""
    counts = Counter(values)
    return sorted(counts, key=lambda value: (-counts[value], value))[:limit]


def _code(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_CATEGORIES:
        raise ValueError(f"{value!r} is no category code")
    return value
