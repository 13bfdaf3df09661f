"""What gsched answers to a request: from the daemon's status file, or asked over its socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.query_client import QueryClient
from gsched.daemon.request_answers import ACCEPTED, REFUSED
from gsched.daemon.status_file import find_job, read_status
from gsched.errors import GschedError, TryAgainError, UnavailableError
from gsched.explain.policy_reasons import prediction_source
from gsched.model.job import Wants

GRACE_S = 3.0
"""For so long an absent daemon may yet come; after that nothing is waited for."""

STALE_ROUNDS = 10
"""A daemon that has been silent for so many of its rounds is taken for an absent one."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
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
    settings: Settings,
    slurm_id: str,
    wait_s: float,
    cluster: str | None = None,
    asked: Wants = _NOTHING,
) -> Answer:
    """gsched's answer about the job that has just been submitted as `slurm_id`.

    `cluster` None: the local one. `asked` is what the submission asked for; an answer to a job
    whose request did not arrive is a refusal. Raises TryAgainError (exit code 75) that says why
    when no answer came within `wait_s` seconds; after GRACE_S already when there is no daemon.
    """
    until = time.monotonic() + wait_s
    try:
        sources = _sources(settings, cluster)
    except GschedError as error:
        raise TryAgainError(f"no answer: {error.message}", error.hint) from None
    grace_until = min(until, time.monotonic() + GRACE_S)
    pause_s = _FIRST_PAUSE_S
    while True:
        looks = [source(slurm_id) for source in sources]
        for look in looks:
            if look.job is not None:
                return _answer(look.job, asked)
        left = (
            grace_until if all(look.is_hopeless for look in looks) else until
        ) - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(pause_s, left))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    why = "; ".join(dict.fromkeys(look.why for look in looks))
    if all(look.is_hopeless for look in looks):
        raise TryAgainError(f"no answer: {why}", "the job is submitted; ask an administrator")
    raise TryAgainError(
        f"no answer within {wait_s:g} s: {why}", f"`gsched show {slurm_id}` has it later"
    )


# -- where to look -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a source: the job's entry, or why there is none; `is_hopeless`: no daemon."""

    job: dict[str, Any] | None
    why: str = ""
    is_hopeless: bool = False


_Source = Callable[[str], _Look]


def _sources(settings: Settings, cluster: str | None) -> list[_Source]:
    """Where this cluster's daemon answers, the quickest first. Raises GschedError."""
    config = slurm_client(settings).config()
    here = config.cluster
    if cluster not in (None, here):
        raise UnavailableError(f"the job is on cluster {cluster}, and this host's daemon on {here}")
    file = _FileSource(settings.status_file, here, bool(settings.daemon.query_address))
    client = QueryClient.for_site(settings.daemon, config)
    return [file] if client is None else [_SocketSource(client, here), file]


class _FileSource:
    """The daemon's public status file; read again only when it has been replaced."""

    def __init__(self, path: Path, cluster: str, has_socket: bool) -> None:
        self._path = path
        self._cluster = cluster
        self._has_socket = has_socket
        self._mark: tuple[int, int] | None = None
        self._document: dict[str, Any] | None = None

    def __call__(self, slurm_id: str) -> _Look:
        try:
            found = self._path.stat()
            with self._path.open("rb"):
                pass  # one that may not be read is told apart from one that makes no sense
        except FileNotFoundError:
            return _Look(None, f"no gsched daemon has answered here (no {self._path})", True)
        except OSError as error:
            return _Look(None, f"cannot read {self._path}: {error.strerror}", True)
        mark = (found.st_ino, found.st_mtime_ns)
        if mark != self._mark:
            self._document, self._mark = read_status(self._path), mark
        if self._document is None:
            return _Look(None, f"{self._path} is damaged, or of another version of gsched", True)
        look = _look_at(self._document, slurm_id, self._cluster)
        if self._document.get("private") and not look.is_hopeless:
            hint = "" if self._has_socket else ", and daemon.query_address names no socket to ask"
            return _Look(None, f"this cluster hides users' jobs (PrivateData){hint}", True)
        return look


class _SocketSource:
    """The daemon's query socket."""

    def __init__(self, client: QueryClient, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    def __call__(self, slurm_id: str) -> _Look:
        try:
            document = self._client.ask(slurm_id)
        except GschedError as error:
            return _Look(None, error.message, True)
        return _look_at(document, slurm_id, self._cluster)


def _look_at(document: dict[str, Any], slurm_id: str, cluster: str) -> _Look:
    theirs = document.get("cluster")
    if theirs != cluster:
        return _Look(None, f"the daemon that answers is of cluster {theirs}, not {cluster}", True)
    interval_s = document["interval_s"]
    age_s = now() - document["as_of"]
    if age_s > STALE_ROUNDS * interval_s:
        return _Look(None, f"the gsched daemon has been silent for {age_s:.0f} s", True)
    job = find_job(document["jobs"], slurm_id)
    if job is None:
        every = f"it looks every {interval_s:g} s"
        return _Look(None, f"the daemon has not seen the job among those that wait or run; {every}")
    return _Look({"job": slurm_id, "policy": document.get("policy"), **job})


# -- in words ------------------------------------------------------------------------------------


def _answer(job: dict[str, Any], asked: Wants) -> Answer:
    accepted = bool(job.get("accepted", True))
    lines = [_outcome_line(found, job) for found in job.get("outcomes", [])]
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
    text = f"predicted run {_clock(duration['mean'])}"
    quantiles = {round(p, 3): value for p, value in duration["quantiles"]}
    if 0.1 in quantiles and 0.9 in quantiles:
        span = f"80 %: {_clock(quantiles[0.1])}–{_clock(quantiles[0.9])}"
        return f"{text} ({span}, {source})"
    return f"{text} ({source})"


def _moment(epoch: float) -> str:
    """Local time with its offset."""
    return datetime.fromtimestamp(epoch).astimezone().isoformat(timespec="minutes")


def _clock(seconds: float) -> str:
    """``1:02:03`` hours, minutes and seconds, with days in front as Slurm has them."""
    minutes, secs = divmod(round(seconds), 60)
    hours, mins = divmod(minutes, 60)
    days, hrs = divmod(hours, 24)
    return f"{days}-{hrs:02}:{mins:02}:{secs:02}" if days else f"{hrs}:{mins:02}:{secs:02}"
