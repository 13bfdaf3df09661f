"""`gsched policy explain`: how the policy has decided about one job, as the daemon tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gsched.app.job import LiveJob, find_live
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.explain.choice_words import choice_lines, tells_choice
from gsched.explain.policy_reasons import policy_reason


@dataclass(frozen=True, slots=True)
class Explained:
    """The decision about a job: (what, words), and the daemon's reason behind them."""

    job: str
    state: str
    lines: tuple[tuple[str, str], ...]
    rank: dict[str, Any] | None
    reason: dict[str, Any] | None

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds."""
        return {
            "job": self.job,
            "state": self.state,
            "rank": self.rank,
            "reason": self.reason,
            "lines": [{"what": what, "words": words} for what, words in self.lines],
        }


def explain_choice(settings: Settings, job: str) -> Explained:
    """How the policy has decided about a job, and what would have changed that.

    Raises UsageError for what is no job id, an array or het job of which no part is named, and
    where Slurm has no such job.
    """
    live = find_live(settings, job)
    if live is None:
        raise UsageError(f"Slurm has no job {job}", "`gsched history` has those that have ended")
    reason: dict[str, Any] | None = live.line.answer.get("reason")
    return Explained(
        live.line.slurm_id,
        live.row.state_text,
        tuple(_lines(live, reason)),
        dict(live.line.rank) if live.line.rank else None,
        reason,
    )


def _lines(live: LiveJob, reason: dict[str, Any] | None) -> list[tuple[str, str]]:
    if reason is None:
        excluded = live.line.answer.get("excluded")
        if excluded:
            return [("choice", f"gsched leaves it alone: {excluded.get('detail')}")]
        note = live.cluster.queue.note_on(live.line)
        return [("choice", note or f"nothing was decided: it is {live.row.state_text}")]
    rank = live.line.rank
    place = [("rank", f"{rank['position']} of {rank['of']}")] if rank else []
    if tells_choice(reason):
        return [*place, *choice_lines(reason["code"], reason["params"])]
    return [*place, ("because", policy_reason(reason["code"], reason["params"]))]
