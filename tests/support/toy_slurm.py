"""A Slurm of a few lines, for leases: jobs with attempts, whose every requeue is remembered.

It does what the real one was seen to do (tests/slurm/test_leases.py shows the same there): a
requeue raises the restart count at once and the submit time when the nodes are free, and is refused
for a job that waits; a signal reaches a job that runs; what has ended is forgotten after a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gsched.engine.leases import JobSeen, SaveReport, Verb
from gsched.errors import TryAgainError
from gsched.model.accounts import LeaseGrant
from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import Allocation, Capability, Exclusion, JobKey, JobState, JobView
from support.jobs import snapshot, view

WAIT_S = 11
GPUS = 8


@dataclass
class ToyJob:
    """A job and what was done to it: (restart count, time) of gsched's signals and requeues."""

    key: JobKey
    submit: int
    restarts: int = 0
    state: JobState = JobState.PENDING
    excluded: str = ""
    reports_saved: bool | None = None
    saved_once: bool = False
    is_writing: bool = False
    stopped: bool = False
    num_reports: int = 0
    signals: list[tuple[int, int]] = field(default_factory=list)
    requeues: list[tuple[int, int]] = field(default_factory=list)
    wronged: list[str] = field(default_factory=list)
    """What was done to it though it must not be touched, or does not run."""


class ToySlurm:
    """Implements ``gsched.engine.lease_ports.LeasePort``, and lets tests be everybody else."""

    wait_s = WAIT_S

    def __init__(self, cluster: str, now: int) -> None:
        self.cluster = cluster
        self.now = now
        self.jobs: dict[JobKey, ToyJob] = {}
        self.seq = 0
        self.answers = True
        self.preempts: set[tuple[JobKey, JobKey]] = set()
        self.behind: set[str] = set()
        self.nodes_are_known = True

    # -- everybody else ---------------------------------------------------------------------

    def submit(self) -> ToyJob:
        key = JobKey(self.cluster, len(self.jobs) + 1, epoch=self.now)
        self.jobs[key] = ToyJob(key, self.now)
        return self.jobs[key]

    def requeue(self, job: ToyJob) -> str:
        """Somebody requeues it, or gsched does."""
        if job.state is JobState.PENDING:
            return "Job is pending execution"
        if job.state.is_terminal:
            return "Requested operation is presently disabled"
        job.restarts += 1
        job.state = JobState.COMPLETING
        return ""

    def nodes_are_free(self, job: ToyJob) -> None:
        """The end of COMPLETING after a requeue."""
        job.submit = self.now
        job.state = JobState.PENDING

    # -- what a driver sees and does --------------------------------------------------------

    def clock(self) -> int:
        return self.now

    def observe(self, keys: Sequence[JobKey]) -> Mapping[JobKey, JobSeen]:
        self._answer()
        known = [self.jobs[key] for key in keys if key in self.jobs]
        return {j.key: JobSeen(j.submit, j.restarts, j.state, j.excluded) for j in known}

    def report(self, grant: LeaseGrant) -> SaveReport | None:
        """Of a job that reports: 5 steps are done, and 4 or all of them saved; `stopped` ones say
        again what they said last.
        """
        job = self.jobs.get(grant.key)
        if job is None or job.reports_saved is None:
            return None
        job.saved_once |= job.reports_saved
        job.num_reports += not job.stopped
        return SaveReport(5, 4 + job.reports_saved, job.is_writing, seq=job.num_reports)

    def is_slurms(self, victim: JobView, beneficiary: JobView) -> bool:
        return (victim.key, beneficiary.key) in self.preempts

    def is_behind(self, beneficiary: str) -> bool:
        return beneficiary in self.behind

    def starts_safely(self) -> bool:
        return self.nodes_are_known

    def act(self, verb: Verb, key: JobKey) -> str:
        self._answer()
        job = self.jobs.get(key)
        if job is None or job.state.is_terminal:
            return "Invalid job id specified"
        if job.excluded or job.state is not JobState.RUNNING:
            job.wronged.append(f"{verb.value} {job.state.value} {job.excluded}")
        if verb is Verb.SIGNAL and job.is_writing and job.reports_saved is not None:
            job.wronged.append("told while it writes a checkpoint")
        if verb is Verb.SIGNAL:
            if job.state is JobState.RUNNING:
                job.signals.append((job.restarts, self.now))
            return ""
        restarts = job.restarts
        refusal = self.requeue(job)
        if not refusal:
            job.requeues.append((restarts, self.now))
        return refusal

    def _answer(self) -> None:
        if not self.answers:
            raise TryAgainError("slurmctld gave no answer")

    def snapshot(self) -> ClusterState:
        """What a round's listing shows: jobs that have ended are not in it."""
        self.seq += 1
        live = [job for job in self.jobs.values() if not job.state.is_terminal]
        return replace(snapshot([_view(job) for job in live]), cluster=self.cluster, seq=self.seq)


def _view(job: ToyJob) -> Any:
    shown = view(job.key.job_id, gpus=GPUS, submit=job.submit, state=job.state)
    holds = job.state in {JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING}
    why = (Exclusion(Capability.PREEMPT, job.excluded, "for a test"),) if job.excluded else ()
    return replace(
        shown,
        key=job.key,
        restarts=job.restarts,
        allocation=Allocation(("gn01",), (GPUS,), job.submit) if holds else None,
        exclusions=why,
    )


def node(name: str, num_gpus: int) -> NodeView:
    """A node of partition gpu whose GPUs are all in use."""
    return NodeView(
        name=name,
        state="allocated",
        flags=(),
        num_cpus=64,
        mem_bytes=2**39,
        gpus=(("a100", num_gpus),),
        partitions=("gpu",),
        gpus_used=num_gpus,
        cpus_used=4,
    )
