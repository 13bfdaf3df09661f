"""How the forecasts of nodes' demand fare, for the daemon's status and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.daemon.forecast_child import ChildState
from gsched.model.decision import JsonValue


@dataclass(frozen=True, slots=True)
class DemandFacts:
    """`made_at` is the newest forecast's time (epoch), None before the first.

    Of `pools` pools something is told, of `foreseen` of them a forecast; `left` are still being
    learnt. `cpu_s` is the processor time of all forecasts since the daemon began. `problem` is why
    the history could not be read, '' where it could.
    """

    made_at: int | None
    pools: int
    foreseen: int
    left: int
    cpu_s: float
    child: ChildState
    problem: str = ""

    def document(self) -> dict[str, JsonValue]:
        """For ``ces status`` and ``daemon status``."""
        return {
            "made_at": self.made_at,
            "pools": self.pools,
            "foreseen": self.foreseen,
            "left": self.left,
            "cpu_s": round(self.cpu_s, 1),
            "pid": self.child.pid,
            "started": self.child.started,
            "failures": self.child.failures,
            "problem": self.child.problem or self.problem,
        }
