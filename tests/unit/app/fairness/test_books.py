"""The job history as the books of fairness: nothing lost, nothing made, in whatever order told."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fairness_books import END_S, Past, second_by_second
from support.history import CLUSTER, attempt, batch, pending, running
from support.told_pasts import SITE, UNIT_S, empty_history, epoch, note_quotas, records, told_pasts

from gsched.app.fairness.books import Known, fairness_books
from gsched.fairness.books import Books
from gsched.fairness.metric import metric_account
from gsched.fairness.rule import rule_account
from gsched.model.accounts import SiteQuotas
from gsched.model.history import Tres
from gsched.model.job import JobState

windows = st.tuples(st.integers(0, END_S), st.integers(0, END_S)).map(sorted)


@settings(max_examples=40, deadline=None)
@given(past=told_pasts(), window=windows)
def test_they_tell_what_happened(sqlite_template: Path, past: Past, window: list[int]) -> None:
    """Requeues, quotas that change in the midst of a window, jobs without end."""
    begin, end = window
    plain = second_by_second(past, begin, end)
    with empty_history(sqlite_template) as history:
        note_quotas(history, past)
        history.ingest(batch(*records(past, end)), source_key=None)
        books, known = fairness_books(history, CLUSTER, epoch(begin), epoch(end), SITE)
    metric = metric_account(books, epoch(begin), epoch(end))
    rule = rule_account(books, epoch(begin), epoch(end))
    assert books.tenants == tuple(f"t{number}" for number in range(past.tenants))
    for told, meant in (
        (metric.tenant_received, plain.received),
        (metric.tenant_entitled, plain.entitled),
        (rule.received, plain.received),
        (rule.due, plain.due),
    ):
        assert told.tolist() == [float(UNIT_S * amount) for amount in meant]
    assert by_job(past, known, metric.job_received) == floats(plain.job_received)
    entitled = by_job(past, known, metric.job_entitled)
    np.testing.assert_allclose(entitled, floats(plain.job_entitled), atol=1e-6)


def by_job(past: Past, known: Known, column) -> list[float]:
    told = dict(zip(known.jobs.job_id.tolist(), column.tolist(), strict=True))
    return [told.get(job + 1, 0.0) for job in range(len(past.jobs))]


def floats(amounts) -> list[float]:
    return [float(UNIT_S * amount) for amount in amounts]


@settings(max_examples=25, deadline=None)
@given(past=told_pasts(), cut=st.integers(0, END_S))
def test_what_tenants_received_is_the_gpu_time_of_attempts(
    sqlite_template: Path, past: Past, cut: int
) -> None:
    """Over windows that lie side by side, and by what the history itself sums up of its jobs."""
    with empty_history(sqlite_template) as history:
        history.ingest(batch(*records(past)), source_key=None)
        received = 0.0
        for begin, end in ((-1, cut), (cut, END_S + 1)):
            window = epoch(begin), epoch(end)
            books, known = fairness_books(history, CLUSTER, *window, SITE)
            received += rule_account(books, *window).received.sum()
            assert (known.open_attempts, known.assumed_ends) == (0, 0)
        assert received == history.stats().gpu_time_s


@settings(max_examples=25, deadline=None)
@given(past=told_pasts(), seed=st.integers(0, 2**32 - 1))
def test_what_was_told_when_and_in_which_order_changes_no_bit(
    sqlite_template: Path, past: Past, seed: int
) -> None:
    """Sightings of every hour, late ones too, and some twice."""
    dice = random.Random(seed)
    told = [record for at in range(END_S + 2) for record in records(past, at)]
    told += dice.sample(told, len(told) // 3)
    dice.shuffle(told)
    accounts = []
    for order in (records(past), told):
        with empty_history(sqlite_template) as history:
            note_quotas(history, past)
            while order:
                count = dice.randint(1, 5)
                history.ingest(batch(*order[:count]), source_key=None)
                order = order[count:]
            books, known = fairness_books(history, CLUSTER, epoch(0), epoch(END_S), SITE)
        accounts.append((figures(books), known.open_attempts))
    assert accounts[0] == accounts[1]


def figures(books: Books) -> list[object]:
    metric = metric_account(books, epoch(0), epoch(END_S))
    rule = rule_account(books, epoch(0), epoch(END_S))
    tenants = [metric.tenant_received, metric.tenant_entitled, rule.received, rule.due]
    jobs = [sorted(metric.job_received.tolist()), np.sort(metric.job_entitled).round(6).tolist()]
    return [books.tenants, *(column.tobytes() for column in tenants), *jobs]


moments = st.integers(1000, 1060)


@settings(max_examples=40, deadline=None)
@given(
    attempts=st.lists(
        st.tuples(moments, moments, moments, moments, st.integers(1, 4)),
        min_size=1,
        max_size=4,
        unique_by=lambda times: times[0],
    ),
    cut=moments,
)
def test_whatever_clocks_tell_no_second_is_booked_twice(
    sqlite_template: Path, attempts: list[tuple[int, ...]], cut: int
) -> None:
    """Times of one job as a clock that is set now and then might tell them."""
    told = [
        attempt(1, submit, eligible_time=eligible, start_time=start, end_time=end,
                num_gpus=gpus, allocated=(), restarts=number, node_list="n1")
        for number, (submit, eligible, start, end, gpus) in enumerate(sorted(attempts))
    ]  # fmt: skip
    with empty_history(sqlite_template) as history:
        books, known = books_of(history, *told)
    held, asked = books.held.disjoint(), books.asked.disjoint()
    for stretches in (held, asked):
        assert (stretches.begin_s[1:] >= stretches.end_s[:-1]).all()
    ran = {s for _, _, start, end, _ in attempts for s in range(start, end)}
    assert float((held.end_s - held.begin_s).sum()) == len(ran)
    assert {s for b, e in zip(held.begin_s, held.end_s, strict=True) for s in seconds(b, e)} <= {
        s for b, e in zip(asked.begin_s, asked.end_s, strict=True) for s in seconds(b, e)
    }
    assert known.odd_times == sum(end < start for _, _, start, end, _ in attempts)
    halves = [rule_account(books, *window).received.sum() for window in ((0, cut), (cut, 2000))]
    assert sum(halves) == rule_account(books, 0, 2000).received.sum()


def seconds(begin: float, end: float) -> range:
    return range(int(begin), int(end))


def books_of(history, *told, site: SiteQuotas = SITE, window=(0, 10_000)):
    history.ingest(batch(*told), source_key=None)
    return fairness_books(history, CLUSTER, *window, site)


def received(books: Books, window=(0, 10_000)) -> dict[str, float]:
    account = rule_account(books, *window)
    return dict(zip(books.tenants, account.received.tolist(), strict=True))


def demanded(books: Books, window=(0, 10_000)) -> float:
    asked = books.asked.disjoint().within(*window)
    return float((asked.gpus * (asked.end_s - asked.begin_s)).sum())


@pytest.fixture
def history(sqlite_template: Path):
    with empty_history(sqlite_template) as made:
        yield made


def test_who_may_not_start_asks_for_nothing(history) -> None:
    """Held by a user, or waiting for another job; from then on it does."""
    books, known = books_of(
        history,
        pending(1, 1000, eligible_time=None),
        pending(2, 1000, eligible_time=9000),
        attempt(3, 1000, eligible_time=None, start_time=4000, end_time=5000),  # of a trace
        attempt(4, 1000, eligible_time=6000, start_time=2000, end_time=5000),  # a clock
    )
    asked = {2: (9000, 10_000), 3: (1000, 5000), 4: (2000, 5000)}
    ends = books.asked.disjoint()
    for job, begin, end in asked_times(known, ends):
        assert asked[job][0] <= begin < end <= asked[job][1]
    assert demanded(books) == 2 * sum(end - begin for begin, end in asked.values())


def asked_times(known: Known, asked):
    ids = known.jobs.job_id[asked.job].tolist()
    return zip(ids, asked.begin_s.tolist(), asked.end_s.tolist(), strict=True)


def test_a_requeued_job_asks_from_its_requeue_on(history) -> None:
    """Slurm lets it wait before it may start; the user has asked for it."""
    books, known = books_of(
        history,
        attempt(1, 1000, state=JobState.REQUEUED, eligible_time=1000),
        attempt(1, 1110, restarts=1, eligible_time=1231, start_time=1300, end_time=1400),
    )
    assert known.jobs.job_id.tolist() == [1]
    assert demanded(books) == 2 * (110 + 290)
    assert received(books) == {"lab1": 2 * (100 + 100)}


def test_what_has_no_known_end_counts_and_is_told(history) -> None:
    books, known = books_of(
        history,
        running(1, 1000),  # its time limit was over at 4610
        running(2, 9000),
        pending(3, 8000),
        pending(4, 2000),
        attempt(4, 6000, restarts=0),
        attempt(5, 1000, num_gpus=None, allocated=()),
        attempt(6, 1000, start_time=1200, end_time=1100),
    )
    assert (known.open_attempts, known.assumed_ends) == (2, 2)
    assert (known.unknown_gpus, known.odd_times) == (1, 1)
    assert received(books) == {"lab1": 2 * (3600 + 990 + 100)}
    assert demanded(books) == 2 * (3610 + 1000 + 2000 + 4000 + 110)


def test_what_starts_after_the_window_waits_in_it(history) -> None:
    """Whether it is over by now or not."""
    window = 1000, 1500
    books, known = books_of(
        history,
        running(1, 1000, start_time=2000),
        attempt(2, 1000, start_time=2000, end_time=3000),
        window=window,
    )
    assert (demanded(books, window), received(books, window)) == (2 * 1000, {"lab1": 0.0})
    assert (known.open_attempts, known.odd_times) == (1, 0)


def test_two_attempts_at_once_hold_the_gpus_of_one(history) -> None:
    """A clock that was set back, so that the next attempt began before the last had ended."""
    books, _ = books_of(
        history,
        attempt(1, 1000, state=JobState.REQUEUED, start_time=1000, end_time=1600),
        attempt(1, 1500, restarts=1, start_time=1500, end_time=1800),
    )
    assert received(books) == {"lab1": 2 * 800}


def test_a_job_whose_account_was_changed_is_charged_to_both(history) -> None:
    books, known = books_of(
        history,
        attempt(1, 1000, state=JobState.REQUEUED),
        attempt(1, 1120, restarts=1, tenant="lab2", start_time=1200, end_time=1500),
    )
    assert received(books) == {"lab1": 200.0, "lab2": 600.0}
    assert known.jobs.job_id.tolist() == [1, 1]
    assert known.jobs.epoch.tolist() == [1000, 1000]


def test_a_job_of_nobody_is_of_the_tenant_without_a_name(history) -> None:
    books, known = books_of(history, attempt(1, 1000, tenant=None, user=None))
    assert received(books) == {"": 200.0}
    assert [known.jobs.users[code] for code in known.jobs.user.tolist()] == [""]


def test_parts_of_a_job_are_told_as_they_are_stored(history) -> None:
    _, known = books_of(
        history,
        attempt(1, 1000, array_task=7, user="bob"),
        attempt(2, 1000, het_offset=1),
    )
    jobs = known.jobs
    told = zip(jobs.job_id, jobs.array_task, jobs.het_offset, jobs.user, strict=True)
    assert sorted((int(j), int(t), int(h), jobs.users[int(u)]) for j, t, h, u in told) == [
        (1, 7, -1, "bob"),
        (2, -1, 1, "alice"),
    ]


TYPED = (Tres("gres/gpu", 4), Tres("gres/gpu:a100", 1), Tres("gres/gpu:v100", 2))
WORTHS = {"a100": 2.0, "v100": 0.5}


def test_gpus_count_by_what_they_are_worth(history) -> None:
    """What waits by what it asked for, what runs by what it was given, the rest as 1."""
    site = replace(SITE, gpu_weights=WORTHS)
    asked = (Tres("gres/gpu", 4), Tres("gres/gpu:v100", 4))
    books, _ = books_of(
        history,
        attempt(1, 1000, num_gpus=4, requested=asked, allocated=TYPED),
        attempt(2, 1000, num_gpus=4, allocated=()),
        attempt(3, 1000, num_gpus=4, requested=asked, allocated=()),
        site=site,
    )
    assert received(books) == {"lab1": 100 * (2.0 + 2 * 0.5 + 1) + 100 * 4 + 100 * 4 * 0.5}
    assert demanded(books) == 10 * (2 + 4 + 2) + 100 * (4 + 4 + 2)
    alike, _ = fairness_books(history, CLUSTER, 0, 10_000, site, by_worth=False)
    assert received(alike) == {"lab1": 1200.0}


def test_a_worth_that_changes_holds_from_then_on(history) -> None:
    fairness = history.fairness()
    fairness.note(CLUSTER, 900, replace(SITE, gpu_weights={"a100": 3.0}))
    fairness.note(CLUSTER, 1030, replace(SITE, gpu_weights={"a100": 3.0, "v100": 7.0}))
    fairness.note(CLUSTER, 1060, replace(SITE, gpu_weights={"a100": 5.0}))
    fairness.note(CLUSTER, 5000, replace(SITE, gpu_weights={"v100": 9.0}))
    one = (Tres("gres/gpu", 1), Tres("gres/gpu:a100", 1))
    books, _ = books_of(
        history,
        attempt(1, 1000, num_gpus=1, allocated=one),
        attempt(2, 500, num_gpus=1, allocated=one),  # before anything was noted
        attempt(3, 6000, num_gpus=1, allocated=one),
        site=replace(SITE, gpu_weights={"a100": 77.0}),
    )
    held = 50 * 3 + 50 * 5 + 100 * 3 + 100
    assert received(books) == {"lab1": held}
    assert demanded(books) == held + 3 * 10  # while they waited, no type was known


def test_the_first_quotas_that_were_noted_hold_before_as_well(history) -> None:
    history.fairness().note(CLUSTER, 5000, replace(SITE, gpus={"lab1": 4.0}, source="limits"))
    history.fairness().note(CLUSTER, 8000, replace(SITE, gpus={"lab2": 6.0}, source="limits"))
    books, known = books_of(history, attempt(1, 1000), site=replace(SITE, gpus={"lab9": 1.0}))
    assert (known.quotas_since, known.quota_source) == (5000, "limits")
    due = dict(zip(books.tenants, rule_account(books, 0, 10_000).due.tolist(), strict=True))
    assert due == {"lab1": 8000 * 4.0, "lab2": 2000 * 6.0}


def test_where_none_were_noted_those_of_now_hold(history) -> None:
    site = SiteQuotas({"lab1": 4.0, "lab3": 1.0}, 8.0, "shares")
    told = attempt(1, 1000), attempt(2, 1000, tenant="lab2")
    books, known = books_of(history, *told, site=site)
    assert (known.quotas_since, known.quota_source) == (None, "shares")
    assert books.quotas.at(0.0, 3).tolist() == [4.0, 0.0, 1.0]
    equal, _ = fairness_books(history, CLUSTER, 0, 10_000, SiteQuotas({}, 8.0, "equal"))
    assert (equal.tenants, equal.quotas.at(0.0, 2).tolist()) == (("lab1", "lab2"), [4.0, 4.0])


def test_of_nothing_there_is_nothing(history) -> None:
    books, known = fairness_books(history, CLUSTER, 0, 10_000, SITE)
    assert (books.tenants, len(books.tenant), known.pruned_before) == ((), 0, None)
    assert metric_account(books, 0, 10_000).r_tenant.tolist() == []
