"""Job views, snapshots and past jobs, made by hand for tests of policies and estimators."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.model.cluster import ClusterState
from gsched.model.history import PastJob
from gsched.model.job import (
    CountRange,
    Exclusion,
    GpuRange,
    JobKey,
    JobState,
    JobView,
    Prediction,
    PredictionKind,
    Request,
)
from gsched.model.jobtable import JobTable

T0 = 1_750_000_000
"""A moment in 2025: when test histories begin."""


def view(
    job_id: int = 1,
    *,
    gpus: int = 1,
    cpus: int = 4,
    duration_s: float | None = None,
    submit: int = T0,
    user: str = "ann",
    name: str = "train",
    state: JobState = JobState.PENDING,
    exclusions: tuple[Exclusion, ...] = (),
    array_task: int | None = None,
    time_limit_s: int | None = None,
    partitions: tuple[str, ...] = ("gpu",),
) -> JobView:
    """A job; with `duration_s` it carries a prediction of a rule called ``test``."""
    predictions = ()
    if duration_s is not None:
        predictions = (Prediction(PredictionKind.DURATION, duration_s, (), "test", "m", 3, submit),)
    return JobView(
        key=JobKey("c", job_id, array_task, epoch=submit),
        attempt=submit,
        state=state,
        user=user,
        tenant="lab",
        qos="normal",
        partitions=partitions,
        name=name,
        request=Request(CountRange(1, 1), GpuRange(gpus, gpus), num_cpus=cpus),
        first_submit=submit,
        eligible=submit,
        time_limit_s=time_limit_s,
        predictions=predictions,
        exclusions=exclusions,
    )


def snapshot(views: Iterable[JobView]) -> ClusterState:
    """A snapshot with these jobs and no nodes."""
    return ClusterState("c", T0, 1, (), (), (), JobTable.from_views(views))


def past_job(
    job_id: int,
    duration_s: int,
    *,
    end: int,
    submit: int | None = None,
    user: str = "ann",
    name: str = "train",
    gpus: int = 1,
    cpus: int = 4,
    state: JobState = JobState.COMPLETED,
    time_limit_s: int | None = None,
) -> PastJob:
    """A job that ended at `end`; submitted when it started, unless told otherwise."""
    start = end - duration_s
    return PastJob(
        cluster="c",
        job_id=job_id,
        submit_time=start if submit is None else submit,
        start_time=start,
        end_time=end,
        user=user,
        tenant="lab",
        partition="gpu",
        name=name,
        num_gpus=gpus,
        num_cpus=cpus,
        num_nodes=1,
        time_limit_s=time_limit_s,
        state=state,
    )
