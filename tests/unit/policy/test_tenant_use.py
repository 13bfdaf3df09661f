"""What tenants have received: counted up from look to look, whatever the order of the rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from support.formed import NOW, cluster, runs, waits

from gsched.model.job import JobState
from gsched.policy.attained import with_attained
from gsched.policy.order_form import TenantTerm, TenantUse
from gsched.policy.registry import describe_all, load
from gsched.policy.tenant_use import seeded, tenant_use

RECEIVED = TenantTerm(np.ones(2))
HALVING = TenantTerm(np.ones(2), half_life_s=1000.0)


def seen(state, memory, term=RECEIVED):
    use, kept = tenant_use(term, state, memory)
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept
    return dict(zip(state.jobs.tenants, use.tolist(), strict=True)), kept


def later(state, seconds, **rest):
    return replace(state, as_of=state.as_of + seconds, **rest)


def test_without_memory_it_begins_with_what_the_jobs_have_received():
    state = cluster([runs(waits(1, 2, "a")), waits(2, 1, "b", attained_gpu_s=7.0), waits(3)], gpu=8)
    use, memory = seen(state, {})
    assert use == {"a": 2000.0, "b": 7.0, "lab": 0.0}
    assert memory == {"version": 1, "as_of": NOW, "received_gpu_s": use}


def test_each_look_adds_what_was_held_since_the_last():
    state = cluster([runs(waits(1, 2, "a")), waits(2, 1, "b")], gpu=8)
    _, memory = seen(state, {})
    use, memory = seen(later(state, 30), memory)
    assert use == {"a": 2060.0, "b": 0.0}
    begun = cluster([runs(waits(1, 2, "a")), runs(waits(2, 1, "b"), start=NOW + 50)], gpu=8)
    use, memory = seen(later(begun, 60), memory)
    assert use == {"a": 2120.0, "b": 10.0}
    assert seen(later(begun, 60), memory) == (use, memory)  # nothing has happened since


def test_what_ended_since_the_last_look_counts_until_now_and_what_is_cleaned_up_too():
    a, b = runs(waits(1, 2, "a")), runs(waits(2, 1, "b"))
    _, memory = seen(cluster([a, b], gpu=8), {})
    short = runs(waits(3, 4, "b"), start=NOW + 5)
    after = later(cluster([replace(a, state=JobState.COMPLETING)], gpu=8), 10, ended=(b, short))
    _, memory = seen(after, memory)
    assert memory["received_gpu_s"] == {"a": 2020.0, "b": 1000.0 + 10 + 4 * 5}


def test_use_halves_and_so_does_what_is_received_meanwhile():
    state = cluster([runs(waits(1, 2, "a")), waits(2, 1, "b")], gpu=8)
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 800.0, "b": 400.0}}
    use, _ = seen(later(state, 1000), memory, HALVING)
    assert use["b"] == pytest.approx(200.0)
    assert use["a"] == pytest.approx(400.0 + 2 * 1000 / math.log(2) * 0.5)
    step, kept = None, memory
    for seconds in range(1, 1001):
        step, kept = seen(later(state, seconds), kept, HALVING)
    assert step == pytest.approx(use)


def test_allocated_is_what_is_held_now_and_needs_no_memory():
    jobs = [runs(waits(1, 2, "a")), runs(waits(2, 3, "a")), waits(3, 1, "b")]
    jobs[1] = replace(jobs[1], state=JobState.COMPLETING)
    term = TenantTerm(np.ones(2), TenantUse.ALLOCATED)
    assert seen(cluster(jobs, gpu=8), {"version": 1}, term) == ({"a": 5.0, "b": 0.0}, {})
    assert seen(cluster(jobs, gpu=8), {}, None) == ({"a": 0.0, "b": 0.0}, {})


def test_a_tenant_that_is_gone_is_remembered_until_nothing_is_left():
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 500.0, "gone": 500.0, "old": 1.1}}
    state = later(cluster([waits(1, 1, "a")], gpu=8), 1000)
    _, kept = seen(state, memory, HALVING)
    assert kept["received_gpu_s"] == {"a": 250.0, "gone": 250.0}


@pytest.mark.parametrize(
    "memory",
    [
        {"version": 2, "as_of": NOW, "received_gpu_s": {"a": 1.0}},
        {"version": 1, "received_gpu_s": {"a": 1.0}},
        {"version": 1, "as_of": "yesterday", "received_gpu_s": {"a": 1.0}},
        {"version": 1, "as_of": NOW, "received_gpu_s": [1.0]},
    ],
)
def test_damaged_memory_is_none(memory):
    state = cluster([runs(waits(1, 2, "a"))], gpu=8)
    assert seen(state, memory) == seen(state, {})


@pytest.mark.parametrize("amount", [-1.0, "1", None, [], math.inf])
def test_a_damaged_amount_is_nothing(amount):
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": amount}}
    assert seen(cluster([waits(1, 2, "a")], gpu=8), memory)[0] == {"a": 0.0}


def test_a_clock_that_was_set_back_adds_nothing():
    memory = {"version": 1, "as_of": NOW + 500, "received_gpu_s": {"a": 5.0}}
    assert seen(cluster([runs(waits(1, 2, "a"))], gpu=8), memory, HALVING)[0] == {"a": 5.0}


def test_the_sum_does_not_depend_on_the_order_of_the_rows():
    views = [waits(n, 1, "a", attained_gpu_s=g) for n, g in enumerate([0.1, 0.2, 0.3, 1e9], 1)]
    one, _ = seen(cluster(views, gpu=8), {})
    other, _ = seen(cluster(views[::-1], gpu=8), {})
    assert one == other


def test_where_nobody_tells_a_running_job_has_what_its_attempt_received():
    views = [
        replace(runs(waits(1, 2), start=NOW - 100), attained_gpu_s=None),
        replace(runs(waits(2, 2), start=NOW - 100), attained_gpu_s=7.0),
        waits(3, 2),
        replace(runs(waits(4, 2), start=NOW + 5), attained_gpu_s=None),
        replace(runs(waits(5, 2)), attained_gpu_s=None, allocation=None),
    ]
    state = cluster(views, gpu=16)
    told = with_attained(state).attained_gpu_s
    assert told[[0, 1, 3]].tolist() == [200.0, 7.0, 0.0]
    assert np.isnan(told[[2, 4]]).all()
    settled = replace(
        state, jobs=with_attained(replace(state, jobs=state.jobs.take(np.array([1]))))
    )
    assert with_attained(settled) is settled.jobs


# -- what the job history tells when a daemon begins ------------------------------------------


@pytest.mark.parametrize("as_of", [NOW, NOW + 8])
def test_seeded_memory_goes_on_from_its_own_time(as_of):
    """By the look in which it was seeded, a moment earlier or later, or by the next one."""
    state = cluster([runs(waits(1, 2, "a")), waits(2, 1, "b")], gpu=8)
    before = {"version": 1, "as_of": NOW - 500, "received_gpu_s": {"c": 1.0}, "x": 1}
    memory = seeded(before, as_of, {"b": 50.0, "a": 7.0})
    received = {"received_as_of": as_of, "received_gpu_s": {"a": 7.0, "b": 50.0}}
    assert memory == {**before, **received}
    use, _ = seen(later(state, 0), memory)
    assert use == {"a": 7.0, "b": 50.0}
    use, kept = seen(later(state, 60), memory)
    assert use == {"a": 7.0 + 2 * (NOW + 60 - as_of), "b": 50.0}
    assert kept == {"version": 1, "as_of": NOW + 60, "received_gpu_s": use}


def test_what_was_seeded_fades_from_its_own_time():
    state = cluster([waits(1, 1, "a")], gpu=8)
    memory = seeded({"version": 1, "as_of": 5, "received_gpu_s": {"a": 9.0}}, NOW, {"a": 800.0})
    assert seen(later(state, 2000), memory, HALVING)[0] == {"a": 200.0}


@pytest.mark.parametrize(
    "memory",
    [{}, {"version": 7, "as_of": 3, "x": 1}, {"version": 1, "as_of": "soon", "received_gpu_s": {}}],
)
def test_memory_that_is_none_is_seeded_anew(memory):
    told = seeded(memory, NOW, {"a": 3.0})
    whole = {"version": 1, "as_of": NOW, "received_as_of": NOW, "received_gpu_s": {"a": 3.0}}
    assert told == whole


@pytest.mark.parametrize("name", [info.name for info in describe_all()])
def test_policies_that_count_what_is_received_are_seeded_by_their_half_life(name):
    policy = load(name)
    asked = []

    def received(half_life_s, by_worth):
        asked.append((half_life_s, by_worth))
        return {"a": 3.0}

    told = policy.seeded({}, NOW, received)
    half_life_s = policy.knob_values.get("half_life_s")
    if half_life_s is None:
        assert (told, asked) == ({}, [])
    else:
        assert told["received_gpu_s"] == {"a": 3.0}
        assert asked == [(half_life_s, "gpu_weights" in policy.takes)]
