"""Deadlines that are promised: who is, who is not and why, and what becomes of promises."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.engine.validate import MEMORY_BYTES
from gsched.model.cluster import NodeView, ReservationView
from gsched.model.decision import Admit, Grant, Refuse, Renew, Revoke
from gsched.model.job import (
    MAX_DEADLINE,
    Allocation,
    Capability,
    Exclusion,
    GpuOption,
    JobState,
    Lease,
    LeaseState,
    Prediction,
    PredictionKind,
    Wants,
)
from gsched.model.targets import TargetRules
from gsched.policy import chronus_round
from gsched.policy.chronus import Chronus
from gsched.policy.chronus_memory import Book, name_of
from gsched.policy.remaining import remaining

NOW = T0 + 100
LEASE_S = 100
HOUR = 3600
STAYS = (Exclusion(Capability.PREEMPT, "no-checkpoint", "cannot go on after a stop"),)
PLAIN = {"lease_s": LEASE_S, "grace_s": 0, "margin_s": 0, "profile_s": 0, "room": 0}


def chronus(rules=None, **knobs):
    return Chronus(target_rules=rules, **{**PLAIN, **knobs})


def asks(number, due_s, *, gpus=1, run_s=1000, number_of_request=0, soft=(), **more):
    """A waiting job that is to have ended so many seconds from now."""
    wants = Wants(
        deadline=None if due_s is None else NOW + due_s,
        soft_deadlines=tuple((NOW + late_s, reward) for late_s, reward in soft),
        number=number_of_request,
    )
    return replace(view(number, gpus=gpus, duration_s=run_s, **more), wants=wants)


def waits(number, *, gpus=1, run_s=1000, **more):
    """Best effort."""
    return view(number, gpus=gpus, duration_s=run_s, **more)


def runs(one, *, since=NOW, lease_s=LEASE_S, node="n0", lease="granted", beneficiary=""):
    """The same, running."""
    held = Allocation((node,), (one.request.gpus.minimum,), since)
    own = Lease(f"l{one.key.job_id}", LeaseState(lease), since, lease_s, beneficiary)
    return replace(one, state=JobState.RUNNING, allocation=held, lease=own)


def cluster(views, nodes=1, gpus=8, now=NOW, **more):
    """A snapshot of equal nodes."""
    held = {f"n{number}": 0 for number in range(nodes)}
    for one in views:
        if one.allocation:
            for name, count in zip(one.allocation.nodes, one.allocation.gpus, strict=True):
                held[name] = held.get(name, 0) + count
    found = tuple(
        NodeView(name, "mixed", (), 64, 0, (("", gpus),), ("gpu",), gpus_used=held[name])
        for name in sorted(held)
    )
    return replace(snapshot(views), nodes=found, as_of=now, **more)


def decide(policy, views, memory=None, now=NOW, **more):
    return policy.decide(cluster(views, now=now, **more), memory or {}, now)


def of(decision, kind):
    """The actions of a kind, by number of the job."""
    return {a.key.job_id: a for a in decision.actions if isinstance(a, kind)}


def code(decision, one):
    return decision.reasons[one.key].code


def stored(decision):
    return json.loads(json.dumps(decision.memory))


# -- admission ---------------------------------------------------------------------------------


def test_a_deadline_that_can_be_kept_is_promised_with_its_plan():
    one = asks(1, 2000, gpus=2)
    decision = decide(chronus(), [one])
    promise = of(decision, Admit)[1]
    assert promise.finish_time == NOW + 2000
    (run,) = promise.plan
    assert (run.start_time, run.end_time, run.num_gpus) == (NOW + 1000, NOW + 2000, 2)
    assert promise.budget_gpu_s == 2000
    assert promise.admitted_time == NOW
    assert promise.probability >= 0.95
    assert code(decision, one) == "chronus.target"


def test_the_answer_is_final_for_the_same_request_and_open_for_another_one():
    first, second = asks(1, 1500, gpus=8), asks(2, 1900, gpus=8)
    policy = chronus()
    decision = decide(policy, [first, second])
    assert set(of(decision, Admit)) == {1}
    assert set(of(decision, Refuse)) == {2}
    alone = decide(policy, [second], stored(decision))  # now there would be room
    assert set(of(alone, Refuse)) == {2}
    anew = replace(second, wants=replace(second.wants, number=1))
    assert set(of(decide(policy, [anew], stored(alone)), Admit)) == {2}


def test_a_refusal_tells_the_window_what_is_free_in_it_and_who_holds_the_rest():
    first, second = asks(1, 1500, gpus=8), asks(2, 1900, gpus=4)
    decision = decide(chronus(), [first, second])
    assert set(of(decision, Admit)) == {2}  # the smaller one of a round comes first
    reason = decision.reasons[first.key]
    assert reason.code == "chronus.refused-no-room"
    params = reason.params
    assert params["window_start_time"] == NOW
    assert params["deadline_time"] == NOW + 1500
    assert params["needed_gpu_s"] == 8000
    assert params["free_gpu_s"] == 1500 * 8 - 600 * 4
    assert params["jobs"] == ["2"]
    assert params["earliest_time"] == of(decision, Refuse)[1].earliest
    assert params["gave_up"] is False


def test_what_no_empty_cluster_could_do_is_too_late():
    one = asks(1, 900)
    decision = decide(chronus(), [one])
    assert code(decision, one) == "chronus.refused-too-late"
    assert of(decision, Refuse)[1].earliest >= NOW + 1000


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (asks(1, 2000, gpus=9), "too-wide"),
        (asks(1, 2000, gpus=0), "no-gpus"),
        (asks(1, 2000, run_s=None), "no-estimate"),
    ],
)
def test_other_refusals(one, why):
    decision = decide(chronus(), [one])
    assert code(decision, one) == f"chronus.refused-{why}"
    assert of(decision, Refuse)[1].earliest is None


def test_a_job_that_may_not_start_yet_is_not_judged():
    held = replace(asks(1, 5000), eligible=None)
    decision = decide(chronus(), [held])
    assert not of(decision, Admit)
    assert not of(decision, Refuse)
    later = replace(asks(1, 5000), eligible=NOW + 3000)
    plan = of(decide(chronus(), [later]), Admit)[1].plan
    assert plan[0].start_time >= NOW + 3000


def test_who_is_left_alone_has_no_answer():
    out = Exclusion(Capability.ADMIT, "opted-out", "asked to be left alone")
    decision = decide(chronus(), [asks(1, 5000, exclusions=(out,))])
    assert not of(decision, Admit)
    assert not of(decision, Refuse)


def test_what_runs_within_its_lease_is_in_the_way_until_the_lease_ends():
    holder = runs(waits(1, gpus=8), lease_s=600)
    assert set(of(decide(chronus(), [holder, asks(2, 1500)]), Refuse)) == {2}
    assert set(of(decide(chronus(), [holder, asks(2, 1600)]), Admit)) == {2}


def test_what_cannot_give_way_is_in_the_way_until_its_safe_end():
    holder = runs(waits(1, gpus=8, run_s=5000, exclusions=STAYS), since=NOW - 1000)
    assert set(of(decide(chronus(), [holder, asks(2, 4900)]), Refuse)) == {2}
    assert set(of(decide(chronus(), [holder, asks(2, 5000)]), Admit)) == {2}


def test_a_reservation_is_in_the_way_while_it_lasts():
    one = asks(1, 3000, gpus=8, run_s=1000)
    maintenance = ReservationView("m", ("n0",), NOW + 500, NOW + 2500)
    decision = decide(chronus(), [one], reservations=(maintenance,))
    assert set(of(decision, Admit)) == {1}
    plan = of(decision, Admit)[1].plan
    assert [(run.start_time - NOW, run.end_time - NOW) for run in plan] == [(0, 500), (2500, 3000)]
    longer = replace(maintenance, end_time=NOW + 2600)
    assert set(of(decide(chronus(), [one], reservations=(longer,)), Refuse)) == {1}


def test_a_job_that_cannot_be_stopped_is_planned_in_one_piece():
    one = asks(1, 3000, gpus=8, exclusions=STAYS)
    maintenance = ReservationView("m", ("n0",), NOW + 500, NOW + 2500)
    decision = decide(chronus(), [one], reservations=(maintenance,))
    assert set(of(decision, Refuse)) == {1}


def test_of_soft_deadlines_the_first_that_can_be_kept_is_promised():
    first = asks(1, 1200, gpus=8, run_s=900)
    soft = asks(2, None, gpus=8, soft=((1100, 100.0), (2500, 50.0)))
    decision = decide(chronus(), [first, soft])
    assert of(decision, Admit)[2].finish_time == NOW + 2500
    assert Book.of(decision.memory).targets[name_of(soft.key)].due == NOW + 2500


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        (TargetRules(users=frozenset({"bob"})), "user"),
        (TargetRules(accounts=frozenset({"other"})), "account"),
        (TargetRules(qos=frozenset({"high"})), "qos"),
        (TargetRules(max_horizon_s=1000), "max_horizon_s"),
        (TargetRules(max_gpu_hours_per_user=0.1), "max_gpu_hours_per_user"),
    ],
)
def test_what_a_site_does_not_allow_is_refused(rules, rule):
    one = asks(1, 5000)
    decision = decide(chronus(rules), [one])
    assert code(decision, one) == "chronus.refused-rule"
    assert decision.reasons[one.key].params["rule"] == rule
    assert of(decide(chronus(TargetRules()), [one]), Admit)


def test_no_user_has_more_targets_than_are_allowed_in_one_round_or_in_several():
    policy = chronus(TargetRules(max_per_user=2))
    jobs = [asks(number, 9000) for number in range(3)]
    decision = decide(policy, jobs)
    assert len(of(decision, Admit)) == 2
    more = decide(policy, [*jobs, asks(7, 9000), asks(8, 9000, user="bob")], stored(decision))
    assert set(of(more, Admit)) == {*of(decision, Admit), 8}


def test_targets_hold_no_more_than_their_share():
    policy = chronus(TargetRules(max_share=0.5))
    jobs = [asks(number, 1100, gpus=2) for number in range(4)]
    assert len(of(decide(policy, jobs), Admit)) == 2
    wide = asks(9, 5000, gpus=8)
    assert code(decide(policy, [wide]), wide) == "chronus.refused-too-wide"


def typed(one, gpu_type):
    option = GpuOption(gpu_type, one.request.gpus.minimum)
    return replace(one, request=replace(one.request, gpu_options=(option,)))


def of_two_types(views):
    """A pool of two nodes, each with GPUs of its own type."""
    state = cluster(views, nodes=2)
    nodes = [
        replace(node, gpus=((name, 8),))
        for node, name in zip(state.nodes, ("a100", "v100"), strict=True)
    ]
    return replace(state, nodes=tuple(nodes))


def test_a_type_of_gpu_that_the_pool_has_too_few_of_is_named():
    wide, none = typed(asks(1, 2500, gpus=12), "a100"), typed(asks(2, 2500), "h100")
    decision = chronus().decide(of_two_types([wide, none]), {}, NOW)
    for job, there in ((wide, 8), (none, 0)):
        assert code(decision, job) == "chronus.refused-too-wide"
        assert decision.reasons[job.key].params["pool_gpus"] == there
    either = asks(3, 2500, gpus=12)
    assert set(of(chronus().decide(of_two_types([either]), {}, NOW), Admit)) == {3}


def test_more_than_fits_is_not_promised_for_any_reward():
    first = asks(1, None, gpus=8, soft=((1100, 1.0),))
    policy = chronus()
    decision = decide(policy, [first])
    dear = asks(2, None, gpus=8, soft=((1100, 1e9),))
    both = decide(policy, [first, dear], stored(decision))
    assert set(of(both, Admit)) == {1}
    assert set(of(both, Refuse)) == {2}


def told(one, left, per_s, now=NOW):
    """With what the job itself says."""
    more = (
        Prediction(PredictionKind.ITERATIONS, left, (), "heartbeat", "", 0, now),
        Prediction(PredictionKind.SPEED, per_s, (), "heartbeat", "", 0, now),
    )
    return replace(one, predictions=(*one.predictions, *more))


def test_no_word_of_a_job_wins_a_promise():
    liar = told(runs(asks(1, 900), since=NOW), left=10, per_s=1.0)
    decision = decide(chronus(), [liar])
    assert set(of(decision, Refuse)) == {1}


def test_no_word_of_a_job_takes_more_than_it_was_promised():
    one, other = asks(1, 2000, gpus=8, run_s=900), asks(2, 2000, gpus=8, run_s=900)
    policy = chronus()
    first = decide(policy, [one, other])
    assert set(of(first, Admit)) == {1, 2}
    greedy = told(runs(one, since=NOW), left=10_000, per_s=1.0)
    later = decide(policy, [greedy, other], stored(first), now=NOW + 10)
    plan = of(later, Admit)[2].plan
    assert sum(run.end_time - run.start_time for run in plan) == 900
    assert plan[-1].end_time <= NOW + 2000
    assert of(later, Admit)[1].probability < 0.5
    assert of(later, Admit)[1].finish_time > NOW + 9000  # behind the other one, as far as it says


def test_what_a_job_says_gives_back_what_it_does_not_need():
    one = asks(1, 2000, gpus=8, run_s=1900)
    policy = chronus()
    first = decide(policy, [one])
    almost = told(runs(one, since=NOW), left=50, per_s=1.0, now=NOW + 10)
    newcomer = asks(2, 1900, gpus=8, run_s=1500)
    later = decide(policy, [almost, newcomer], stored(first), now=NOW + 10)
    assert set(of(later, Admit)) == {1, 2}


# -- offers ------------------------------------------------------------------------------------

some = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 4, 8]), st.integers(50, 2000), st.integers(0, 3000)),
    min_size=2,
    max_size=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@example(
    jobs=[(1, 231, 0), (1, 269, 194), (3, 50, 0), (3, 58, 0), (3, 232, 231), (3, 244, 201)],
    room=0.0,
)  # the new plan has no room for it, the last one has
@given(jobs=some, room=st.sampled_from([0.0, 1.0]))
def test_whoever_comes_back_with_what_was_offered_is_promised_it(jobs, room):
    """The same examples in each run: of some 3,000 one was refused all the same, as who had been
    given GPUs meanwhile held them.
    """
    policy = chronus(room=room)
    asked = [
        asks(number, run_s + slack_s, gpus=gpus, run_s=run_s)
        for number, (gpus, run_s, slack_s) in enumerate(jobs)
    ]
    decision = decide(policy, asked)
    for number, refused in of(decision, Refuse).items():
        one = asked[number]
        for offer in refused.alternatives:
            again = replace(
                view(99, gpus=offer.num_gpus, submit=NOW + 5, duration_s=0.0),
                predictions=(
                    replace(
                        one.predictions[0],
                        mean=one.predictions[0].mean * jobs[number][0] / offer.num_gpus,
                    ),
                ),
                wants=Wants(deadline=offer.finish_time),
            )
            given = of(decision, Grant)
            others = [
                runs(other) if other.key.job_id in given else other
                for other in asked
                if other is not one
            ]
            later = decide(policy, [*others, again], stored(decision), now=NOW + 5)
            assert 99 in of(later, Admit), offer


def test_a_refusal_offers_fewer_gpus_where_they_are_enough():
    holder = runs(waits(1, gpus=4, run_s=50_000, exclusions=STAYS))
    one = asks(2, 10_000, gpus=8, run_s=1000)
    found = of(decide(chronus(), [holder, one]), Refuse)[2].alternatives
    assert ("fewer-gpus", 4) in {(offer.kind, offer.num_gpus) for offer in found}


# -- what becomes of promises ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(jobs=some, more=some)
@example(
    jobs=[(2, 257, 0), (2, 65, 45), (3, 208, 0), (1, 50, 5), (8, 50, 191)],
    more=[(1, 105, 5), (3, 173, 126), (8, 50, 0)],
)
def test_a_promise_is_kept_in_the_plan_whoever_comes(jobs, more):
    policy = chronus()
    first = [
        asks(k, run_s + slack_s, gpus=g, run_s=run_s) for k, (g, run_s, slack_s) in enumerate(jobs)
    ]
    decision = decide(policy, first, gpus=8, nodes=2)
    promised = {k: a.finish_time for k, a in of(decision, Admit).items()}
    second = [
        asks(50 + k, run_s + slack_s, gpus=g, run_s=run_s, submit=T0 + 1)
        for k, (g, run_s, slack_s) in enumerate(more)
    ]
    both = decide(policy, [*first, *second], stored(decision), gpus=8, nodes=2)
    after = of(both, Admit)
    held = {}
    for number, due in promised.items():
        plan = after[number].plan
        assert after[number].finish_time <= due
        assert sum(r.end_time - r.start_time for r in plan) >= jobs[number][1]
    for promise in after.values():
        for run in promise.plan:
            for moment in (run.start_time, run.end_time - 1):
                held[moment] = 0
    for moment in held:
        taken = [r for a in after.values() for r in a.plan if r.start_time <= moment < r.end_time]
        assert sum(run.num_gpus for run in taken) <= 16


@settings(max_examples=40, deadline=None)
@given(jobs=some)
def test_a_decision_that_was_lost_is_made_again(jobs):
    policy = chronus()
    asked = [asks(k, r + s, gpus=g, run_s=r) for k, (g, r, s) in enumerate(jobs)]
    first = decide(policy, asked)
    assert decide(policy, asked) == first or decide(policy, asked).actions == first.actions
    again = decide(policy, asked, stored(first))
    assert (again.actions, again.memory) == (first.actions, first.memory)


def test_lost_nodes_make_some_late_and_these_are_told_so():
    jobs = [asks(k, 1500, gpus=8) for k in range(2)]
    policy = chronus()
    decision = decide(policy, jobs, nodes=2)
    assert set(of(decision, Admit)) == {0, 1}
    later = decide(policy, jobs, stored(decision), now=NOW + 10, nodes=1)
    after = of(later, Admit)
    assert set(after) == {0, 1}
    on_time = [k for k, a in after.items() if a.finish_time <= NOW + 1500]
    assert len(on_time) == 1
    (late,) = {0, 1} - {*on_time}
    assert after[late].probability < 0.5 < after[on_time[0]].probability
    assert after[late].finish_time > NOW + 1500
    back = of(decide(policy, jobs, stored(later), now=NOW + 20, nodes=2), Admit)
    assert all(a.finish_time <= NOW + 1500 and a.probability > 0.9 for a in back.values())


def test_a_pool_without_a_usable_node_keeps_its_promises_for_better_times():
    jobs = [asks(k, 2500, gpus=4) for k in range(2)]
    policy = chronus()
    decision = decide(policy, jobs)
    state = cluster(jobs, now=NOW + 10)
    down = tuple(replace(node, state="down", flags=("down",)) for node in state.nodes)
    lost = policy.decide(replace(state, nodes=down), stored(decision), NOW + 10)
    promises = of(lost, Admit)
    assert set(promises) == {0, 1}
    assert all(a.probability < 0.5 and not a.plan for a in promises.values())
    assert {a.finish_time for a in promises.values()} == {MAX_DEADLINE}
    short = policy.decide(
        replace(cluster([*jobs, waits(7, run_s=5)]), nodes=down), stored(decision), NOW + 10
    )
    assert positions(short) == [0, 1, 7]
    back = of(decide(policy, jobs, stored(lost), now=NOW + 20), Admit)
    assert all(a.probability > 0.9 for a in back.values())
    newcomer = asks(5, 9000)
    assert set(of(policy.decide(replace(cluster([newcomer]), nodes=down), {}, NOW), Refuse)) == {5}


def test_a_job_that_outruns_what_it_was_promised_keeps_nobody_else_from_his():
    one, other = asks(1, 3000, gpus=8), asks(2, 2600, gpus=8)
    policy = chronus(relative_error=0.1)
    decision = decide(policy, [one, other])
    assert set(of(decision, Admit)) == {1, 2}
    budget_s = of(decision, Admit)[1].budget_gpu_s / 8
    # It has had all its budget, and goes on; the other one has to begin within a lease.
    late = NOW + int(budget_s) + 110
    over = runs(one, since=NOW, lease_s=int(budget_s))
    after = decide(policy, [over, other], stored(decision), now=late)
    plan = of(after, Admit)[2].plan
    assert plan[-1].end_time <= NOW + 2600
    assert sum(run.end_time - run.start_time for run in plan) >= 1000
    assert set(of(after, Revoke)) == {1}
    assert set(of(after, Grant)) == {2}


def test_what_has_left_is_forgotten():
    policy = chronus()
    decision = decide(policy, [asks(1, 2000), asks(2, 500)])
    book = Book.of(decide(policy, [waits(3)], stored(decision)).memory)
    assert not book.targets
    assert not book.refused


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 9},
        {"targets": [1]},
        {"targets": {"1@1750000000": ["x"]}},
        {"targets": {"1@1750000000": [[0, [1], [1.0]], 1, "nan", 1, 1, 1, [1, 1, 1], []]}},
        {"refused": {"1@1750000000": [[0, [], []], 3, {}, None, []]}},
        {"loads": {"gpu": [5, "x", {}]}, "last": {"way": 3, "gap": "x"}},
        {"loads": {"gpu": [1, 2, {"a": 1, "3": "x"}, [7]]}},
        {"refused": {"1@1750000000": [[0, [1], [1.0], 1, 5], "x", {}, None, []]}},
    ],
)
def test_damaged_memory_is_forgotten(damage):
    decision = decide(chronus(room=1), [asks(1, 2000)], {"version": 1, **damage})
    assert set(of(decision, Admit)) == {1}


def test_memory_stays_within_bounds_with_thousands_of_jobs():
    policy = chronus(solve_s=0)
    kept = [asks(k, 20_000 + 10 * k, gpus=1 + k % 8) for k in range(600)]
    refused = [asks(1000 + k, 500, user=f"u{k % 9}") for k in range(3000)]
    decision = decide(policy, [*kept, *refused], nodes=120)
    assert len(of(decision, Admit)) == 600
    assert len(json.dumps(decision.memory)) < MEMORY_BYTES / 2
    book = Book.of(stored(decision))
    assert len(book.targets) == 600
    assert len(book.refused) == 3000


def test_a_promise_is_bound_to_the_gpus_and_the_pool_that_it_was_given_for():
    wide, small = asks(1, 9 * HOUR, gpus=4, run_s=8 * HOUR), asks(2, 9 * HOUR, run_s=8 * HOUR)
    policy = chronus()
    decision = decide(policy, [wide, small])
    assert set(of(decision, Admit)) == {1, 2}
    widened = replace(small, request=asks(2, 1, gpus=8).request)
    after = decide(policy, [wide, widened], stored(decision), now=NOW + 5)
    assert set(of(after, Refuse)) == {2}
    assert of(after, Admit)[1].finish_time <= NOW + 9 * HOUR
    narrower = replace(widened, request=asks(2, 1, gpus=2).request)
    assert 2 in of(decide(policy, [wide, narrower], stored(after), now=NOW + 9), Admit)
    moved = replace(small, partitions=("other",))
    elsewhere = decide(policy, [wide, moved], stored(decision), now=NOW + 5)
    assert set(of(elsewhere, Refuse)) == {2}
    running = decide(policy, [runs(wide), small], stored(decision), now=NOW + 5)
    assert set(of(running, Admit)) == {1, 2}


def test_no_time_counts_twice_in_a_probability():
    # 500 s of its budget are left, it needs 1000 ± 10 %, and is due in 900: it will be late.
    one = asks(1, 1400, run_s=1000)
    policy = chronus(relative_error=0.1, quantile=0.5)
    first = decide(policy, [one])
    assert set(of(first, Admit)) == {1}
    slow = told(runs(one, since=NOW), left=1000, per_s=1.0, now=NOW + 500)
    later = decide(policy, [slow], stored(first), now=NOW + 500)
    left = remaining(slow, NOW + 500, 0.5, 0.1, 0.0, may_lower=True)
    assert of(later, Admit)[1].probability <= left.probability_within(900) + 1e-4
    assert left.probability_within(900) < 0.5


def test_what_was_used_is_counted_over_all_attempts():
    one = asks(1, 9000, gpus=8, run_s=3000)
    policy = chronus()
    first = decide(policy, [one])
    runs_on = decide(policy, [runs(one, since=NOW)], stored(first), now=NOW + 1000)
    again = replace(one, attempt=NOW + 1100)
    back = decide(policy, [again], stored(runs_on), now=NOW + 1100)
    used = Book.of(back.memory).targets[name_of(one.key)].used
    assert used.gpu_s == 8000
    second = decide(policy, [runs(again, since=NOW + 2000)], stored(back), now=NOW + 2500)
    assert Book.of(second.memory).targets[name_of(one.key)].used.gpu_s == 8000 + 4000


def test_a_target_that_is_held_gives_its_place_back_and_is_planned_behind_others_later():
    one = asks(1, 2500, gpus=8)
    policy = chronus()
    first = decide(policy, [one])
    held = replace(one, eligible=None)
    kept = decide(policy, [held], stored(first), now=NOW + 10)
    assert not of(kept, Admit)[1].plan
    assert of(kept, Admit)[1].probability == 0
    assert code(kept, held) == "chronus.risk-held"
    back = decide(policy, [one], stored(kept), now=NOW + 20)
    assert of(back, Admit)[1].probability > 0.9  # nobody has taken its room
    newcomer = asks(2, 2100, gpus=8, run_s=1100)
    both = decide(policy, [held, newcomer], stored(kept), now=NOW + 20)
    assert of(both, Admit)[2].plan
    again = decide(policy, [one, newcomer], stored(both), now=NOW + 900)
    after = of(again, Admit)
    assert after[2].finish_time <= NOW + 2100
    assert after[1].finish_time > NOW + 2500
    stays = waits(3, gpus=8, run_s=500, exclusions=STAYS)
    free = decide(policy, [held, stays], stored(kept), now=NOW + 3000)
    assert code(free, stays) == "chronus.spot"


def test_what_only_lost_nodes_keep_from_being_promised_is_told_so():
    one = asks(1, 5000, gpus=16)
    state = cluster([one], nodes=2)
    down = replace(state.nodes[1], state="down", flags=("down",))
    lost = chronus().decide(replace(state, nodes=(state.nodes[0], down)), {}, NOW)
    assert code(lost, one) == "chronus.refused-nodes-lost"
    assert lost.reasons[one.key].params == {"num_gpus": 16, "usable_gpus": 8, "pool_gpus": 16}
    wider = asks(1, 5000, gpus=24)
    assert (
        code(chronus().decide(cluster([wider], nodes=2), {}, NOW), wider)
        == "chronus.refused-too-wide"
    )


def test_of_too_many_requests_the_rest_is_refused_without_a_look(monkeypatch):
    monkeypatch.setattr(chronus_round, "MAX_REQUESTS", 3)
    jobs = [asks(k, 9000) for k in range(5)]
    policy = chronus()
    first = decide(policy, [*jobs, asks(9, 9000, user="bob")])
    assert set(of(first, Admit)) == {0, 1, 2, 9}
    assert set(of(first, Refuse)) == {3, 4}
    assert first.reasons[jobs[4].key].params["rule"] == "max_requests"
    later = decide(policy, jobs[2:], stored(first), now=NOW + 5)
    assert set(of(later, Admit)) == {2, 3, 4}


# -- the order ---------------------------------------------------------------------------------


def positions(decision):
    return [key.job_id for key, _ in sorted(decision.order.items(), key=lambda o: o[1].position)]


def test_a_target_waits_behind_shorter_best_effort_until_its_time_has_come():
    target, short = asks(1, 5000, gpus=8), waits(2, gpus=8, run_s=300)
    policy = chronus()
    decision = decide(policy, [target, short])
    assert positions(decision) == [2, 1]
    assert set(of(decision, Grant)) == {2}
    due = decide(policy, [target, short], stored(decision), now=NOW + 3950)
    assert positions(due) == [1, 2]
    assert set(of(due, Grant)) == {1}


def test_a_target_that_runs_is_not_stopped_before_it_is_a_lease_ahead():
    target, short = asks(1, 5000, gpus=8), waits(2, gpus=8, run_s=300)
    policy = chronus()
    first = decide(policy, [target, short])
    begun = runs(target, since=NOW + 3850, lease_s=20)
    ahead = decide(policy, [begun, short], stored(first), now=NOW + 3870)
    assert not of(ahead, Revoke)
    assert set(of(ahead, Renew)) == {1}
    early = runs(target, since=NOW + 2000, lease_s=20)
    far = decide(policy, [early, short], stored(first), now=NOW + 2020)
    assert set(of(far, Revoke)) == {1}


@pytest.mark.parametrize(
    ("after_s", "left", "used_s", "stays"),
    [(1900, 10, 900, True), (1900, 40, 900, False), (1990, 10, 1100, False)],
)
def test_a_target_that_ends_before_it_could_leave_is_not_stopped(after_s, left, used_s, stays):
    """Its GPUs would be free no sooner, and it would have to begin once more for nothing. One that
    says so for longer than it was promised is not believed.
    """
    policy = chronus(grace_s=20, margin_s=0)
    one, other = asks(1, 4000, gpus=8, run_s=1000), asks(2, 4000, gpus=8, run_s=2000)
    first = decide(policy, [one, other])
    assert set(of(first, Admit)) == {1, 2}
    now = NOW + after_s
    almost = told(runs(one, since=now - used_s, lease_s=10), left=left, per_s=1.0, now=now)
    later = decide(policy, [almost, other], stored(first), now=now)
    assert (not of(later, Revoke)) is stays


def test_it_wakes_up_when_a_target_has_to_come_first():
    decision = decide(chronus(lead_s=50), [asks(1, 5000, gpus=8), runs(waits(2, gpus=8))])
    assert decision.next_wakeup == NOW + LEASE_S  # the end of the lease comes before
    far = decide(chronus(lead_s=50), [asks(1, 5000, gpus=8), waits(2, gpus=8, run_s=9000)])
    assert far.next_wakeup in {NOW + LEASE_S, NOW + 4000 - LEASE_S - 50}


def test_who_cannot_give_way_stands_behind_where_a_target_needs_the_gpus():
    target = asks(1, 2500, gpus=8)
    stays = waits(2, gpus=2, run_s=2000, exclusions=STAYS)
    short = waits(3, gpus=2, run_s=1000, exclusions=STAYS)
    decision = decide(chronus(), [target, stays, short])
    assert code(decision, stays) == "chronus.after-targets"
    assert decision.reasons[stays.key].params["free_until_time"] == NOW + 1500
    assert code(decision, short) == "chronus.spot"
    assert positions(decision)[-1] == 2


def test_jobs_of_which_nothing_is_known_run_first_for_a_while_in_a_part_of_the_pool():
    unknown = [waits(k, gpus=1, run_s=None, submit=T0 + k, time_limit_s=9000) for k in range(6)]
    known = [waits(10 + k, gpus=1, run_s=100) for k in range(6)]
    decision = decide(chronus(profile_s=300), [*unknown, *known])
    codes = [code(decision, one) for one in unknown]
    assert codes == ["chronus.profiling"] * 2 + ["chronus.spot"] * 4
    assert positions(decision)[:2] == [0, 1]
    been = replace(unknown[0], attained_gpu_s=300.0)
    after = decide(chronus(profile_s=300), [been, *unknown[1:], *known])
    assert code(after, been) == "chronus.spot"
    assert code(decide(chronus(), unknown), unknown[0]) == "chronus.spot"


def test_a_lease_of_a_target_is_as_long_as_its_plan_and_others_as_spot_has_them():
    must_run, has_time = asks(1, 1000), asks(3, 1020)
    decision = decide(chronus(spot_lease_s=30), [must_run, waits(2), has_time])
    lengths = {k: a.length_s for k, a in of(decision, Grant).items()}
    assert lengths == {1: LEASE_S, 2: 30, 3: 30}
    # A pause of it is planned: another one needs the GPUs from 60 s on.
    maintenance = ReservationView("m", ("n0",), NOW + 60, NOW + 100)
    cut = decide(
        chronus(spot_lease_s=30, least_run_s=1), [asks(1, 1040)], reservations=(maintenance,)
    )
    assert of(cut, Admit)[1].plan[0].end_time == NOW + 60


# -- room for what will come -------------------------------------------------------------------


def loaded(share, num_gpus=8):
    """Memory of a pool of which small jobs have used this part."""
    known_s = 30 * 86400
    of_all = share * num_gpus * 2 * 86400  # e-folding time, all of it known
    return {"version": 1, "loads": {"gpu": [NOW - known_s, NOW - 50, {"10": of_all}, {}]}}


def test_far_ahead_gpus_are_kept_for_smaller_jobs():
    big = asks(1, 11 * HOUR, gpus=8, run_s=10 * HOUR)
    policy = chronus(room=1)
    busy = decide(policy, [big], loaded(0.9))
    assert code(busy, big) == "chronus.refused-room"
    assert busy.reasons[big.key].params["smaller_share"] == pytest.approx(0.9, abs=0.02)
    assert of(decide(policy, [big], loaded(0.0)), Admit)
    assert of(decide(chronus(room=0), [big], loaded(0.9)), Admit)


def test_small_and_near_ones_are_promised_all_the_same():
    small = asks(1, 11 * HOUR, gpus=1, run_s=20)
    near = asks(2, 1000, gpus=4, run_s=900)
    decision = decide(chronus(room=1), [small, near], loaded(0.9))
    assert set(of(decision, Admit)) == {1, 2}


def test_no_user_alone_has_gpus_kept_and_held_jobs_bring_nothing():
    policy = chronus(room=1)
    first = decide(policy, [])
    held = [replace(waits(k, run_s=HOUR, submit=NOW + 1), eligible=None) for k in range(100, 500)]
    nothing = decide(policy, held, stored(first), now=NOW + 5)
    assert not Book.of(nothing.memory).loads["gpu"].by_size
    queued = [waits(k, run_s=HOUR, submit=NOW + 1) for k in range(100, 500)]
    many = decide(policy, queued, stored(first), now=NOW + 5)
    assert Book.of(many.memory).loads["gpu"].share_of_smaller(1e9, 8) <= 0.25 + 1e-6
    two = [replace(one, user=f"u{number % 2}") for number, one in enumerate(queued)]
    both = decide(policy, two, stored(first), now=NOW + 5)
    assert Book.of(both.memory).loads["gpu"].share_of_smaller(1e9, 8) > 0.4


def test_what_comes_is_counted_once_and_fades():
    policy = chronus(room=1)
    first = decide(policy, [waits(1, gpus=4, run_s=100)], now=NOW)
    new = waits(2, gpus=4, run_s=100, submit=NOW + 5)
    second = decide(policy, [waits(1, gpus=4, run_s=100), new], stored(first), now=NOW + 10)
    assert sum(Book.of(second.memory).loads["gpu"].by_size.values()) == pytest.approx(400, rel=0.01)
    third = decide(policy, [new], stored(second), now=NOW + 10 + 2 * 86400)
    assert sum(Book.of(third.memory).loads["gpu"].by_size.values()) == pytest.approx(
        400 / 2.71828, rel=0.01
    )
