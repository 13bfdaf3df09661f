"""`gsched deadlines`: which deadlines were asked for and promised, and which of those were kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsched.app.wiring import cluster_of, open_history
from gsched.config.settings import Settings
from gsched.errors import PermissionDeniedError
from gsched.explain.target_words import refusal_words
from gsched.model.target_records import TargetRecord, TargetState

if TYPE_CHECKING:
    from gsched_sql import History

_OWN = (
    "an administrator can read it; of your own jobs `gsched queue --plan` shows what is promised, "
    "and `gsched why JOB` what came of it, while Slurm knows the job"
)

MOST = 20_000
"""Requests of a time that are looked at, the newest ones."""


@dataclass(frozen=True, slots=True)
class PastTargets:
    """The requests for deadlines of one cluster in [`since`, `until`) (epoch), newest first.

    `is_whole` is False where there were more than MOST.
    """

    cluster: str
    since: int
    until: int
    records: Sequence[TargetRecord]
    is_whole: bool

    def counts(self) -> dict[str, int]:
        """How many were asked for, promised, and what came of promises and of the others."""
        promised = [r for r in self.records if r.promise is not None]
        came_to = Counter(r.state for r in promised)
        states = [s for s in TargetState if s is not TargetState.REFUSED]
        return {
            "asked": len(self.records),
            "refused": len(self.records) - len(promised),
            "promised": len(promised),
            **{state.value: came_to[state] for state in states},
        }

    def document(self, limit: int) -> dict[str, Any]:
        """As JSON, with the newest `limit` requests; times epoch seconds."""
        return {
            "cluster": self.cluster,
            "since": self.since,
            "until": self.until,
            "is_whole": self.is_whole,
            "counts": self.counts(),
            "targets": [target_document(record) for record in self.records[:limit]],
        }


def past_targets(
    settings: Settings, since: int, until: int, user: str | None = None
) -> PastTargets:
    """What was asked for in [since, until), of one user or all whom the caller may see.

    Raises ConfigError where there is no history database, PermissionDeniedError for who may not
    read it.
    """
    with _history(settings) as history:
        cluster = cluster_of(settings, history)
        found = history.targets().asked(
            cluster, since=since, until=until, user=user, limit=MOST + 1
        )
    return PastTargets(cluster, since, until, found[:MOST], len(found) <= MOST)


def _history(settings: Settings) -> History:
    """The database; who may not read it is told what they can do instead."""
    try:
        return open_history(settings)
    except PermissionDeniedError as error:
        raise PermissionDeniedError(error.message, _OWN) from None


def target_document(record: TargetRecord) -> dict[str, Any]:
    """One request as JSON; null: there is none, or it is not known."""
    promise = record.promise
    return {
        "job": record.key.slurm_id,
        "user": record.user,
        "num_gpus": record.num_gpus,
        "asked_time": record.asked_time,
        "deadlines": [
            {"time": time, "reward": reward}
            for time, reward in zip(record.steps.times, record.steps.rewards, strict=True)
        ],
        "state": record.state.value,
        "since": record.since,
        "promised": promise
        and {
            "time": promise.time,
            "finish_time": promise.finish_time,
            "probability": promise.probability,
            "budget_gpu_s": promise.budget_gpu_s,
        },
        "finish_time": record.finish_time,
        "probability": record.probability,
        "end_time": record.end_time,
        "reward": record.reward,
        "earliest": record.earliest,
        "why": refused_words(record) or None,
        "alternatives": [
            {
                "kind": found.kind,
                "finish_time": found.finish_time,
                "num_gpus": found.num_gpus,
                "probability": found.probability,
            }
            for found in record.alternatives
        ],
        "warned": record.warned.value if record.warned_time is not None else None,
        "warned_time": record.warned_time,
    }


def refused_words(record: TargetRecord) -> str:
    """Why it was refused; "" where it was not."""
    if record.promise is not None or not record.why:
        return ""
    why = {"code": record.why, "params": record.params}
    return refusal_words({"why": why, "reason": record.why})
