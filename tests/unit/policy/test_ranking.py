from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.model.decision import Rank
from gsched.model.job import Capability, Exclusion, JobKey, JobState
from gsched.policy.ranking import (
    job_sizes,
    magnitude_level,
    order_queues,
    position_level,
    rank_by_magnitude,
)


def ids(jobs, rows):
    return [jobs.keys[row].job_id for row in rows]


def test_sizes_count_gpus_else_cpus_and_at_least_one():
    jobs = snapshot([view(1, gpus=4), view(2, gpus=0, cpus=16), view(3, gpus=0, cpus=0)]).jobs
    assert job_sizes(jobs).tolist() == [4.0, 16.0, 1.0]


def test_queues_hold_reorderable_jobs_with_a_usable_key():
    held = (Exclusion(Capability.REORDER, "opt-out", ""),)
    jobs = snapshot(
        [
            view(1),
            view(2, gpus=0),
            view(3, state=JobState.RUNNING),
            view(4, exclusions=held),
            view(5),
            view(6),
            view(7),
            view(8, exclusions=(Exclusion(Capability.PREEMPT, "no-requeue", ""),)),
        ]
    ).jobs
    keys = np.array([2.0, 1.0, 0.0, 0.0, math.nan, math.inf, -1.0, 1.0])
    queues = order_queues(jobs, keys)
    assert ids(jobs, queues["gpu"]) == [8, 1]
    assert ids(jobs, queues["cpu"]) == [2]


def test_ties_go_by_first_submit_then_by_key():
    views = [
        view(9, submit=T0 + 5),
        view(7, array_task=2),
        view(7, array_task=1),
        view(3, submit=T0 + 5),
        view(8),
    ]
    jobs = snapshot(views).jobs
    rows = order_queues(jobs, np.ones(5))["gpu"]
    order = [(jobs.keys[row].job_id, jobs.keys[row].array_task) for row in rows]
    assert order == [(7, 1), (7, 2), (8, None), (3, None), (9, None)]


def test_parts_of_a_het_job_and_reused_ids_have_an_order_too():
    keys = [JobKey("c", 7, None, 1, 5), JobKey("c", 7, None, 0, 9), JobKey("c", 7, None, 0, 5)]
    jobs = snapshot([replace(view(7), key=key) for key in keys]).jobs
    rows = order_queues(jobs, np.ones(3))["gpu"]
    assert [jobs.keys[row] for row in rows] == [keys[2], keys[1], keys[0]]


def test_level_counts_octaves_and_ends_at_one():
    assert magnitude_level(100.0, 100.0, 8) == 0.0
    assert magnitude_level(50.0, 100.0, 8) == pytest.approx(1 / 8)
    assert magnitude_level(400.0, 100.0, 8) == pytest.approx(-2 / 8)
    assert magnitude_level(1e9, 100.0, 8) == -1.0
    assert magnitude_level(1e-9, 100.0, 8) == 1.0
    assert magnitude_level(0.0, 100.0, 8) == 1.0
    assert magnitude_level(1e300, 5e-324, 8) == -1.0


def test_positions_are_spread_evenly_around_the_middle():
    assert [position_level(p, 4) for p in (1, 2, 3, 4)] == [0.75, 0.25, -0.25, -0.75]
    assert position_level(1, 1) == 0.0


def rank(keys, memory=None):
    jobs = snapshot([view(i) for i in range(len(keys))]).jobs
    order, kept = rank_by_magnitude(jobs, np.array(keys, dtype=float), memory or {}, 8)
    return {key.job_id: r for key, r in order.items()}, kept


def test_the_first_median_becomes_the_reference():
    ranks, memory = rank([10, 40, 1000])
    assert memory == {"version": 1, "reference": {"gpu": 40.0}}
    levels = [ranks[i].level for i in range(3)]
    assert levels == pytest.approx([0.25, 0.0, -math.log2(25) / 8])
    assert [(r.position, r.of, r.queue, r.key) for r in ranks.values()] == [
        (1, 3, "gpu", 10.0),
        (2, 3, "gpu", 40.0),
        (3, 3, "gpu", 1000.0),
    ]


@pytest.mark.parametrize("median", [10.0, 25.0, 100.0, 160.0])
def test_the_reference_stays_while_the_median_is_within_a_factor_of_four(median):
    _, memory = rank([median], {"version": 1, "reference": {"gpu": 40.0}})
    assert memory["reference"] == {"gpu": 40.0}


@pytest.mark.parametrize("median", [9.9, 161.0])
def test_beyond_that_it_is_centred_anew(median):
    ranks, memory = rank([median], {"version": 1, "reference": {"gpu": 40.0}})
    assert memory["reference"] == {"gpu": median}
    assert ranks[0].level == 0.0


