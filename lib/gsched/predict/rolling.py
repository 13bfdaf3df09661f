"""The rolling estimate P_R: what this user's last runs like this one took (Helios, algorithm 1).

The first rule that applies:

1. new user: mean of all jobs of the same size (``gpus``), else of all jobs (``all``);
2. known user with a similar name: exponentially decayed mean of those runs (``similar-name``);
3. known user: mean of the user's jobs of the same size (``user-gpus``), else of all of them
   (``user``).

Names are similar when equal; else when equal after masking; else by Levenshtein similarity.
Arithmetic means, as in the paper: ordering by expected service needs the mean, which for skewed
run times lies well above the typical run. Every window is bounded and holds the latest runs.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gsched.model.history import PastJob
from gsched.model.names import bounded, masked
from gsched.predict.attributes import JobAttributes, of_past
from gsched.predict.names import most_similar

DECAY = 0.8
"""Weight of a similar run relative to the next more recent one."""

NAME_WINDOW = 20
USER_WINDOW = 200
CLUSTER_WINDOW = 1000
MAX_NAMES = 500
"""Different names kept a user; the one that ended longest ago is forgotten first."""

QUANTILES = (0.1, 0.5, 0.9)


class Run(NamedTuple):
    """One finished run: when it ended, seconds it took, its job id."""

    end_time: int
    duration_s: int
    job_id: int


@dataclass(frozen=True, slots=True)
class Match:
    """A past run behind an estimate and its share (weights of one estimate add up to 1)."""

    run: Run
    name: str | None  # None where the estimate did not look at names
    weight: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A duration in seconds, the rule that gave it, and the runs behind it, latest first."""

    duration_s: float
    source: str
    matches: tuple[Match, ...]

    def quantiles(self) -> tuple[tuple[float, float], ...]:
        """(probability, seconds): weighted quantiles of the matched runs' durations."""
        rising = sorted(self.matches, key=lambda m: m.run.duration_s)
        return tuple((p, _weighted_quantile(rising, p)) for p in QUANTILES)


@dataclass(slots=True)
class _User:
    """Latest runs of one user: all, by size, and by (bounded) name with its masked form."""

    recent: list[Run] = field(default_factory=list)
    sizes: dict[str, list[Run]] = field(default_factory=dict)
    names: dict[str, list[Run]] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)

    def observe(self, name: str, size: str, run: Run) -> None:
        """Take a finished run in; `name` is bounded."""
        _insert(self.recent, run, USER_WINDOW)
        _insert(self.sizes.setdefault(size, []), run, USER_WINDOW)
        runs = self.names.pop(name, [])
        _insert(runs, run, NAME_WINDOW)
        self.names[name] = runs  # last in the dict: seen most recently
        if name not in self.masks:
            self.masks[name] = masked(name)
        if len(self.names) > MAX_NAMES:
            oldest = next(iter(self.names))
            del self.names[oldest], self.masks[oldest]

    def similar(self, name: str, now: int) -> list[tuple[Run, str]]:
        """Runs (with their names) that ended before `now` under the most similar names."""
        mask = self.masks.get(name) or masked(name)
        for names in self._similar_names(name, mask):
            found = [(run, n) for n in names for run in _before(self.names[n], now)]
            if found:
                found.sort(key=lambda pair: pair[0], reverse=True)
                return found[:NAME_WINDOW]
        return []

    def _similar_names(self, name: str, mask: str) -> Iterator[list[str]]:
        """Known names like `name`: equal, then equal after masking, then alike."""
        yield [name] if name in self.names else []
        yield [n for n, m in self.masks.items() if m == mask]
        yield most_similar(mask, self.masks, limit=NAME_WINDOW)


