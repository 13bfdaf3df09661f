"""A round's snapshot as the situation from which a forecast is made.

The order is Slurm's own priority of each waiting job, as the round's look has it. Jobs that cannot
start as things are (held, a dependency, a limit, another's reservation) are left out, and why is
said. An array that Slurm has not split yet waits with as many of its tasks as may run at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gsched.app.forecast.ground import Asked, Ground, ground_of
from gsched.app.forecast.order import QueueOrder, queue_order
from gsched.config.settings import PredictSettings
from gsched.explain.slurm_reasons import explain_reason, is_held, never_starts_there
from gsched.forecast.situation import RunningJob, Situation, WaitingJob
from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState, JobView, PredictionKind, finite_limit_s
from gsched.predict.rolling import QUANTILES
from gsched.slurm.records import QueueRow, SlurmConfig
from gsched.slurm.target_reservations import is_in_own

LEVELS = tuple(QUANTILES)
CLEANING_S = 60.0
"""So long a job that is being cleaned up is taken to hold its nodes."""
DEFAULT_BACKFILL_DEPTH = 500
MAX_TASKS = 200
"""Of an array that waits as a whole so many tasks count."""

_LIMITS = ("Association", "QOS", "AccountingPolicy")
"""How codes begin that name no limit by the grammar of limits."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A situation, and what of the queue is not in it.

    `no_starts` says by Slurm's id why a waiting job has no forecast, `left_out` what of one is not
    considered in its forecast. `waiting` are the views of the jobs that have one.
    """

    situation: Situation
    ground: Ground
    order: QueueOrder
    waiting: Mapping[str, JobView]
    no_starts: Mapping[str, str]
    left_out: Mapping[str, tuple[str, ...]]


def scene_of(
    state: ClusterState,
    rows: Mapping[JobKey, QueueRow],
    config: SlurmConfig,
    settings: PredictSettings,
    by_prediction: bool,
    starvation_bound_s: int = 0,
) -> Scene:
    """The scene of a snapshot whose jobs have their predictions.

    `by_prediction`: the daemon's order of jobs to come will depend on their predicted run times.
    `starvation_bound_s` is that of a daemon that acts.
    """
    views = state.jobs.views
    pending = [v for v in views if v.state is JobState.PENDING]
    ground = ground_of(state, {v.partitions for v in pending})
    order = queue_order(pending, rows, config, state.as_of, by_prediction)
    waiting: list[WaitingJob] = []
    told: dict[str, JobView] = {}
    no_starts: dict[str, str] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for view in pending:
        name, row = view.key.slurm_id, rows[view.key]
        asked = ground.asked(view.request, view.partitions, limit_of(view))
        code = _why_not(row) or asked.problem
        if code:
            no_starts[name] = code
            continue
        job = _waiting_job(view, row, asked, state.as_of, settings)
        waiting += [job, *_other_tasks(job, view, row)]
        told[name] = view
        if asked.left_out:
            left_out[name] = asked.left_out
    running = (_running_job(v, ground, state.as_of, settings) for v in state.jobs.holders())
    situation = Situation(
        as_of=float(state.as_of),
        levels=LEVELS,
        fields=ground.fields,
        nodes=ground.nodes,
        running=tuple(job for job in running if job is not None),
        waiting=tuple(waiting),
        blocked=ground.blocked,
        order_per_s=order.per_s,
        starvation_bound_s=starvation_bound_s,
        backfill_depth=_backfill_depth(config),
    )
    return Scene(situation, ground, order, told, no_starts, left_out)


def quantiles_of(
    view: JobView, limit_s: float | None, settings: PredictSettings
) -> tuple[float, ...]:
    """Its run time at LEVELS; where nothing is predicted its limit, else the site's default."""
    prediction = view.prediction(PredictionKind.DURATION)
    if prediction is None:
        values = np.full(len(LEVELS), limit_s or float(settings.default_duration_s))
    elif not prediction.quantiles:
        values = np.full(len(LEVELS), prediction.mean)
    else:
        levels, known = zip(*prediction.quantiles, strict=True)
        values = np.interp(LEVELS, levels, known)
    longest = np.inf if limit_s is None else limit_s
    return tuple(np.maximum.accumulate(np.clip(values, 1.0, max(1.0, longest))).tolist())


