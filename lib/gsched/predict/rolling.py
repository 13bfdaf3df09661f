"""The rolling estimate P_R: what this user's last runs like this one took (Helios, algorithm 1).

The first rule that applies:

1. new user: mean of all jobs of the same size (``gpus``), else of all jobs (``all``);
2. known user with a similar name: exponentially decayed mean of those runs (``similar-name``);
3. known user: mean of the user's jobs of the same size (``user-gpus``), else of all of them
   (``user``).

Names are similar when equal; else when equal after masking; else by Levenshtein similarity. A job
without a name is similar to none. Arithmetic means, as in the paper: ordering by expected service
needs the mean, which for skewed run times lies well above the typical run. Every window is bounded
and holds the latest runs.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gsched.model.history import PastJob
from gsched.model.names import bounded
from gsched.predict.attributes import JobAttributes, of_past
from gsched.predict.names import mask_of, most_similar

DECAY = 0.8
"""Weight of a similar run relative to the next more recent one."""

NAME_WINDOW = 20
USER_WINDOW = 200
CLUSTER_WINDOW = 1000
MAX_NAMES = 500
"""Different names kept a user; the one that ended longest ago is forgotten first."""

QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""The levels of a predicted duration: median, 50 %, 80 % and 96 % intervals."""

SIMILAR_NAME, USER_GPUS, USER, GPUS, ALL = "similar-name", "user-gpus", "user", "gpus", "all"
RULES = (SIMILAR_NAME, USER_GPUS, USER, GPUS, ALL)
"""From the most to the least specific."""
OWN_RULES = frozenset({SIMILAR_NAME, USER_GPUS, USER})
"""Those that go by the user's own runs."""


class Run(NamedTuple):
    """One finished run: when it ended, seconds it took, its job id."""

    end_time: int
    duration_s: int
    job_id: int


_Named = tuple[Run, str]
"""A run and its name."""


@dataclass(frozen=True, slots=True)
class Match:
    """A past run behind an estimate and its share (weights of one estimate add up to 1)."""

    run: Run
    name: str | None  # None where the estimate did not look at names
    weight: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A duration in seconds, the rule that gave it, and the runs behind it, latest first.

    `names` are those of the runs, where the rule looks at names.
    """

    duration_s: float
    source: str
    runs: tuple[Run, ...]
    names: tuple[str, ...] | None
    weights: tuple[float, ...]

    @property
    def matches(self) -> tuple[Match, ...]:
        """The runs with their names and shares."""
        names = self.names or (None,) * len(self.runs)
        return tuple(map(Match, self.runs, names, self.weights))

    def quantiles(self) -> tuple[tuple[float, float], ...]:
        """(probability, seconds): weighted quantiles of the matched runs' durations."""
        rising = sorted(zip((run.duration_s for run in self.runs), self.weights, strict=True))
        return tuple(zip(QUANTILES, _weighted_quantiles(rising), strict=True))


@dataclass(slots=True)
class _Alike:
    """The names of one masked form, and the latest runs under all of them with their names."""

    names: dict[str, None] = field(default_factory=dict)
    window: list[_Named] = field(default_factory=list)


