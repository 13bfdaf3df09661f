"""The journal: what was decided, sent and seen; what gsched's values on jobs are."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch, pending, scalar, select, url_of
from support.servers import each_engine

from gsched.engine.ports import Journal
from gsched.errors import GschedError
from gsched.model.decision import Reason
from gsched.model.job import JobKey, JobState, Prediction, PredictionKind
from gsched.model.jobid import parse_job_id
from gsched.model.journal import Change, ChangeState, JournalEntry, RoundInfo, Standing
from gsched_sql import History

INTENT, SENT, CONFIRMED = ChangeState.INTENT, ChangeState.SENT, ChangeState.CONFIRMED
VOID, REJECTED, OBSERVED = ChangeState.VOID, ChangeState.REJECTED, ChangeState.OBSERVED
KEY = JobKey(CLUSTER, 7, epoch=1000)
SITE_FACTOR = "site-factor"
_number = itertools.count(1)

pytestmark = each_engine


def round_info(round_id="r1", **facts):
    given = {
        "cluster": CLUSTER,
        "started_at": 2000,
        "policy": "qssf",
        "acting": True,
        "seq": 3,
        "model_id": "m1",
    }
    return RoundInfo(round_id, **(given | facts))


def change(before, after, key=KEY, attempt=1000, takes_back=False, **params):
    return Change(
        change_id=f"r/{next(_number)}",
        key=key,
        attempt=attempt,
        channel=SITE_FACTOR,
        before=before,
        after=after,
        reason=Reason("predicted", params),
        takes_back=takes_back,
    )


@pytest.fixture
def journal(history) -> Journal:
    opened: Journal = history.journal()
    opened.begin_round(round_info())
    return opened


def write(journal, made, *states, at=2001):
    """Record a change and move it through `states`."""
    journal.record("r1", [made], INTENT, at)
    for state in states:
        journal.settle([(made.change_id, state, "")], at + 1)
    return made


def standing(journal):
    """(found, written, may_be) of the one standing; None when there is none."""
    found = journal.standing(CLUSTER)
    if not found:
        return None
    (((key, channel), only),) = found.items()
    assert (key, channel) == (only.key, only.channel) == (key, SITE_FACTOR)
    return only.found, only.written, only.may_be


def test_a_change_from_intent_to_confirmation(journal):
    made = change(0, 100, name="x|\n'é", p=1.5, n=None)
    journal.record("r1", [made], INTENT, 2001)
    assert journal.unsettled(CLUSTER) == [JournalEntry(made, "r1", INTENT, 2001, None, "")]
    journal.settle([(made.change_id, SENT, "")], 2002)
    assert journal.unsettled(CLUSTER) == [JournalEntry(made, "r1", SENT, 2001, None, "")]
    journal.settle([(made.change_id, CONFIRMED, "seen")], 2003)
    assert journal.unsettled(CLUSTER) == []
    assert journal.unsettled("elsewhere") == []


def test_it_survives_the_end_of_the_process(journal, history, database):
    made = change(0, 100)
    journal.record("r1", [made], INTENT, 2001)
    history.close()
    with History.open(url_of(database)) as again:
        assert [e.change for e in again.journal().unsettled(CLUSTER)] == [made]
        assert standing(again.journal()) == (0, 100, (100,))


def test_a_change_that_is_known_is_left_alone(journal, database):
    made = write(journal, change(0, 100), SENT, CONFIRMED)
    journal.record("r1", [made], INTENT, 2005)
    assert journal.unsettled(CLUSTER) == []
    assert scalar(database, "SELECT count(*) FROM actions") == 1


def test_changes_begin_as_intent_or_observed_only(journal):
    with pytest.raises(ValueError, match="not as SENT"):
        journal.record("r1", [change(0, 1)], SENT, 2001)


def test_what_has_come_to_its_end_does_not_move_and_the_unknown_is_an_error(journal):
    done = write(journal, change(0, 100), VOID)
    other = change(0, 5, key=JobKey(CLUSTER, 8, epoch=1))
    journal.record("r1", [other], INTENT, 2001)
    with pytest.raises(GschedError, match="is void, it cannot become confirmed"):
        journal.settle([(other.change_id, SENT, ""), (done.change_id, CONFIRMED, "")], 2005)
    with pytest.raises(GschedError, match="no change nonesuch"):
        journal.settle([(other.change_id, SENT, ""), ("nonesuch", SENT, "")], 2005)
    assert [e.state for e in journal.unsettled(CLUSTER)] == [INTENT]  # all or nothing


def test_a_change_for_a_round_that_never_began_is_refused(journal):
    with pytest.raises(GschedError, match="refused a row"):
        journal.record("r9", [change(0, 1)], INTENT, 2001)
    with pytest.raises(GschedError, match="no round r9"):
        journal.end_round("r9", 2002, {}, {})


def test_memory_is_that_of_the_last_finished_round(journal):
    assert journal.memory(CLUSTER, "qssf") == {}
    journal.end_round("r1", 2002, {"jobs": 1}, {"a": [1, None, {"b": "é"}]})
    journal.begin_round(round_info("r2"))
    assert journal.memory(CLUSTER, "qssf") == {"a": [1, None, {"b": "é"}]}
    journal.end_round("r2", 2003, {}, {"c": 2.5})
    assert journal.memory(CLUSTER, "qssf") == {"c": 2.5}
    assert journal.memory(CLUSTER, "fifo") == {}
    assert journal.memory("elsewhere", "qssf") == {}


# -- standings ------------------------------------------------------------------------------


def test_found_is_what_the_first_write_met_and_written_what_the_last_put_there(journal):
    assert standing(journal) is None
    write(journal, change(40, 100), SENT, CONFIRMED)
    assert standing(journal) == (40, 100, ())
    write(journal, change(100, 150, attempt=1500), SENT, CONFIRMED)
    assert standing(journal) == (40, 150, ())
    assert journal.standing(CLUSTER)[KEY, SITE_FACTOR] == Standing(KEY, 1500, SITE_FACTOR, 40, 150)
    assert journal.standing("elsewhere") == {}


def test_until_a_write_is_confirmed_the_value_before_it_may_be_there_too(journal):
    write(journal, change(0, 100))
    assert standing(journal) == (0, 100, (100,))
    write(journal, change(0, 110), SENT)
    assert standing(journal) == (0, 110, (100, 110))
    write(journal, change(0, 120), SENT, CONFIRMED)
    assert standing(journal) == (0, 120, ())
    write(journal, change(120, 130), SENT)
    assert standing(journal) == (0, 130, (120, 130))


@pytest.mark.parametrize("states", [(REJECTED,), (SENT, REJECTED)])
def test_what_slurm_refused_leaves_nothing(journal, states):
    write(journal, change(0, 100), *states)
    assert standing(journal) is None
    write(journal, change(0, 90), SENT, CONFIRMED)
    write(journal, change(90, 100), *states)
    assert standing(journal) == (0, 90, ())


def test_what_was_only_observed_leaves_nothing(journal):
    journal.record("r1", [change(0, 100)], OBSERVED, 2001)
    assert standing(journal) is None
    assert journal.unsettled(CLUSTER) == []


def test_a_write_whose_job_left_the_queue_may_have_come_through(journal):
    # A requeue would bring the job back with the value: it must not be taken for another hand's.
    write(journal, change(0, 100), SENT, VOID)
    assert standing(journal) == (0, 0, (100,))
    write(journal, change(100, 120, attempt=1500), SENT, CONFIRMED)
    write(journal, change(120, 130), SENT, VOID)
    assert standing(journal) == (0, 120, (120, 130))


def test_a_confirmed_clear_ends_it_and_an_unconfirmed_one_does_not(journal):
    write(journal, change(40, 100), SENT, CONFIRMED)
    clear = write(journal, change(100, 40, takes_back=True), SENT)
    assert standing(journal) == (40, 40, (100, 40))
    journal.settle([(clear.change_id, CONFIRMED, "")], 2010)
    assert standing(journal) is None
    write(journal, change(7, 50), SENT, CONFIRMED)
    assert standing(journal) == (7, 50, ())


def test_only_a_change_that_takes_back_ends_it_whatever_its_reason_is_called(journal):
    write(journal, change(40, 100), SENT, CONFIRMED)
    named_clear = replace(change(100, 40), reason=Reason("clear"))
    write(journal, named_clear, SENT, CONFIRMED)
    assert standing(journal) == (40, 40, ())
    taken_back = write(journal, change(40, 40, takes_back=True))
    assert [e.change for e in journal.unsettled(CLUSTER)] == [taken_back]


def test_a_value_that_could_not_be_read_is_taken_for_slurms_own(journal):
    write(journal, change(None, 100), SENT, CONFIRMED)
    assert standing(journal) == (0, 100, ())


def test_jobs_and_channels_stand_for_themselves(journal):
    other = JobKey(CLUSTER, 7, array_task=0, epoch=1000)
    reused = JobKey(CLUSTER, 7, epoch=9000)
    for key in (KEY, other, reused, JobKey("beta", 7, epoch=1000)):
        write(journal, change(0, 10, key=key), SENT, CONFIRMED)
    nice = Change("n", KEY, 1000, "nice", 1, 2, Reason("x"))
    write(journal, nice, SENT, CONFIRMED)
    assert set(journal.standing(CLUSTER)) == {
        (KEY, SITE_FACTOR),
        (other, SITE_FACTOR),
        (reused, SITE_FACTOR),
        (KEY, "nice"),
    }
    assert len(journal.standing("beta")) == 1


def test_standings_of_jobs_that_ended_long_ago_are_forgotten_by_the_round(journal, history):
    ended = JobKey(CLUSTER, 1, epoch=1000)
    waiting = JobKey(CLUSTER, 2, epoch=1000)
    unknown = JobKey(CLUSTER, 3, epoch=1000)
    later = JobKey(CLUSTER, 1, epoch=90_000)  # its number was given again
    history.ingest(batch(attempt(1, 1000), pending(2, 1000)), source_key=None)
    for key in (ended, waiting, unknown, later):
        write(journal, change(0, 10, key=key), SENT, CONFIRMED)
    journal.end_round("r1", 1110 + 86400, {}, {})
    assert len(journal.standing(CLUSTER)) == 4  # Slurm may still requeue it
    journal.begin_round(round_info("r2"))
    journal.end_round("r2", 1110 + 86401, {}, {})
    assert {key for key, _ in journal.standing(CLUSTER)} == {waiting, unknown, later}


def test_values_follow_a_job_whose_earlier_attempt_arrives_late(journal, history, database):
    seen_first = JobKey(CLUSTER, 7, epoch=1119)
    history.ingest(batch(pending(7, 1119, restarts=None)), source_key=None)
    write(journal, change(5, 100, key=seen_first, attempt=1119), SENT, CONFIRMED)
    journal.record_predictions([(seen_first, 1119, prediction())], 2000)
    history.ingest(batch(attempt(7, 1000, state=JobState.REQUEUED)), source_key=None)
    assert list(journal.standing(CLUSTER)) == [(KEY, SITE_FACTOR)]
    write(journal, change(100, 120, attempt=1119), SENT, CONFIRMED)
    assert standing(journal) == (5, 120, ())
    assert predictions(database) == [(7, 1000, 1119, "duration", "m1", 120.5)]
    assert {row.change.key for row in history.audit(CLUSTER)} == {KEY}


def test_standings_are_folded_from_the_last_confirmed_change_on(journal, database):
    for value in range(1, 30):
        write(journal, change(value - 1, value), SENT, CONFIRMED)
    base = scalar(database, "SELECT base_action FROM standings")
    assert base == scalar(database, "SELECT max(id) FROM actions")
    assert standing(journal) == (0, 29, ())


# -- audit, rounds, predictions -------------------------------------------------------------


def test_the_audit_tells_who_what_why_and_how_far(journal, history):
    made = change(0, 100, rank=3, of=44)
    journal.record("r1", [made], INTENT, 2001)
    journal.settle([(made.change_id, SENT, "")], 2002)
    journal.settle([(made.change_id, SENT, "accepted, not readable yet")], 2003)
    journal.settle([(made.change_id, CONFIRMED, "")], 2004)
    journal.settle([(made.change_id, CONFIRMED, "")], 2005)  # told twice, happened once
    (row,) = history.audit(CLUSTER)
    assert row.change == made
    assert (row.round_id, row.policy, row.acting) == ("r1", "qssf", True)
    assert (row.state, row.decided_at, row.settled_at, row.detail) == (CONFIRMED, 2001, 2004, "")
    assert row.transitions == (
        (2001, "intent", ""),
        (2002, "sent", ""),
        (2003, "sent", "accepted, not readable yet"),
        (2004, "confirmed", ""),
    )


def test_the_audit_is_newest_first_and_can_be_narrowed(journal, history):
    keys = [
        JobKey(CLUSTER, 7, epoch=1),
        JobKey(CLUSTER, 8, array_task=0, epoch=1),
        JobKey(CLUSTER, 8, array_task=1, epoch=1),
        JobKey(CLUSTER, 9, het_offset=1, epoch=1),
    ]
    for at, key in enumerate(keys, 3000):
        journal.record("r1", [change(0, 1, key=key)], INTENT, at)

    def jobs(*args, **kwargs):
        return [row.change.key.slurm_id for row in history.audit(CLUSTER, *args, **kwargs)]

    assert jobs() == ["9+1", "8_1", "8_0", "7"]
    assert jobs(limit=2) == ["9+1", "8_1"]
    assert jobs(since=3002) == ["9+1", "8_1"]
    assert jobs(parse_job_id("8")) == ["8_1", "8_0"]
    assert jobs(parse_job_id("8_[1-5]")) == ["8_1"]
    assert jobs(parse_job_id("8_0")) == ["8_0"]
    assert jobs(parse_job_id("9+0")) == []
    assert history.audit("elsewhere") == []


def test_rounds_are_kept_with_their_counts_and_interrupted_ones_show(journal, database):
    journal.end_round("r1", 2009, {"jobs": 4, "confirmed": 1}, {})
    journal.begin_round(round_info("r2", started_at=2030, acting=False, model_id=""))
    kept = (
        "SELECT round_id, policy, model_id, acting, seq, started_at, ended_at, summary FROM rounds"
    )
    assert select(database, f"{kept} ORDER BY started_at") == [
        ("r1", "qssf", "m1", 1, 3, 2000, 2009, '{"jobs": 4, "confirmed": 1}'),
        ("r2", "qssf", "", 0, 3, 2030, None, None),
    ]
    ended = "SELECT count(*) FROM audit_events WHERE to_state = 'round-ended' AND at = 2009"
    assert scalar(database, ended) == 1


def predictions(database):
    """(job, first submit, attempt, kind, model, mean) of each prediction, as they were kept."""
    columns = "job_id, epoch, attempt, kind, model_id, mean"
    return select(database, f"SELECT {columns} FROM predictions ORDER BY id")


def prediction(mean=120.5, model_id="m1", kind=PredictionKind.DURATION):
    return Prediction(kind, mean, ((0.1, 60.0), (0.9, 300.25)), "similar-name", model_id, 7, 1999)


def test_of_each_attempt_the_first_prediction_of_each_model_is_kept(journal, database):
    first, other_model = prediction(), prediction(90.0, "m2")
    start = prediction(5000.0, kind=PredictionKind.START)
    journal.record_predictions([(KEY, 1000, first), (KEY, 1000, prediction(5.0))], 2000)
    journal.record_predictions([(KEY, 1000, prediction(999.0)), (KEY, 1000, other_model)], 2010)
    journal.record_predictions([(KEY, 1500, first), (KEY, 1000, start)], 2020)
    journal.record_predictions([], 2030)
    assert predictions(database) == [
        (7, 1000, 1000, "duration", "m1", 120.5),
        (7, 1000, 1000, "duration", "m2", 90.0),
        (7, 1000, 1500, "duration", "m1", 120.5),
        (7, 1000, 1000, "start", "m1", 5000.0),
    ]
    facts = "SELECT source, similar_jobs, as_of, made_at FROM predictions WHERE id = 1"
    assert select(database, facts) == [("similar-name", 7, 1999, 2000)]
    quantiles = "SELECT probability, value FROM prediction_quantiles WHERE prediction_id = 1"
    assert select(database, f"{quantiles} ORDER BY position") == [(0.1, 60.0), (0.9, 300.25)]
