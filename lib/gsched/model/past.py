"""Logical jobs as people ask for them: what to list, one job with its attempts, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gsched.errors import DataError
from gsched.model.history import AttemptRecord, Tres
from gsched.model.hostlist import expand
from gsched.model.job import JobKey, JobState, finite_limit_s
from gsched.model.jobid import JobId
from gsched.model.logical_jobs import Attempt, LogicalJob, chain
from gsched.model.merge import PLAIN_FIELDS, STATUS, AttemptKey, Part, fold, unpart


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which jobs to list; empty = all. Newest first by first submit.

    `since`/`until` choose jobs that were waiting or running in that time. `names` are whole names,
    `phases` values of ``model.phases`` with None for unclassified, `node_names` nodes on one of
    which some attempt ran. `after` is the last job of the page before: the list goes on behind it.
    """

    users: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    states: tuple[JobState, ...] = ()
    names: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    phases: tuple[str | None, ...] = ()
    node_names: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    job_id: int | None = None
    array_task: int | None = None
    het_offset: int | None = None
    limit: int | None = None
    after: JobKey | None = None

    @classmethod
    def of_job(cls, job: JobId, limit: int | None = None) -> HistoryFilter:
        """One job, array task or het component; an array's or het job's id means all parts."""
        return cls(
            job_id=job.job_id, array_task=job.array_task, het_offset=job.het_offset, limit=limit
        )

    def takes(self, job: HistoryJob) -> bool:
        """Whether the job is wanted, the place of the page included; `limit` is not looked at."""
        key = job.key
        return (
            (not self.clusters or key.cluster in self.clusters)
            and (not self.users or job.user in self.users)
            and (not self.tenants or job.tenant in self.tenants)
            and (
                not self.partitions
                or not set(self.partitions).isdisjoint((job.partition or "").split(","))
            )
            and (not self.states or job.state in self.states)
            and (not self.names or job.name in self.names)
            and (not self.qos or job.qos in self.qos)
            and (not self.phases or job.phase in self.phases)
            and (not self.node_names or job.ran_on(self.node_names))
            and (self.since is None or job.end_time is None or job.end_time >= self.since)
            and (self.until is None or key.epoch < self.until)
            and self.job_id in {None, key.job_id}
            and self.array_task in {None, key.array_task}
            and self.het_offset in {None, key.het_offset}
            and (self.after is None or newest_first(self.after) < newest_first(key))
        )


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One logical job with its attempts, oldest first. None = nobody has told.

    `start_time`, `end_time`, `duration_s` and `state` are of the last attempt; `end_time` is None
    until the job has ended. `queueing_s` counts from the first submit to the last start, without
    the seconds that earlier attempts ran. `gpu_time_s` and `cpu_time_s` are over all attempts.
    """

    key: JobKey
    user: str | None
    tenant: str | None
    partition: str | None
    qos: str | None
    name: str | None
    state: JobState
    state_text: str
    start_time: int | None
    end_time: int | None
    time_limit_s: int | None
    num_nodes: int | None
    num_cpus: int | None
    num_gpus: int | None
    queueing_s: int | None
    duration_s: int | None
    gpu_time_s: int | None
    cpu_time_s: int | None
    phase: str | None
    attempts: tuple[AttemptRecord, ...] = ()

    def ran_on(self, node_names: Collection[str]) -> bool:
        """Whether some attempt ran on one of the nodes."""
        return any(
            name in node_names
            for attempt in self.attempts
            if attempt.node_list is not None
            for name in _hosts(attempt.node_list)
        )


def _hosts(listed: str) -> Sequence[str]:
    try:
        return expand(listed)
    except DataError:
        return ()  # a node list in a grammar of its own


def logical_jobs(records: Iterable[AttemptRecord]) -> list[HistoryJob]:
    """Whatever sources told of some jobs, as logical jobs, newest first.

    The rules are those of the database: what several records tell of one attempt is merged, and
    requeues are chained.
    """
    by_slot: dict[tuple[str, Part], list[Attempt]] = {}
    for key, fields in fold(records).items():
        by_slot.setdefault((key.slot.cluster, key.slot.part), []).append(Attempt(key, fields))
    jobs = [_job(job) for attempts in by_slot.values() for job in chain(attempts)]
    return sorted(jobs, key=lambda job: newest_first(job.key))


def newest_first(key: JobKey) -> tuple[int, int, int, int, str]:
    """The order of lists of jobs; no two jobs of a source are equal in it."""
    task = -1 if key.array_task is None else key.array_task
    offset = -1 if key.het_offset is None else key.het_offset
    return (-key.epoch, -key.job_id, -task, -offset, key.cluster)


def _job(job: LogicalJob) -> HistoryJob:
    facts = job.facts()
    del facts["num_attempts"]
    facts["state"] = JobState(facts["state"])
    key = _key(job.attempts[0].key, job.epoch)
    return HistoryJob(key=key, attempts=tuple(_record(a) for a in job.attempts), **facts)


def _key(attempt: AttemptKey, epoch: int) -> JobKey:
    part = attempt.slot.part
    return JobKey(
        attempt.slot.cluster, part.job_id, unpart(part.array_task), unpart(part.het_offset), epoch
    )


def _record(attempt: Attempt) -> AttemptRecord:
    key = _key(attempt.key, attempt.key.submit_time)
    state, state_text, source = attempt.fields[STATUS].value
    return AttemptRecord(
        cluster=key.cluster,
        job_id=key.job_id,
        array_task=key.array_task,
        het_offset=key.het_offset,
        submit_time=key.epoch,
        state=JobState(state),
        state_text=state_text,
        source=source,
        requested=tuple(Tres(*told) for told in attempt["requested"]),
        allocated=tuple(Tres(*told) for told in attempt["allocated"]),
        **{name: attempt[name] for name in PLAIN_FIELDS},
    )


def history_document(job: HistoryJob) -> dict[str, Any]:
    """A job as JSON: times epoch seconds, durations seconds, null = nobody has told.

    A time limit is null as well where the job has none.
    """
    return {
        "job": job.key.slurm_id,
        "cluster": job.key.cluster,
        "user": job.user,
        "account": job.tenant,
        "partition": job.partition,
        "qos": job.qos,
        "name": job.name,
        "state": job.state.value,
        "state_text": job.state_text,
        "num_gpus": job.num_gpus,
        "num_cpus": job.num_cpus,
        "num_nodes": job.num_nodes,
        "time_limit_s": finite_limit_s(job.time_limit_s),
        "submit_time": job.key.epoch,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "queueing_s": job.queueing_s,
        "duration_s": job.duration_s,
        "gpu_time_s": job.gpu_time_s,
        "cpu_time_s": job.cpu_time_s,
        "phase": job.phase,
        "attempts": [_attempt_document(a) for a in job.attempts],
    }


def _attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    start, end = attempt.start_time, attempt.end_time
    return {
        "submit_time": attempt.submit_time,
        "eligible_time": attempt.eligible_time,
        "start_time": start,
        "end_time": end,
        "duration_s": None if start is None or end is None else end - start,
        "state": attempt.state.value,
        "state_text": attempt.state_text,
        "exit_code": attempt.exit_code,
        "exit_signal": attempt.exit_signal,
        "num_gpus": attempt.num_gpus,
        "num_cpus": attempt.num_cpus,
        "num_nodes": attempt.num_nodes,
        "node_list": attempt.node_list,
        "restarts": attempt.restarts,
        "source": attempt.source,
        "source_id": attempt.source_id,
        "extra": None if attempt.extra is None else json.loads(attempt.extra),
        "requested": {t.name: t.count for t in attempt.requested},
        "allocated": {t.name: t.count for t in attempt.allocated},
    }
