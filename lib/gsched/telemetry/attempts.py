"""The register of a job's attempts: what began when and where, which signals came, how it ended.

A register is `FOLDER/UID/JOB.attempts` beside the job's heartbeats (see `heartbeat_file`), with one
JSON object a line, each appended by one write::

    {"event":"begin","by":"launcher","restart":1,"time":1700000000,"host":"gn01",
     "nodes":"gn[01-02]","checkpoints":"/scratch/ck","log":"/home/u/slurm-7.out.attempt-2"}
    {"event":"step","by":"hook","restart":1,"time":1700000003,"host":"gn01",
     "nodes":"gn[01-02]","step":0,"tasks":4}
    {"event":"signal","by":"launcher","restart":1,"time":1700003600,"signal":"USR1"}
    {"event":"step_end","by":"hook","restart":1,"time":1700003629,"step":0}
    {"event":"end","by":"launcher","restart":1,"time":1700003630,"exit_code":null,"signal":"TERM"}

An attempt is what Slurm counts as one: `restart` is SLURM_RESTART_COUNT. Writers are the launcher
of a job script of gsched's and, by slurm.conf or SLURM_TASK_PROLOG, the hooks
(slurm_plugins/hooks); where both tell of a beginning or an end, they tell of the same one. An
attempt without an end runs, or was lost with its node. Times are epoch seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsched.errors import DataError
from gsched.telemetry.checked import Checked
from gsched.telemetry.job_environment import job_name, own_folder, whole_number
from gsched.telemetry.own_folder import OwnFolder, write_all
from gsched.telemetry.user_folders import UserFolders

READ_BYTES = 65_536
"""So much of a register's end is read; an attempt takes about 500 bytes."""
MAX_BYTES = 4 * READ_BYTES
"""A register that has grown beyond it is cut to its last READ_BYTES when an attempt begins."""

_MAX_LINE_BYTES = 4096
_MAX_TEXT = 4096
_MAX_SIGNALS = 32


def file_name(job: str) -> str:
    """The name of a job's register in the folder of its owner."""
    return f"{job}.attempts"


# -- writing ---------------------------------------------------------------------------------------


class AttemptLog:
    """The register as the present attempt writes it. All questions raise OSError where it cannot
    be written: the folder is absent, full or another user's.
    """

    def __init__(self, folder: OwnFolder, job: str, restart: int, host: str, nodes: str) -> None:
        self._folder = folder
        self._name = file_name(job)
        self._restart = restart
        self._host = host
        self._nodes = nodes

    @classmethod
    def of_job(cls, environ: Mapping[str, str]) -> AttemptLog | None:
        """That of the job whose environment this is; None without GSCHED_HEARTBEAT_DIR, and
        outside a job of Slurm's.
        """
        folder = own_folder(environ)
        if folder is None:
            return None
        host = environ.get("SLURMD_NODENAME") or os.uname().nodename
        nodes = environ.get("SLURM_JOB_NODELIST", "")
        restart = whole_number(environ, "SLURM_RESTART_COUNT") or 0
        return cls(folder, job_name(environ), restart, host, nodes)

    def begin(self, *, checkpoints: str | None = None, log: str | None = None) -> None:
        """The attempt begins; `checkpoints` is its folder, `log` the file of its own output."""
        self._folder.make()
        self._shorten()
        facts = {"host": self._host, "nodes": self._nodes}
        paths = {"checkpoints": checkpoints, "log": log}
        try:
            self._append("begin", facts | paths)
        except DataError:  # paths that are too long for a line
            self._append("begin", facts)
        self._folder.tidy()

    def signal(self, name: str) -> None:
        """A signal came, as ``USR1``."""
        self._append("signal", {"signal": name})

    def end(self, *, exit_code: int | None = None, signal: str | None = None) -> None:
        """The attempt ends with this code, or by this signal."""
        self._append("end", {"exit_code": exit_code, "signal": signal})

    def _append(self, event: str, facts: Mapping[str, Any]) -> None:
        head = {"event": event, "by": "launcher", "restart": self._restart}
        fields = {**head, "time": round(time.time()), **facts}
        line = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
        if len(line) > _MAX_LINE_BYTES:
            raise DataError(f"a line of {len(line)} bytes is too long for a register of attempts")
        with self._folder.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT) as fd:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # a write before was cut off
            os.write(fd, line)

    def _shorten(self) -> None:
        """Of a job that is requeued for ever only the newest attempts are kept."""
        try:
            with self._folder.open(self._name, os.O_RDONLY) as fd:
                size = os.fstat(fd).st_size
                if size <= MAX_BYTES:
                    return
                _, _, kept = os.pread(fd, READ_BYTES, size - READ_BYTES).partition(b"\n")
        except FileNotFoundError:
            return
        new = f"{self._name}.new"
        with self._folder.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            write_all(fd, kept, 0)
        self._folder.replace(new, self._name)