@dataclass(slots=True)
class _User:
    """Latest runs of one user: all, by size, by request, by (bounded) name with its masked form."""

    recent: list[Run] = field(default_factory=list)
    sizes: dict[str, list[Run]] = field(default_factory=dict)
    requests: dict[str, list[Run]] = field(default_factory=dict)  # by size and time limit
    names: dict[str, list[Run]] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)
    alike: dict[str, _Alike] = field(default_factory=dict)  # by masked form

    def observe(self, name: str, size: str, request: str, run: Run) -> None:
        """Take a finished run in; `name` is bounded."""
        _insert(self.recent, run, USER_WINDOW)
        _insert(self.sizes.setdefault(size, []), run, USER_WINDOW)
        _insert_latest(self.requests, request, run)
        if len(self.requests) > MAX_NAMES:
            del self.requests[next(iter(self.requests))]
        if not name:
            return
        _insert_latest(self.names, name, run)
        if name not in self.masks:
            self.index(name)
        _insert(self.alike[self.masks[name]].window, (run, name), NAME_WINDOW)
        if len(self.names) > MAX_NAMES:
            self._forget(next(iter(self.names)))

    def index(self, name: str) -> None:
        """Find `name` by its masked form from now on."""
        mask = self.masks[name] = mask_of(name)
        self.alike.setdefault(mask, _Alike()).names[name] = None

    def gather(self) -> None:
        """Make the windows by masked form from those by name."""
        for alike in self.alike.values():
            alike.window = self._runs_under(alike.names)[-NAME_WINDOW:]

    def _forget(self, name: str) -> None:
        mask = self.masks.pop(name)
        alike = self.alike[mask]
        del self.names[name], alike.names[name]
        if not alike.names:
            del self.alike[mask]
        elif any(known == name for _, known in alike.window):
            alike.window = self._runs_under(alike.names)[-NAME_WINDOW:]

    def _runs_under(self, names: Iterable[str]) -> list[_Named]:
        return sorted((run, name) for name in names for run in self.names[name])

    def similar(self, name: str, now: int) -> Sequence[_Named]:
        """Runs (with their names) that ended before `now` under the most similar names.

        The oldest of them first.
        """
        if not name:
            return []
        same = [(run, name) for run in _before(self.names.get(name, ()), now)]
        if same:
            return same
        mask = self.masks.get(name) or mask_of(name)
        found = self._under([mask] if mask in self.alike else [], now)
        return found or self._under(most_similar(mask, list(self.alike), NAME_WINDOW), now)

    def _under(self, masks: Iterable[str], now: int) -> Sequence[_Named]:
        """The latest runs before `now` under names of these masked forms."""
        groups = [self.alike[mask] for mask in masks]
        if all(group.window[-1][0].end_time < now for group in groups):
            found = [named for group in groups for named in group.window]
            return sorted(found)[-NAME_WINDOW:] if len(groups) > 1 else found
        # asked about an earlier moment, whose latest runs the windows may have lost
        found = self._runs_under(name for group in groups for name in group.names)
        return [named for named in found if named[0].end_time < now][-NAME_WINDOW:]


