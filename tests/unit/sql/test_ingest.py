"""Ingest: every row is accounted for, nothing is counted twice, hostile text is kept whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import CLUSTER, attempt, batch, dump, pending, running, scalar

from gsched.errors import GschedError
from gsched.model.history import Batch, Reject, Tres
from gsched.model.job import JobState
from gsched.model.past import HistoryFilter
from gsched_sql import History, IngestSummary

BAD = Reject("sacct", 3, "no submit time", "7|x|y")


def test_every_row_of_a_batch_is_accounted_for(history):
    first = history.ingest(
        batch(attempt(1), attempt(2), attempt(2), rejects=[BAD], skipped=4), source_key="s"
    )
    assert first == IngestSummary(
        rows_in=8, attempts_new=2, unchanged=1, rejected=1, skipped=4, rejected_new=1
    )
    second = history.ingest(
        batch(attempt(1), attempt(2, end_time=2000), attempt(3)), source_key="s"
    )
    assert second == IngestSummary(rows_in=3, attempts_new=1, attempts_updated=1, unchanged=1)


def test_rows_that_a_reader_has_lost_are_an_error(history, database):
    with pytest.raises(GschedError, match="lost rows: 3 in, 1 records, 0 rejects, 1 skipped"):
        history.ingest(Batch((attempt(),), (), 3, 1, "end"), source_key="s")
    assert scalar(database, "SELECT count(*) FROM attempts") == 0
    assert history.cursor("s") == ""


def test_the_same_read_again_changes_nothing(history, database):
    read = batch(attempt(1), running(2), rejects=[BAD], cursor="9")
    history.ingest(read, source_key="s")
    before = dump(database)
    again = history.ingest(read, source_key="s")
    assert (again.attempts_new, again.attempts_updated, again.rejected_new) == (0, 0, 0)
    assert (again.rows_in, again.unchanged, again.rejected) == (3, 2, 1)
    with History.open(f"sqlite:///{database}") as other:  # knows nothing of the first read
        assert other.ingest(read, source_key="s") == again
    assert dump(database) == before


def test_a_read_without_news_does_not_open_the_database(history, database):
    read = batch(attempt(1), skipped=2, cursor="9")
    history.ingest(read, source_key="s")
    database.unlink()  # whatever touches the file now fails
    history.close()
    again = history.ingest(read, source_key="s")
    assert again == IngestSummary(rows_in=3, unchanged=1, skipped=2)
    assert history.ingest(batch(cursor="9"), source_key="s") == IngestSummary()


def test_the_cursor_moves_with_its_rows(history):
    assert history.cursor("jobcomp:/a") == ""
    history.ingest(batch(attempt(1), cursor="10"), source_key="jobcomp:/a")
    history.ingest(batch(cursor="20"), source_key="jobcomp:/a")
    history.ingest(batch(cursor="5"), source_key="jobcomp:/b")
    history.ingest(batch(attempt(2), cursor="99"), source_key=None)
    assert history.cursor("jobcomp:/a") == "20"
    assert history.cursor("jobcomp:/b") == "5"


def test_rejects_are_kept_once_by_content(history, database):
    same_row_elsewhere = Reject("sacct", 77, "no submit time", "7|x|y")
    other_row = Reject("sacct", 3, "no submit time", "7|x|z")
    history.ingest(batch(rejects=[BAD]), source_key="s")
    summary = history.ingest(batch(rejects=[same_row_elsewhere, other_row]), source_key="s")
    assert (summary.rejected, summary.rejected_new) == (2, 1)
    assert dump(database)[2] == [
        ("sacct", "no submit time", "7|x|y"),
        ("sacct", "no submit time", "7|x|z"),
    ]


def test_a_number_that_no_column_takes_rejects_its_row_only(history, database):
    huge = attempt(1, num_cpus=2**64 - 2)
    heavy = attempt(2, allocated=(Tres("mem", 2**63),))
    summary = history.ingest(batch(huge, attempt(3, num_cpus=2**63 - 1), heavy), source_key="s")
    assert (summary.rows_in, summary.attempts_new, summary.rejected) == (3, 1, 2)
    assert scalar(database, "SELECT num_cpus FROM jobs") == 2**63 - 1
    assert all("beyond 64 bits" in reason for _, reason, _ in dump(database)[2])


HOSTILE = [
    "two\nlines",
    "pipe|and;semicolon",
    "quote ' \" ` '; DROP TABLE jobs; --",
    "名前 ñ \U0001f525 e\u0301",
    "nul\x00inside",
    "lone surrogate \udcff",
    "\ue000beef",
    "%s :name {brace} \\ backslash",
    "x" * 10_000,
    "",
    " ",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_users_come_back_whole(history, name):
    record = attempt(
        name=name, user=f"u{name}", tenant=f"t{name}", partition=name, state_text=name,
        node_list=f"n{name}", allocated=(Tres(f"license/{name}", 1),),
    )  # fmt: skip
    reject = Reject("jobcomp", 1, "why", name)
    summary = history.ingest(batch(record, rejects=[reject]), source_key=name)
    assert (summary.rows_in, summary.attempts_new, summary.rejected) == (2, 1, 1)
    (job,) = history.jobs(HistoryFilter(users=(f"u{name}",), names=(name,)))
    assert job.attempts == (record,)
    assert (job.name, job.user, job.tenant) == (name, f"u{name}", f"t{name}")
    assert history.jobs(HistoryFilter(tenants=(f"t{name}",)))[0].partition == name


@settings(max_examples=40, deadline=None)
@given(names=st.lists(st.text(st.characters(), max_size=30), min_size=1, max_size=5))
def test_any_text_is_kept_and_no_two_are_confused(sqlite_template, tmp_path_factory, names):
    import shutil

    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("any") / "history.db")
    records = [attempt(n, name=name, user=name) for n, name in enumerate(names, 1)]
    with History.open(f"sqlite:///{path}") as history:
        history.ingest(batch(*records), source_key=None)
        stored = {job.key.job_id: (job.name, job.user) for job in history.jobs(HistoryFilter())}
    assert stored == {n: (name, name) for n, name in enumerate(names, 1)}


def test_tres_rows_follow_the_strongest_claim(history, database):
    history.ingest(batch(running(allocated=(Tres("cpu", 8), Tres("gres/gpu", 1)))), source_key=None)
    history.ingest(batch(attempt(allocated=(Tres("cpu", 8),))), source_key=None)
    (job,) = history.jobs(HistoryFilter())
    assert job.attempts[0].allocated == (Tres("cpu", 8),)
    assert (
        scalar(
            database, "SELECT name FROM tres_lists WHERE id = (SELECT allocated_id FROM attempts)"
        )
        == "cpu=8"
    )


def test_one_batch_may_speak_of_many_clusters(history):
    history.ingest(batch(attempt(1), attempt(1, cluster="beta")), source_key="s")
    assert {job.key.cluster for job in history.jobs(HistoryFilter())} == {CLUSTER, "beta"}
    assert [job.cluster for job in history.past_jobs("beta", 0, 10**10).jobs] == ["beta"]


def test_names_are_asked_for_until_they_are_known(history):
    rows = [pending(1), pending(2), pending(3)]
    assert history.unnamed(CLUSTER, rows) == rows
    history.ingest(batch(pending(1), pending(2, name=None)), source_key=None)
    assert history.unnamed(CLUSTER, rows) == rows[1:]
    assert history.unnamed(CLUSTER, [pending(1, 2000)]) == [pending(1, 2000)]
    history.ingest(batch(pending(2, name="")), source_key=None)
    assert history.unnamed(CLUSTER, rows) == rows[2:]
    # slurmdbd gives the name and not the comment, in which a job's phase stands
    history.ingest(batch(attempt(3)), source_key=None)
    assert history.unnamed(CLUSTER, rows) == rows[2:]
    history.ingest(batch(pending(3, phase="eval")), source_key=None)
    assert history.unnamed(CLUSTER, rows) == []


def test_a_thousand_attempts_of_one_slot_stay_apart(history):
    records = [attempt(7, 1000 * n, state=JobState.FAILED) for n in range(1, 1001)]
    summary = history.ingest(batch(*reversed(records)), source_key=None)
    assert summary.attempts_new == 1000
    assert len(history.jobs(HistoryFilter(job_id=7))) == 1000
