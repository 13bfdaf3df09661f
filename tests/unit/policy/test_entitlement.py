"""What jobs have received of their share, from look to look: what is counted, and remembered."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.formed import NOW, cluster, runs, waits
from support.jobs import T0

from gsched.engine.validate import MEMORY_BYTES, validate
from gsched.model.job import Capability, GpuOption
from gsched.policy import entitlement
from gsched.policy.ltgf import Ltgf


def look(views, memory=None, now=NOW, policy=None, gpus=8):
    """The decision, with its memory as the journal gives it back."""
    state = replace(cluster(views, gpu=gpus), as_of=now)
    decision = (policy or Ltgf()).decide(state, memory or {}, now)
    return decision, json.loads(json.dumps(decision.memory))


def entitled(memory):
    return {int(name.split("@")[0]): told for name, told in memory["entitled"].items()}


def params(decision, job_id):
    return next(r.params for key, r in decision.reasons.items() if key.job_id == job_id)


def untold(view):
    """As on a live cluster, where nobody tells what a job has received."""
    return replace(view, attained_gpu_s=None)


# -- counted ----------------------------------------------------------------------------------


def test_who_has_received_nothing_needs_no_memory_and_has_its_present_share():
    jobs = [waits(1, 8, "a"), waits(2, 1, "a"), waits(3, 8, "b"), waits(4, 0, "b")]
    decision, memory = look(jobs)
    assert memory["entitled"] == {}
    # since T0, 1000 s. a: 4 of 8 GPUs for two jobs; b: 4 for one
    assert [params(decision, n)["entitled_gpu_s"] for n in (1, 2, 3)] == [2000, 1000, 4000]


def test_shares_are_counted_from_look_to_look():
    jobs = [runs(waits(1, 4, "a")), waits(2, 1, "a"), waits(3, 8, "b")]
    _, memory = look(jobs)
    assert entitled(memory) == {1: [2000, 2, 4000, 1]}
    alone = [replace(jobs[0], attained_gpu_s=4040.0)]
    _, memory = look(alone, memory, NOW + 10)
    assert entitled(memory) == {1: [2020, 4, 4040, 1]}  # the old share until now
    _, memory = look(alone, memory, NOW + 13, Ltgf({"a": 1, "b": 3}))
    assert entitled(memory) == {1: [2032, 2, 4040, 1]}  # and a quota from now on


def test_a_job_that_may_not_start_takes_no_share():
    held = replace(waits(2, 8, "a", attained_gpu_s=8.0), eligible=None)
    _, memory = look([waits(1, 8, "a", attained_gpu_s=8.0), held])
    assert entitled(memory) == {1: [8000, 8, 8, 1], 2: [0, 0, 8, 1]}


def test_a_share_counts_from_when_a_job_could_first_start():
    job = replace(waits(1, 8), eligible=T0 + 600)
    assert params(look([job])[0], 1)["entitled_gpu_s"] == 8 * 400
    _, memory = look([runs(job, start=NOW - 100)])
    assert entitled(memory)[1][0] == 8 * 400


def test_what_a_job_received_before_a_requeue_is_remembered():
    """Slurm tells of the present attempt alone."""
    first = untold(runs(waits(1, 8), start=T0))
    _, memory = look([first])
    assert entitled(memory)[1][2] == 8000
    waiting = untold(replace(waits(1, 8), attempt=NOW + 5))
    decision, memory = look([waiting], memory, NOW + 10)
    assert params(decision, 1)["attained_gpu_s"] == 8000
    again = untold(runs(waiting, start=NOW + 15))
    _, memory = look([again], memory, NOW + 20)
    assert entitled(memory)[1][2] == 8000 + 8 * 5
    _, memory = look([again], memory, NOW + 30)
    assert entitled(memory)[1][2] == 8000 + 8 * 15


def test_of_two_jobs_the_one_served_before_the_requeue_comes_second():
    served = untold(replace(waits(1, 1, "a"), attempt=NOW - 10))
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {}}
    memory["entitled"] = {f"1@{T0}": [1000, 1, 500, 1]}
    order = look([served, untold(waits(2, 1, "a"))], memory)[0].order
    assert [key.job_id for key in sorted(order, key=lambda k: order[k].position)] == [2, 1]


# -- worth ------------------------------------------------------------------------------------

WORTH = {"a100": 2.0}


def mixed(views, memory=None, now=NOW):
    """A node of 8 A100 and one of 8 others, in one partition."""
    state = cluster(views, gpu=8, old=8)
    first, second = state.nodes
    nodes = (
        replace(first, gpus=(("a100", 8),)),
        replace(second, gpus=(("k80", 8),), partitions=("gpu",)),
    )
    state = replace(state, nodes=nodes, as_of=now)
    decision = Ltgf({"a": 1, "b": 1}, WORTH).decide(state, memory or {}, now)
    return decision, json.loads(json.dumps(decision.memory))


def test_gpus_count_by_the_worth_of_their_type():
    """Of 24 in all, 12 are a's; eight A100 count as 16."""
    jobs = [runs(waits(1, 8, "a")), runs(waits(2, 8, "b"), node="old"), waits(3, 1, "b")]
    decision, memory = mixed(jobs)
    assert memory["received_gpu_s"] == {"a": 16000, "b": 8000}
    assert entitled(memory) == {1: [12000, 12, 8000, 2], 2: [6000, 6, 8000, 1]}
    assert params(decision, 3)["owed_gpu_s"] == 4000
    _, memory = mixed([replace(view, attained_gpu_s=8080.0) for view in jobs[:2]], memory, NOW + 10)
    assert memory["received_gpu_s"] == pytest.approx({"a": 16160, "b": 8080}, rel=1e-3)