class RollingEstimator:
    """P_R over finished jobs; an estimate at `now` uses only jobs that ended before it.

    Of a moment before the latest end it sees what the windows still hold.
    """

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
        attributes = of_past(job)
        size = attributes.size
        run = Run(job.end_time, job.duration_s, job.job_id)
        _insert(self._recent, run, CLUSTER_WINDOW)
        _insert(self._sizes.setdefault(size, []), run, CLUSTER_WINDOW)
        user = self._users.get(job.user)
        if user is None:
            user = self._users[job.user] = _User()
        user.observe(bounded(job.name), size, _request(attributes), run)

    def estimate(self, job: JobAttributes, now: int) -> Estimate | None:
        """The estimate for `job` at `now`; None when no job had ended before."""
        user = self._users.get(job.user)
        if user is None or not _any_before(user.recent, now):
            return self._of_new_user(job, now)
        similar = user.similar(bounded(job.name), now)
        if similar:
            return _decayed(similar)
        same_size = _before(user.sizes.get(job.size, []), now)
        if same_size:
            return _averaged(same_size, USER_GPUS)
        return _averaged(_before(user.recent, now), USER)

    def known_as(self, user: str, name: str) -> tuple[bool, str]:
        """What the names of `user` that lead to the same runs share.

        Of a name that the user has run (True) it is the name, of others (False) the masked form.
        """
        known = self._users.get(user)
        name = bounded(name)
        is_known = known is None or not name or name in known.names
        return is_known, name if is_known else mask_of(name)

    def latest(self, user: str, now: int) -> Sequence[Run]:
        """The last two runs of `user` that ended before `now`, oldest first; fewer if there are."""
        known = self._users.get(user)
        if known is None:
            return ()
        until = bisect.bisect_left(known.recent, (now,))
        return known.recent[max(0, until - 2) : until]

    def same_request(self, job: JobAttributes, now: int) -> Sequence[Run]:
        """The user's latest runs, oldest first, that asked for as much and for as long as `job`.

        Where jobs have no names, this tells a user's kinds of jobs apart (Smith, Foster, Taylor,
        JSSPP 1998).
        """
        known = self._users.get(job.user)
        return () if known is None else _before(known.requests.get(_request(job), ()), now)

    def _of_new_user(self, job: JobAttributes, now: int) -> Estimate | None:
        same_size = _before(self._sizes.get(job.size, []), now)
        if same_size:
            return _averaged(same_size, GPUS)
        recent = _before(self._recent, now)
        return _averaged(recent, ALL) if recent else None

    def to_json(self) -> dict[str, Any]:
        """The whole state as JSON values."""
        return {
            "recent": self._recent,
            "sizes": self._sizes,
            "users": {
                name: {
                    "recent": u.recent,
                    "sizes": u.sizes,
                    "requests": u.requests,
                    "names": u.names,
                }
                for name, u in self._users.items()
            },
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> RollingEstimator:
        """The estimator that `to_json` described. Raises KeyError, TypeError or ValueError."""
        estimator = cls()
        estimator._recent = _runs(state["recent"])
        estimator._sizes = _windows(state["sizes"], CLUSTER_WINDOW)
        for name, stored in dict(state["users"]).items():
            user = _User(
                recent=_runs(stored["recent"]),
                sizes=_windows(stored["sizes"], USER_WINDOW),
                requests=_windows(stored["requests"], NAME_WINDOW),
                names=_windows(stored["names"], NAME_WINDOW),
            )
            for known in user.names:
                user.index(known)
            user.gather()
            estimator._users[str(name)] = user
        return estimator


def _insert(window: list[Any], run: Run | _Named, size: int) -> None:
    """Keep `window` in order of end times and at most `size` long."""
    bisect.insort(window, run)
    if len(window) > size:
        del window[0]


def _insert_latest(windows: dict[str, list[Run]], key: str, run: Run) -> None:
    """Into the window of `key`, which becomes the last of the dict: seen most recently."""
    runs = windows.pop(key, [])
    _insert(runs, run, NAME_WINDOW)
    windows[key] = runs


def _request(job: JobAttributes) -> str:
    return f"{job.size}/{job.time_limit_s}"


def _before(window: Sequence[Run], now: int) -> Sequence[Run]:
    return window[: bisect.bisect_left(window, (now,))]


def _any_before(window: Sequence[Run], now: int) -> bool:
    return bool(window) and window[0].end_time < now


_DECAYED = [
    tuple(DECAY**age / sum(DECAY**a for a in range(count)) for age in range(count))
    for count in range(NAME_WINDOW + 1)
]
"""Weights of so many runs, latest first."""


def _decayed(similar: Sequence[_Named]) -> Estimate:
    runs, names = zip(*reversed(similar), strict=True)
    weights = _DECAYED[len(runs)]
    mean = sum([w * seconds for w, (_, seconds, _) in zip(weights, runs, strict=True)])
    return Estimate(mean, SIMILAR_NAME, runs, names, weights)


def _averaged(runs: Sequence[Run], source: str) -> Estimate:
    weights = (1 / len(runs),) * len(runs)
    mean = sum([run.duration_s for run in runs]) / len(runs)
    return Estimate(mean, source, tuple(reversed(runs)), None, weights)


def _weighted_quantiles(rising: Sequence[tuple[int, float]]) -> Iterator[float]:
    """At each of QUANTILES the first duration up to which so much weight has come together."""
    at, reached = 0, rising[0][1]
    for probability in QUANTILES:
        while reached < probability - 1e-9 and at < len(rising) - 1:
            at += 1
            reached += rising[at][1]
        yield float(rising[at][0])


def _windows(stored: Mapping[str, Any], size: int) -> dict[str, list[Run]]:
    """Windows as `observe` leaves them: with a run at least, and with no more than `size`."""
    windows = {str(key): _runs(runs) for key, runs in dict(stored).items()}
    for key, runs in windows.items():
        if not 0 < len(runs) <= size:
            raise ValueError(f"{len(runs)} runs of {key!r}, where there are 1 to {size}")
    return windows


def _runs(stored: Iterable[Any]) -> list[Run]:
    runs = [Run(*(_whole(value) for value in row)) for row in stored]
    return sorted(runs)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value
