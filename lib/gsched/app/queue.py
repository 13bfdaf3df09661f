"""The queue as a user sees it: Slurm's own listing joined with the daemon's public answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from gsched.app.array_part import means, part_of
from gsched.app.daemon_note import looks_every_s, note_about
from gsched.app.other_clusters import cluster_warning
from gsched.app.own_answers import status_for
from gsched.app.queue_filter import QueueFilter
from gsched.app.queued_job import QueuedJob
from gsched.app.told_progress import with_progress
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.explain.target_words import deadline_outcome
from gsched.explain.words import moment
from gsched.model.history import Reject
from gsched.model.job import UNLIMITED_S, JobState
from gsched.model.jobid import JobId
from gsched.slurm.records import FreeText, QueueListing, QueueRow

_NO_TEXT = FreeText("", "")
_OF_DEADLINE = ("lease", "target", "request", "outcomes")
"""What is told of a job that runs, too, if it has asked for a deadline."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The queue, in order, and a note about the daemon (empty when all is well).

    `as_of` is when the daemon has answered, `at` when Slurm has, epoch seconds. `rejects` are lines
    of squeue that could not be understood. `looks_every_s` is known of a daemon that answers.
    `unknown_ids` were asked for, and Slurm shows no such jobs. `targets` is what the daemon tells
    of deadlines as a whole; empty where it keeps none.
    """

    jobs: tuple[QueuedJob, ...]
    note: str
    cluster: str
    policy: str | None
    as_of: int | None
    at: int
    rejects: tuple[Reject, ...] = ()
    looks_every_s: float | None = None
    unknown_ids: tuple[str, ...] = ()
    targets: Mapping[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Jobs by state, as squeue prints it; an array that is not split yet counts as one."""
        return dict(Counter(job.row.state_text for job in self.jobs))

    def warnings(self, slurm_clusters: str = "") -> list[str]:
        """What is missing from the view; `slurm_clusters` is SLURM_CLUSTERS, which squeue obeys."""
        found = []
        if self.unknown_ids:
            found.append(f"Slurm shows no such job (any more): {', '.join(self.unknown_ids)}")
        if self.rejects:
            first = self.rejects[0].reason
            found.append(f"lines of squeue that are not understood: {len(self.rejects)} ({first})")
        elsewhere = cluster_warning(slurm_clusters, self.cluster)
        return [*found, elsewhere] if elsewhere else found

    def note_on(self, job: QueuedJob) -> str:
        """The note for one job: of one that waits, also why the daemon has no answer about it."""
        if job.answer or not job.is_pending or self.looks_every_s is None or self.as_of is None:
            return self.note
        unseen = "has not seen this job yet"
        if job.row.submit_time < self.as_of:
            unseen = "said nothing of this job"
        looked = f"it looked at {moment(self.as_of)}, and looks every {self.looks_every_s:g} s"
        return f"the gsched daemon {unseen}: {looked}"

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds."""
        return {
            "cluster": self.cluster,
            "policy": self.policy,
            "predictions_as_of": self.as_of,
            "note": self.note,
            "counts": self.counts(),
            "rejects": [{"why": r.reason, "raw": r.raw} for r in self.rejects],
            "jobs": [job.document() for job in self.jobs],
        }


def list_queue(
    settings: Settings,
    wanted: QueueFilter,
    *,
    one_a_task: bool = False,
    clusters: Sequence[str] = (),
) -> QueueView:
    """The present queue, in order. `one_a_task`: a line for each task of an array.

    Raises UsageError for a filter that is none, and when `clusters` names another one.
    """
    takes, ids = wanted.test(), wanted.named_jobs()
    client = slurm_client(settings)
    listing = client.queue(
        "all" if wanted.wants_ended or ids else "live",  # a job that has ended is not unknown
        with_texts=True,
        all_partitions=wanted.all_partitions,
    )
    view = view_listing(settings, listing, client.config().cluster)
    _check_cluster(clusters, view.cluster)
    jobs = chosen(view.jobs, takes, ids)
    if one_a_task:
        jobs = (task for job in jobs for task in job.tasks())
    found = tuple(with_progress(settings, jobs))
    return replace(
        view,
        jobs=found,
        note=view.note_on(found[0]) if len(found) == 1 else view.note,
        unknown_ids=_unknown(ids, listing.rows),
    )


def _unknown(ids: Sequence[JobId], rows: Sequence[QueueRow]) -> tuple[str, ...]:
    """Those of `ids` that mean no row."""
    wanted = {job.job_id for job in ids}
    near = [row for row in rows if row.job_id in wanted or row.raw_id in wanted]
    return tuple(str(job) for job in ids if not any(means(job, row) for row in near))


def chosen(
    jobs: Iterable[QueuedJob], takes: Callable[[QueueRow, str], bool], ids: Sequence[JobId]
) -> Iterator[QueuedJob]:
    """The jobs that `takes` (a QueueFilter's test) takes; of an array the tasks that `ids` name."""
    for job in jobs:
        if takes(job.row, job.name):
            named = [i for i in ids if means(i, job.row)] if job.row.is_unsplit_array else []
            yield replace(job, row=part_of(job.row, named)) if named else job


def _check_cluster(named: Iterable[str], cluster: str) -> None:
    for other in (word for text in named for word in text.split(",")):
        if other != cluster:
            raise UsageError(
                f"gsched reads the cluster of this host alone, {cluster}, not {other!r}",
                f"log in there, or see it with `squeue -M {other}`",
            )


def view_listing(settings: Settings, listing: QueueListing, cluster: str) -> QueueView:
    """A listing of squeue in order, with the daemon's answers."""
    view = view_queue(settings, listing.rows, listing.texts, cluster)
    return replace(view, rejects=listing.rejects)


def view_queue(
    settings: Settings, rows: Iterable[QueueRow], texts: Mapping[int, FreeText], cluster: str
) -> QueueView:
    """`rows` of squeue in order, with the daemon's answers; jobs not in `texts` have no name.

    The answer of another cluster's daemon (a shared state folder) is none. Where the daemon has
    ranked nothing, squeue's own order stands, by id where squeue's is arbitrary.
    """
    at = now()
    rows = tuple(rows)
    status, why_none = status_for(settings, cluster, {row.user for row in rows})
    answers = status["jobs"] if status else {}
    jobs = [
        QueuedJob(row, texts.get(row.raw_id, _NO_TEXT), _answer(row, answers), at) for row in rows
    ]
    if any(job.rank for job in jobs):
        jobs.sort(key=_place)
    else:
        jobs = _as_squeue_has_them(jobs)
    return QueueView(
        tuple(jobs),
        why_none or note_about(status, at),
        cluster,
        status.get("policy") if status else None,
        status.get("as_of") if status else None,
        at,
        looks_every_s=looks_every_s(status, at),
        targets=_object(status.get("targets")) if status else {},
    )


def _object(told: Any) -> dict[str, Any]:
    """What a document has in a place where an object belongs; empty for anything else."""
    return told if isinstance(told, dict) else {}


def _as_squeue_has_them(jobs: Iterable[QueuedJob]) -> list[QueuedJob]:
    """squeue sorts by partition, state and priority; what is alike comes in no certain order."""

    def alike(job: QueuedJob) -> tuple[object, ...]:
        return (job.row.partitions, job.row.state_text, job.row.priority)

    return [
        job for _, group in groupby(jobs, alike) for job in sorted(group, key=lambda j: j.raw_id)
    ]


def _answer(row: QueueRow, answers: dict[str, Any]) -> dict[str, Any]:
    """What the daemon says of this very attempt: a requeued job, or one of a used id, is new.

    Of a job that does not wait its lease and its deadline alone: all else was about its waiting.
    """
    # the last task of an array has its own name already while it waits in the array's record
    answer = answers.get(row.slurm_id if row.task is None else f"{row.job_id}_{row.task}")
    if not isinstance(answer, dict) or answer.get("submit_time") != row.submit_time:
        return {}
    if row.state is not JobState.PENDING:
        return {key: answer[key] for key in _stays(answer) if key in answer}
    return answer


def _stays(answer: dict[str, Any]) -> tuple[str, ...]:
    """What still counts of an answer once the job runs."""
    has_asked = "target" in answer or deadline_outcome(answer.get("outcomes", ())) is not None
    return _OF_DEADLINE if has_asked else ("lease",)


def _place(job: QueuedJob) -> tuple[int, str, int, int]:
    """By rank; jobs without one by priority; others by when their limit ends them."""
    if job.rank:
        return (0, str(job.rank.get("queue")), int(job.rank.get("position") or 0), job.raw_id)
    if job.is_pending:
        return (1, "", -job.priority, job.raw_id)
    return (2, "", UNLIMITED_S if job.end_time is None else job.end_time, job.raw_id)
