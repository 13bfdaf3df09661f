"""The live backend on a client with state: what is read when, what is written, what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.queue import row as queue_row
from support.slurm_bench import Bench

from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobState, Wants
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
    assert bench.plan(j1=-1.0) == {1: (0, -299, False)}


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
    assert bench.excluded(1) is None  # free text is not in the hot listing
    bench.now += bench.settings.comment_interval_s
    assert bench.excluded(1) == "opted-out"
    assert bench.plan() == {1: (200, 30, True)}
    bench.client.factors[1] = 30
    assert bench.plan() == {}


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


def test_a_foreign_value_is_not_taken_back() -> None:
    bench = Bench(1, exclude_users=("alice",))
    bench.stands(1, 0, 200)
    bench.client.factors[1] = 999
    assert bench.plan() == {}


def test_free_text_is_read_once_a_job_and_the_description_now_and_then() -> None:
    bench = Bench(1, comment_interval_s=600)
    for _ in range(3):
        bench.backend.snapshot({})
    bench.client.rows[2] = queue_row(2)
    bench.client.texts[2] = FreeText("new", "")
    bench.client.factors[2] = 0
    bench.backend.snapshot({})
    bench.now += 61
    bench.backend.snapshot({})
    assert bench.client.calls == ["text [1]", "describe", "text [2]", "describe"]


def test_read_back_tells_the_job_from_one_that_came_after_it() -> None:
    bench = Bench(1, 2, 3, 4)
    state = bench.backend.snapshot({})
    ranks = {bench.key(i): Rank("gpu", i, 4, 1.0, 0.5) for i in (1, 2, 3, 4)}
    decision = Decision(ranks, (), {k: Reason("x") for k in ranks}, {})
    changes = bench.backend.plan(decision, state, "r1")
    assert {c.attempt for c in changes} == {bench.client.rows[1].submit_time}
    bench.backend.apply(changes)
    rows = bench.client.rows
    rows[2] = replace(rows[2], state=JobState.RUNNING)
    rows[3] = replace(rows[3], submit_time=rows[3].submit_time + 99)  # requeued, or another job
    bench.client.hidden = {4}
    seen = {c.key.job_id: r for c, r in zip(changes, bench.backend.read_back(changes), strict=True)}
    assert {i: (r.value, r.present) for i, r in seen.items()} == {
        1: (500, True),
        2: (None, False),
        3: (None, False),
        4: (None, True),
    }
    del rows[1]
    assert not bench.backend.read_back(changes[:1])[0].present


def test_what_came_went_and_changed() -> None:
    bench = Bench(1, 2)
    one, two = bench.key(1), bench.key(2)
    assert bench.backend.snapshot({}).changed.arrived == {one, two}
    del bench.client.rows[2]
    bench.client.rows[1] = replace(bench.client.rows[1], state=JobState.RUNNING)
    changed = bench.backend.snapshot({}).changed
    assert (changed.arrived, changed.departed, changed.changed) == (set(), {two}, {one})


def test_a_comment_that_was_wiped_before_a_restart_still_counts() -> None:
    bench = Bench(1)
    bench.client.texts[1] = FreeText("job-1", "gs1{none}")
    assert bench.excluded(1) == "opted-out"
    bench.client.texts[1] = FreeText("job-1", "wiped")
    bench.now += bench.settings.comment_interval_s
    assert bench.excluded(1) == "opted-out"


def test_a_job_whose_user_waits_for_an_answer_is_among_the_requests() -> None:
    bench = Bench(1, 2, 3)
    bench.client.texts[2] = FreeText("job-2", "gs1{deadline=1800000000}")
    bench.client.texts[3] = FreeText("job-3", "gs1{soft=1800000000:1}")
    state = bench.backend.snapshot({})
    assert state.requests == (bench.key(2), bench.key(3))
    assert state.jobs.view(bench.key(2)).wants == Wants(deadline=1_800_000_000)
