"""The live backend on a client with state: what is read when, what is written, what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.queue import row as queue_row
from support.slurm_bench import EXCLUDED, Bench

from gsched.engine.ports import Plan
from gsched.model.cluster import ReservationView
from gsched.model.decision import Reason
from gsched.model.job import JobState, Prediction, PredictionKind, Wants
from gsched.model.journal import Change
from gsched.policy.qssf import Qssf
from gsched.slurm.records import FreeText


def test_only_what_differs_by_the_dead_band_is_written_the_widest_first() -> None:
    bench = Bench(1, 2, 3)
    bench.client.factors[2] = 90
    bench.stands(2, 0, 90)
    assert list(bench.plan(j1=0.05, j2=0.1, j3=-0.5).items()) == [
        (3, (0, -500, False)),
        (1, (0, 50, False)),
    ]


def test_the_write_budget_keeps_the_widest() -> None:
    assert list(Bench(1, 2, 3, write_budget=1).plan(j1=0.1, j2=-0.9, j3=0.3)) == [2]


def test_a_job_that_sprio_does_not_list_is_not_moved() -> None:
    bench = Bench(1, 2)
    bench.client.hidden = {1}
    assert list(bench.plan(j1=0.5, j2=0.5)) == [2]


def test_no_job_is_pushed_below_slurms_lowest_priority() -> None:
    bench = Bench(1)
    bench.client.base = 300
    assert bench.plan(j1=-1.0) == {1: (0, -290, False)}  # a multiple of the quantum


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, None), (200, None), (300, None), (55, "foreign-site-factor")],
)
def test_whose_value_it_is(value: int, code: str | None) -> None:
    """`found`, `written` and what may have been sent are ours; anything else is another hand's."""
    bench = Bench(1)
    bench.stands(1, 0, 200, 300)
    bench.client.factors[1] = value
    assert bench.excluded(1) == code


def test_a_value_that_the_journal_does_not_know_is_another_hands() -> None:
    bench = Bench(1)
    bench.client.factors[1] = 7
    assert bench.excluded(1) == "foreign-site-factor"


def test_a_later_opt_out_is_seen_and_what_was_written_is_taken_back() -> None:
    bench = Bench(1, 2)
    bench.stands(1, 30, 200)
    bench.client.factors[1] = 200
    assert bench.plan(j1=0.2) == {}
    bench.client.texts[1] = FreeText("job-1", "mine gs1{none}")
    assert bench.excluded(1) == "opted-out"
    assert bench.plan() == {1: (200, 30, True)}
    bench.client.factors[1] = 30
    assert bench.plan() == {}


def test_what_is_taken_back_goes_before_what_is_moved() -> None:
    bench = Bench(1, 2, 3, exclude_users=("carol",), write_budget=2)
    bench.client.rows[1] = replace(bench.client.rows[1], user="carol")
    bench.stands(1, 0, 30)
    bench.client.factors[1] = 30
    plan = bench.decide(j2=0.5, j3=0.9)
    assert [c.key.job_id for c in plan.changes] == [1, 3]
    assert plan.postponed == 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"exclude_users": ("alice",)}, "excluded-user"),
        ({"exclude_accounts": ("lab1",)}, "excluded-account"),
        ({"partitions": ("other",)}, "out-of-scope"),
    ],
)
def test_a_rule_of_the_site_takes_back_too(settings: dict[str, Any], code: str) -> None:
    bench = Bench(1, **settings)
    bench.stands(1, 0, 200)
    bench.client.factors[1] = 200
    assert bench.excluded(1) == code
    assert bench.plan() == {1: (200, 0, True)}


FATES: dict[str, bool] = {
    "opted-out": True,
    "excluded-user": True,
    "excluded-account": True,
    "out-of-scope": True,
    "cron": True,
    "interactive": True,
    "het-component": True,
    "reservation": True,
    "unsplit-array": False,  # a write to it would reach the tasks that were split off it
    "held": False,  # not shown while it is held; it goes on where it was
    "manual-priority": False,
    "foreign-site-factor": False,
}
"""Whether what gsched wrote is taken back when a job comes to be left alone, by the reason."""


