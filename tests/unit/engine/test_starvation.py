"""The starvation bound: who is lifted, how far, and that it ends a wait that had no end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view
from support.sim import SimJob, TruePredictor, job, simulated, started

from gsched.daemon.site_factor import SiteFactorScale
from gsched.engine.deciding import RoundRules
from gsched.engine.starvation import POLICY_TOP, STARVING, lift_starving
from gsched.engine.validate import validate
from gsched.model.cluster import ClusterState
from gsched.model.decision import QUEUES, Decision
from gsched.model.job import Capability, Exclusion, JobKey, JobState, JobView
from gsched.policy.qssf import Qssf
from gsched.policy.registry import POLICIES, load
from gsched.sim.backend import SimBackend
from gsched.sim.replay import replay

BARRED = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)
EVERYTHING = frozenset(Capability)
BOUND_S = 100


@st.composite
def waiting_jobs(draw: st.DrawFn) -> list[JobView]:
    """Jobs that wait for some time, since some time, or for something else than resources."""
    views = []
    for number in range(draw(st.integers(0, 10))):
        submit = T0 + draw(st.integers(0, 300))
        made = view(
            number,
            gpus=draw(st.integers(0, 2)),
            duration_s=draw(st.none() | st.floats(1, 1e5)),
            submit=submit,
            state=draw(st.sampled_from([JobState.PENDING] * 3 + [JobState.RUNNING])),
            exclusions=draw(st.sampled_from([(), (), BARRED])),
        )
        views.append(
            replace(
                made,
                attempt=submit + draw(st.sampled_from([0, 0, 50])),
                eligible=draw(st.none() | st.integers(-50, 300).map(lambda late: T0 + late)),
            )
        )
    return views


def since(job: JobView) -> int | None:
    """The definition, once more: since when a job waits for resources."""
    if job.state is not JobState.PENDING or job.exclusions or job.eligible is None:
        return None
    requeued = job.attempt != job.first_submit
    return job.first_submit if requeued else max(job.first_submit, job.eligible)


def decided(name: str, state: ClusterState, now: int, bound_s: int) -> tuple[Decision, Decision]:
    """What a policy says, before and after the bound."""
    before, problems = validate(load(name).decide(state, {}, now), state, EVERYTHING, now)
    assert problems == ()
    return before, lift_starving(before, state, now, bound_s)


@pytest.mark.parametrize("name", POLICIES)
@given(views=waiting_jobs(), now=st.integers(T0, T0 + 600), later=st.integers(0, 10**6))
def test_who_has_waited_too_long_goes_above_all_others_the_longest_waiter_first(
    name: str, views: list[JobView], now: int, later: int
) -> None:
    state = snapshot(views)
    before, after = decided(name, state, now, BOUND_S)
    waits = {v.key: s for v in views if (s := since(v)) is not None}
    starving = {key for key, s in waits.items() if now - s > BOUND_S}

    assert {key for key, r in after.reasons.items() if r.code == STARVING} == starving
    assert after.order.keys() == before.order.keys() | starving
    lifted = sorted(starving, key=lambda key: (waits[key], key.epoch, key.job_id))
    levels = [after.order[key].level for key in lifted]
    assert levels == sorted(levels, reverse=True)
    assert all(POLICY_TOP < level <= 1.0 for level in levels)
    for key in after.order.keys() - starving:
        assert after.order[key].level == before.order[key].level * POLICY_TOP
        assert after.reasons[key] == before.reasons[key]
    for queue in QUEUES:
        mine = sorted((r.position, key) for key, r in after.order.items() if r.queue == queue)
        in_order = [key for _, key in mine]
        head = [key for key in lifted if after.order[key].queue == queue]
        rest = [k for k in after.order if k not in starving and before.order[k].queue == queue]
        rest.sort(key=lambda key: before.order[key].position)
        assert in_order == head + rest
        assert [position for position, _ in mine] == list(range(1, len(mine) + 1))
        assert {after.order[key].of for key in in_order} <= {len(mine)}
    assert validate(after, state, EVERYTHING, now)[1] == ()  # what comes out is sound, too

    _, again = decided(name, state, now + later, BOUND_S)
    for key in starving:  # for good
        assert again.order[key].level >= after.order[key].level


def test_the_wait_counts_from_when_a_job_could_start_and_a_requeue_does_not_end_it() -> None:
    depended = replace(view(1, submit=T0), eligible=T0 + 50)
    plain = view(2, submit=T0 + 20)
    requeued = replace(view(3, submit=T0 + 10), attempt=T0 + 400, eligible=T0 + 410)
    fresh, held = view(4, submit=T0 + 450), replace(view(5), eligible=None)
    views = [depended, plain, requeued, fresh, held]
    _, after = decided("fewest-gpus", snapshot(views), T0 + 500, BOUND_S)
    ordered = sorted(after.order.items(), key=lambda item: item[1].position)
    assert [key.job_id for key, _ in ordered] == [3, 2, 1, 5, 4]
    assert [rank.key for _, rank in ordered[:3]] == [T0 + 10, T0 + 20, T0 + 50]
    codes = {key.job_id: reason.code for key, reason in after.reasons.items()}
    assert {number for number, code in codes.items() if code == STARVING} == {1, 2, 3}


@given(views=waiting_jobs())
def test_without_a_bound_nothing_is_changed(views: list[JobView]) -> None:
    state = snapshot(views)
    before, after = decided("qssf", state, T0 + 10**6, 0)
    assert after is before


def test_even_the_one_that_has_just_begun_to_starve_stands_above_after_rounding() -> None:
    state = snapshot([view(1, duration_s=5.0)])
    _, after = decided("qssf", state, T0 + 7 * 86400 + 1, 7 * 86400)
    (rank,) = after.order.values()
    scale = SiteFactorScale(10_000, 20, 20)  # as it is derived: 500 steps
    lifted, top = scale.values(np.array([rank.level, POLICY_TOP]))
    assert lifted >= top + scale.dead_band


def test_a_level_moves_seldom() -> None:
    """In a week above a bound of a week a job's points are written a few dozen times at most."""
    state = snapshot([view(1, duration_s=5.0)])
    week = 7 * 86400
    scale = SiteFactorScale(10_000, 20, 20)
    rounds = range(T0 + week + 1, T0 + 2 * week, 600)
    orders = [decided("qssf", state, now, week)[1].order for now in rounds]
    levels = np.array([rank.level for order in orders for rank in order.values()])
    assert len(set(scale.values(levels).tolist())) <= 24


