"""What gsched answers to a request: from the daemon's status file, or asked over its socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gsched.app.aside import begin
from gsched.app.submitted import Submitted
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.query_client import QueryClient
from gsched.daemon.request_answers import ACCEPTED, REFUSED
from gsched.daemon.status_file import JobIndex, read_status, silent_s
from gsched.errors import GschedError, TryAgainError
from gsched.explain.policy_reasons import prediction_source
from gsched.explain.words import short_time
from gsched.model.job import Wants
from gsched.slurm.records import SlurmConfig

GRACE_S = 3.0
"""For so long a place to look at may yet come to be, where there is none."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_LOOK_S = 0.25
"""So long one place may hold up the looks at another; its answer is taken when it comes."""
_ASK_S = 5.0
_LEAST_S = 0.2
_NOTHING = Wants()
_WANTS = {
    "none": "--gs-none",
    "deadline": "--gs-deadline",
    "soft_deadlines": "--gs-soft-deadline",
    "phases": "--gs-phase",
    "shareable": "--gs-shareable",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """gsched's answer about one job.

    `accepted` False: something that was asked for is refused (exit code 3). `lines` say it to
    people, without a prefix; `document` is the job's entry in the status file.
    """

    accepted: bool
    lines: tuple[str, ...]
    document: dict[str, Any]


def await_answer(
    settings: Settings, job: Submitted, wait_s: float, asked: Wants = _NOTHING
) -> Answer:
    """gsched's answer about the job that has just been submitted.

    `asked` is what the submission asked for; an answer to a job whose request did not arrive is a
    refusal. Whatever may pass (a daemon that restarts or is busy, a file that is old) is asked
    again until `wait_s` seconds are over; the looks end after GRACE_S already where there is no
    place to look at. Raises TryAgainError (exit code 75) that says why there is no answer.
    """
    until = time.monotonic() + wait_s
    config = _config(settings, until)
    if job.cluster not in (None, config.cluster):
        raise TryAgainError(
            f"no answer: the job is on cluster {job.cluster}, "
            f"and this host's daemon on {config.cluster}"
        )
    file = _FileSource(settings, config.cluster)
    askings = [_Asking(file, job), _Asking(_SocketSource(settings, config, until), job)]
    grace_until = min(until, time.monotonic() + GRACE_S)
    pause_s = _FIRST_PAUSE_S
    while True:
        looks = []
        for asking in askings:
            look = asking.newest()
            if look.job is not None:
                return _answer(look.job, asked)
            looks.append(look)
        ends = grace_until if all(look.is_nowhere for look in looks) else until
        left_s = ends - time.monotonic()
        if left_s <= 0:
            raise _no_answer(looks, job, wait_s)
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


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


def _no_answer(looks: list[_Look], job: Submitted, wait_s: float) -> TryAgainError:
    why = "; ".join(dict.fromkeys(look.why for look in looks if look.why))
    if all(look.is_nowhere for look in looks):
        return TryAgainError(f"no answer: {why}", "the job is submitted; ask an administrator")
    comes_later = any(look.comes_later for look in looks)
    hint = f"`gsched show {job.job_id}` has it later, while the job waits" if comes_later else ""
    return TryAgainError(f"no answer within {wait_s:g} s: {why}", hint)


# -- where to look -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a place: the job's entry, or why there is none.

    `is_nowhere`: there is no such place. `comes_later`: a daemon works that will see the job.
    """

    job: dict[str, Any] | None
    why: str = ""
    is_nowhere: bool = False
    comes_later: bool = False


_Source = Callable[[Submitted], _Look]


class _Asking:
    """A place that is looked at again and again, beside the others."""

    def __init__(self, source: _Source, job: Submitted) -> None:
        self._source = source
        self._job = job
        self._pending: Future[_Look] | None = None
        self._newest = _Look(None, "Slurm's files or the network do not answer")

    def newest(self) -> _Look:
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

    def __call__(self, job: Submitted) -> _Look:
        try:
            found = self._path.stat()
            with self._path.open("rb"):
                pass  # one that may not be read is told apart from one that makes no sense
        except FileNotFoundError:
            return _Look(None, f"no gsched daemon has answered here (no {self._path})", True)
        except OSError as error:
            return _Look(None, f"cannot read {self._path}: {error.strerror}")
        mark = (found.st_ino, found.st_mtime_ns)
        if mark != self._mark:
            self._document, self._mark = read_status(self._path), mark
        if self._document is None:
            return _Look(None, f"{self._path} is damaged, or of another version of gsched")
        if self._document.get("private") and self._document.get("cluster") == self._cluster:
            hint = "" if self._has_socket else ", and daemon.query_address names no socket to ask"
            why = f"this cluster hides users' jobs (PrivateData){hint}"
            return _Look(None, why, is_nowhere=True)
        return _look_at(self._document, job, self._cluster)


class _SocketSource:
    """The daemon's query socket."""

    def __init__(self, settings: Settings, config: SlurmConfig, until: float) -> None:
        self._settings = settings
        self._config = config
        self._until = until

    def __call__(self, job: Submitted) -> _Look:
        left_s = max(_LEAST_S, self._until - time.monotonic())
        try:
            client = QueryClient.for_site(self._settings.daemon, self._config)
            if client is None:
                return _Look(None, is_nowhere=True)
            document = client.ask(job.job_id, timeout_s=min(_ASK_S, left_s))
        except GschedError as error:
            return _Look(None, error.message)
        return _look_at(document, job, self._config.cluster)


def _look_at(document: dict[str, Any], job: Submitted, cluster: str) -> _Look:
    theirs = document.get("cluster")
    if theirs != cluster:
        return _Look(None, f"the daemon that answers is of cluster {theirs}, not {cluster}")
    interval_s = document["interval_s"]
    if silent := silent_s(document, now()):
        return _Look(None, f"the gsched daemon has been silent for {silent:.0f} s")
    name = JobIndex(document["jobs"]).find(job.job_id)
    if name is None:
        every = f"it looks every {interval_s:g} s"
        why = f"the daemon has not seen the job among those that wait or run; {every}"
        return _Look(None, why, comes_later=True)
    found = document["jobs"][name]
    if not job.is_attempt(found["submit_time"]):
        when = _moment(found["submit_time"])
        return _Look(None, f"the daemon knows another job of that id, submitted {when}")
    return _Look({"job": job.job_id, "policy": document.get("policy"), **found})


# -- in words ------------------------------------------------------------------------------------


def _answer(job: dict[str, Any], asked: Wants) -> Answer:
    accepted = bool(job.get("accepted", True))
    lines = outcome_words(job)
    if problem := job.get("request_problem"):
        lines.append(f"the request in the job's comment is ignored: {problem}")
    elif asked != _NOTHING and "request" not in job:
        accepted = False
        lines.append(
            "refused: the request did not arrive, something here has changed the job's comment"
        )
    if job.get("excluded") and not any(
        found["want"] == "none" for found in job.get("outcomes", [])
    ):
        lines.append(f"not moved: {job['excluded']['detail']}")
    if duration := job.get("duration_s"):
        lines.append(_prediction_line(duration))
    elif job.get("state", "PENDING") == "PENDING":
        lines.append("no prediction: nothing is known of jobs like this one")
    else:
        lines.append("the job runs already")
    return Answer(accepted, tuple(lines), job)


def outcome_words(job: dict[str, Any]) -> list[str]:
    """What became of each thing that was asked for, by a job's entry in the status file."""
    return [_outcome_line(found, job) for found in job.get("outcomes", [])]


def _outcome_line(found: dict[str, Any], job: dict[str, Any]) -> str:
    line = f"{_WANTS.get(found['want'], found['want'])}{_asked_time(found['want'], job)}"
    if found["outcome"] == REFUSED:
        line += f" refused: {found['reason']}"
        if "earliest" in found:
            line += f"; earliest {_moment(found['earliest'])}"
        return line
    if found["outcome"] == ACCEPTED:
        line += f" accepted: {found['reason']}"
        if "finish_time" in found:
            line += f", should end {_moment(found['finish_time'])}"
        if "probability" in found:
            line += f" (probability {found['probability']:.2f})"
        return line
    return f"{line} not used: {found['reason']}"


def _asked_time(want: str, job: dict[str, Any]) -> str:
    deadline = job.get("request", {}).get("wants", {}).get("deadline")
    return f" {_moment(deadline)}" if want == "deadline" and isinstance(deadline, int) else ""


def _prediction_line(duration: dict[str, Any]) -> str:
    source = prediction_source(str(duration.get("source")), duration["similar_jobs"])
    text = f"predicted run {short_time(duration['mean'])}"
    quantiles = {round(p, 3): value for p, value in duration["quantiles"]}
    if 0.1 in quantiles and 0.9 in quantiles:
        span = f"80 %: {short_time(quantiles[0.1])}–{short_time(quantiles[0.9])}"
        return f"{text} ({span}, {source})"
    return f"{text} ({source})"


def _moment(epoch: float) -> str:
    """Local time with its offset."""
    return datetime.fromtimestamp(epoch).astimezone().isoformat(timespec="minutes")