@pytest.mark.parametrize(("code", "taken_back"), FATES.items())
def test_what_becomes_of_a_value_when_the_job_must_be_left_alone(
    code: str, taken_back: bool
) -> None:
    bench = Bench(1, partitions=("gpu",), exclude_users=("carol",), exclude_accounts=("lab9",))
    bench.stands(1, 0, 200)
    bench.client.factors[1] = 200
    assert bench.plan(j1=0.2) == {}
    bench.exclude(1, code)
    assert bench.excluded(1) == code
    assert bench.plan() == ({1: (200, 0, True)} if taken_back else {})


def test_the_fates_above_are_of_all_that_must_not_be_reordered() -> None:
    assert FATES.keys() == EXCLUDED.keys()


@pytest.mark.parametrize("code", FATES)
def test_another_hands_value_stays_whatever_else_the_job_is(code: str) -> None:
    bench = Bench(1, partitions=("gpu",), exclude_users=("carol",), exclude_accounts=("lab9",))
    bench.stands(1, 0, 200)
    bench.exclude(1, code)
    bench.client.factors[1] = 999
    assert bench.plan() == {}


def test_a_job_of_which_the_policy_says_that_it_has_no_rank_gets_back_what_was_found() -> None:
    bench = Bench(1, 2)
    for job, found, written in ((1, 30, 400), (2, 0, 400)):
        bench.stands(job, found, written)
        bench.client.factors[job] = written
    several = {1: Reason("scope.several-policies", {"policies": "qssf, fifo"})}
    (change,) = bench.decide(several, j2=0.4).changes
    assert (change.before, change.after, change.takes_back) == (400, 30, True)
    assert change.reason == Reason("clear", {"because": "scope.several-policies"})
    bench.client.factors[1] = 30
    assert bench.decide(several, j2=0.4).changes == ()


@pytest.mark.parametrize("reason", [None, Reason("qssf.last-order-stands")])
def test_the_last_order_stands_where_the_policy_decides_nothing(reason: Reason | None) -> None:
    bench = Bench(1, 2)
    bench.stands(1, 0, 400)
    bench.client.factors[1] = 400
    assert bench.decide({1: reason} if reason else {}).changes == ()
    assert bench.decide({1: reason} if reason else {}, j2=0.0).changes == ()


@pytest.mark.parametrize("has_model", [True, False])
def test_qssf_without_any_prediction_leaves_the_last_order(has_model: bool) -> None:
    bench = Bench(1, 2)
    for job in (1, 2):
        bench.stands(job, 0, 400)
        bench.client.factors[job] = 400
    state = bench.snapshot()
    known = Prediction(PredictionKind.DURATION, 60.0, (), "test", "m", 1, 0)
    views = [
        replace(v, predictions=(known,)) if has_model and v.key.job_id == 2 else v
        for v in state.jobs.views
    ]
    state = replace(state, jobs=state.jobs.with_predictions(views))
    plan = bench.backend.plan(Qssf().decide(state, {}, bench.now), state, "r1")
    back = {c.key.job_id: c.reason.params for c in plan.changes if c.takes_back}
    assert back == ({1: {"because": "qssf.no-prediction"}} if has_model else {})


def test_a_foreign_value_is_not_taken_back() -> None:
    bench = Bench(1, exclude_users=("alice",))
    bench.stands(1, 0, 200)
    bench.client.factors[1] = 999
    assert bench.plan() == {}


def test_a_round_asks_once_and_what_changes_seldom_once_a_minute() -> None:
    bench = Bench(1)
    for _ in range(3):
        bench.snapshot()
    bench.client.rows[2] = queue_row(2)
    bench.client.texts[2] = FreeText("new", "gs1{none}")
    bench.client.factors[2] = 0
    assert bench.excluded(2) == "opted-out"  # a new job's comment is in the same listing
    bench.seconds += 60
    bench.snapshot()
    asked = ["sprio", "queue all with texts"]
    assert bench.client.calls == [*asked, "describe", *asked * 4, "describe"]


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    bench = Bench(1)
    bench.snapshot()
    bench.now -= 3600
    bench.seconds += 60
    bench.snapshot()
    assert bench.client.calls.count("describe") == 2


