"""Past jobs at their edges: used ids, windows of time, attempts before the window."""

from __future__ import annotations

import pytest
from support.history import attempt, batch
from support.queue import StandInSlurm, partition, row

from gsched.app import past_sources
from gsched.app.ended import known_past
from gsched.app.past_sources import find_jobs
from gsched.app.why import explain_job
from gsched.config.settings import Settings
from gsched.model.cluster import ReservationView
from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.past import HistoryFilter
from gsched.slurm.parse_limits import LimitRecord, LimitValue
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

NOW = 1_000_000


class Accounting:
    """slurmdbd: the attempts of which something lies in the window."""

    def __init__(self, *records):
        self.records = records
        self.asked = []

    def config(self):
        return SlurmConfig({"AccountingStorageType": "accounting_storage/slurmdbd"})

    def accounting(self, since, until, chosen):
        self.asked.append((since, chosen.job_ids))
        ids = set(map(int, chosen.job_ids))
        return batch(
            *(
                r
                for r in self.records
                if r.end_time >= since and r.submit_time < until and (not ids or r.job_id in ids)
            )
        )


@pytest.fixture
def sacct(monkeypatch, tmp_path):
    def read(*records, **wanted):
        slurm = Accounting(*records)
        monkeypatch.setattr(past_sources, "slurm_client", lambda _: slurm)
        wanted = HistoryFilter(users=("alice",), **wanted)
        found = find_jobs(Settings(state_dir=tmp_path), wanted, NOW)
        return [(job.key.job_id, len(job.attempts)) for job in found.jobs], slurm.asked

    return read


def test_attempts_before_the_window_are_fetched_for_the_jobs_in_it(sacct):
    first = attempt(7, 1000, state=JobState.NODE_FAIL)
    again = attempt(7, 1110, start_time=1200, end_time=NOW - 10)
    found, asked = sacct(first, again, since=NOW - 100)
    assert found == [(7, 2)]
    assert asked == [(NOW - 100, ()), (0, ("7",))]


def test_nothing_more_is_read_where_there_is_nothing_or_no_window(sacct):
    assert sacct(attempt(7), since=NOW - 100) == ([], [(NOW - 100, ())])
    assert sacct(attempt(7), job_id=7) == ([(7, 1)], [(0, ("7",))])
    assert sacct(attempt(7), since=0) == ([(7, 1)], [(0, ())])


def test_a_job_that_ended_as_the_window_begins_is_in_it(sacct):
    job = attempt(7, 1000, end_time=5000)
    assert [sacct(job, since=since)[0] for since in (5000, 5001)] == [[(7, 1)], []]


def test_of_a_used_id_the_newest_job_is_meant(tmp_path):
    settings = Settings(state_dir=tmp_path)
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        old = attempt(7, 1000, state=JobState.FAILED, exit_code=1)
        history.ingest(batch(old, attempt(7, 900_000)), source_key=None)
    (found,) = known_past(settings, "7")
    assert (found.key.epoch, found.state) == (900_000, JobState.COMPLETED)


# -- why a job waits --------------------------------------------------------------------------


class Slurm(StandInSlurm):
    """A cluster whose queue holds one job that waits, with slurmdbd."""

    past = ()
    limit = LimitValue(1, 0)
    partition_qos = ""
    reserved = ()

    def config(self):
        storage = "accounting_storage/slurmdbd"
        return SlurmConfig({"ClusterName": "alpha", "AccountingStorageType": storage})

    def accounting(self, *_):
        return batch(*self.past)

    def partitions(self):
        return (partition(qos=self.partition_qos),)

    def reservations(self):
        return self.reserved

    def limits(self, *_):
        values = {"MaxTRESPJ": {"gres/gpu": self.limit}}
        return (LimitRecord("normal", "", "", None, "", "", values),)

    def qos_flags(self, _):
        return frozenset()


@pytest.fixture
def why(monkeypatch, tmp_path):
    def ask(made, **facts):
        made.rows = (row(1, **facts),)
        monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
        return explain_job(Settings(state_dir=tmp_path), "1")

    return ask


def test_a_dependency_on_a_used_id_is_on_the_newest_job(why):
    slurm = Slurm()
    slurm.past = (attempt(7, 1000, state=JobState.FAILED), attempt(7, 900_000))
    found = why(slurm, dependency="afterok:7(unfulfilled)", reason="Dependency")
    assert (found.verdict, found.analysis.dependencies.items[0].status) == ("waiting", "met")


def test_the_limit_of_a_job_is_not_judged_where_the_partitions_own_qos_is_not_shown(why):
    beyond = {"reason": "QOSMaxGRESPerJob", "tres": (Tres("gres/gpu", 2),)}
    slurm = Slurm()
    assert why(slurm, **beyond).verdict == "never"
    slurm.partition_qos = "special"
    assert why(slurm, **beyond).verdict == "waiting"


@pytest.mark.parametrize(("left_s", "is_told"), [(59, True), (60, False), (-1, False)])
def test_a_reservation_ahead_matters_to_a_job_that_would_still_run(
    why, monkeypatch, left_s, is_told
):
    monkeypatch.setattr("gsched.app.why.now", lambda: NOW)
    slurm = Slurm()
    slurm.reserved = (ReservationView("repair", ("n1", "n2"), NOW + left_s, NOW + 999),)
    found = why(slurm, time_limit_s=60)
    codes = [block.code for block in found.analysis.blocks]
    assert ("reservation-ahead" in codes) is is_told
