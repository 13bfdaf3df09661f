"""One body for both journals: what a round and a backend count on, in memory and in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.journal import CHANNEL, CLUSTER, KEY, change, prediction, round_info

from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Journal
from gsched.errors import GschedError
from gsched.model.job import JobKey, PredictionKind
from gsched.model.journal import Change, ChangeState, JournalEntry, Standing
from gsched_sql import History

INTENT, SENT, CONFIRMED = ChangeState.INTENT, ChangeState.SENT, ChangeState.CONFIRMED
VOID, REJECTED, OBSERVED = ChangeState.VOID, ChangeState.REJECTED, ChangeState.OBSERVED

Kept = Callable[[], list[tuple[int, str, str, float, int]]]
"""Attempt, kind, model, mean and time of each prediction that is kept, in the order of keeping."""

_PREDICTIONS = "SELECT attempt, kind, model_id, mean, made_at FROM predictions ORDER BY id"


@pytest.fixture(params=["memory", "sql"])
def journals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Journal, Kept]]:
    """A journal, and a look at the predictions that it keeps."""
    if request.param == "memory":
        memory = MemoryJournal()
        yield (
            memory,
            lambda: [
                (attempt, p.kind.value, p.model_id, p.mean, at)
                for (_, attempt, _, _), (at, p) in memory.predictions.items()
            ],
        )
        return
    path = tmp_path / "history.db"
    History.create(f"sqlite:///{path}")
    with History.open(f"sqlite:///{path}") as history, closing(sqlite3.connect(path)) as rows:
        yield history.journal(), lambda: rows.execute(_PREDICTIONS).fetchall()


@pytest.fixture
def journal(journals: tuple[Journal, Kept]) -> Journal:
    """A journal in which round r1 has begun."""
    made, _ = journals
    made.begin_round(round_info("r1"))
    return made


@pytest.fixture
def kept(journals: tuple[Journal, Kept]) -> Kept:
    return journals[1]


def write(journal: Journal, made: Change, *states: ChangeState) -> Change:
    """Record a change and move it through `states`."""
    journal.record("r1", [made], INTENT, 2001)
    for state in states:
        journal.settle([(made.change_id, state, "")], 2002)
    return made


def standing(journal: Journal) -> tuple[int, int, tuple[int, ...]] | None:
    """(found, written, may_be) of the one standing; None when there is none."""
    found = journal.standing(CLUSTER)
    if not found:
        return None
    (((key, channel), only),) = found.items()
    assert (key, channel) == (only.key, only.channel) == (KEY, CHANNEL)
    return only.found, only.written, only.may_be


# -- changes --------------------------------------------------------------------------------


def test_a_change_is_unsettled_until_its_end_is_known(journal: Journal) -> None:
    made = change("a", 0, 100, takes_back=True, valid_until=2060)
    journal.record("r1", [made], INTENT, 2001)
    assert journal.unsettled(CLUSTER) == [JournalEntry(made, "r1", INTENT, 2001, None, "")]
    journal.settle([("a", SENT, "")], 2002)
    journal.settle([("a", SENT, "not readable yet")], 2003)
    (entry,) = journal.unsettled(CLUSTER)
    assert entry == JournalEntry(made, "r1", SENT, 2001, None, "not readable yet")
    assert journal.unsettled("elsewhere") == []
    journal.settle([("a", CONFIRMED, "")], 2004)
    assert journal.unsettled(CLUSTER) == []


@pytest.mark.parametrize("end", [CONFIRMED, VOID, REJECTED])
def test_every_end_settles_a_change(journal: Journal, end: ChangeState) -> None:
    write(journal, change("a", 0, 100), end)
    assert journal.unsettled(CLUSTER) == []


def test_what_is_unsettled_comes_oldest_first(journal: Journal) -> None:
    for job_id in (9, 3, 5):
        write(journal, change(f"x{job_id}", 0, 1, key=JobKey(CLUSTER, job_id, epoch=1)))
    journal.settle([("x9", SENT, "")], 2002)
    assert [e.change.change_id for e in journal.unsettled(CLUSTER)] == ["x9", "x3", "x5"]


def test_a_change_id_that_is_known_is_left_alone(journal: Journal) -> None:
    first = write(journal, change("a", 0, 100))
    journal.begin_round(round_info("r2"))
    journal.record("r2", [change("a", 5, 777), change("b", 100, 110)], OBSERVED, 2009)
    assert journal.unsettled(CLUSTER) == [JournalEntry(first, "r1", INTENT, 2001, None, "")]
    assert standing(journal) == (0, 100, (100,))
    journal.settle([("a", CONFIRMED, "")], 2010)
    journal.record("r2", [first], INTENT, 2011)
    assert journal.unsettled(CLUSTER) == []


@pytest.mark.parametrize("state", [SENT, CONFIRMED, VOID, REJECTED])
def test_changes_begin_as_intent_or_observed_only(journal: Journal, state: ChangeState) -> None:
    with pytest.raises(ValueError, match=f"not as {state.name}"):
        journal.record("r1", [change("a", 0, 1)], state, 2001)


@pytest.mark.parametrize("end", [CONFIRMED, VOID, REJECTED])
@pytest.mark.parametrize("other", list(ChangeState))
def test_what_has_come_to_its_end_does_not_move(
    journal: Journal, end: ChangeState, other: ChangeState
) -> None:
    write(journal, change("a", 0, 100), end)
    before = standing(journal)
    if other is end:
        journal.settle([("a", end, "")], 2005)  # told twice
    else:
        with pytest.raises(GschedError, match=f"is {end.value}, it cannot become {other.value}"):
            journal.settle([("a", other, "")], 2005)
    assert standing(journal) == before
    assert journal.unsettled(CLUSTER) == []


def test_what_was_sent_is_no_mere_intent_again(journal: Journal) -> None:
    write(journal, change("a", 0, 100), SENT)
    for earlier in (INTENT, OBSERVED):
        with pytest.raises(GschedError, match=f"is sent, it cannot become {earlier.value}"):
            journal.settle([("a", earlier, "")], 2005)
    assert [e.state for e in journal.unsettled(CLUSTER)] == [SENT]


def test_one_call_may_tell_of_a_change_more_than_once(journal: Journal) -> None:
    write(journal, change("a", 0, 100))
    write(journal, change("b", 0, 7, key=JobKey(CLUSTER, 8, epoch=1)), VOID)
    later = [("a", SENT, ""), ("a", SENT, "not readable yet"), ("a", CONFIRMED, "")]
    with pytest.raises(GschedError, match="a is confirmed, it cannot become void"):
        journal.settle([*later, ("a", VOID, "")], 2005)
    assert [e.state for e in journal.unsettled(CLUSTER)] == [INTENT]
    journal.settle([("a", SENT, ""), ("b", VOID, ""), ("a", CONFIRMED, "")], 2005)
    assert journal.unsettled(CLUSTER) == []
    assert journal.standing(CLUSTER)[KEY, CHANNEL].written == 100


def test_an_observed_change_is_never_sent(journal: Journal) -> None:
    journal.record("r1", [change("a", 0, 100)], OBSERVED, 2001)
    with pytest.raises(GschedError, match="is observed, it cannot become sent"):
        journal.settle([("a", SENT, "")], 2005)
    assert journal.unsettled(CLUSTER) == []


def test_settling_is_all_or_nothing(journal: Journal) -> None:
    write(journal, change("done", 0, 100), VOID)
    open_one = write(journal, change("open", 0, 5, key=JobKey(CLUSTER, 8, epoch=1)))
    before = journal.standing(CLUSTER)
    with pytest.raises(GschedError, match="no change nonesuch"):
        journal.settle([("open", CONFIRMED, ""), ("nonesuch", SENT, "")], 2005)
    with pytest.raises(GschedError, match="is void"):
        journal.settle([("open", CONFIRMED, ""), ("done", CONFIRMED, "")], 2005)
    assert journal.unsettled(CLUSTER) == [JournalEntry(open_one, "r1", INTENT, 2001, None, "")]
    assert journal.standing(CLUSTER) == before


def test_nothing_to_record_or_settle_is_fine(journal: Journal) -> None:
    journal.record("r9", [], INTENT, 2001)
    journal.settle([], 2001)
    journal.record_predictions([], 2001)
    assert journal.unsettled(CLUSTER) == []


# -- rounds and memory ----------------------------------------------------------------------


def test_changes_belong_to_a_round_that_has_begun(journal: Journal) -> None:
    with pytest.raises(GschedError):
        journal.record("r9", [change("a", 0, 1)], INTENT, 2001)
    with pytest.raises(GschedError, match="no round r9"):
        journal.end_round("r9", 2002, {}, {})
    with pytest.raises(GschedError):
        journal.begin_round(round_info("r1"))
    assert journal.unsettled(CLUSTER) == []


def test_memory_is_kept_by_cluster_and_policy_when_a_round_ends(journal: Journal) -> None:
    assert journal.memory(CLUSTER, "qssf") == {}
    given = {"version": 1, "list": [1, None, {"é": 2.5}]}
    journal.end_round("r1", 2002, {"jobs": 1}, given)
    given["version"] = 99  # what the policy does to its own copy afterwards is not kept
    for round_id, cluster, policy in [("r2", CLUSTER, "fifo"), ("r3", "beta", "qssf")]:
        journal.begin_round(round_info(round_id, cluster=cluster, policy=policy))
        assert journal.memory(cluster, policy) == {}
        journal.end_round(round_id, 2003, {}, {"of": round_id})
    journal.begin_round(round_info("r4"))  # interrupted: never ends
    assert journal.memory(CLUSTER, "qssf") == {"version": 1, "list": [1, None, {"é": 2.5}]}
    assert journal.memory(CLUSTER, "fifo") == {"of": "r2"}
    assert journal.memory("beta", "qssf") == {"of": "r3"}
    journal.end_round("r4", 2004, {}, {"c": 1})
    assert journal.memory(CLUSTER, "qssf") == {"c": 1}


# -- standings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), (40, 100, (100,))),
        ((SENT,), (40, 100, (100,))),
        ((CONFIRMED,), (40, 100, ())),
        ((SENT, CONFIRMED), (40, 100, ())),
        ((VOID,), (40, 40, (100,))),
        ((SENT, VOID), (40, 40, (100,))),
        ((REJECTED,), None),
        ((SENT, REJECTED), None),
    ],
    ids=str,
)
def test_what_stands_after_the_first_change(
    journal: Journal, states: tuple[ChangeState, ...], expected: object
) -> None:
    write(journal, change("a", 40, 100), *states)
    assert standing(journal) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), (40, 130, (100, 130))),
        ((SENT,), (40, 130, (100, 130))),
        ((SENT, CONFIRMED), (40, 130, ())),
        ((SENT, VOID), (40, 100, (100, 130))),
        ((SENT, REJECTED), (40, 100, ())),
    ],
)
def test_what_stands_after_a_change_of_a_confirmed_value(
    journal: Journal, states: tuple[ChangeState, ...], expected: object
) -> None:
    write(journal, change("a", 40, 100), SENT, CONFIRMED)
    write(journal, change("b", 100, 130, attempt=1500), *states)
    assert standing(journal) == expected


def test_what_was_only_observed_leaves_nothing(journal: Journal) -> None:
    journal.record("r1", [change("a", 0, 100)], OBSERVED, 2001)
    assert standing(journal) is None
    write(journal, change("b", 0, 90), SENT, CONFIRMED)
    journal.record("r1", [change("c", 90, 100)], OBSERVED, 2003)
    assert standing(journal) == (0, 90, ())


def test_unconfirmed_values_add_up_until_one_is_confirmed(journal: Journal) -> None:
    write(journal, change("a", 0, 100))
    write(journal, change("b", 0, 110), SENT)
    write(journal, change("c", 0, 100), VOID)
    assert standing(journal) == (0, 110, (100, 110))
    write(journal, change("d", 0, 120), SENT, CONFIRMED)
    assert standing(journal) == (0, 120, ())
    write(journal, change("e", 120, 120), SENT)
    assert standing(journal) == (0, 120, (120,))


def test_an_older_change_that_is_confirmed_late_does_not_outdo_a_newer_one(
    journal: Journal,
) -> None:
    write(journal, change("a", 0, 100), SENT)
    write(journal, change("b", 0, 110), SENT, CONFIRMED)
    journal.settle([("a", CONFIRMED, "")], 2010)
    assert standing(journal) == (0, 110, ())


def test_a_value_that_could_not_be_read_is_taken_for_slurms_own(journal: Journal) -> None:
    write(journal, change("a", None, 100), SENT, CONFIRMED)
    assert standing(journal) == (0, 100, ())


def test_a_value_taken_back_stands_no_longer_once_that_is_confirmed(journal: Journal) -> None:
    write(journal, change("a", 40, 100), SENT, CONFIRMED)
    write(journal, change("b", 100, 40, takes_back=True), SENT)
    assert standing(journal) == (40, 40, (100, 40))
    journal.settle([("b", CONFIRMED, "")], 2010)
    assert standing(journal) is None
    write(journal, change("c", 7, 50), SENT, CONFIRMED)
    assert standing(journal) == (7, 50, ())


@pytest.mark.parametrize("end", [VOID, REJECTED])
def test_a_value_that_was_not_taken_back_still_stands(journal: Journal, end: ChangeState) -> None:
    write(journal, change("a", 40, 100), SENT, CONFIRMED)
    write(journal, change("b", 100, 40, takes_back=True), end)
    assert standing(journal) == (40, 100, (100, 40) if end is VOID else ())


def test_jobs_channels_and_clusters_stand_for_themselves(journal: Journal) -> None:
    keys = [
        KEY,
        JobKey(CLUSTER, 7, array_task=0, epoch=1000),
        JobKey(CLUSTER, 7, het_offset=1, epoch=1000),
        JobKey(CLUSTER, 7, epoch=9000),
    ]
    for n, key in enumerate(keys):
        write(journal, change(f"k{n}", n, 10, key=key), SENT, CONFIRMED)
    write(journal, change("nice", 1, 2, channel="nice", attempt=1500), SENT, CONFIRMED)
    there = JobKey("beta", 7, epoch=1000)
    write(journal, change("beta", 0, 10, key=there), SENT, CONFIRMED)
    here = journal.standing(CLUSTER)
    assert here == {
        **{(k, CHANNEL): Standing(k, 1000, CHANNEL, n, 10) for n, k in enumerate(keys)},
        (KEY, "nice"): Standing(KEY, 1500, "nice", 1, 2),
    }
    assert set(journal.standing("beta")) == {(there, CHANNEL)}
    assert journal.standing("elsewhere") == {}


# -- predictions ----------------------------------------------------------------------------


def test_the_first_prediction_of_each_attempt_kind_and_model_stays(
    journal: Journal, kept: Kept
) -> None:
    first, other_model = prediction(), prediction(90.0, "m2")
    start = prediction(5000.0, kind=PredictionKind.START)
    journal.record_predictions([(KEY, 1000, first), (KEY, 1000, prediction(5.0))], 2000)
    journal.record_predictions([(KEY, 1000, prediction(999.0)), (KEY, 1000, other_model)], 2010)
    journal.record_predictions([(KEY, 1500, first), (KEY, 1000, start)], 2020)
    assert kept() == [
        (1000, "duration", "m1", 120.5, 2000),
        (1000, "duration", "m2", 90.0, 2010),
        (1500, "duration", "m1", 120.5, 2020),
        (1000, "start", "m1", 5000.0, 2020),
    ]