def test_an_empty_queue_keeps_its_reference():
    _, memory = rank([], {"version": 1, "reference": {"gpu": 40.0, "cpu": 7.0}})
    assert memory == {"version": 1, "reference": {"gpu": 40.0, "cpu": 7.0}}
    assert rank([])[1] == {"version": 1, "reference": {}}


def test_a_queue_of_zero_keys_is_first_and_breaks_nothing():
    ranks, memory = rank([0.0, 0.0])
    assert [r.level for r in ranks.values()] == [1.0, 1.0]
    assert rank([0.0, 0.0], memory)[1] == memory


@pytest.mark.parametrize(
    "memory",
    [
        {"version": 2, "reference": {"gpu": 40.0}},
        {"reference": {"gpu": 40.0}},
        {"version": 1},
        {"version": 1, "reference": [40.0]},
        {"version": 1, "reference": {"gpu": "40"}},
        {"version": 1, "reference": {"gpu": True}},
        {"version": 1, "reference": {"gpu": -1.0}},
        {"version": 1, "reference": {"gpu": 0}},
        {"version": 1, "reference": {"gpu": math.nan}},
        {"version": 1, "reference": {"gpu": None}},
        {"version": 1, "reference": {"tpu": 40.0}},
        {"version": "1", "reference": None, "junk": [{}]},
    ],
)
def test_memory_of_another_kind_is_forgotten(memory):
    _, kept = rank([30.0], memory)
    assert kept == {"version": 1, "reference": {"gpu": 30.0}}


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=30), st.randoms())
def test_levels_follow_positions_and_survive_departures(keys, random):
    ranks, memory = rank(keys)
    by_position = sorted(ranks.values(), key=lambda r: r.position)
    assert [r.level for r in by_position] == sorted((r.level for r in by_position), reverse=True)
    assert all(-1 <= r.level <= 1 for r in by_position)
    memory = json.loads(json.dumps(memory))
    again, kept = rank(keys, memory)
    assert (again, kept) == (ranks, memory)
    stays = random.randrange(len(keys))  # the others leave
    alone, after = rank([keys[stays]], memory)
    if after == memory:
        assert alone[0].level == ranks[stays].level
    else:
        assert abs(math.log(keys[stays] / memory["reference"]["gpu"])) > math.log(4)


# -- columns against a plain reference --------------------------------------------------------


def plain_ranks(jobs, keys, span_octaves):
    """The same order and levels job by job, by sorted() and math."""
    queues = {"gpu": [], "cpu": []}
    for row, job in enumerate(jobs.views):
        if jobs.reorderable[row] and math.isfinite(keys[row]) and keys[row] >= 0:
            queues["gpu" if job.request.gpus.minimum > 0 else "cpu"].append(row)

    def place(row):
        job = jobs.views[row]
        task = -1 if job.key.array_task is None else job.key.array_task
        return float(keys[row]), job.first_submit, job.key.job_id, task

    ranks, references = {}, {}
    for queue, rows in queues.items():
        rows.sort(key=place)
        positive = [float(keys[row]) for row in rows if keys[row] > 0]
        if rows:
            references[queue] = statistics.median(positive) if positive else 1.0
        for position, row in enumerate(rows, 1):
            key = float(keys[row])
            octaves = math.inf if key == 0 else math.log2(references[queue]) - math.log2(key)
            level = max(-1.0, min(1.0, octaves / span_octaves))
            ranks[jobs.keys[row]] = Rank(queue, position, len(rows), key, level)
    return ranks, references


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.floats() | st.sampled_from([0.0, 1.0, 1.0, 2.0, math.nan]),
            st.integers(0, 2),
            st.integers(0, 3),
            st.none() | st.integers(0, 3),
            st.sampled_from([(), (), (Exclusion(Capability.REORDER, "opt-out", ""),)]),
        ),
        max_size=30,
        unique_by=lambda row: (row[2], row[3], row[4]),
    ),
    st.floats(1, 32),
)
def test_columns_give_the_plain_order_with_its_ties(rows, span_octaves):
    jobs = snapshot(
        [
            view(i, gpus=gpus, submit=T0 + late, array_task=task, exclusions=barred)
            for gpus, _, late, i, task, barred in rows
        ]
    ).jobs
    keys = np.array([key for _, key, *_ in rows], dtype=float)
    order, memory = rank_by_magnitude(jobs, keys, {}, span_octaves)
    ranks, references = plain_ranks(jobs, keys, span_octaves)
    assert memory["reference"] == pytest.approx(references)
    assert order.keys() == ranks.keys()
    for key, rank in order.items():
        level = ranks[key].level
        assert rank == replace(ranks[key], level=rank.level)
        assert rank.level == pytest.approx(level, abs=1e-9)
