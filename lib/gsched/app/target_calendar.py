"""The calendar of deadlines: which jobs are to hold which GPUs when, and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gsched.app.queue import QueueView
from gsched.app.queued_job import QueuedJob
from gsched.daemon.shapes import is_number
from gsched.model.job import JobState


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The GPUs of partitions that share nodes.

    `free`: from each time (epoch) on, so many GPUs are held by no target, and by no job that keeps
    its own until it ends.
    """

    name: str
    num_gpus: int
    free: tuple[tuple[int, int], ...]

    def least_free(self, begin: int, end: int) -> int | None:
        """The fewest free GPUs from `begin` to before `end`; None before anything is told."""
        least = None
        for index, (time, gpus) in enumerate(self.free):
            after = self.free[index + 1][0] if index + 1 < len(self.free) else None
            if time < end and (after is None or after > begin):
                least = gpus if least is None else min(least, gpus)
        return least


@dataclass(frozen=True, slots=True)
class TargetCalendar:
    """Jobs with a promised deadline, the nearest first, and those whose deadline is refused.

    `view` is the queue that they are of; times epoch seconds. Where Slurm hides others' jobs, they
    are the caller's alone, and there are no `pools`.
    """

    view: QueueView
    targets: tuple[QueuedJob, ...]
    refused: tuple[QueuedJob, ...]
    pools: tuple[PoolPlan, ...]

    @classmethod
    def of(cls, view: QueueView, *, keep_order: bool = False) -> TargetCalendar:
        """What the daemon tells with the jobs of `view`, in its order with `keep_order`.

        Jobs that have ended, which a view may show, are left out.
        """
        jobs = [job for job in view.jobs if _stands(job)]
        targets = [job for job in jobs if job.target is not None]
        if not keep_order:
            targets.sort(key=lambda job: (job.deadline or 0, job.raw_id))
        refused = [job for job in jobs if job.target_state == "refused"]
        told = view.targets.get("pools")
        named = told.items() if isinstance(told, dict) else ()
        pools = [_pool(str(name), pool) for name, pool in named if _is_pool(pool)]
        return cls(view, tuple(targets), tuple(refused), tuple(pools))

    @property
    def note(self) -> str:
        """What is to be said beside the calendar; "" when all is well."""
        if self.view.note or self.view.as_of is None:
            return self.view.note
        if not self.view.targets:
            return f"no deadlines are planned: policy {self.view.policy} keeps none"
        return ""

    @property
    def end(self) -> int:
        """The last moment of the calendar: of all plans and deadlines, or now."""
        ends = [self.view.at]
        for job in self.targets:
            target = job.target or {}
            ends += [end for _, end, _ in target.get("plan", ())]
            ends += [time for time, _ in target["deadlines"]]
        return int(max(ends))

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds."""
        return {
            "cluster": self.view.cluster,
            "policy": self.view.policy,
            "predictions_as_of": self.view.as_of,
            "note": self.note,
            "targets": [_document(job) for job in self.targets],
            "refused": [
                {"job": job.slurm_id, "user": job.user, "deadline_time": job.deadline}
                for job in self.refused
            ],
            "pools": [
                {
                    "pool": pool.name,
                    "num_gpus": pool.num_gpus,
                    "free": [{"start_time": time, "num_gpus": gpus} for time, gpus in pool.free],
                }
                for pool in self.pools
            ],
        }


def _is_pool(told: Any) -> bool:
    """Whether a pool of the daemon's document has its shape."""
    return (
        isinstance(told, dict)
        and is_number(told.get("num_gpus"))
        and isinstance(told.get("free"), list)
        and all(
            isinstance(s, list) and len(s) == 2 and all(map(is_number, s)) for s in told["free"]
        )
    )


def _pool(name: str, told: Mapping[str, Any]) -> PoolPlan:
    free = tuple((int(time), int(gpus)) for time, gpus in told["free"])
    return PoolPlan(name, int(told["num_gpus"]), free)


def _stands(job: QueuedJob) -> bool:
    return job.is_pending or job.row.state in (JobState.RUNNING, JobState.SUSPENDED)


def _document(job: QueuedJob) -> dict[str, Any]:
    target = job.target or {}
    return {
        "job": job.slurm_id,
        "user": job.user,
        "account": job.row.tenant,
        "state": job.row.state_text,
        "num_gpus": job.num_gpus,
        "pool": target.get("pool"),
        "deadlines": [
            {"time": time, "reward": reward} for time, reward in target.get("deadlines", ())
        ],
        "target_state": job.target_state,
        "finish_time": target.get("finish_time"),
        "probability": target.get("probability"),
        "plan": [
            {"start_time": start, "end_time": end, "num_gpus": gpus}
            for start, end, gpus in target.get("plan", ())
        ],
        "plan_cut": target.get("plan_cut", 0),
    }
