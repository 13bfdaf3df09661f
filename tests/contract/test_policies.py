"""One body for every registered policy, and for several in one: what the engine and both backends
count on.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.explain.policy_reasons import policy_reason
from gsched.model.cluster import NodeView
from gsched.model.decision import Admit, Grant, Renew, Revoke
from gsched.model.job import (
    Allocation,
    Capability,
    Exclusion,
    JobState,
    Lease,
    LeaseState,
    Wants,
)
from gsched.policy.base import OrderKind, Policy
from gsched.policy.formed import FormedPolicy
from gsched.policy.registry import POLICIES, load_scoped
from gsched.policy.scoped import Scoped

SCOPED = {"qssf": {"debug": "fewest-gpus"}, "fewest-gpus": {"debug": "fifo"}}
"""Policies of several: the default one, and that of a partition."""

CASES = [*POLICIES, *(f"{name}, scoped" for name in SCOPED)]


def load(name: str) -> Policy:
    """The policy of a case."""
    default, _, is_scoped = name.partition(", ")
    return load_scoped(default, SCOPED[default] if is_scoped else {}, {})


FORMED = [name for name in POLICIES if isinstance(load(name), FormedPolicy)]
IN_CLOSED_FORM = [name for name in POLICIES if load(name).order_form(snapshot([]).jobs)]
"""All but those that plan."""
PREEMPTING = [name for name in CASES if Capability.PREEMPT in load(name).requires]
STATIC = [name for name in CASES if load(name).order_kind is OrderKind.STATIC]
EACH = settings(max_examples=30)
"""Examples for each of the policies, which are many."""

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
                st.sampled_from(["lab", "team", "zoo"]),
                st.none() | st.integers(0, 100_000).map(float),
                st.none() | st.integers(T0, T0 + 9),
            ),
            max_size=max_size,
        )
    )
    views = [
        replace(
            view(
                i,
                gpus=gpus,
                cpus=cpus,
                duration_s=duration_s,
                submit=T0 + late,
                state=state,
                exclusions=exclusions,
                partitions=partitions,
            ),
            tenant=tenant,
            attained_gpu_s=attained,
            wants=Wants(deadline=deadline),
        )
        for i, (
            gpus, cpus, duration_s, late, state, exclusions, partitions, tenant, attained, deadline
        ) in enumerate(rows)
    ]  # fmt: skip
    return [on_a_node(v, draw) if v.state is JobState.RUNNING else v for v in views]


def on_a_node(running, draw):
    """With GPUs of a node, and perhaps a lease that is over, or runs."""
    lease = draw(
        st.none() | st.builds(Lease, st.just(f"l{running.key.job_id}"),
                              st.sampled_from([LeaseState.GRANTED, LeaseState.SIGNALLED]),
                              st.just(T0), st.sampled_from([0, 5, 3600]))
    )  # fmt: skip
    allocation = Allocation((running.partitions[0],), (running.request.gpus.minimum,), T0)
    return replace(running, allocation=allocation, lease=lease)


def cluster(views):
    """A snapshot of two partitions with one node each, of the same name, and some room."""
    state = snapshot(views)
    held = {"gpu": 0, "debug": 0}
    for running in views:
        if running.state is JobState.RUNNING:
            held[running.partitions[0]] += running.request.gpus.minimum
    nodes = [
        NodeView(name, "mixed", (), 64, 0, (("", used + 6),), (name,), gpus_used=used)
        for name, used in held.items()
    ]
    return replace(state, nodes=tuple(nodes), as_of=T0 + 10)


@pytest.mark.parametrize("name", CASES)
@EACH
@given(views=job_views(), order=st.randoms())
def test_the_order_of_the_input_rows_changes_nothing(name, views, order):
    shuffled = list(views)
    order.shuffle(shuffled)
    first = load(name).decide(cluster(views), {}, T0 + 10)
    second = load(name).decide(cluster(shuffled), {}, T0 + 10)
    assert first.order == second.order
    assert first.reasons == second.reasons
    assert first.memory == second.memory
    assert first.next_wakeup == second.next_wakeup
    assert sorted(map(repr, first.actions)) == sorted(map(repr, second.actions))


@pytest.mark.parametrize("name", CASES)
@EACH
@given(views=job_views())
def test_deciding_again_with_the_stored_memory_changes_nothing(name, views):
    policy = load(name)
    state = cluster(views)
    first = policy.decide(state, {}, T0 + 10)
    stored = json.loads(json.dumps(first.memory, allow_nan=False))
    assert stored == first.memory
    later = T0 + 40 if policy.order_kind is OrderKind.STATIC else T0 + 10
    again = policy.decide(replace(state, seq=2, as_of=later), stored, later)
    assert (again.order, again.reasons, again.memory) == (first.order, first.reasons, first.memory)


@pytest.mark.parametrize("name", CASES)
@EACH
@given(views=job_views())
def test_ranks_are_complete_and_belong_to_jobs_that_may_be_moved(name, views):
    state, policy = cluster(views), load(name)
    parts = policy.policies if isinstance(policy, Scoped) else (policy,)
    decision = policy.decide(state, {}, T0 + 10)
    movable = {v.key for v in views if v.state is JobState.PENDING and not v.exclusions}
    assert set(decision.order) <= movable
    running = {v.key for v in views if v.state is JobState.RUNNING}
    answered = {a.key for a in decision.actions if isinstance(a, Admit)}
    assert set(decision.reasons) == movable | (answered & running)
    for queue in ("gpu", "cpu"):
        ranks = [r for r in decision.order.values() if r.queue == queue]
        assert sorted(r.position for r in ranks) == list(range(1, len(ranks) + 1))
        assert {r.of for r in ranks} <= {len(ranks)}
        ordered = sorted(ranks, key=lambda r: r.position)
        assert [r.level for r in ordered] == sorted((r.level for r in ordered), reverse=True)
        assert all(-1.0 <= r.level <= 1.0 for r in ordered)
    for key, rank in decision.order.items():
        assert rank.queue == ("gpu" if state.jobs.view(key).request.gpus.minimum else "cpu")
    for reason in decision.reasons.values():
        assert reason.code.partition(".")[0] in {part.name for part in parts}
        json.dumps(dict(reason.params), allow_nan=False)


@pytest.mark.parametrize("name", STATIC)
@EACH
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
@EACH
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
    needs_one = policy.needs_prediction or Capability.ORACLE in policy.requires
    jobs = [view(1), view(2, duration_s=5.0)]
    decision = policy.decide(snapshot(jobs), {}, T0)
    assert len(decision.order) == (1 if needs_one else 2)
    if needs_one:
        assert decision.reasons[jobs[0].key].code.endswith(".no-prediction")
        nothing = policy.decide(snapshot(jobs[:1]), {}, T0)
        assert nothing.reasons[jobs[0].key].code.endswith(".last-order-stands")


def test_nothing_waits(policy):
    decision = policy.decide(snapshot([]), {}, T0)
    assert (decision.order, decision.actions, decision.reasons) == ({}, (), {})


@pytest.mark.parametrize("memory", [{"version": 99}, {"version": 1, "reference": "x"}, {"a": [1]}])
def test_strange_memory_is_no_reason_to_fail(policy, memory):
    state = snapshot([view(1, duration_s=5.0), view(2, duration_s=50.0)])
    assert policy.decide(state, memory, T0).order == policy.decide(state, {}, T0).order


# -- the form ---------------------------------------------------------------------------------


def key_of(form, state, row, now):
    """The key of one job at `now`, worked out by itself from what the form says."""
    jobs, one = state.jobs, state.jobs.views[row]
    attained = one.attained_gpu_s or 0.0
    executed_s = attained / max(one.request.gpus.minimum, 1)
    elapsed_s = min(now - one.first_submit, form.elapsed_cap_s)
    key = form.constant[row]
    key += form.per_executed_s[row] * executed_s + form.per_elapsed_s[row] * elapsed_s
    if form.tenants is not None and form.tenants.points:
        received = dict.fromkeys(jobs.tenants, 0.0)
        for v in jobs.views:
            untold = v.request.gpus.minimum * (state.as_of - T0) if v.allocation else 0.0
            received[v.tenant] += untold if v.attained_gpu_s is None else v.attained_gpu_s
        ratio = len(received) * received[one.tenant] / (sum(received.values()) or 1.0)
        key -= form.tenants.points * 2.0**-ratio
    level = sum(attained >= bound for bound in form.level_bounds_gpu_s)
    return level, math.inf if math.isnan(key) else key, one.first_submit, one.key.job_id


@pytest.mark.parametrize("name", FORMED)
@EACH
@given(views=job_views())
def test_ranks_are_in_the_order_of_the_form(name, views):
    policy, state = load(name), cluster(views)
    form = policy.order_form(state.jobs)
    order = policy.decide(state, {}, T0 + 10).order
    if form.comes_by_tenant:  # see tests/unit/policy/test_turns.py
        return
    for queue in ("gpu", "cpu"):
        mine = [key for key, rank in order.items() if rank.queue == queue]
        expected = sorted(mine, key=lambda k: key_of(form, state, state.jobs.row(k), T0 + 10))
        assert sorted(mine, key=lambda k: order[k].position) == expected


@pytest.mark.parametrize("name", IN_CLOSED_FORM)
@EACH
@given(views=job_views())
def test_a_form_has_a_number_for_every_job_and_needs_no_other_row(name, views):
    policy, jobs = load(name), snapshot(views).jobs
    form = policy.order_form(jobs)
    for column in (form.constant, form.per_executed_s, form.per_elapsed_s):
        assert column.shape == (len(views),)
        assert column.dtype == np.float64
    assert form.discipline.preempts == (Capability.PREEMPT in policy.requires)
    if form.tenants is not None:
        assert len(form.tenants.shares) == len(jobs.tenants)
    if not np.isnan(jobs.predicted_duration_s).any():
        for row in range(len(jobs)):
            alone = policy.order_form(snapshot([jobs.views[row]]).jobs)
            assert alone.constant[0] == form.constant[row]
            assert alone.per_executed_s[0] == form.per_executed_s[row]


# -- leases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PREEMPTING)
@EACH
@given(views=job_views())
def test_what_is_given_fits_and_only_leases_that_are_over_are_taken(name, views):
    state = cluster(views)
    decided = load(name).decide(state, {}, T0 + 10).actions
    actions = [a for a in decided if isinstance(a, Grant | Renew | Revoke)]
    assert len({a.key for a in actions}) == len({a.action_id for a in actions}) == len(actions)
    for partition in ("gpu", "debug"):
        ours = [a for a in actions if state.jobs.view(a.key).partitions == (partition,)]
        free = 6
        for action in ours:
            one = state.jobs.view(action.key)
            assert action.attempt == one.attempt
            if isinstance(action, Revoke):
                assert one.lease.end_time <= T0 + 10
                assert state.jobs.view(action.beneficiary).state is JobState.PENDING
                assert isinstance(action_for(ours, action.beneficiary), Grant)
                free += one.request.gpus.minimum
            elif isinstance(action, Renew):
                assert one.lease.end_time <= T0 + 10
            elif one.state is JobState.PENDING:
                assert not one.exclusions
                free -= one.request.gpus.minimum
            else:
                assert one.lease is None
        assert free >= 0


def action_for(actions, key):
    (found,) = [a for a in actions if a.key == key]
    return found


@pytest.mark.parametrize("name", [*POLICIES])
def test_a_policy_says_where_it_stands(name):
    policy = load(name)
    assert policy.axes.source
    assert policy.summary[0].islower() or policy.summary.startswith("Slurm")
    for knob in policy.knobs:
        assert knob.minimum <= knob.default <= knob.maximum


@pytest.mark.parametrize("name", [*POLICIES])
@EACH
@given(views=job_views())
def test_every_reason_has_words(name, views):
    for reason in load(name).decide(cluster(views), {}, T0 + 10).reasons.values():
        words = policy_reason(reason.code, reason.params)
        assert reason.code not in words
        assert "?" not in words