class RollingEstimator:
    """P_R over finished jobs; an estimate at `now` uses only jobs that ended before it."""

    def __init__(self) -> None:
        self._users: dict[str, _User] = {}
        self._sizes: dict[str, list[Run]] = {}
        self._recent: list[Run] = []

    @classmethod
    def fit(cls, jobs: Iterable[PastJob]) -> RollingEstimator:
        """An estimator that has observed `jobs`, given in the order in which they ended."""
        estimator = cls()
        for job in jobs:
            estimator.observe(job)
        return estimator

    def observe(self, job: PastJob) -> None:
        """Take a finished job in."""
        size = of_past(job).size
        run = Run(job.end_time, job.duration_s, job.job_id)
        _insert(self._recent, run, CLUSTER_WINDOW)
        _insert(self._sizes.setdefault(size, []), run, CLUSTER_WINDOW)
        user = self._users.setdefault(job.user, _User())
        user.observe(bounded(job.name), size, run)

    def estimate(self, job: JobAttributes, now: int) -> Estimate | None:
        """The estimate for `job` at `now`; None when no job had ended before."""
        user = self._users.get(job.user)
        if user is None or not _before(user.recent, now):
            return self._of_new_user(job, now)
        similar = user.similar(bounded(job.name), now)
        if similar:
            return _decayed(similar)
        same_size = _before(user.sizes.get(job.size, []), now)
        if same_size:
            return _averaged(same_size, "user-gpus")
        return _averaged(_before(user.recent, now), "user")

    def _of_new_user(self, job: JobAttributes, now: int) -> Estimate | None:
        same_size = _before(self._sizes.get(job.size, []), now)
        if same_size:
            return _averaged(same_size, "gpus")
        recent = _before(self._recent, now)
        return _averaged(recent, "all") if recent else None

    def to_json(self) -> dict[str, Any]:
        """The whole state as JSON values."""
        return {
            "recent": self._recent,
            "sizes": self._sizes,
            "users": {
                name: {"recent": u.recent, "sizes": u.sizes, "names": u.names}
                for name, u in self._users.items()
            },
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> RollingEstimator:
        """The estimator that `to_json` described. Raises KeyError, TypeError or ValueError."""
        estimator = cls()
        estimator._recent = _runs(state["recent"])
        estimator._sizes = _windows(state["sizes"])
        for name, stored in dict(state["users"]).items():
            names = _windows(stored["names"])
            estimator._users[str(name)] = _User(
                recent=_runs(stored["recent"]),
                sizes=_windows(stored["sizes"]),
                names=names,
                masks={n: masked(n) for n in names},
            )
        return estimator


def _insert(window: list[Run], run: Run, size: int) -> None:
    """Keep `window` in order of end times and at most `size` long."""
    bisect.insort(window, run)
    if len(window) > size:
        del window[0]


def _before(window: Sequence[Run], now: int) -> Sequence[Run]:
    return window[: bisect.bisect_left(window, (now,))]


def _decayed(similar: Sequence[tuple[Run, str]]) -> Estimate:
    weights = [DECAY**age for age in range(len(similar))]
    total = sum(weights)
    matches = tuple(
        Match(run, name, weight / total)
        for (run, name), weight in zip(similar, weights, strict=True)
    )
    mean = sum(m.weight * m.run.duration_s for m in matches)
    return Estimate(mean, "similar-name", matches)


def _averaged(runs: Sequence[Run], source: str) -> Estimate:
    matches = tuple(Match(run, None, 1 / len(runs)) for run in reversed(runs))
    return Estimate(sum(run.duration_s for run in runs) / len(runs), source, matches)


def _weighted_quantile(rising: Sequence[Match], probability: float) -> float:
    reached = 0.0
    for match in rising:
        reached += match.weight
        if reached >= probability - 1e-9:
            return float(match.run.duration_s)
    return float(rising[-1].run.duration_s)


def _windows(stored: Mapping[str, Any]) -> dict[str, list[Run]]:
    return {str(key): _runs(runs) for key, runs in dict(stored).items()}


def _runs(stored: Iterable[Any]) -> list[Run]:
    runs = [Run(*(_whole(value) for value in row)) for row in stored]
    return sorted(runs)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value
