"""Whose jobs a requeue takes, and which tasks of a whole array."""

from __future__ import annotations

import os

import pytest
from support.queue import row

from gsched.app.queue_filter import own_name
from gsched.app.requeue import plan_requeue
from gsched.config.settings import Settings
from gsched.errors import EXIT_NO_PERMISSION, GschedError
from gsched.model.job import JobState
from gsched.slurm.records import QueueListing, SlurmConfig

RUNNING = {"state": JobState.RUNNING, "state_text": "RUNNING"}


class Slurm:
    """A cluster on which the caller coordinates some accounts."""

    def __init__(self):
        self.rows = [row(1, user=own_name(), **RUNNING), row(2, user="bob", **RUNNING)]
        self.accounts = frozenset()
        self.level = "user"
        self.asked = []

    def config(self):
        storage = "accounting_storage/slurmdbd"
        return SlurmConfig({"ClusterName": "alpha", "AccountingStorageType": storage})

    def queue(self, _):
        return QueueListing(tuple(self.rows), ())

    def privilege(self, user):
        self.asked.append(user)
        return self.level

    def coordinated_accounts(self, user):
        assert user == own_name()
        return self.accounts


@pytest.fixture
def slurm(monkeypatch):
    made = Slurm()
    monkeypatch.delenv("SLURM_CLUSTERS", raising=False)
    monkeypatch.setattr("gsched.app.requeue.slurm_client", lambda _: made)
    return made


def ids(*jobs):
    return [unit.slurm_id for unit in plan_requeue(Settings(), jobs, hold=False).units]


def refused(*jobs):
    with pytest.raises(GschedError) as caught:
        ids(*jobs)
    assert caught.value.exit_code == EXIT_NO_PERMISSION
    return caught.value.message


def test_jobs_of_others_are_for_coordinators_and_operators(slurm):
    assert "2 is a job of bob" in refused("1", "2")
    slurm.accounts = frozenset({"lab2"})
    assert refused("2")
    slurm.accounts = frozenset({"lab1"})
    assert ids("1", "2") == ["1", "2"]
    slurm.accounts, slurm.level = frozenset(), "operator"
    assert ids("2") == ["2"]


def test_who_asks_for_their_own_is_not_looked_up(slurm):
    assert ids("1") == ["1"]
    assert slurm.asked == []


def test_a_user_without_a_name_here_is_no_error(slurm, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_294_967_000)
    monkeypatch.setattr(os, "geteuid", lambda: 4_294_967_000)
    slurm.rows = [row(1, user="4294967000", **RUNNING), row(2, user="bob", **RUNNING)]
    assert ids("1") == ["1"]
    assert refused("2")


def test_of_a_whole_array_the_tasks_that_wait_are_left_alone(slurm):
    mine = {"job_id": 7, "user": own_name()}
    slurm.rows = [row(71, array_task=1, **mine, **RUNNING), row(72, array_task=2, **mine)]
    plan = plan_requeue(Settings(), ["7"], hold=False)
    assert [unit.slurm_id for unit in plan.units] == ["7_1"]
    assert plan.notes == ("7 means 1 task of an array; 1 wait already",)
