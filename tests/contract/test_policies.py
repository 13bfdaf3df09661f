"""One body for every registered policy, and for several in one: what the engine and both backends
count on.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.model.job import Capability, Exclusion, JobState
from gsched.policy.base import OrderKind, Policy
from gsched.policy.registry import POLICIES, load_scoped
from gsched.policy.scoped import Scoped

SCOPED = {"qssf": {"debug": "fewest-gpus"}, "fewest-gpus": {"debug": "fifo"}}
"""Policies of several: the default one, and that of a partition."""

CASES = [*POLICIES, *(f"{name}, scoped" for name in SCOPED)]


def load(name: str) -> Policy:
    """The policy of a case."""
    default, _, is_scoped = name.partition(", ")
    return load_scoped(default, SCOPED[default] if is_scoped else {}, {})


STATIC = [name for name in CASES if load(name).order_kind is OrderKind.STATIC]
EXCLUDED = (Exclusion(Capability.REORDER, "opt-out", "asked to be left alone"),)


@pytest.fixture(params=CASES)
def policy(request) -> Policy:
    return load(request.param)


@st.composite
def job_views(draw, max_size=12):
    """Pending, running and excluded jobs, with and without GPUs and predictions."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 16),
                st.integers(0, 64),
                st.none() | st.floats(0, 1e6),
                st.integers(0, 5),
                st.sampled_from([JobState.PENDING] * 3 + [JobState.RUNNING]),
                st.sampled_from([(), (), (), EXCLUDED]),
                st.sampled_from([("gpu",), ("debug",)]),
            ),
            max_size=max_size,
        )
    )
    return [
        view(
            i,
            gpus=gpus,
            cpus=cpus,
            duration_s=duration_s,
            submit=T0 + late,
            state=state,
            exclusions=exclusions,
            partitions=partitions,
        )
        for i, (gpus, cpus, duration_s, late, state, exclusions, partitions) in enumerate(rows)
    ]


@pytest.mark.parametrize("name", CASES)
@given(views=job_views(), order=st.randoms())
def test_the_order_of_the_input_rows_changes_nothing(name, views, order):
    policy = load(name)
    shuffled = list(views)
    order.shuffle(shuffled)
    first = policy.decide(snapshot(views), {}, T0 + 10)
    second = policy.decide(snapshot(shuffled), {}, T0 + 10)
    assert first.order == second.order
    assert first.reasons == second.reasons
    assert first.memory == second.memory


@pytest.mark.parametrize("name", CASES)
@given(views=job_views())
def test_deciding_again_with_the_stored_memory_changes_nothing(name, views):
    policy = load(name)
    state = snapshot(views)
    first = policy.decide(state, {}, T0 + 10)
    stored = json.loads(json.dumps(first.memory, allow_nan=False))
    assert stored == first.memory
    again = policy.decide(replace(state, seq=2, as_of=T0 + 40), stored, T0 + 40)
    assert (again.order, again.reasons, again.memory) == (first.order, first.reasons, first.memory)


@pytest.mark.parametrize("name", CASES)
@given(views=job_views())
def test_ranks_are_complete_and_belong_to_jobs_that_may_be_moved(name, views):
    state, policy = snapshot(views), load(name)
    parts = policy.policies if isinstance(policy, Scoped) else (policy,)
    decision = policy.decide(state, {}, T0 + 10)
    movable = {v.key for v in views if v.state is JobState.PENDING and not v.exclusions}
    assert set(decision.order) <= movable
    assert set(decision.reasons) == movable
    for queue in ("gpu", "cpu"):
        ranks = [r for r in decision.order.values() if r.queue == queue]
        assert sorted(r.position for r in ranks) == list(range(1, len(ranks) + 1))
        assert {r.of for r in ranks} <= {len(ranks)}
        ordered = sorted(ranks, key=lambda r: r.position)
        if len(parts) == 1:  # keys of several have nothing in common
            assert [r.key for r in ordered] == sorted(r.key for r in ordered)
        assert [r.level for r in ordered] == sorted((r.level for r in ordered), reverse=True)
        assert all(-1.0 <= r.level <= 1.0 for r in ordered)
    for key, rank in decision.order.items():
        assert rank.queue == ("gpu" if state.jobs.view(key).request.gpus.minimum else "cpu")
    for reason in decision.reasons.values():
        assert reason.code.partition(".")[0] in {part.name for part in parts}
        json.dumps(dict(reason.params), allow_nan=False)


@pytest.mark.parametrize("name", STATIC)
@given(views=job_views())
def test_a_static_policy_orders_by_its_key_whatever_else_waits(name, views):
    policy = load(name)
    jobs = snapshot(views).jobs
    keys = policy.static_key(jobs)
    assert keys.dtype == np.float64
    assert keys.shape == (len(views),)
    order = policy.decide(snapshot(views), {}, T0 + 10).order
    for row, key in enumerate(jobs.keys):
        if key in order:
            assert order[key].key == keys[row]
        alone = policy.static_key(snapshot([jobs.views[row]]).jobs)[0]
        assert alone == keys[row] or (math.isnan(alone) and math.isnan(keys[row]))


@st.composite
def jobs_of_similar_size(draw, job_ids):
    """GPU and CPU jobs whose keys lie so near each other that no policy's reference moves."""
    return [
        view(
            i,
            gpus=gpus,
            partitions=(partition,),
            cpus=draw(st.integers(2, 3)),
            duration_s=draw(st.floats(100.0, 130.0)),
            submit=T0 + draw(st.integers(0, 9)),
        )
        for i, (gpus, partition) in zip(job_ids, _kinds(draw, len(job_ids)), strict=True)
    ]


def _kinds(draw, count):
    """GPUs and partition of so many jobs: of each queue and each policy there are some."""
    kinds = [(gpus, partition) for gpus in (0, 1) for partition in ("gpu", "debug")]
    return kinds + [
        (draw(st.integers(0, 2)), draw(st.sampled_from(["gpu", "debug"]))) for _ in range(4, count)
    ]


@pytest.mark.parametrize("name", STATIC)
@given(
    stay=jobs_of_similar_size(range(0, 5)),
    leave=jobs_of_similar_size(range(5, 10)),
    come=jobs_of_similar_size(range(10, 15)),
)
def test_a_static_policys_level_does_not_move_when_other_jobs_leave_or_come(
    name, stay, leave, come
):
    policy = load(name)
    before = policy.decide(snapshot([*stay, *leave]), {}, T0 + 10)
    after = policy.decide(snapshot([*come, *stay]), before.memory, T0 + 40)
    assert after.memory == before.memory
    assert len(stay) == len(before.order.keys() & after.order.keys())
    for job in stay:
        assert after.order[job.key].level == before.order[job.key].level


def test_a_job_without_prediction_is_ranked_unless_the_policy_needs_one(policy):
    decision = policy.decide(snapshot([view(1), view(2, duration_s=5.0)]), {}, T0)
    assert len(decision.order) == (1 if policy.needs_prediction else 2)


def test_nothing_waits(policy):
    decision = policy.decide(snapshot([]), {}, T0)
    assert (decision.order, decision.actions, decision.reasons) == ({}, (), {})


@pytest.mark.parametrize("memory", [{"version": 99}, {"version": 1, "reference": "x"}, {"a": [1]}])
def test_strange_memory_is_no_reason_to_fail(policy, memory):
    state = snapshot([view(1, duration_s=5.0), view(2, duration_s=50.0)])
    assert policy.decide(state, memory, T0).order == policy.decide(state, {}, T0).order