def test_hidden_array_tasks_are_asked_for_when_there_is_a_new_one() -> None:
    bench = Bench(1)
    client = bench.client
    for task in (21, 22):
        client.tasks[task] = queue_row(task, job_id=20, array_task=task)
        client.texts[task] = FreeText("task", "")
        client.factors[task] = 0
        for _ in range(2):
            names = {v.key.slurm_id for v in bench.snapshot().jobs.views}
    assert names == {"1", "20_21", "20_22"}
    del client.tasks[21], client.factors[21]
    assert {v.key.slurm_id for v in bench.snapshot().jobs.views} == {"1", "20_22"}
    bench.seconds += 60  # one may have been requeued or edited meanwhile
    bench.snapshot()
    splits = [call for call in client.calls if call.startswith("split")]
    assert splits == ["split [21]", "split [21, 22]", "split [22]"]


def test_a_job_that_comes_between_the_two_questions_is_no_hidden_task() -> None:
    """sprio is asked first: what it does not list yet is not moved, and nobody asks for it."""
    bench = Bench(1, 2)
    bench.client.hidden = {2}
    assert list(bench.plan(j1=0.5, j2=0.5)) == [1]
    assert not [call for call in bench.client.calls if call.startswith("split")]


def test_what_has_not_changed_is_the_same_object_as_before() -> None:
    bench = Bench(1, 2, 3)
    first = bench.snapshot()
    again = bench.snapshot()
    assert again.jobs is first.jobs
    bench.client.rows[2] = replace(bench.client.rows[2], num_gpus=4)
    third = bench.snapshot()
    same = [new is old for new, old in zip(third.jobs.views, first.jobs.views, strict=True)]
    assert same == [True, False, True]
    bench.client.rows[2] = replace(bench.client.rows[2], priority=5)  # nothing that a view tells
    assert bench.snapshot().jobs is third.jobs


def test_epochs_are_looked_up_for_new_jobs_and_now_and_then_for_restarted_ones() -> None:
    bench = Bench(1, 2)
    bench.client.rows[2] = replace(bench.client.rows[2], restarts=1, submit_time=1500)
    bench.snapshot()
    bench.snapshot()
    assert bench.epoch_lookups == [[1, 2]]
    bench.first_submits[2] = 900  # the history has heard of the first attempt
    bench.seconds += 60
    keys = {v.key.job_id: v.key.epoch for v in bench.snapshot().jobs.views}
    assert keys == {1: 1000, 2: 900}
    assert bench.epoch_lookups == [[1, 2], [2]]


def decided(bench: Bench, *ids: int) -> tuple[Change, ...]:
    """The changes of a round that moves all of these jobs up."""
    return bench.decide(**{f"j{i}": 0.5 for i in ids}).changes


def test_reading_back_asks_sprio_for_the_written_jobs_alone() -> None:
    bench = Bench(1, 2, 3, 4)
    changes = decided(bench, 1, 2, 3)
    bench.backend.apply(changes)
    bench.client.hidden = {2}
    bench.client.manual = {3}
    del bench.client.calls[:]
    seen = {r.change_id: (r.value, r.present) for r in bench.backend.read_back(changes)}
    assert seen == {
        changes[0].change_id: (500, True),
        changes[1].change_id: (None, True),  # held or started: the next look tells
        changes[2].change_id: (None, True),  # sprio shows 0 whatever its SiteFactor is
    }
    assert bench.client.calls == ["sprio [1, 2, 3]"]
    assert bench.backend.read_back(()) == []


