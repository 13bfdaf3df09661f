"""What policies see of simulated jobs, by column and as records."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from support.sim_jobs import sim_jobs

from gsched.model.job import GpuOption, JobKey, JobState, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY
from gsched.sim.table import ORACLE, TRACE, Records, job_table

JOBS = replace(
    sim_jobs(
        [0.0, 2.5, 7.0],
        [10.0, 20.0, 30.0],
        origin=1_000,
        num_gpus=[1, 16, 2],
        num_nodes=[0, 2, 1],
        num_cpus=[4, 8, 1],
        pool=[0, 1, 0],
        tenant=[0, 1, ANY],
        time_limit_s=[60.0, np.nan, 90.0],
        deadline_s=[np.nan, 50.0, np.nan],
        predicted_duration_s=[11.0, np.nan, 33.0],
        gpu_type=[ANY, ANY, 1],
    ),
    names=("train", "eval"),
    name=np.array([0, 1, ANY], dtype=np.int32),
)
CLUSTER = replace(
    SimCluster.uniform({"a": 1, "b": 2}),
    gpu_types=("v100", "a100"),
    type_speed=np.array([1.0, 2.0]),
)


def records(oracle: bool = False) -> Records:
    return Records(JOBS, CLUSTER, oracle)


def test_a_record_tells_what_the_columns_tell() -> None:
    first, second, third = records()
    assert first.key == JobKey("c", 1, epoch=1_000)
    assert (second.key.epoch, second.first_submit, second.attempt) == (1_002, 1_002, 1_002)
    assert {r.state for r in records()} == {JobState.PENDING}
    assert [r.user for r in records()] == ["u0"] * 3
    assert [r.tenant for r in records()] == ["t0", "t1", ""]
    assert [r.name for r in records()] == ["train", "eval", ""]
    assert [r.partitions for r in records()] == [("a",), ("b",), ("a",)]
    assert [r.request.gpus.minimum for r in records()] == [1, 16, 2]
    assert [r.request.nodes.minimum for r in records()] == [1, 2, 1]
    assert [r.request.num_cpus for r in records()] == [4, 8, 1]
    assert [r.time_limit_s for r in records()] == [60, None, 90]
    assert [r.wants.deadline for r in records()] == [None, 1_050, None]
    assert first.request.gpu_options == ()
    assert third.request.gpu_options == (GpuOption("a100", 2),)


@pytest.mark.parametrize(
    ("oracle", "told", "source"),
    [(False, [11.0, None, 33.0], TRACE), (True, [10.0, 20.0, 30.0], ORACLE)],
)
def test_only_an_oracle_is_told_the_truth(
    oracle: bool, told: list[float | None], source: str
) -> None:
    predictions = [r.prediction(PredictionKind.DURATION) for r in records(oracle)]
    assert [p.mean if p else None for p in predictions] == told
    assert {p.source for p in predictions if p} == {source}


@pytest.mark.parametrize("oracle", [False, True])
def test_the_columns_are_those_of_a_table_of_the_records(oracle: bool) -> None:
    table = job_table(JOBS, CLUSTER, oracle)
    made = JobTable.from_views(records(oracle))
    for field in fields(JobTable):
        if field.name in {"keys", "views", "tenant", "tenants", "_key_parts", "_row"}:
            continue
        one, other = getattr(table, field.name), getattr(made, field.name)
        np.testing.assert_array_equal(one, other, err_msg=field.name)
        assert one.dtype == other.dtype, field.name
    assert list(table.keys) == list(made.keys)
    assert list(table.views) == list(made.views)
    assert [table.tenants[code] for code in table.tenant] == [v.tenant for v in made.views]


def test_keys_and_rows_lead_to_each_other() -> None:
    table = job_table(JOBS, CLUSTER, oracle=False)
    for row, key in enumerate(table.keys):
        assert table.row(key) == row
        assert table.view(key).key == key
        assert key in table
    for other in (
        JobKey("c", 0, epoch=1_000),
        JobKey("c", 4, epoch=1_000),
        JobKey("c", 1, epoch=1_001),
        JobKey("d", 1, epoch=1_000),
        JobKey("c", 1, array_task=1, epoch=1_000),
    ):
        assert other not in table
        with pytest.raises(KeyError):
            table.row(other)
    assert table.keys[-1] == table.keys[2]
    assert table.keys[1:] == [table.keys[1], table.keys[2]]
    with pytest.raises(IndexError):
        table.keys[3]


def test_a_part_of_the_table_is_a_table() -> None:
    part = job_table(JOBS, CLUSTER, oracle=True).take(np.array([2, 0]))
    assert [key.job_id for key in part.keys] == [3, 1]
    assert part.predicted_duration_s.tolist() == [30.0, 10.0]
    assert part.row(part.keys[1]) == 1


def test_columns_cannot_be_changed() -> None:
    table = job_table(JOBS, CLUSTER, oracle=True)
    with pytest.raises(ValueError, match="read-only"):
        table.predicted_duration_s[0] = 5.0
    JOBS.duration_s[0] = JOBS.duration_s[0]  # the source's own can


def test_a_million_jobs_become_no_objects() -> None:
    many = sim_jobs(np.arange(100_000.0), np.ones(100_000), predicted_duration_s=1.0)
    tracemalloc.start()
    table = job_table(many, CLUSTER, oracle=False)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 * len(many)  # bytes
    assert [k.job_id for k in itertools.islice(table.keys, 2)] == [1, 2]