# -- reading ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class JobAttempt:
    """What is told of one attempt. Times are epoch seconds, None where nobody told one.

    `signals` are the names and times of those that came, at most 32; `steps` are the numbers of
    Slurm's steps that began, `ended_steps` of those that ended (a hook that slurm.conf names too
    tells of each twice); `heard_time` is when something was last told. `exit_code` and `signal` are
    both None where it has not ended, and where nobody knows how.
    """

    restart: int
    heard_time: float
    started_time: float | None = None
    host: str | None = None
    nodes: str | None = None
    checkpoints: str | None = None
    log: str | None = None
    steps: set[int] = field(default_factory=set)
    ended_steps: set[int] = field(default_factory=set)
    signals: list[tuple[str, float]] = field(default_factory=list)
    ended_time: float | None = None
    exit_code: int | None = None
    signal: str | None = None

    @property
    def num_steps(self) -> int:
        """How many steps began."""
        return len(self.steps)

    @property
    def num_ended_steps(self) -> int:
        """How many steps ended."""
        return len(self.ended_steps)


@dataclass(frozen=True, slots=True)
class Register:
    """Attempts by restart count, and the number of lines that could not be understood."""

    attempts: Sequence[JobAttempt]
    num_unreadable: int


def read_register(folder: UserFolders, uid: int, job: str) -> Register | None:
    """The register of a job of the user `uid`; None where there is none.

    Raises DataError for what is no file of that user's.
    """
    data = folder.read_end(uid, file_name(job), READ_BYTES)
    return None if data is None else decode(data, is_cut=len(data) == READ_BYTES)


def decode(data: bytes, *, is_cut: bool = False) -> Register:
    """What the lines of a register say; one that `is_cut` begins within a line."""
    found: dict[int, JobAttempt] = {}
    num_unreadable = 0
    for line in data.split(b"\n")[1 if is_cut else 0 :]:
        if not line.strip():
            continue
        try:
            _take(found, Checked.parse(line))
        except DataError:
            num_unreadable += 1
    return Register([found[restart] for restart in sorted(found)], num_unreadable)


def _take(found: dict[int, JobAttempt], its: Checked) -> None:
    event = its.text("event", 16)
    restart, when = its.number("restart"), its.time("time")
    take = _TAKE.get(event)
    if take is None:
        raise DataError(f"no such event: {event}")
    if event == "begin" and _is_of_another_job(found, restart):
        found.clear()
    attempt = found.get(restart) or JobAttempt(restart, when)
    take(attempt, its, when)
    attempt.heard_time = max(attempt.heard_time, when)
    found[restart] = attempt


def _is_of_another_job(found: Mapping[int, JobAttempt], restart: int) -> bool:
    """Whether what was told so far is of a job that had this number before."""
    if not found:
        return False
    last = max(found)
    return restart < last or (restart == last and found[last].ended_time is not None)


def _begin(attempt: JobAttempt, its: Checked, when: float) -> None:
    checkpoints, log = its.path("checkpoints"), its.path("log")
    _has_begun(attempt, its, when)
    attempt.checkpoints = checkpoints or attempt.checkpoints
    attempt.log = log or attempt.log


def _step(attempt: JobAttempt, its: Checked, when: float) -> None:
    """Of a job without a batch script its first step is all that tells of a beginning."""
    attempt.steps.add(its.number("step"))
    _has_begun(attempt, its, when)


def _has_begun(attempt: JobAttempt, its: Checked, when: float) -> None:
    host, nodes = its.text("host", _MAX_TEXT), its.text("nodes", _MAX_TEXT)
    if attempt.started_time is None or when < attempt.started_time:
        attempt.started_time = when
    attempt.host = attempt.host or host or None
    attempt.nodes = attempt.nodes or nodes or None


def _step_end(attempt: JobAttempt, its: Checked, _when: float) -> None:
    attempt.ended_steps.add(its.number("step"))


def _signal(attempt: JobAttempt, its: Checked, when: float) -> None:
    name = its.text("signal", 16)
    if len(attempt.signals) < _MAX_SIGNALS:
        attempt.signals.append((name, when))


def _end(attempt: JobAttempt, its: Checked, when: float) -> None:
    """The launcher knows how; the epilog, which comes later, only that."""
    code = its.maybe(its.number, "exit_code")
    signal = its.maybe(lambda k: its.text(k, 16), "signal")
    if attempt.ended_time is None:
        attempt.ended_time = when
    if attempt.exit_code is None and attempt.signal is None:
        attempt.exit_code, attempt.signal = code, signal


_TAKE = {"begin": _begin, "step": _step, "step_end": _step_end, "signal": _signal, "end": _end}