# -- in the simulator -------------------------------------------------------------------------

LARGE = job(1, gpus=8, duration_s=100, submit=1)
SMALL_S = 10
STREAM = [job(i, gpus=4, duration_s=SMALL_S, submit=4 * (i - 2)) for i in range(2, 200)]
"""Small jobs that come a little faster than eight GPUs can run them."""


def starts(rules: RoundRules, jobs: list[SimJob]) -> dict[JobKey, int]:
    backend = SimBackend(*simulated(jobs))
    replay(backend, Qssf(), TruePredictor(jobs), rules)
    return started(backend)


def test_a_large_job_starves_under_a_stream_of_small_ones_unless_there_is_a_bound() -> None:
    jobs = [LARGE, *STREAM]
    without = starts(RoundRules(), jobs)
    assert without[LARGE.view.key] == max(without.values())  # after every one of them

    for bound_s in (60, 300):
        started = starts(RoundRules(starvation_bound_s=bound_s), jobs)[LARGE.view.key]
        next_round, running = 4, SMALL_S
        assert bound_s < started - LARGE.view.first_submit <= bound_s + next_round + running


def test_several_that_starve_start_in_the_order_of_their_waits() -> None:
    large = [job(1000 + i, gpus=8, duration_s=200 - i, submit=i) for i in range(1, 6)]
    jobs = [*large, *STREAM]
    bound_s = 120
    started = starts(RoundRules(starvation_bound_s=bound_s), jobs)
    by_start = sorted(large, key=lambda j: started[j.view.key])
    assert by_start == large
    ahead = 0
    for waiter in large:  # within the bound and the jobs ahead of it
        waited = started[waiter.view.key] - waiter.view.first_submit
        assert waited <= bound_s + 4 + SMALL_S + ahead
        ahead += waiter.duration_s