def test_the_next_look_tells_the_job_from_one_that_came_after_it() -> None:
    bench = Bench(1, 2, 3, 4, 5)
    changes = decided(bench, 1, 2, 3, 4, 5)
    assert {c.attempt for c in changes} == {bench.client.rows[1].submit_time}
    bench.backend.apply(changes)
    rows = bench.client.rows
    rows[2] = replace(rows[2], state=JobState.RUNNING)
    rows[3] = replace(rows[3], submit_time=rows[3].submit_time + 99)  # requeued, or another job
    bench.client.hidden = {4}
    bench.client.manual = {5}
    bench.backend.look()
    del bench.client.calls[:]
    judged = zip(changes, bench.backend.looked_up(changes), strict=True)
    assert {c.key.job_id: (r.value, r.present) for c, r in judged} == {
        1: (500, True),
        2: (None, False),
        3: (None, False),
        4: (None, True),
        5: (None, True),  # sprio shows 0 whatever its SiteFactor is
    }
    assert bench.client.calls == []
    del rows[1]
    bench.backend.look()
    assert not bench.backend.looked_up(changes[:1])[0].present


def test_jobs_that_ended_are_for_the_history_alone() -> None:
    bench = Bench(1, 2, 3)
    rows = bench.client.rows
    rows[2] = replace(rows[2], state=JobState.COMPLETED, state_text="COMPLETED")
    rows[3] = replace(rows[3], state=JobState.REQUEUED, state_text="REQUEUED")
    assert {v.key.job_id for v in bench.snapshot().jobs.views} == {1, 3}
    assert {r.job_id for r in bench.backend.sightings().records} == {1, 2, 3}


def test_whoever_has_left_its_gpus_is_told_of_once() -> None:
    bench = Bench(1, 2, 3)
    rows = bench.client.rows
    for raw_id in (1, 2):
        rows[raw_id] = replace(
            rows[raw_id], state=JobState.RUNNING, state_text="RUNNING", node_list="n1"
        )
    assert bench.snapshot().ended == ()
    del rows[1]
    rows[2] = replace(rows[2], state=JobState.COMPLETING, state_text="COMPLETING")
    assert [v.key.job_id for v in bench.snapshot().ended] == [1]
    assert bench.snapshot().ended == ()


def test_the_history_is_told_once_of_what_is_new() -> None:
    bench = Bench(1, 2)

    def told(*, keep: bool = True) -> list[tuple[int, str]]:
        bench.backend.look()
        batch = bench.backend.sightings()
        if keep:
            bench.backend.sightings_kept()
        return [(r.job_id, r.state_text) for r in batch.records]

    assert told(keep=False) == told() == [(1, "PENDING"), (2, "PENDING")]
    rows = bench.client.rows
    rows[1] = replace(rows[1], priority=99, start_time=5000)  # an announced start is no start
    assert told() == []
    rows[1] = replace(rows[1], state=JobState.RUNNING, state_text="RUNNING", node_list="n1")
    bench.client.texts[2] = FreeText("renamed", "")
    assert told() == [(1, "RUNNING"), (2, "PENDING")]


def test_jobs_of_control_partitions_keep_their_rank_and_are_not_written() -> None:
    bench = Bench(1, 2, 3, control_partitions=("control",))
    rows = bench.client.rows
    rows[1] = replace(rows[1], partitions=("control",))
    rows[2] = replace(rows[2], partitions=("control", "gpu"))
    state = bench.snapshot()
    assert state.jobs.reorderable.all()
    assert [bench.backend.is_control(v) for v in state.jobs.views] == [True, False, False]
    assert bench.plan(j1=0.9, j2=0.5, j3=-0.3) == {2: (0, 500, False), 3: (0, -300, False)}
    bench.stands(1, 30, 900)
    bench.client.factors[1] = 900
    assert bench.plan(j1=0.9) == {1: (900, 30, True)}
    bench.client.factors[1] = 77  # another hand's
    assert bench.plan(j1=0.9) == {}


