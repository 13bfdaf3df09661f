"""The queue as a user sees it: Slurm's own listing joined with the daemon's public answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gsched.app.explain import policy_reason, slurm_reason
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.status_file import read_status
from gsched.model.job import JobState
from gsched.slurm.records import FreeText, QueueRow

NO_DAEMON = "no predictions: no gsched daemon has answered for this cluster"
_STALE_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Which jobs to show; empty = all."""

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    pending_only: bool = False

    def takes(self, row: QueueRow) -> bool:
        """Whether `row` is asked for."""
        return (
            (not self.users or row.user in self.users)
            and (not self.accounts or row.tenant in self.accounts)
            and (not self.partitions or bool(set(self.partitions) & set(row.partitions)))
            and (not self.pending_only or row.state is JobState.PENDING)
        )


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One line of ``gsched queue``; `name` is hostile text. Durations in seconds."""

    slurm_id: str
    raw_id: int
    partition: str
    name: str
    user: str
    account: str
    state_text: str
    is_pending: bool
    num_gpus: int
    priority: int
    submit_time: int
    waited_s: int
    running_s: int | None
    rank: dict[str, Any] | None
    predicted_duration_s: float | None
    answer: dict[str, Any]
    slurm_reason: str
    reason: str

    @property
    def rank_text(self) -> str:
        """``3/44``, or ``-`` for a job without a rank."""
        return f"{self.rank['position']}/{self.rank['of']}" if self.rank else "-"


@dataclass(frozen=True, slots=True)
class QueueView:
    """The queue, in order, and a note about the daemon (empty when all is well)."""

    jobs: tuple[QueuedJob, ...]
    note: str
    policy: str | None
    as_of: int | None

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds."""
        return {
            "policy": self.policy,
            "predictions_as_of": self.as_of,
            "note": self.note,
            "jobs": [
                {
                    "job": j.slurm_id,
                    "partition": j.partition,
                    "name": j.name,
                    "user": j.user,
                    "account": j.account,
                    "state": j.state_text,
                    "num_gpus": j.num_gpus,
                    "priority": j.priority,
                    "submit_time": j.submit_time,
                    "waited_s": j.waited_s,
                    "running_s": j.running_s,
                    "rank": j.rank,
                    "predicted_duration_s": j.predicted_duration_s,
                    "slurm_reason": j.slurm_reason,
                    "reason": j.reason,
                }
                for j in self.jobs
            ],
        }


def list_queue(settings: Settings, wanted: QueueFilter) -> QueueView:
    """The present queue: waiting jobs by rank, then running ones by start."""
    client = slurm_client(settings)
    rows = [r for r in client.queue().rows if wanted.takes(r)]
    texts = client.free_text([r.raw_id for r in rows])
    return view_queue(settings, rows, texts, client.config().cluster)


def view_queue(
    settings: Settings, rows: Iterable[QueueRow], texts: Mapping[int, FreeText], cluster: str
) -> QueueView:
    """`rows` of squeue in order, with the daemon's answers; jobs not in `texts` have no name.

    The answer of another cluster's daemon (a shared state folder) is none.
    """
    at = now()
    status = read_status(settings.status_file)
    if status is not None and status.get("cluster") != cluster:
        status = None
    answers = status["jobs"] if status else {}
    jobs = [
        _job(row, texts[row.raw_id].name if row.raw_id in texts else "", answers, at)
        for row in rows
    ]
    jobs.sort(key=_place)
    return QueueView(
        tuple(jobs),
        _note(status, at),
        status.get("policy") if status else None,
        status.get("as_of") if status else None,
    )


def _note(status: dict[str, Any] | None, at: int) -> str:
    if status is None:
        return NO_DAEMON
    if status.get("private"):
        return "no predictions: this cluster hides users' jobs from each other (PrivateData)"
    age_s = at - int(status.get("as_of") or 0)
    if age_s > _STALE_ROUNDS * float(status.get("interval_s") or 30):
        return f"predictions are {age_s} s old: the gsched daemon does not run, or fails"
    if not status.get("acting"):
        return "the daemon observes: this order is not Slurm's own"
    return ""


def _job(row: QueueRow, name: str, answers: dict[str, Any], at: int) -> QueuedJob:
    waits = row.state is JobState.PENDING
    answer = _answer(row, answers) if waits else {}
    duration = answer.get("duration_s") or {}
    return QueuedJob(
        raw_id=row.raw_id,
        slurm_id=row.slurm_id + (f"_[{row.array_tasks}]" if row.is_unsplit_array else ""),
        partition=",".join(row.partitions),
        name=name,
        user=row.user,
        account=row.tenant,
        state_text=row.state_text,
        is_pending=waits,
        num_gpus=row.num_gpus,
        priority=row.priority,
        submit_time=row.submit_time,
        waited_s=(at if waits or row.start_time is None else row.start_time) - row.submit_time,
        running_s=None if waits or row.start_time is None else at - row.start_time,
        rank=answer.get("rank"),
        predicted_duration_s=duration.get("mean"),
        answer=answer,
        slurm_reason=row.reason,
        reason=_why(row, answer) if waits else row.node_list,
    )


def _answer(row: QueueRow, answers: dict[str, Any]) -> dict[str, Any]:
    """What the daemon says of this very attempt: a requeued job, or one of a used id, is new."""
    answer = answers.get(row.slurm_id)
    if not isinstance(answer, dict) or answer.get("submit_time") != row.submit_time:
        return {}
    return answer


def _why(row: QueueRow, answer: dict[str, Any]) -> str:
    if answer.get("excluded"):
        return f"not moved: {answer['excluded'].get('detail')}"
    if answer.get("reason"):
        return policy_reason(answer["reason"].get("code", ""), answer["reason"].get("params", {}))
    return slurm_reason(row.reason)


def _place(job: QueuedJob) -> tuple[int, str, int, int]:
    """By rank; jobs without one as squeue lists them, by priority; running ones by run time."""
    if not job.is_pending:
        return (2, "", -(job.running_s or 0), job.raw_id)
    if job.rank:
        return (0, str(job.rank.get("queue")), int(job.rank.get("position") or 0), job.raw_id)
    return (1, "", -job.priority, job.raw_id)
