"""Which sources an ingest reads, from where on, and what a failure in between leaves."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.history import CLUSTER, attempt, batch
from support.queue import row

from gsched.app import ingest as ingest_module
from gsched.app.ingest import NodeEventCounts, ingest
from gsched.config.settings import DatabaseSettings, PredictSettings, Settings, SlurmSettings
from gsched.errors import (
    ConfigError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.history import NodeEvent, Reject
from gsched.model.past import HistoryFilter
from gsched.slurm.accounting import OVERLAP_S
from gsched.slurm.parse_node_events import NodeEvents
from gsched.slurm.records import (
    AccountingFilter,
    FreeText,
    QueueListing,
    SacctForm,
    SlurmConfig,
)
from gsched_sql import History

NOW = 1_800_000_000
WEEK_S = 7 * 86_400
JOBCOMP = Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "jobcomp.txt"
WEEKS = Settings(predict=PredictSettings(history_days=21))


class Cluster:
    """A Slurm that answers from lists and writes down what it was asked."""

    def __init__(self, *, slurmdbd=False, jobcomp=""):
        self.values = {
            "ClusterName": CLUSTER,
            "AccountingStorageType": "accounting_storage/" + ("slurmdbd" if slurmdbd else "none"),
            "JobCompType": "jobcomp/filetxt" if jobcomp else "jobcomp/none",
            "JobCompLoc": str(jobcomp),
        }
        self.rows = []
        self.rejects = ()
        self.windows = []
        self.asked_texts = []
        self.fails_from = None
        self.forms = []
        self.asked_events = []
        self.event_rejects = ()

    def config(self):
        return SlurmConfig(self.values)

    def queue(self, states="live"):
        assert states == "all"
        return QueueListing(tuple(self.rows), tuple(self.rejects))

    def free_text(self, raw_ids):
        self.asked_texts.append(list(raw_ids))
        return {raw_id: FreeText(f"name {raw_id}", "") for raw_id in raw_ids}

    def node_events(self, since):
        self.asked_events.append(since)
        return NodeEvents((NodeEvent(CLUSTER, "gn01", NOW - 500, "DOWN"),), self.event_rejects)

    def accounting_chunks(self, since, until, chosen, form):
        assert chosen == AccountingFilter()
        self.forms.append(form)
        for begin in range(since, until, WEEK_S):
            end = min(begin + WEEK_S, until)
            if self.fails_from is not None and end > self.fails_from:
                raise UnavailableError("slurmdbd does not answer")
            self.windows.append((begin, end))
            yield replace(batch(attempt(len(self.windows), begin)), cursor=str(end))


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "history.db"
    History.create(f"sqlite:///{path}")
    return path


@pytest.fixture
def history(empty_database, tmp_path):
    path = shutil.copy(empty_database, tmp_path / "history.db")
    with History.open(f"sqlite:///{path}") as opened:
        yield opened


def run(cluster, history, settings=WEEKS, now=NOW, **wanted):
    return ingest(settings, cluster, history, clock=lambda: now, **wanted)


def names(report):
    return [name for name, _ in report.sources]


def test_auto_reads_what_the_cluster_has(history):
    assert names(run(Cluster(), history)) == ["squeue"]
    assert names(run(Cluster(jobcomp=JOBCOMP), history)) == ["jobcomp", "squeue"]
    both = Cluster(slurmdbd=True, jobcomp=JOBCOMP)
    assert names(run(both, history)) == ["sacct", "squeue"]
    assert names(run(both, history, source="jobcomp")) == ["jobcomp"]
    assert names(run(both, history, source="sacct")) == ["sacct"]
    assert names(run(both, history, source="sacct-json")) == ["sacct-json"]
    assert names(run(both, history, source="queue")) == ["squeue"]


def test_a_named_file_is_read_in_place_of_slurms(history, tmp_path):
    with pytest.raises(UnavailableError, match="moved"):
        run(Cluster(jobcomp=tmp_path / "moved"), history)
    report = run(Cluster(), history, source="jobcomp", jobcomp_file=JOBCOMP)
    assert report.total.attempts_new > 0
    by_settings = replace(WEEKS, slurm=SlurmSettings(jobcomp_file=str(JOBCOMP)))
    assert names(run(Cluster(), history, by_settings)) == ["jobcomp", "squeue"]


@pytest.mark.parametrize("source", ["sacct", "sacct-json", "node-events", "jobcomp"])
def test_a_source_that_the_cluster_lacks_is_named(history, source):
    with pytest.raises(ConfigError, match=CLUSTER) as caught:
        run(Cluster(), history, source=source)
    assert "--source queue" in caught.value.hint


def test_jobcomps_file_is_read_once_and_again_only_with_since(history):
    cluster = Cluster(jobcomp=JOBCOMP)
    first = dict(run(cluster, history).sources)["jobcomp"]
    assert first.rows_in == first.attempts_new + first.rejected + first.unchanged > 0
    assert all(job.key.cluster == CLUSTER for job in history.jobs(HistoryFilter()))
    assert dict(run(cluster, history).sources)["jobcomp"].rows_in == 0
    with History.open(f"sqlite:///{history.stats().location}") as other:
        again = dict(run(cluster, other, since=0).sources)["jobcomp"]
    assert (again.rows_in, again.attempts_new, again.attempts_updated) == (first.rows_in, 0, 0)
    assert again.rejected_new == 0


def test_a_forged_record_in_jobcomps_file_changes_nothing(history, tmp_path):
    path = tmp_path / "jobcomp.txt"
    shutil.copy(JOBCOMP, path)
    cluster = Cluster(jobcomp=path)
    run(cluster, history)
    jobs = history.jobs(HistoryFilter())
    true = next(
        line for line in path.read_text("utf-8", "replace").splitlines() if "JobId=8 " in line
    )
    with path.open("a") as file:
        file.write(true.replace("JobState=COMPLETED", "JobState=FAILED") + "\n")
    second = dict(run(cluster, history).sources)["jobcomp"]
    assert (second.rows_in, second.rejected_new, second.attempts_updated) == (1, 1, 0)
    assert history.jobs(HistoryFilter()) == jobs
    assert "twice" in history.rejects()[0].reason


def test_the_first_sacct_reads_the_days_that_count_and_the_next_only_what_is_new(history):
    cluster = Cluster(slurmdbd=True)
    run(cluster, history)
    begin = NOW - 21 * 86400
    assert cluster.windows == [(begin + n * WEEK_S, begin + (n + 1) * WEEK_S) for n in range(3)]
    run(cluster, history, now=NOW + 60)
    assert cluster.windows[3:] == [(NOW - OVERLAP_S, NOW + 60)]


def test_since_reads_further_back_and_never_leaves_a_gap(history):
    cluster = Cluster(slurmdbd=True)
    run(cluster, history, since=NOW - 100)
    run(cluster, history, now=NOW + 50_000, since=NOW + 49_000)
    run(cluster, history, now=NOW + 60_000, since=NOW - 500_000)
    assert [begin for begin, _ in cluster.windows] == [
        NOW - 100,
        NOW - OVERLAP_S,
        NOW - 500_000,
    ]


def test_windows_read_before_a_failure_are_kept_and_the_queue_is_read_all_the_same(history):
    cluster = Cluster(slurmdbd=True)
    cluster.rows = [row(900)]
    cluster.fails_from = NOW - WEEK_S
    with pytest.raises(UnavailableError, match="slurmdbd does not answer"):
        run(cluster, history)
    assert len(cluster.windows) == 2
    assert {job.key.job_id for job in history.jobs(HistoryFilter())} == {1, 2, 900}
    cluster.fails_from = None
    run(cluster, history)
    assert cluster.windows[2:] == [(NOW - WEEK_S - OVERLAP_S, NOW - OVERLAP_S),
                                   (NOW - OVERLAP_S, NOW)]  # fmt: skip


@pytest.mark.parametrize("error", [TryAgainError, PermissionDeniedError, GschedError])
def test_whatever_keeps_a_source_from_being_read_the_queue_is(history, monkeypatch, error):
    def refuse(*_):
        raise error("not now")

    cluster = Cluster(slurmdbd=True)
    cluster.rows = [row(900)]
    monkeypatch.setattr(cluster, "accounting_chunks", refuse)
    with pytest.raises(error, match="not now"):
        run(cluster, history)
    assert [job.key.job_id for job in history.jobs(HistoryFilter())] == [900]


def test_the_first_of_two_errors_is_raised(history, monkeypatch, tmp_path):
    def refuse(*_):
        raise TryAgainError("slurmctld is busy")

    cluster = Cluster(jobcomp=tmp_path / "moved")
    monkeypatch.setattr(cluster, "queue", refuse)
    with pytest.raises(UnavailableError, match="moved"):
        run(cluster, history)


def test_the_queue_is_kept_with_names_asked_for_once(history):
    cluster = Cluster()
    cluster.rows = [
        row(1),
        row(2, is_unsplit_array=True, array_tasks="0-9"),
        row(30, job_id=2, array_task=7, restarts=2),
    ]
    cluster.rejects = (Reject("squeue", 4, "why", "raw"),)
    report = run(cluster, history)
    assert (report.total.rows_in, report.total.attempts_new) == (4, 2)
    assert (report.total.skipped, report.total.rejected) == (1, 1)
    run(cluster, history)
    cluster.rows.append(row(4))
    run(cluster, history)
    assert cluster.asked_texts == [[1, 30], [4]]
    task, first = history.jobs(HistoryFilter(until=1001))[1:]
    assert (first.key.slurm_id, first.name) == ("1", "name 1")
    assert (task.key.slurm_id, task.name, task.attempts[0].restarts) == ("2_7", "name 30", 2)


def test_an_idle_round_writes_nothing(history, monkeypatch):
    cluster = Cluster(jobcomp=JOBCOMP)
    cluster.rows = [row(n) for n in range(1, 20)]
    run(cluster, history)
    run(cluster, history)  # the names are no longer in the records

    def no_write(*args, **kwargs):
        raise AssertionError("an idle round wrote to the database")

    monkeypatch.setattr("gsched_sql.history.writing", no_write)
    report = run(cluster, history)
    assert (report.total.rows_in, report.total.unchanged) == (19, 19)


def test_the_clock_is_the_machines_unless_given(history, monkeypatch):
    monkeypatch.setattr(ingest_module.time, "time", lambda: NOW + 0.9)
    cluster = Cluster(slurmdbd=True)
    ingest(WEEKS, cluster, history)
    assert cluster.windows[-1][1] == NOW


def test_how_far_a_long_read_has_come_is_told_as_it_is_kept(history):
    told = []
    cluster = Cluster(slurmdbd=True)
    run(cluster, history, source="sacct", on_progress=lambda *at: told.append(at))
    assert told == [(end, rows) for rows, (_, end) in enumerate(cluster.windows, 1)]
    assert len(told) == 3


def test_sacct_is_asked_for_json_and_for_steps_where_they_are_wanted(history):
    cluster = Cluster(slurmdbd=True)
    run(cluster, history, source="sacct-json")
    run(cluster, history, replace(WEEKS, database=DatabaseSettings(keep_steps=True)), NOW + 60)
    assert cluster.forms == [SacctForm(as_json=True), SacctForm(keeps_steps=True)]
    # both read on from where the other ended
    assert cluster.windows[3:] == [(NOW - OVERLAP_S, NOW + 60)]


def test_node_events_are_kept_once_and_read_on(history):
    cluster = Cluster(slurmdbd=True)
    first = run(cluster, history)
    assert first.node_events == NodeEventCounts(told=1, new=1, updated=0)
    assert run(cluster, history, now=NOW + 60).node_events == NodeEventCounts(1, 0, 0)
    assert cluster.asked_events == [NOW - 21 * 86400, NOW - OVERLAP_S]
    assert [e.node for e in history.node_events(CLUSTER, NOW - 1000, NOW)] == ["gn01"]
    only = run(cluster, history, source="node-events")
    assert (names(only), only.node_events.told) == ([], 1)
    assert run(Cluster(), history).node_events is None


def test_the_daemon_asks_for_node_events_now_and_then(history):
    cluster = Cluster(slurmdbd=True)
    for seconds in (0, 30, 599, 600):
        run(cluster, history, now=NOW + seconds, events_interval_s=600)
    assert len(cluster.asked_events) == 2
    run(cluster, history, now=NOW + 601, events_interval_s=600, since=NOW - 900)
    assert cluster.asked_events[2:] == [NOW - 900]


def test_an_event_that_is_not_understood_is_a_reject(history):
    cluster = Cluster(slurmdbd=True)
    cluster.event_rejects = (Reject("sacctmgr", 1, "not an event of a node", "x|"),)
    report = run(cluster, history)
    assert dict(report.sources)["sacctmgr"].rejected_new == 1
    assert report.node_events.told == 1
