"""Where gsched's answer about a new job is looked for: the daemon's status file and its socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsched.app.aside import begin
from gsched.app.submitted import Submitted
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.query_client import NobodyListensError, QueryClient
from gsched.daemon.status_file import JobIndex, read_status, silent_s
from gsched.errors import GschedError, TryAgainError
from gsched.explain.words import moment
from gsched.slurm.records import SlurmConfig

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_LOOK_S = 0.25
"""So long one place may hold up the looks at another; its answer is taken when it comes."""
_ASK_S = 5.0
_LEAST_S = 0.2


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a place: the job's entry, or why there is none.

    `is_nowhere`: there is no such place. `comes_later`: a daemon works that will see the job.
    `is_deserted`: nobody listens where the daemon should; it does not run, or not yet again.
    """

    job: dict[str, Any] | None
    why: str = ""
    is_nowhere: bool = False
    comes_later: bool = False
    is_deserted: bool = False


class Watch:
    """Looks at each place for one job, again and again. Times are of the monotonic clock."""

    def __init__(self, settings: Settings, job: Submitted, until: float) -> None:
        """Raises TryAgainError when Slurm does not tell its configuration until then, or the job is
        not on this host's cluster.
        """
        config = _config(settings, until)
        if job.cluster not in (None, config.cluster):
            raise TryAgainError(
                f"no answer: the job is on cluster {job.cluster}, "
                f"and this host's daemon on {config.cluster}"
            )
        file = _FileSource(settings, config.cluster)
        socket = _SocketSource(settings, config, until)
        self._askings = [_Asking(file, job), _Asking(socket, job)]
        self._pause_s = _FIRST_PAUSE_S

    def looks(self, *, everywhere: bool = False) -> list[Look]:
        """The newest look at each place, in order; up to the first that has the job, or
        `everywhere`.
        """
        found = []
        for asking in self._askings:
            found.append(asking.newest())
            if found[-1].job is not None and not everywhere:
                break
        return found

    def pause(self, until: float) -> bool:
        """Wait for the next looks, longer each time; False when the time is over."""
        left_s = until - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True


def _config(settings: Settings, until: float) -> SlurmConfig:
    """Slurm's configuration, asked for again until then."""
    while True:
        left_s = max(_LEAST_S, until - time.monotonic())
        timeout_s = min(settings.slurm.command_timeout_s, left_s)
        hurried = replace(settings, slurm=replace(settings.slurm, command_timeout_s=timeout_s))
        try:
            return slurm_client(hurried).config()
        except GschedError as error:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TryAgainError(f"no answer: {error.message}") from None
        time.sleep(min(_LONGEST_PAUSE_S, left_s))


_Source = Callable[[Submitted], Look]


class _Asking:
    """A place that is looked at again and again, beside the others."""

    def __init__(self, source: _Source, job: Submitted) -> None:
        self._source = source
        self._job = job
        self._pending: Future[Look] | None = None
        self._newest = Look(None, "Slurm's files or the network do not answer")

    def newest(self) -> Look:
        """The newest look; one that does not come soon goes on meanwhile."""
        if self._pending is None:
            self._pending = begin(lambda: self._source(self._job))
        try:
            self._newest = self._pending.result(timeout=_LOOK_S)
        except TimeoutError:
            return self._newest
        self._pending = None
        return self._newest


class _FileSource:
    """The daemon's public status file; read again only when it has been replaced."""

    def __init__(self, settings: Settings, cluster: str) -> None:
        self._path: Path = settings.status_file
        self._cluster = cluster
        self._has_socket = bool(settings.daemon.query_address)
        self._mark: tuple[int, int] | None = None
        self._document: dict[str, Any] | None = None

    def __call__(self, job: Submitted) -> Look:
        try:
            found = self._path.stat()
            with self._path.open("rb"):
                pass  # one that may not be read is told apart from one that makes no sense
        except FileNotFoundError:
            return Look(None, f"no gsched daemon has answered here (no {self._path})", True)
        except OSError as error:
            return Look(None, f"cannot read {self._path}: {error.strerror}")
        mark = (found.st_ino, found.st_mtime_ns)
        if mark != self._mark:
            self._document, self._mark = read_status(self._path), mark
        if self._document is None:
            return Look(None, f"{self._path} is damaged, or of another version of gsched")
        if self._document.get("private") and self._document.get("cluster") == self._cluster:
            hint = "" if self._has_socket else ", and daemon.query_address names no socket to ask"
            why = f"this cluster hides users' jobs (PrivateData){hint}"
            return Look(None, why, is_nowhere=True)
        return _look_at(self._document, job, self._cluster)


class _SocketSource:
    """The daemon's query socket."""

    def __init__(self, settings: Settings, config: SlurmConfig, until: float) -> None:
        self._settings = settings
        self._config = config
        self._until = until

    def __call__(self, job: Submitted) -> Look:
        left_s = max(_LEAST_S, self._until - time.monotonic())
        try:
            client = QueryClient.for_site(self._settings.daemon, self._config)
            if client is None:
                return Look(None, is_nowhere=True)
            document = client.ask(job.job_id, timeout_s=min(_ASK_S, left_s))
        except NobodyListensError as error:
            return Look(None, error.message, is_deserted=True)
        except GschedError as error:
            return Look(None, error.message)
        return _look_at(document, job, self._config.cluster)


def _look_at(document: dict[str, Any], job: Submitted, cluster: str) -> Look:
    theirs = document.get("cluster")
    if theirs != cluster:
        return Look(None, f"the daemon that answers is of cluster {theirs}, not {cluster}")
    interval_s = document["interval_s"]
    if silent := silent_s(document, now()):
        return Look(None, f"the gsched daemon has been silent for {silent:.0f} s")
    name = JobIndex(document["jobs"]).find(job.job_id)
    if name is None:
        every = f"it looks every {interval_s:g} s"
        why = f"the daemon has not seen the job among those that wait or run; {every}"
        return Look(None, why, comes_later=True)
    found = document["jobs"][name]
    if not job.is_attempt(found["submit_time"]):
        when = moment(found["submit_time"], "minutes")
        return Look(None, f"the daemon knows another job of that id, submitted {when}")
    return Look({"job": job.job_id, "policy": document.get("policy"), **found})
