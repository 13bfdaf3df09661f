"""What live jobs have behind them and before them, put on their views: for policies that ask.

Of a job that was requeued, the GPU-time of its earlier attempts; of one that tells (heartbeats),
how far it is and how fast it goes; of one that has never run, what its profile runs say. Views on
which nothing has changed are the objects of the round before.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace

from gsched.daemon.heartbeat_sweep import Asked, HeartbeatSweep, Read
from gsched.daemon.profile_book import ProfileBook
from gsched.daemon.told_speed import JobWatch, Telling
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState, JobView
from gsched.model.jobtable import JobTable

log = logging.getLogger("gsched.daemon")

RunBefore = Callable[[Mapping[JobKey, int]], Mapping[JobKey, int]]
"""Job → submit time of its present attempt ↦ seconds for which the attempts before have run."""

_ASK_AGAIN_S = 60  # the history learns late of what has ended
_ASKED_FOR_S = 600
_MOST_USERS = 200
_LATEST = 5

_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})


class ProgressBook:
    """Keeps what was seen of the jobs in the queue from round to round."""

    def __init__(self, sweep: HeartbeatSweep, run_before: RunBefore) -> None:
        self._sweep = sweep
        self._run_before = run_before
        self._watches: dict[JobKey, JobWatch] = {}
        self._doubts: dict[JobKey, str] = {}
        self._counted: set[tuple[JobKey, int]] = set()
        self._restarts_s: dict[str, list[float]] = {}  # by user, the latest
        self._before: dict[tuple[JobKey, int], tuple[int, int, int]] = {}  # seconds, first, asked
        self._made: dict[JobKey, tuple[JobView, JobView]] = {}
        self._profiles = ProfileBook()
        self._problem = ""

    def fill(
        self, state: ClusterState, folder: str, *, goes_by_profiles: bool = False
    ) -> ClusterState:
        """`state` with what is known of its jobs' progress; heartbeats lie in `folder`, "" = none.

        Never raises: what cannot be read is not known.
        """
        views = state.jobs.views
        asked = [Asked(v.key, _file_job(v), v.user) for v in views if _may_tell(v)]
        asked += self._profiles.ask(views, goes_by_profiles)
        reads = self._sweep.read(folder, asked)
        told = self._told(state, reads)
        profiles = self._profiles.filled(reads, state.as_of, self._sweep.is_behind)
        before = self._seconds_before(state)
        made = {}
        for view in views:
            telling, run_s = told.get(view.key), before.get(view.key)
            begun = profiles.get(view.key, view)
            if begun is not view or telling is not None or run_s is not None:
                new = _with(begun, telling, run_s, state.as_of)
                was = self._made.get(view.key)
                made[view.key] = (view, was[1] if was and was[1] == new else new)
        self._made = made
        if not made:
            return state
        filled = [made[v.key][1] if v.key in made else v for v in views]
        return replace(state, jobs=JobTable.from_views(filled, state.jobs))

    @property
    def restart_s(self) -> float | None:
        """What a restart costs a job on its GPUs: the median of users, each by its own median, so
        that nobody's jobs speak for all. None where none was seen.
        """
        if not self._restarts_s:
            return None
        return statistics.median(map(statistics.median, self._restarts_s.values()))

    # -- heartbeats ----------------------------------------------------------------------------

    def _told(self, state: ClusterState, reads: Mapping[JobKey, Read]) -> dict[JobKey, Telling]:
        jobs = state.jobs
        self._watches = {key: watch for key, watch in self._watches.items() if key in jobs}
        self._doubts = {key: doubt for key, doubt in self._doubts.items() if key in jobs}
        self._counted = {counted for counted in self._counted if counted[0] in jobs}
        told = {}
        for key, read in reads.items():
            if key not in jobs:  # a profile run
                continue
            view = jobs.view(key)
            watch = self._watches.setdefault(key, JobWatch())
            telling = watch.take(read.record, view, read.at, max(read.at, state.as_of))
            if telling is not None:
                told[key] = telling
            self._note_restart(view, watch)
            self._tell_doubt(view, watch)
        return told

    def _note_restart(self, view: JobView, watch: JobWatch) -> None:
        attempt = (view.key, view.restarts)
        if watch.restart_s is None or attempt in self._counted:
            return
        self._counted.add(attempt)
        latest = [*self._restarts_s.pop(view.user, []), watch.restart_s]
        self._restarts_s[view.user] = latest[-_LATEST:]  # the last one of the users, too
        if len(self._restarts_s) > _MOST_USERS:
            del self._restarts_s[next(iter(self._restarts_s))]

    def _tell_doubt(self, view: JobView, watch: JobWatch) -> None:
        if watch.doubt and self._doubts.get(view.key) != watch.doubt:
            log.warning("job %s is not believed: %s", view.key.slurm_id, watch.doubt)
        self._doubts[view.key] = watch.doubt

    # -- attempts before -----------------------------------------------------------------------

    def _seconds_before(self, state: ClusterState) -> dict[JobKey, int]:
        """Of jobs that were requeued. The history is asked once for each attempt, and again for a
        while, because what has ended reaches it late.
        """
        now = state.as_of
        again = [v for v in state.jobs.views if v.restarts and v.request.gpus.minimum]
        slots = {(v.key, v.attempt) for v in again}
        self._before = {slot: known for slot, known in self._before.items() if slot in slots}
        due = {key: attempt for key, attempt in slots if self._is_due((key, attempt), now)}
        if due:
            found = self._asked(due)
            for key, attempt in due.items():
                seconds, first, _ = self._before.get((key, attempt), (0, now, now))
                self._before[key, attempt] = (max(seconds, found.get(key, 0)), first, now)
        return {key: seconds for (key, _), (seconds, _, _) in self._before.items() if seconds}

    def _is_due(self, slot: tuple[JobKey, int], now: int) -> bool:
        known = self._before.get(slot)
        if known is None:
            return True
        _, first, asked = known
        return asked - first < _ASKED_FOR_S and now - asked >= _ASK_AGAIN_S

    def _asked(self, due: Mapping[JobKey, int]) -> Mapping[JobKey, int]:
        try:
            found = self._run_before(due)
        except GschedError as error:
            if error.message != self._problem:
                log.warning("what requeued jobs have run is not known: %s", error.message)
            self._problem = error.message
            return {}
        self._problem = ""
        return found


def _with(view: JobView, telling: Telling | None, run_s: int | None, now: int) -> JobView:
    filled = view
    if telling is not None:
        predictions = (*view.predictions, *telling.predictions)
        filled = replace(filled, progress=telling.progress, predictions=predictions)
    if run_s is not None and view.attained_gpu_s is None:
        present_s = 0
        if view.state in _RUNS and view.allocation is not None:
            present_s = max(0, now - view.allocation.start_time)
        gpu_s = float(view.request.gpus.minimum * (run_s + present_s))
        filled = replace(filled, attained_gpu_s=gpu_s)
    return filled


def _may_tell(view: JobView) -> bool:
    """Whether it runs, or waits after it has run; arrays that are not split have run nothing."""
    waits_again = view.state is JobState.PENDING and view.restarts > 0
    return view.waiting_tasks == 1 and (view.state in _RUNS or waits_again)


def _file_job(view: JobView) -> str:
    """The id by which a job names its heartbeat; see ``app.told_progress.file_job``."""
    key = view.key
    if key.array_task is not None:
        return f"{key.job_id}_{key.array_task}"
    return str(key.job_id + (key.het_offset or 0))
