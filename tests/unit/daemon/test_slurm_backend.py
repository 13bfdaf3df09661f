"""The live backend on a client with state: what is read when, what is written, what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.queue import row as queue_row

from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.slurm_backend import CHANNEL, TEXT_LIFE_S, SlurmBackend
from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobKey, JobState
from gsched.model.journal import Standing
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow, UpdateOutcome

BASE = 1_000_000
SCALE = SiteFactorScale(max_shift=1000, quantum=10, dead_band=20)


class StatefulClient:
    """A Slurm of a few jobs: rows, texts and SiteFactors can be changed by the test."""

    def __init__(self, rows: Sequence[QueueRow]) -> None:
        self.rows = {r.raw_id: r for r in rows}
        self.texts = {r.raw_id: FreeText(f"job-{r.raw_id}", "") for r in rows}
        self.factors = dict.fromkeys(self.rows, 0)
        self.hidden: set[int] = set()  # sprio does not list these
        self.base = BASE
        self.calls: list[str] = []

    def queue(self, states: str = "live") -> QueueListing:
        return QueueListing(tuple(self.rows.values()), ())

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        self.calls.append(f"text {sorted(raw_ids)}")
        return {i: self.texts[i] for i in raw_ids if i in self.rows}

    def priorities(self) -> Mapping[int, PriorityRow]:
        return {
            i: PriorityRow(i, self.base + f, f, 0, {"partition": self.base}, False)
            for i, f in self.factors.items()
            if i in self.rows and i not in self.hidden
        }

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        for slurm_id, value in values:
            self.factors[int(slurm_id)] = value
        return tuple(UpdateOutcome(slurm_id, "") for slurm_id, _ in values)

    def nodes(self) -> tuple[()]:
        self.calls.append("describe")
        return ()

    def partitions(self) -> tuple[()]:
        return ()

    def reservations(self) -> tuple[()]:
        return ()

    def cron_job_ids(self) -> frozenset[int]:
        return frozenset()


class Bench:
    """A backend over a StatefulClient with a clock that the test moves."""

    def __init__(self, *ids: int, **settings: Any) -> None:
        self.client = StatefulClient([queue_row(i) for i in ids])
        self.now = 10_000
        self.backend = SlurmBackend(
            self.client,  # type: ignore[arg-type]
            "c",
            SCALE,
            DaemonSettings(**settings),
            lambda rows: [r.submit_time for r in rows],
            lambda: self.now,
        )
        self.standing: dict[tuple[JobKey, str], Standing] = {}

    def key(self, job_id: int) -> JobKey:
        return JobKey("c", job_id, epoch=self.client.rows[job_id].submit_time)

    def stands(self, job_id: int, found: int, written: int, *may_be: int) -> None:
        key = self.key(job_id)
        attempt = self.client.rows[job_id].submit_time
        self.standing[key, CHANNEL] = Standing(key, attempt, CHANNEL, found, written, may_be)

    def plan(self, **levels: float) -> dict[int, tuple[int | None, int, bool]]:
        """Plan the levels ``j7=0.5``; returns job id → (before, after, takes_back), in order."""
        state = self.backend.snapshot(self.standing)
        ranks = {self.key(int(n[1:])): Rank("gpu", 1, 9, 1.0, v) for n, v in levels.items()}
        decision = Decision(ranks, (), {k: Reason("x") for k in ranks}, {})
        changes = self.backend.plan(decision, state, "r1")
        return {c.key.job_id: (c.before, c.after, c.takes_back) for c in changes}

    def excluded(self, job_id: int) -> str | None:
        state = self.backend.snapshot(self.standing)
        found = state.jobs.view(self.key(job_id)).exclusions
        return found[0].code if found else None


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
    bench.now += TEXT_LIFE_S
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
    bench = Bench(1)
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
