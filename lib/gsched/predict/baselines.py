"""Predictions that need no model: what the estimators are measured against.

``mean`` is the mean run time of all jobs that have ended, ``user-mean`` that of the user's,
``last-two`` the mean of the user's last two to end (Tsafrir, Etsion, Feitelson, IEEE TPDS 18,
2007), ``time-limit`` what Slurm's own backfill takes every job for. Who has no jobs of his own yet,
and by ``last-two`` who has but one, gets his time limit, as in that paper; without a limit the mean
of all; before anything has ended a default. No prediction exceeds the time limit, at which Slurm
ends a job.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.history import PastJob
from gsched.predict.attributes import JobAttributes

NAMES = ("user-mean", "last-two", "mean", "time-limit")
DEFAULT_S = 3600.0
"""Taken for a job without a time limit before any job has ended."""


class Baselines:
    """Running means; what has been observed is what is known."""

    def __init__(self, jobs: Iterable[PastJob] = (), default_s: float = DEFAULT_S) -> None:
        self._default_s = default_s
        self._total_s, self._count = 0.0, 0
        self._users: dict[str, _User] = {}
        for job in jobs:
            self.observe(job)

    def observe(self, job: PastJob) -> None:
        """Take a job in, in the order in which they ended."""
        self._users.setdefault(job.user, _User()).observe(job.duration_s)
        self._total_s, self._count = self._total_s + job.duration_s, self._count + 1

    def durations_s(self, job: JobAttributes) -> dict[str, float]:
        """Seconds by the names of NAMES."""
        limit_s = job.time_limit_s
        overall_s = self._total_s / self._count if self._count else None
        unknown_s = _first_known(limit_s, overall_s, self._default_s)
        user = self._users.get(job.user)
        told = {
            "user-mean": unknown_s if user is None else user.mean_s,
            "last-two": _first_known(user.last_two_s if user else None, unknown_s),
            "mean": _first_known(overall_s, unknown_s),
            "time-limit": unknown_s,
        }
        return {name: told[name] if limit_s is None else min(told[name], limit_s) for name in NAMES}


class _User:
    __slots__ = ("_before_s", "_count", "_last_s", "_total_s")

    def __init__(self) -> None:
        self._total_s, self._count = 0.0, 0
        self._last_s = self._before_s = 0

    def observe(self, duration_s: int) -> None:
        self._total_s, self._count = self._total_s + duration_s, self._count + 1
        self._last_s, self._before_s = duration_s, self._last_s

    @property
    def mean_s(self) -> float:
        return self._total_s / self._count

    @property
    def last_two_s(self) -> float | None:
        """None until two have ended."""
        return (self._last_s + self._before_s) / 2 if self._count > 1 else None


def _first_known(*values: float | None) -> float:
    return next(value for value in values if value is not None)
