"""What policies see of simulated jobs: by column, and as records that are made when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from gsched.model.job import (
    CountRange,
    GpuOption,
    GpuRange,
    JobKey,
    JobState,
    JobView,
    Prediction,
    PredictionKind,
    Request,
    Wants,
)
from gsched.model.jobtable import FloatColumn, IntColumn, JobTable, TextColumn
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, Floats, SimJobs

ORACLE = "oracle"
"""Source of a prediction that is the truth."""

TRACE = "trace"
"""Source of a prediction that came with the jobs."""


class Keys(Sequence[JobKey]):
    """The key of each job; its number counts the rows from 1, whatever the source calls it."""

    def __init__(self, jobs: SimJobs) -> None:
        self._jobs = jobs
        self._first_submit = first_submits(jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, row: int) -> JobKey: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[JobKey]: ...
    def __getitem__(self, row: int | slice) -> JobKey | Sequence[JobKey]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        return JobKey(self._jobs.cluster, row + 1, epoch=int(self._first_submit[row]))


class Rows(Mapping[JobKey, int]):
    """The row of each key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[JobKey]:
        return iter(self._keys)

    def __getitem__(self, key: JobKey) -> int:
        row = key.job_id - 1
        if not (0 <= row < len(self._keys) and self._keys[row] == key):
            raise KeyError(key)
        return row


class Records(Sequence[JobView]):
    """The record of each job as it waits for its first start."""

    def __init__(self, jobs: SimJobs, cluster: SimCluster, oracle: bool) -> None:
        self._jobs = jobs
        self._pools = cluster.pools
        self._gpu_types = cluster.gpu_types
        self._keys = Keys(jobs)
        self._told = told_durations(jobs, oracle)
        self._source = ORACLE if oracle else TRACE

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, row: int) -> JobView: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[JobView]: ...
    def __getitem__(self, row: int | slice) -> JobView | Sequence[JobView]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        return self._record(range(len(self))[row])

    def _record(self, row: int) -> JobView:
        jobs, key = self._jobs, self._keys[row]
        return JobView(
            key=key,
            attempt=key.epoch,
            state=JobState.PENDING,
            user=_named(jobs.users, jobs.user[row]),
            tenant=_named(jobs.tenants, jobs.tenant[row]),
            qos="",
            partitions=(self._pools[jobs.pool[row]],),
            name=_named(jobs.names, jobs.name[row]),
            request=self._request(row),
            first_submit=key.epoch,
            eligible=key.epoch,
            time_limit_s=_whole(jobs.time_limit_s[row]),
            wants=self._wants(row),
            predictions=self._prediction(row),
            attained_gpu_s=0.0,
        )

    def _wants(self, row: int) -> Wants:
        jobs = self._jobs
        soft = jobs.soft_deadlines.get(row)
        if soft is None:
            return Wants(deadline=_whole(jobs.deadline_s[row] + jobs.origin))
        return Wants(
            soft_deadlines=tuple((int(time) + jobs.origin, reward) for time, reward in soft)
        )

    def _request(self, row: int) -> Request:
        jobs = self._jobs
        gpus, nodes = int(jobs.num_gpus[row]), max(1, int(jobs.num_nodes[row]))
        kind = _named(self._gpu_types, jobs.gpu_type[row])
        options = (GpuOption(kind, gpus),) if kind else ()
        return _request(nodes, gpus, int(jobs.num_cpus[row]), options)

    def _prediction(self, row: int) -> tuple[Prediction, ...]:
        told = float(self._told[row])
        if np.isnan(told):
            return ()
        as_of = self._keys[row].epoch
        return (
            Prediction(PredictionKind.DURATION, told, (), self._source, self._source, 0, as_of),
        )


def job_table(jobs: SimJobs, cluster: SimCluster, oracle: bool) -> JobTable:
    """All jobs as if they waited now, for what goes by column alone.

    With `oracle` the predicted durations are the true ones. Neither keys nor records are made
    before somebody asks for one.
    """
    count = len(jobs)
    keys = Keys(jobs)
    submits = first_submits(jobs)
    told = told_durations(jobs, oracle)
    everyone, nobody = np.broadcast_to(True, count), np.broadcast_to(False, count)
    columns: dict[str, Any] = {
        "pending": everyone,
        "running": nobody,
        "reorderable": everyone,
        "num_gpus": jobs.num_gpus.astype(np.int64),
        "num_cpus": jobs.num_cpus.astype(np.int64),
        "num_nodes": np.maximum(jobs.num_nodes, 1).astype(np.int64),
        "first_submit": submits,
        "waiting_since": submits.astype(np.float64),
        "time_limit_s": jobs.time_limit_s.view(),
        "predicted_duration_s": told.view(),
        "prediction_source": _sources(told, ORACLE if oracle else TRACE),
        "similar_jobs": np.broadcast_to(np.int64(0), count),
        "tie": np.arange(count, dtype=np.int64),
        "attained_gpu_s": np.broadcast_to(0.0, count),
        "deadline": jobs.deadline_s + jobs.origin,
        "tenant": _tenant_codes(jobs),
        "_key_parts": np.broadcast_to(np.int64(0), (count, 4)),
    }
    for column in columns.values():
        column.flags.writeable = False
    records = Records(jobs, cluster, oracle)
    nobody_s = ("",) if (jobs.tenant == ANY).any() else ()
    return JobTable(
        keys=keys,
        views=records,
        tenants=(*jobs.tenants, *nobody_s),
        _row=Rows(keys),
        **columns,
    )


def _tenant_codes(jobs: SimJobs) -> IntColumn:
    """Those of `jobs`; one more for jobs of nobody in particular."""
    return np.where(jobs.tenant == ANY, len(jobs.tenants), jobs.tenant).astype(np.int64)


def first_submits(jobs: SimJobs) -> IntColumn:
    """Epoch seconds, as records have them: whole ones."""
    return np.floor(jobs.submit_s).astype(np.int64) + jobs.origin


def told_durations(jobs: SimJobs, oracle: bool) -> Floats:
    """What a policy is told of run times: the truth only as an oracle."""
    return jobs.duration_s if oracle else jobs.predicted_duration_s


def _sources(told: FloatColumn, source: str) -> TextColumn:
    nothing = np.isnan(told)
    if not nothing.any():
        return np.broadcast_to(np.array(source, dtype=np.object_), told.shape)
    return np.where(nothing, "", source).astype(np.object_)


def _named(names: Sequence[str], index: int) -> str:
    return "" if index == ANY else names[index]


@lru_cache(maxsize=4096)
def _request(nodes: int, gpus: int, num_cpus: int, options: tuple[GpuOption, ...]) -> Request:
    return Request(CountRange(nodes, nodes), GpuRange(gpus, gpus), num_cpus, options)


def _whole(seconds: float) -> int | None:
    return None if np.isnan(seconds) else int(seconds)
