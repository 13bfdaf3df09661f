"""The calendar of deadlines: which jobs are to hold which GPUs when, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.pool_plan import PoolPlan, pool_plans
from gsched.app.queue import QueueView, view_queue
from gsched.app.queued_job import QueuedJob
from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.explain.target_words import planned_end
from gsched.model.job import JobState


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
    def of(
        cls, view: QueueView, pools: Sequence[PoolPlan] = (), *, keep_order: bool = False
    ) -> TargetCalendar:
        """What the daemon tells with the jobs of `view`, in its order with `keep_order`.

        Jobs that have ended, which a view may show, are left out.
        """
        jobs = [job for job in view.jobs if _stands(job)]
        targets = [job for job in jobs if job.target is not None]
        if not keep_order:
            targets.sort(key=lambda job: (job.deadline or 0, job.raw_id))
        refused = [job for job in jobs if job.target_state == "refused"]
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


def target_calendar(
    settings: Settings, view: QueueView, *, keep_order: bool = False
) -> TargetCalendar:
    """The calendar of the jobs of `view`, with what is left of all pools.

    Of pools nothing is said where Slurm hides users' jobs, and where nobody plans deadlines.
    """
    client = slurm_client(settings)
    if not view.targets or client.config().hides("jobs"):
        return TargetCalendar.of(view, keep_order=keep_order)
    whole = view_queue(settings, client.queue().rows, {}, view.cluster)
    pools = pool_plans(client.nodes(), client.reservations(), whole.jobs, view.at)
    return TargetCalendar.of(view, pools, keep_order=keep_order)


def _stands(job: QueuedJob) -> bool:
    return job.is_pending or job.row.state in (JobState.RUNNING, JobState.SUSPENDED)


def _document(job: QueuedJob) -> dict[str, Any]:
    target = job.target or {}  # each has one
    return {
        "job": job.slurm_id,
        "user": job.user,
        "account": job.row.tenant,
        "state": job.row.state_text,
        "num_gpus": job.num_gpus,
        "deadlines": [{"time": time, "reward": reward} for time, reward in target["deadlines"]],
        "target_state": job.target_state,
        "finish_time": planned_end(target),
        "probability": target.get("probability"),
        "plan": [
            {"start_time": start, "end_time": end, "num_gpus": gpus}
            for start, end, gpus in target["plan"]
        ],
        "plan_cut": target.get("plan_cut", 0),
    }
