"""Hours that are closed by and by, with pauses, crashes and clocks, are those of the whole past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fairness_books import END_S, Past
from support.history import CLUSTER, attempt, batch, pending, running
from support.told_pasts import SITE, empty_history, epoch, note_quotas, records, told_pasts

from gsched.app.fairness import hours
from gsched.app.fairness.hours import close_hours, hours_of
from gsched.fairness.fading import HOUR_S
from gsched.model.accounts import FairnessEntry
from gsched_sql import History, maintenance

AT = 3600 * 1000
QUOTAS = replace(SITE, gpus={"lab1": 4.0, "lab2": 2.0}, source="shares")


def kept(history: History) -> list[FairnessEntry]:
    return history.fairness().read(CLUSTER, 0, 2**40)


@settings(max_examples=40, deadline=None)
@given(past=told_pasts(), awake=st.sets(st.integers(0, END_S)), arrays=st.booleans())
def test_replay_is_incremental(
    sqlite_template: Path, past: Past, awake: set[int], arrays: bool
) -> None:
    """A daemon that is there now and then closes what one tells who knows all from the first."""
    awake = {*awake, END_S}
    with pytest.MonkeyPatch.context() as patch, empty_history(sqlite_template) as history:
        patch.setattr(hours, "CLOSED_AGAIN_S", 0)
        before = -1
        for at in sorted(awake | {moment for _, moment, _ in past.quotas}):
            note_quotas(history, past, before, at)
            before = at
            if at in awake:
                history.ingest(batch(*records(past, at, arrays=arrays)), source_key=None)
                close_hours(history, CLUSTER, epoch(at), SITE, None)
        told = kept(history)
    with empty_history(sqlite_template) as history:
        note_quotas(history, past)
        history.ingest(batch(*records(past, END_S, arrays=arrays)), source_key=None)
        first = history.fairness().first_epoch(CLUSTER)
        begin = epoch(END_S) if first is None else first // HOUR_S * HOUR_S
        whole = hours_of(history, CLUSTER, begin, epoch(END_S), SITE)
        close_hours(history, CLUSTER, epoch(END_S), SITE, None)
        at_once = kept(history)
    assert told == at_once == sorted(whole, key=lambda e: (e.begin_time, e.tenant))


@pytest.fixture
def history(sqlite_template: Path):
    with empty_history(sqlite_template) as made:
        made.fairness().note(CLUSTER, AT, QUOTAS)
        yield made


def close(history: History, until: int, fence: int | None = None) -> int:
    return close_hours(history, CLUSTER, until, SITE, fence)


def told(history: History, *records) -> None:
    history.ingest(batch(*records), source_key=None)


def received(history: History) -> dict[tuple[int, str], float]:
    return {
        ((e.begin_time - AT) // HOUR_S, e.tenant): e.received_gpu_s
        for e in kept(history)
        if e.received_gpu_s
    }


def test_an_hour_is_closed_when_it_is_over(history: History) -> None:
    told(history, running(1, AT, time_limit_s=2**31 - 1, start_time=AT))
    assert close(history, AT + HOUR_S - 1) == 0
    assert kept(history) == []
    assert close(history, AT + HOUR_S) == 1
    assert kept(history) == [
        FairnessEntry(CLUSTER, "lab1", AT, HOUR_S, 7200.0, 7200.0, 7200.0, 0.0, 4 * 3600.0),
        FairnessEntry(CLUSTER, "lab2", AT, HOUR_S, 0.0, 0.0, 0.0, 0.0, 2 * 3600.0),
    ]


def test_what_is_told_late_is_closed_again(history: History) -> None:
    """It ended two hours ago, and slurmdbd tells it only now."""
    told(history, running(1, AT, start_time=AT, time_limit_s=2**31 - 1))
    close(history, AT + 3 * HOUR_S)
    assert received(history) == {(n, "lab1"): 7200.0 for n in range(3)}
    told(history, attempt(1, AT, start_time=AT, end_time=AT + 5400))
    close(history, AT + 4 * HOUR_S)
    assert received(history) == {(0, "lab1"): 7200.0, (1, "lab1"): 3600.0}


def test_tasks_of_an_array_are_charged_for_their_whole_wait(history: History, monkeypatch) -> None:
    monkeypatch.setattr(hours, "CLOSED_AGAIN_S", HOUR_S)
    told(history, attempt(9, AT, num_gpus=1, start_time=AT, end_time=AT + 10))
    close(history, AT + 4 * HOUR_S)
    before = [e.demanded_gpu_s for e in kept(history) if e.tenant == "lab1"]
    assert before == [10.0, 0.0, 0.0, 0.0]
    late = {"start_time": AT + 4 * HOUR_S, "end_time": AT + 5 * HOUR_S, "num_gpus": 1}
    told(history, attempt(1, AT + HOUR_S, array_task=3, **late))
    close(history, AT + 5 * HOUR_S)
    after = [e.demanded_gpu_s for e in kept(history) if e.tenant == "lab1"]
    assert after == [10.0, 3600.0, 3600.0, 3600.0, 3600.0]
    monkeypatch.setattr(hours, "LONGEST_WAIT_S", 2 * HOUR_S)
    told(history, attempt(2, AT, array_task=3, **late | {"end_time": AT + 6 * HOUR_S}))
    close(history, AT + 6 * HOUR_S)
    after = [e.demanded_gpu_s for e in kept(history) if e.tenant == "lab1"]
    assert after == [10.0, 3600.0, 3600.0, 7200.0, 7200.0, 3600.0]


def test_a_clock_that_was_ahead_leaves_no_hours_that_are_still_to_come(
    history: History, monkeypatch
) -> None:
    monkeypatch.setattr(hours, "CLOSED_AGAIN_S", HOUR_S)
    told(history, running(1, AT, start_time=AT, time_limit_s=2**31 - 1))
    close(history, AT + 9 * HOUR_S)
    close(history, AT + 2 * HOUR_S)
    assert received(history) == {(n, "lab1"): 7200.0 for n in range(2)}


def test_a_long_past_is_closed_piece_by_piece(history: History, monkeypatch) -> None:
    monkeypatch.setattr(hours, "MOST_HOURS", 3)
    monkeypatch.setattr(hours, "CLOSED_AGAIN_S", HOUR_S)
    told(history, running(1, AT, start_time=AT, time_limit_s=2**31 - 1))
    end = AT + 6 * HOUR_S
    assert [close(history, end) for _ in range(4)] == [3, 3, 2, 1]
    assert received(history) == {(n, "lab1"): 7200.0 for n in range(6)}


def test_hours_whose_jobs_were_pruned_stay_as_they_are(sqlite_template, tmp_path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    url = f"sqlite:///{path}"
    with History.open(url) as history:
        history.fairness().note(CLUSTER, AT, QUOTAS)
        told(history, attempt(1, AT, start_time=AT, end_time=AT + 5400))
        told(history, attempt(2, AT, start_time=AT, end_time=AT + 9000))
        close(history, AT + 3 * HOUR_S)
        before = received(history)
        maintenance.prune(url, AT + 6000)
        close(history, AT + 4 * HOUR_S)
        assert received(history) == before
        assert before == {(0, "lab1"): 14400.0, (1, "lab1"): 10800.0, (2, "lab1"): 3600.0}


def test_who_waits_without_a_quota_has_demanded(history: History) -> None:
    told(history, pending(1, AT, tenant="lab9"))
    close(history, AT + HOUR_S)
    (mine,) = [e for e in kept(history) if e.tenant == "lab9"]
    assert (mine.demanded_gpu_s, mine.entitled_gpu_s, mine.due_gpu_s) == (7200.0, 0.0, 0.0)


def test_a_clock_that_is_far_behind_takes_no_hour_that_cannot_be_made_again(
    sqlite_template, tmp_path
) -> None:
    """As of a machine that wakes up in 1970."""
    path = tmp_path / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    url = f"sqlite:///{path}"
    with History.open(url) as history:
        history.fairness().note(CLUSTER, AT, QUOTAS)
        told(history, attempt(1, AT, start_time=AT, end_time=AT + 5400))
        told(history, attempt(2, AT + 9000, start_time=AT + 9000, end_time=AT + 12000))
        close(history, AT + 4 * HOUR_S)
        before = kept(history)
        close(history, 7200)
        close(history, AT + 4 * HOUR_S)
        assert kept(history) == before
        maintenance.prune(url, AT + 6000)
        close(history, 7200)
        assert kept(history) == before
        close(history, AT + 5 * HOUR_S)
        assert kept(history)[: len(before)] == before


def test_hours_before_the_first_job_are_nobodys(history: History) -> None:
    told(history, attempt(1, AT + HOUR_S + 5))
    close(history, AT + 3 * HOUR_S)
    close(history, AT + 4 * HOUR_S)
    assert [e.begin_time for e in kept(history)][::2] == [AT + n * HOUR_S for n in (1, 2, 3)]


def test_of_a_cluster_that_nobody_knows_nothing_is_closed(history: History) -> None:
    assert close_hours(history, "gamma", AT + 9 * HOUR_S, SITE, None) == 0
