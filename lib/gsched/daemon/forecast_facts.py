"""How the daemon's forecasts fare, for its status and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.daemon.forecast_child import ChildState
from gsched.model.decision import JsonValue


@dataclass(frozen=True, slots=True)
class Record:
    """How forecasts of the last days have done: of `known` that have met their truth, `covered`
    started within their interval. `median_error_s` is that of |median − start| of the started ones.
    """

    known: int = 0
    covered: int = 0
    median_error_s: float | None = None


NO_RECORD = Record()


@dataclass(frozen=True, slots=True)
class ForecastFacts:
    """`as_of` is the newest forecast's time (epoch), None before the first; `jobs` the waiting jobs
    of which it says something, `cpu_s` the processor time of all forecasts since the daemon began.
    """

    as_of: int | None
    jobs: int
    cpu_s: float
    child: ChildState
    record: Record

    def document(self) -> dict[str, JsonValue]:
        """For ``daemon status``."""
        record = self.record
        return {
            "as_of": self.as_of,
            "jobs": self.jobs,
            "pid": self.child.pid,
            "started": self.child.started,
            "failures": self.child.failures,
            "problem": self.child.problem,
            "known": record.known,
            "covered": record.covered,
            "median_error_s": record.median_error_s,
        }