def test_one_round_an_interval_writes() -> None:
    bench = Bench(1, 2, burst_interval_s=30.0)
    changes = decided(bench, 1)
    bench.backend.apply(changes)
    bench.seconds += 20
    assert bench.decide(j1=0.5, j2=0.5) == Plan((), postponed=1)
    bench.stands(1, 0, 500)
    bench.client.rows[1] = replace(bench.client.rows[1], user="carol")
    bench.backend.configure(
        replace(bench.settings, exclude_users=("carol",)), bench.backend.scale, 30.0
    )
    assert bench.decide(j2=0.5) == Plan((), postponed=2)  # what is taken back waits as well
    bench.seconds += 10
    assert list(bench.plan(j2=0.5)) == [1, 2]


def test_the_clusters_interval_holds_where_none_is_set() -> None:
    bench = Bench(1)
    bench.backend.configure(bench.settings, bench.backend.scale, 60.0)
    bench.backend.apply(decided(bench, 1))
    bench.seconds += 50
    assert bench.decide(j1=0.9).postponed == 1
    bench.seconds += 10
    assert bench.decide(j1=0.9).postponed == 0


def test_a_round_that_only_plans_holds_up_no_later_one() -> None:
    bench = Bench(1, burst_interval_s=30.0)
    assert bench.plan(j1=0.5) == bench.plan(j1=0.5) != {}


def test_what_came_went_and_changed() -> None:
    bench = Bench(1, 2)
    one, two = bench.key(1), bench.key(2)
    assert bench.snapshot().changed.arrived == {one, two}
    del bench.client.rows[2]
    bench.client.rows[1] = replace(bench.client.rows[1], state=JobState.RUNNING)
    changed = bench.snapshot().changed
    assert (changed.arrived, changed.departed, changed.changed) == (set(), {two}, {one})


def test_a_comment_that_was_wiped_still_counts() -> None:
    bench = Bench(1)
    bench.client.texts[1] = FreeText("job-1", "gs1{none}")
    assert bench.excluded(1) == "opted-out"
    bench.client.texts[1] = FreeText("job-1", "wiped")
    assert bench.excluded(1) == "opted-out"


def test_what_an_array_asks_for_reaches_a_task_that_was_seen_before() -> None:
    bench = Bench(1)
    bench.client.rows[21] = queue_row(21, job_id=20, array_task=1)
    bench.client.texts[21] = FreeText("task", "")
    bench.client.factors[21] = 0
    bench.snapshot()
    bench.client.rows[20] = queue_row(20, is_unsplit_array=True, array_tasks="2-3")
    bench.client.texts[20] = FreeText("array", "gs1{none}")
    state = bench.snapshot()
    assert {v.key.slurm_id for v in state.jobs.views if v.wants.opt_out} == {"20", "20_1"}


def test_a_job_whose_user_waits_for_an_answer_is_among_the_requests() -> None:
    bench = Bench(1, 2, 3)
    bench.client.texts[2] = FreeText("job-2", "gs1{deadline=1800000000}")
    bench.client.texts[3] = FreeText("job-3", "gs1{soft=1800000000:1}")
    state = bench.snapshot()
    assert state.requests == (bench.key(2), bench.key(3))
    assert state.jobs.view(bench.key(2)).wants == Wants(deadline=1_800_000_000)


def test_gscheds_own_reservations_take_no_nodes_away_and_their_job_is_managed() -> None:
    bench = Bench(1, 2)
    own = ReservationView("gsched_target_1", ("n1",), 0, 99_999, ("ann",))
    others = ReservationView("maint", ("n2",), 0, 99_999, ("root",))
    bench.client.reservations = lambda: (own, others)  # type: ignore[assignment,return-value]
    for job in (1, 2):
        row = bench.client.rows[job]
        bench.client.rows[job] = replace(row, reservation="gsched_target_1")
    assert bench.snapshot().reservations == (own, others)
    assert bench.excluded(1) == "reservation"
    bench.backend.own_reservations(frozenset({"gsched_target_1"}))
    bench.backend.configure(bench.settings, bench.backend.scale, 30.0)
    assert bench.snapshot().reservations == (others,)
    assert (bench.excluded(1), bench.excluded(2)) == (None, "reservation")