def limit_of(view: JobView) -> float | None:
    """Its time limit in seconds; None for none."""
    limit_s = finite_limit_s(view.time_limit_s)
    return None if not limit_s else float(limit_s)


def _waiting_job(
    view: JobView, row: QueueRow, asked: Asked, as_of: int, settings: PredictSettings
) -> WaitingJob:
    limit_s = limit_of(view)
    return WaitingJob(
        job_id=view.key.slurm_id,
        demands=asked.demands,
        order=-float(row.priority),
        submitted_at=float(min(view.first_submit, as_of)),
        limit_s=limit_s,
        quantiles_s=quantiles_of(view, limit_s, settings),
        eligible_at=eligible_at(row, asked, as_of),
    )


def eligible_at(row: QueueRow, asked: Asked, as_of: int) -> float | None:
    """From when on a job can start: its begin time, or the end of a reservation that takes all of
    its nodes before its limit; None: from now on.
    """
    begins = row.start_time if row.reason == "BeginTime" else None
    first = max(begins or 0, asked.begins_at or 0)
    return float(first) if first > as_of else None


def _other_tasks(first: WaitingJob, view: JobView, row: QueueRow) -> list[WaitingJob]:
    """The tasks of an array behind its first one, as far as they may run beside it."""
    if not row.is_unsplit_array:
        return []
    _, has_most, most = row.array_tasks.partition("%")
    at_once = int(most) if has_most and most.isdecimal() else MAX_TASKS
    tasks = min(view.waiting_tasks, max(1, at_once), MAX_TASKS)
    return [replace(first, job_id=f"{first.job_id}#{number}") for number in range(1, tasks)]


def _running_job(
    view: JobView, ground: Ground, as_of: int, settings: PredictSettings
) -> RunningJob | None:
    """None for one whose nodes are not known, or cannot be used by others when it ends."""
    held = view.allocation
    if held is None:
        return None
    pieces = ground.pieces(held, view.request.num_cpus)
    if not pieces:
        return None
    limit_s, started_at = limit_of(view), min(held.start_time, as_of)
    if view.state is JobState.COMPLETING:
        quantiles_s: tuple[float, ...] = (as_of - started_at + CLEANING_S,) * len(LEVELS)
    else:
        quantiles_s = quantiles_of(view, limit_s, settings)
    return RunningJob(view.key.slurm_id, float(started_at), limit_s, quantiles_s, pieces)


def _backfill_depth(config: SlurmConfig) -> int:
    """How many waiting jobs Slurm's backfill looks at, see slurm.conf(5)."""
    told = config.flags("SchedulerParameters").get("bf_max_job_test", "")
    return int(told) if told.isdecimal() and int(told) else DEFAULT_BACKFILL_DEPTH


def _why_not(row: QueueRow) -> str:
    """A code of ``no_start`` for what cannot start as it is, '' for what can."""
    reason = explain_reason(row.reason)
    if row.priority == 0 or is_held(reason):
        return "held"
    if reason.code == "DependencyNeverSatisfied":
        return "never"
    if len(row.partitions) == 1 and never_starts_there(reason):
        return "never"
    if row.dependency:
        return "dependency"
    if reason.code == "JobArrayTaskLimit":
        return "array-limit"
    if reason.limit is not None or reason.code.startswith(_LIMITS):
        return "limits"
    if row.reservation and not is_in_own(row):
        return "reservation"
    if row.het_offset is not None:
        return "het-job"
    return "shards" if row.shards and not row.num_gpus else ""
