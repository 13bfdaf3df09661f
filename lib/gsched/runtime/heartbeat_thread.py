"""The thread that writes what a training loop reports: measures the pace, keeps the curve."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gsched.errors import DataError
from gsched.runtime.pace import Pace, Sample
from gsched.telemetry.heartbeat_file import ALIVE_INTERVAL_S, HeartbeatRecord
from gsched.telemetry.heartbeat_writer import HeartbeatFile
from gsched.telemetry.loss_curve import Attempt, LossCurve

INTERVAL_S = 1.0
OTHER_RANKS_INTERVAL_S = 10.0
"""Only rank 0 writes each second: a thousand ranks would be a load on a file server."""

_log = logging.getLogger("gsched.heartbeat")


class Report(NamedTuple):
    """At `time_s` of the monotonic clock so many steps and tokens were done; `loss` may be None, a
    number or a tensor.
    """

    step: int
    time_s: float
    loss: Any
    tokens: int


@dataclass(slots=True)
class Reports:
    """What the training loop leaves for the thread: each field is replaced as a whole."""

    total: int | None = None
    latest: Report | None = None
    committed: tuple[int, float] | None = None
    saving_since: float | None = None
    over: threading.Event = field(default_factory=threading.Event)


class HeartbeatThread(threading.Thread):
    """Writes the newest report once a second until the reports are over."""

    def __init__(self, reports: Reports, file: HeartbeatFile, record: HeartbeatRecord) -> None:
        """`record` says who tells, and where the job begins."""
        super().__init__(name="gsched-heartbeat", daemon=True)
        self._reports = reports
        self._file = file
        self._record = record
        self._seen: Report | None = None
        self._pace = Pace()
        self._curve: LossCurve | None = None
        self._has_told = False
        self._problems: set[str] = set()

    def run(self) -> None:
        """Begins at once; the last word is that the job is done, or gives way."""
        interval_s = OTHER_RANKS_INTERVAL_S
        if self._record.rank == 0:
            interval_s = INTERVAL_S
            self._tried(self._begin_curve)
        may_go_on = self._tried(self._tell)
        if self._record.rank == 0:
            self._tried(self._file.tidy)
        while may_go_on and not self._reports.over.wait(interval_s):
            may_go_on = self._tried(self._tell)
        if may_go_on:
            self._record = replace(self._record, ended_time=time.time())
            self._tried(self._tell)

    def _tried(self, action: Callable[[], bool | None]) -> bool:
        """Do it; what fails is told once. False when `action` says that all is over."""
        try:
            result = action()
        except (OSError, DataError) as e:
            self._warn(f"this job's heartbeat cannot be written: {e}")
            return True
        return result is not False

    def _begin_curve(self) -> None:
        """Go on with the curve of the attempts before, unless the job's number was used again."""
        new, (old, curve) = self._record, self._file.before()
        self._curve = curve if old and curve and old.restart <= new.restart else LossCurve()
        start = new.first_step, new.first_step, new.started_time, new.started_time
        self._curve.begin(Attempt(new.restart, *start))

    def _tell(self) -> bool:
        """Write what is new; False where another start of the job has taken the file over."""
        report, now = self._reports.latest, time.time()
        changes: dict[str, Any] = {
            "total_steps": self._reports.total,
            "saving_since": self._reports.saving_since,
        }
        if report is not None and report is not self._seen:
            self._seen = report
            changes |= self._progress(report, now)
        if committed := self._reports.committed:
            changes |= {"committed_step": committed[0], "committed_time": committed[1]}
        record = replace(self._record, **changes)
        is_news = record != self._record or record.ended_time or not self._has_told
        if not is_news and now - record.written_time < ALIVE_INTERVAL_S:
            return True
        self._record, self._has_told = replace(record, written_time=now), True
        if self._file.write(self._record, self._curve):
            return True
        _log.warning("gsched: another process of job %s now tells its progress", record.job)
        return False

    def _progress(self, report: Report, now: float) -> dict[str, Any]:
        """The fields of the record that a new report changes."""
        step_time = now - (time.monotonic() - report.time_s)
        self._pace.add(Sample(report.time_s, report.step, report.tokens))
        if self._curve is not None:
            self._curve.reached(report.step, step_time)
        return {
            "step": report.step,
            "step_time": step_time,
            "tokens": report.tokens or None,
            "tokens_per_s": self._pace.tokens_per_s,
            "iteration_s": self._pace.iteration_s,
            "pace_s": self._pace.pace_s,
            **self._loss(report),
        }

    def _loss(self, report: Report) -> dict[str, Any]:
        if report.loss is None:
            return {}
        try:
            loss = float(report.loss)  # a GPU's tensor: it is waited for here, not in the loop
        except (TypeError, ValueError, RuntimeError) as e:
            self._warn(f"a loss that is no number is not told: {e}")
            return {}
        if not math.isfinite(loss):
            return {"bad_losses": self._record.bad_losses + 1}
        if self._curve is not None:
            self._curve.add(report.step, loss)
        return {"loss": loss, "bad_losses": 0}

    def _warn(self, problem: str) -> None:
        if problem not in self._problems:
            _log.warning("gsched: %s", problem)
        self._problems.add(problem)
