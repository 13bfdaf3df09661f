"""One reward for all kinds of jobs: who is chosen, how, and what would have changed it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.model.cluster import NodeView
from gsched.model.decision import Admit, Grant, Refuse, Renew, Revoke
from gsched.model.job import (
    Allocation,
    CountRange,
    JobState,
    Lease,
    LeaseState,
    Prediction,
    PredictionKind,
    Wants,
)
from gsched.model.targets import Steps
from gsched.policy import unisched_choice
from gsched.policy.unisched import UniSched
from gsched.policy.unisched_model import Choice
from gsched.policy.unisched_reward import (
    Prices,
    best_effort,
    profile,
    value,
    with_deadline,
)

NOW = T0 + 10_000
LEASE_S = 300
PLAIN = {
    "lease_s": LEASE_S, "grace_s": 0, "margin_s": 0, "profile_s": 0, "room": 0, "gap": 0.0,
}  # fmt: skip
PRICES = Prices(300.0, 30.0, 4.0, 300.0)


def unisched(**knobs):
    return UniSched(**{**PLAIN, **knobs})


def waits(number, *, gpus=1, run_s=1000.0, due_s=None, nodes=None, **more):
    one = view(number, gpus=gpus, duration_s=run_s, submit=NOW - 100, **more)
    if nodes is not None:
        one = replace(one, request=replace(one.request, nodes=CountRange(*nodes)))
    if due_s is not None:
        one = replace(one, wants=Wants(deadline=NOW + due_s))
    return one


def runs(one, node, *, ended=True):
    """The same, running; its lease is over or has just begun."""
    start = NOW - LEASE_S if ended else NOW
    held = Allocation((node,), (one.request.gpus.minimum,), start)
    lease = Lease(f"l{one.key.job_id}", LeaseState.GRANTED, start, LEASE_S)
    return replace(one, state=JobState.RUNNING, allocation=held, lease=lease, attained_gpu_s=300.0)


def cluster(views, nodes=1, gpus=8):
    held = {f"n{number}": 0 for number in range(nodes)}
    for one in views:
        if one.allocation:
            for name, count in zip(one.allocation.nodes, one.allocation.gpus, strict=True):
                held[name] += count
    found = tuple(
        NodeView(name, "mixed", (), 64, 0, (("", gpus),), ("gpu",), gpus_used=count)
        for name, count in held.items()
    )
    return replace(snapshot(views), nodes=found, as_of=NOW)


def decide(policy, views, memory=None, **more):
    return policy.decide(cluster(views, **more), memory or {}, NOW)


def begun(decision):
    return {a.key.job_id for a in decision.actions if isinstance(a, Grant)}


# -- the reward --------------------------------------------------------------------------------


def test_a_lease_is_worth_what_it_brings_a_job_nearer_to_its_end():
    assert best_effort(3000, 1, PRICES, runs=True) == pytest.approx(10.0)
    assert best_effort(1500, 1, PRICES, runs=True) == pytest.approx(20.0)
    assert best_effort(3000, 4, PRICES, runs=True) == pytest.approx(20.0)


def test_who_does_not_run_yet_loses_the_start():
    assert best_effort(3000, 1, PRICES, runs=False) == pytest.approx(10.0 * 300 / 330)


def test_a_deadline_counts_more_the_more_of_the_time_left_the_run_takes_and_not_once_it_is_missed():
    strict = Steps((NOW + 2000,), (100.0,))
    plain = best_effort(1000, 1, PRICES, runs=True)
    half = with_deadline(strict, 1000, NOW, 1, PRICES, runs=True)
    assert half == pytest.approx(plain * 2)
    whole = with_deadline(Steps((NOW + 1000,), (100.0,)), 1000, NOW, 1, PRICES, runs=True)
    assert whole == pytest.approx(plain * 5)
    late = with_deadline(Steps((NOW + 999,), (100.0,)), 1000, NOW, 1, PRICES, runs=True)
    assert late == plain


def test_of_soft_deadlines_the_next_that_can_be_met_counts():
    soft = Steps((NOW + 900, NOW + 1000), (100.0, 50.0))
    plain = best_effort(1000, 1, PRICES, runs=True)
    found = with_deadline(soft, 1000, NOW, 1, PRICES, runs=True)
    assert found == pytest.approx(plain * (1 + 4 * 49 / 99))


def test_a_profile_run_counts_more_the_longer_it_waits():
    first = profile(300, 0, 1, PRICES)
    assert profile(300, 300, 1, PRICES) == pytest.approx(2 * first)
    assert profile(300, 900, 1, PRICES) == pytest.approx(10 * first)
    assert profile(300, 86_400, 1, PRICES) == pytest.approx(10 * first)  # but not without an end


@given(points=st.floats(0, 1e12))
def test_values_are_steps_of_a_tenth(points):
    own = value(points)
    assert own >= 1
    if 0.002 < points < 1e5:
        assert 0.9 * points * 1000 - 1 <= own <= points * 1000 + 1
    assert value(points * 2) >= own


# -- who is chosen -----------------------------------------------------------------------------


def test_the_model_finds_what_the_greedy_pass_does_not():
    """Six GPUs of the best points a GPU leave two idle; four and four are more."""
    six, fours = waits(1, gpus=6, run_s=1000), [waits(k, gpus=4, run_s=1300) for k in (2, 3)]
    greedy = decide(unisched(choose_s=0), [six, *fours])
    assert greedy.memory["choice"]["way"] == "off"
    assert begun(greedy) == {1}
    best = decide(unisched(), [six, *fours])
    assert best.memory["choice"]["way"] == "cp-sat"
    assert begun(best) == {2, 3}


def test_a_greedy_choice_that_is_near_enough_stands():
    six, fours = waits(1, gpus=6, run_s=1000), [waits(k, gpus=4, run_s=1300) for k in (2, 3)]
    policy = unisched(gap=0.9)
    decision = decide(policy, [six, *fours])
    assert begun(decision) == {1}
    assert decision.memory["choice"]["way"] == "greedy"
    assert 0 < decision.memory["choice"]["gap"] <= 0.9
    assert policy.ways == {"greedy": 1}


def test_who_runs_gives_way_only_where_that_is_worth_a_start():
    running = runs(waits(1, gpus=8, run_s=1300), "n0")  # 300 s of it are done
    little = decide(unisched(resume_s=30), [running, waits(2, gpus=8, run_s=950)])
    assert [a.key.job_id for a in little.actions if isinstance(a, Renew)] == [1]
    much = decide(unisched(resume_s=30), [running, waits(2, gpus=8, run_s=500)])
    assert [a.key.job_id for a in much.actions if isinstance(a, Revoke)] == [1]
    assert begun(much) == {2}


@pytest.mark.parametrize("choose_s", [0, 0.5])
def test_a_promise_is_not_for_sale(choose_s):
    due = waits(1, gpus=8, run_s=1000, due_s=1010)
    short = [waits(k, gpus=1, run_s=30) for k in range(2, 10)]
    decision = decide(unisched(choose_s=choose_s), [due, *short])
    assert [a.key.job_id for a in decision.actions if isinstance(a, Admit)] == [1]
    assert begun(decision) == {1}
    assert decision.reasons[due.key].code == "unisched.target"


def test_what_is_left_beside_a_target_is_chosen_by_the_model():
    """Without the target five and three GPUs would be the best."""
    due = waits(1, gpus=2, run_s=100_000, due_s=100_010)
    others = [waits(2, gpus=5, run_s=700), *(waits(k, gpus=3, run_s=1000) for k in (3, 4))]
    decision = decide(unisched(), [due, *others])
    assert begun(decision) == {1, 3, 4}


def test_the_model_finds_room_for_all_targets_that_are_due_where_the_pass_does_not():
    """The first one, put where it fits best, would leave two nodes with one GPU each."""
    held = [
        runs(waits(1, gpus=5, run_s=9000), "n0", ended=False),
        runs(waits(2, gpus=6, run_s=9000), "n1", ended=False),
    ]
    due = [waits(3, due_s=1005), waits(4, gpus=2, due_s=1010), waits(5, gpus=2, due_s=1015)]
    few = decide(unisched(choose_s=0), [*held, *due], nodes=2)
    assert begun(few) == {3, 4}
    all_of_them = decide(unisched(), [*held, *due], nodes=2)
    assert {a.key.job_id for a in all_of_them.actions if isinstance(a, Admit)} == {3, 4, 5}
    assert begun(all_of_them) == {3, 4, 5}


def test_jobs_are_put_where_the_model_has_them():
    """Three GPUs on the node with four, where they fit best, would leave no room for all."""
    held = [
        runs(waits(1, gpus=4, run_s=9000), "n0", ended=False),
        runs(waits(2, gpus=3, run_s=9000), "n1", ended=False),
    ]
    others = [waits(3, gpus=3, run_s=500), *(waits(k, gpus=2, run_s=1000) for k in (4, 5, 6))]
    assert len(begun(decide(unisched(choose_s=0), [*held, *others], nodes=2))) == 3
    assert begun(decide(unisched(), [*held, *others], nodes=2)) == {3, 4, 5, 6}


def test_a_choice_that_is_no_better_is_not_taken(monkeypatch):
    worse = Choice(frozenset(), {1: {"n0": 6}}, 1, "feasible", 0.5)
    monkeypatch.setattr(unisched_choice, "solve", lambda *_: worse)
    decision = decide(unisched(), JOBS)
    assert decision.memory["choice"] == {"way": "no-better", "gap": 0.5}
    assert begun(decision) == {1}


def test_a_deadline_that_was_refused_counts_while_it_can_be_met():
    first = waits(1, gpus=8, run_s=1000, due_s=1010)
    memory = json.loads(
        json.dumps(decide(unisched(), [first, waits(2, gpus=8, run_s=1600, due_s=1700)]).memory)
    )
    assert list(memory["refused"]) == [f"2@{NOW - 100}"]
    refused, other = waits(2, gpus=8, run_s=1600, due_s=1700), waits(3, gpus=8, run_s=1000)
    assert begun(decide(unisched(), [refused, other], memory)) == {2}
    assert begun(decide(unisched(deadline_worth=0), [refused, other], memory)) == {3}


def test_who_is_not_known_is_measured_first_and_answered_then():
    unknown = replace(waits(1, gpus=8, run_s=None), wants=Wants(deadline=NOW + 5000))
    known = waits(2, gpus=8, run_s=4000)
    policy = unisched(profile_s=300)
    decision = decide(policy, [unknown, known])
    assert begun(decision) == {1}
    assert decision.reasons[unknown.key].code == "unisched.profiling"
    assert not [a for a in decision.actions if isinstance(a, Admit | Refuse)]
    told = (
        Prediction(PredictionKind.SPEED, 1.0, (), "profile", "profile", 0, NOW),
        Prediction(PredictionKind.ITERATIONS, 900.0, (), "profile", "profile", 0, NOW),
    )
    measured = replace(unknown, predictions=told, attained_gpu_s=300.0 * 8)
    assert [a.key.job_id for a in decide(policy, [measured, known]).actions
            if isinstance(a, Admit)] == [1]  # fmt: skip


def test_who_cannot_be_measured_is_answered_at_once():
    unknown = replace(waits(1, gpus=8, run_s=None), wants=Wants(deadline=NOW + 5000))
    decision = decide(unisched(profile_s=0), [unknown])
    assert [type(a) for a in decision.actions if isinstance(a, Admit | Refuse)] == [Refuse]


def test_a_first_run_that_has_waited_long_goes_before_short_jobs():
    unknown = waits(1, gpus=8, run_s=None)
    short = waits(2, gpus=8, run_s=60)
    policy = unisched(profile_s=300)
    assert begun(decide(policy, [unknown, short])) == {2}
    long_ago = replace(unknown, eligible=NOW - 900, first_submit=NOW - 900)
    assert begun(decide(policy, [long_ago, short])) == {1}


# -- never without an answer -------------------------------------------------------------------

JOBS = [waits(1, gpus=6, run_s=1000), *(waits(k, gpus=4, run_s=1300) for k in (2, 3))]


def test_without_a_solver_the_greedy_choice_stands(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    decision = decide(unisched(solve_s=0), JOBS)
    assert begun(decision) == {1}
    assert decision.memory["choice"]["way"] == "no-solver"


def test_so_it_does_where_the_solver_finds_nothing_in_its_time(monkeypatch):
    monkeypatch.setattr(unisched_choice, "solve", lambda *_: None)
    policy = unisched()
    decision = decide(policy, JOBS)
    assert begun(decision) == {1}
    assert decision.memory["choice"]["way"] == "time-out"
    assert policy.ways == {"time-out": 1}


def test_and_where_the_model_would_be_too_large(monkeypatch):
    monkeypatch.setattr("gsched.policy.unisched_model.MOST_VARIABLES", 1)
    decision = decide(unisched(), JOBS)
    assert begun(decision) == {1}
    assert decision.memory["choice"]["way"] == "too-large"


@pytest.mark.parametrize("error", [OSError("libortools.so"), MemoryError(), RuntimeError("model")])
def test_and_where_the_solver_fails_in_any_other_way(monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(unisched_choice, "solve", fails)
    policy = unisched()
    assert begun(decide(policy, JOBS)) == {1}
    assert policy.ways == {"failed": 1}


def test_and_where_the_solver_does_not_take_the_model(monkeypatch):
    monkeypatch.setattr(unisched_choice, "value", lambda _points: 2**62)
    monkeypatch.setattr(unisched_choice, "_due_first", lambda values, _rewards: dict(values))
    policy = unisched()
    assert begun(decide(policy, JOBS)) == {1}
    assert sum(policy.ways[way] for way in ("invalid", "failed")) == 1


def test_no_sum_of_values_is_too_large_for_the_model_and_the_order_stays():
    many = {row: 10**9 - row for row in range(4000)}
    rewards = dict.fromkeys(range(5000, 5200), 100)
    found = unisched_choice._due_first(many, rewards)
    assert 100 * sum(found.values()) < 2**63
    assert min(found[row] for row in rewards) > sum(found[row] for row in many)
    assert all(found[row] >= found[row + 1] for row in range(3999))
    assert found[0] > found[3999] > 1
    assert unisched_choice._due_first({1: 5, 2: 7}, {3: 100}) == {1: 5, 2: 7, 3: 1300}


def test_a_job_with_more_nodes_than_gpus_is_put_nowhere_and_stops_nobody():
    odd = waits(1, gpus=1, nodes=(2, 2))
    for choose_s in (0, 0.5):
        decision = decide(unisched(choose_s=choose_s), [odd, *JOBS[1:]], nodes=2)
        assert begun(decision) == {2, 3}
        assert "needed_points" not in explained(decision, odd)
        full = [odd, waits(4, gpus=6), *(waits(k, gpus=4, run_s=1300) for k in (2, 3))]
        decide(unisched(choose_s=choose_s), full)


def test_first_runs_of_one_user_take_no_more_of_others_than_a_part_of_the_pool():
    running = [runs(waits(k, gpus=1, run_s=600), "n0") for k in range(1, 9)]
    unknown = [
        replace(waits(k, gpus=1, run_s=None), eligible=NOW - 3600, first_submit=NOW - 3600)
        for k in range(10, 60)
    ]
    decision = decide(unisched(profile_s=300), [*running, *unknown])
    assert len(begun(decision)) == 2
    idle = decide(unisched(profile_s=300), unknown)
    assert len(begun(idle)) == 8  # what nobody else wants


@st.composite
def queues(draw):
    """Running and waiting jobs on two nodes of eight."""
    found, held = [], [0, 0]
    for number in range(draw(st.integers(0, 4))):
        node, gpus = draw(st.integers(0, 1)), draw(st.integers(1, 5))
        if held[node] + gpus <= 8:
            held[node] += gpus
            run_s = draw(st.sampled_from([400.0, 900.0, 5000.0]))
            one = waits(number, gpus=gpus, run_s=run_s)
            found.append(runs(one, f"n{node}", ended=draw(st.booleans())))
    for number in range(10, 10 + draw(st.integers(0, 6))):
        run_s = draw(st.sampled_from([None, 40.0, 700.0, 2000.0]))
        due_s = draw(st.sampled_from([None, None, 1000, 2100, 4000]))
        gpus = draw(st.sampled_from([1, 2, 3, 5, 8, 16]))
        nodes = draw(st.sampled_from([None, None, (1, 2), (2, 2), (3, 3)]))
        found.append(waits(number, gpus=gpus, run_s=run_s, due_s=due_s, nodes=nodes))
    return found


@settings(max_examples=60, deadline=None)
@given(views=queues())
def test_what_is_given_fits_node_by_node_with_and_without_a_model(views):
    for knobs in ({}, {"choose_s": 0}, {"profile_s": 300}):
        decision = decide(unisched(**knobs), views, nodes=2)
        again = decide(unisched(**knobs), views, nodes=2)
        assert decision.actions == again.actions
        assert decision.memory == again.memory
        gone = {a.key for a in decision.actions if isinstance(a, Revoke)}
        room = {"n0": 8, "n1": 8}
        for one in views:
            if one.allocation and one.key not in gone:
                room[one.allocation.nodes[0]] -= one.request.gpus.minimum
        for one in views:
            if one.key.job_id in begun(decision) and not one.allocation:
                names = decision.reasons[one.key].params["where"].split()
                for name in names:
                    room[name] -= max(1, one.request.gpus.minimum // len(names))
        assert min(room.values()) >= 0


# -- what would have changed it ----------------------------------------------------------------


def explained(decision, one):
    return decision.reasons[one.key].params


def test_with_more_points_than_told_it_would_have_been_chosen():
    running = runs(waits(1, gpus=8, run_s=1300), "n0")
    late = waits(2, gpus=8, run_s=3000)
    told = explained(decide(unisched(), [running, late]), late)
    assert told["is_chosen"] is False
    assert told["needed_points"] > told["points"]
    factor = told["needed_points"] / told["points"]
    shorter = waits(2, gpus=8, run_s=3000 / (factor * 1.25))
    assert begun(decide(unisched(), [running, shorter])) == {2}
    longer = waits(2, gpus=8, run_s=3000 / (factor * 0.8))
    assert begun(decide(unisched(), [running, longer])) == set()


def test_with_as_many_gpus_as_told_it_would_have_started():
    running = runs(waits(1, gpus=5, run_s=1300), "n0", ended=False)
    wide = waits(2, gpus=4)
    told = explained(decide(unisched(), [running, wide]), wide)
    assert told["fits_gpus"] == 3
    assert told["needed_points"] == 0.0  # nobody can be made to leave within a lease
    assert begun(decide(unisched(), [running, waits(2, gpus=3)])) == {2}


def test_the_time_at_which_leases_end_is_told():
    running = runs(waits(1, gpus=5, run_s=1300), "n0", ended=False)
    told = explained(decide(unisched(), [running, waits(2, gpus=4)]), waits(2, gpus=4))
    assert told["chance_time"] == NOW + LEASE_S


def test_of_a_held_job_nothing_is_told_that_would_have_changed_it():
    held = replace(waits(1, gpus=2), eligible=None)
    told = explained(decide(unisched(), [held]), held)
    assert told["is_chosen"] is False
    assert not {"needed_points", "fits_gpus", "chance_time"} & set(told)


def test_gpus_that_are_kept_for_a_target_are_not_told_to_be_free():
    running = runs(waits(1, gpus=5, run_s=9000), "n0", ended=False)
    due, two = waits(2, gpus=8, run_s=1000, due_s=1320), waits(3, gpus=2, run_s=500)
    decision = decide(unisched(lead_s=60), [running, due, two])
    assert [a.key.job_id for a in decision.actions if isinstance(a, Admit)] == [2]
    assert begun(decision) == set()
    told = explained(decision, two)
    assert (told["fits_gpus"], told["needed_points"], told["chance_time"]) == (0, 0.0, 0)


def test_no_time_is_told_of_a_target_that_runs_on():
    due = waits(1, gpus=8, run_s=50_000, due_s=50_010)
    late = waits(2, gpus=8)
    told = explained(decide(unisched(), [due, late]), late)
    assert told["chance_time"] == 0


def test_who_gets_all_that_it_asks_for_on_several_nodes_is_told_of_no_single_one():
    running = [runs(waits(k, gpus=6), f"n{k}", ended=False) for k in (0, 1)]
    two = waits(2, gpus=6, nodes=(2, 2))
    told = explained(decide(unisched(), [*running, two], nodes=2), two)
    assert told["fits_gpus"] == 0


def test_who_is_chosen_is_told_where():
    one = waits(1, gpus=8)
    told = explained(decide(unisched(), [one], nodes=2), one)
    assert told["is_chosen"] is True
    assert told["where"] in ("n0", "n1")