def test_who_waits_asks_for_the_least_that_it_accepts():
    named = replace(waits(1, 2, "a").request, gpu_options=(GpuOption("a100", 2),))
    asked = [replace(waits(1, 2, "a"), request=named), waits(2, 2, "b")]
    decision, _ = mixed(asked)
    assert [params(decision, n)["entitled_gpu_s"] for n in (1, 2)] == [4000, 2000]


def test_what_was_received_counts_as_what_was_held_last():
    _, memory = mixed([runs(waits(1, 8, "a"))])
    decision, memory = mixed([waits(1, 8, "a", attained_gpu_s=8000.0)], memory, NOW + 10)
    assert params(decision, 1)["attained_gpu_s"] == 16000
    assert entitled(memory)[1][3] == 2


def test_on_a_node_of_two_types_a_job_has_the_one_that_it_asked_for_or_their_mean():
    any_of_them, named = runs(waits(1, 4, "a")), runs(waits(2, 2, "b"))
    request = replace(named.request, gpu_options=(GpuOption("a100", 2),))
    state = cluster([any_of_them, replace(named, request=request)], gpu=8)
    node = replace(state.nodes[0], gpus=(("a100", 2), ("k80", 6)))
    memory = Ltgf(None, WORTH).decide(replace(state, nodes=(node,)), {}, NOW).memory
    assert {job: told[3] for job, told in entitled(memory).items()} == {1: 1.25, 2: 2}


@pytest.mark.parametrize("weight", [-1.0, float("inf")])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(ValueError, match="the weight of GPUs of type a100"):
        Ltgf(None, {"a100": weight})


# -- remembered -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told", [7, {"1@1000": "x"}, {f"1@{T0}": [1, -2, 8, 1]}, {f"1@{T0}": [1, 2]}]
)
def test_damaged_memory_begins_anew(told):
    damaged = {"version": 1, "as_of": NOW, "received_gpu_s": {}, "entitled": told}
    _, memory = look([waits(1, 8, attained_gpu_s=1.0)], damaged)
    assert entitled(memory) == {1: [8000, 8, 1, 1]}


def test_a_hundred_thousand_waiting_jobs_are_not_too_many():
    """And as many as may be remembered, with long ids, are as few as the journal takes."""
    wait = [
        waits(10**8 + n, 1 + n % 8, f"lab{n % 50}", submit=T0 + n % 900) for n in range(100_000)
    ]
    served = [
        replace(view, attained_gpu_s=7e8 + n / 3, key=replace(view.key, array_task=99_999))
        for n, view in enumerate(wait[: entitlement.MOST_JOBS + 500])
    ]
    state = cluster([*served, *wait[len(served) :]], gpu=1024)
    decision = Ltgf().decide(state, {}, NOW)
    memory = decision.memory
    kept, problems = validate(decision, state, frozenset(Capability), NOW)
    assert not problems
    assert kept.memory == json.loads(json.dumps(memory))
    assert len(json.dumps(memory)) < MEMORY_BYTES
    assert len(memory["entitled"]) == entitlement.MOST_JOBS


def test_beyond_them_the_least_served_are_forgotten(monkeypatch):
    monkeypatch.setattr(entitlement, "MOST_JOBS", 2)
    jobs = [
        waits(n, 1, attained_gpu_s=float(gpu_s)) for n, gpu_s in ((1, 5), (2, 9), (3, 7), (4, 1))
    ]
    _, memory = look(jobs)
    assert set(entitled(memory)) == {2, 3}
