"""The profile runs of live jobs: which are waited for, and what those that are over have said.

A job's request names them (``Wants.profiles``), and may name anybody's: only what the same user's
heartbeat folder has of them is read, and only a run of the same user is waited for. Each is read
for a short while after it is over, and then no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsched.daemon.heartbeat_sweep import Asked, Read
from gsched.daemon.profile_speed import profiled
from gsched.model.job import JobKey, JobState, JobView, Prediction

_Slot = tuple[JobKey, tuple[int, ...]]

_LATE_S, _HANGS_S = 60, 600
_MAY_BE_PROFILED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})


class ProfileBook:
    """What is known of the jobs in the queue that have profile runs, from round to round."""

    def __init__(self) -> None:
        self._under_way: set[JobKey] = set()
        self._over: dict[_Slot, int] = {}  # since when their runs are, as far as was seen
        self._said: dict[_Slot, tuple[Prediction, ...]] = {}
        self._views: list[JobView] = []

    def ask(self, views: Sequence[JobView], goes_by_profiles: bool) -> list[Asked]:
        """Note the jobs that have profile runs; the heartbeats of those that are to be read."""
        self._views = [view for view in views if goes_by_profiles and _is_profiled(view)]
        slots = set(map(_slot, self._views))
        self._over = {slot: since for slot, since in self._over.items() if slot in slots}
        self._said = {slot: said for slot, said in self._said.items() if slot in slots}
        if not self._views:
            return []
        owners = {(v.key.job_id, v.user) for v in views if v.key.array_task is None}
        self._under_way = {
            view.key
            for view in self._views
            if any((job_id, view.user) in owners for job_id in view.wants.profiles)
        }
        return [
            _of_profile(view, job_id)
            for view in self._views
            if view.key not in self._under_way and _slot(view) not in self._said
            for job_id in view.wants.profiles
        ]

    def filled(
        self, reads: Mapping[JobKey, Read], now: int, is_behind: bool
    ) -> dict[JobKey, JobView]:
        """The views of those jobs, with what their runs say once all are over.

        `is_behind`: the heartbeats could not all be read.
        """
        found = {}
        for view in self._views:
            if view.key in self._under_way or not self._is_settled(view, reads, now, is_behind):
                found[view.key] = replace(view, awaits_profile=True)
            elif said := self._said[_slot(view)]:
                found[view.key] = replace(
                    view, predictions=(*view.predictions, *_begun(said, view))
                )
        return found

    def _is_settled(
        self, view: JobView, reads: Mapping[JobKey, Read], now: int, is_behind: bool
    ) -> bool:
        """Whether no more is to come. What runs have said may be seen late on a file server, which
        may also hang.
        """
        slot = _slot(view)
        if slot in self._said:
            return True
        told = [reads.get(_of_profile(view, job_id).key) for job_id in view.wants.profiles]
        said = profiled(view, [None if read is None else read.record for read in told], now)
        since = self._over.setdefault(slot, now)
        if said or now - since >= (_HANGS_S if is_behind else _LATE_S):
            self._said[slot] = said
        return slot in self._said


def _begun(said: tuple[Prediction, ...], view: JobView) -> tuple[Prediction, ...]:
    """A job that has started has all to do from then on."""
    held = view.allocation
    return said if held is None else tuple([replace(p, as_of=held.start_time) for p in said])


def _slot(view: JobView) -> _Slot:
    return view.key, view.wants.profiles


def _is_profiled(view: JobView) -> bool:
    """Whether its profile runs may be all that it can tell: it has not come far by itself."""
    return bool(view.wants.profiles) and view.state in _MAY_BE_PROFILED and not view.restarts


def _of_profile(view: JobView, job_id: int) -> Asked:
    """One of its profile runs. The key is no job's: Slurm gives ids again."""
    key = JobKey(view.key.cluster, job_id, epoch=-view.key.epoch - 1)
    return Asked(key, str(job_id), view.user)
