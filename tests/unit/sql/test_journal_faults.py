"""A database that is locked, full or gone in the midst of a round: a clear error, then repair."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest
from support.history import CLUSTER, url_of
from support.journal import CHANNEL, change, round_info
from support.small_slurm import JOBS, Slurm

from gsched.engine.settling import carry_out, settle_interrupted
from gsched.errors import TryAgainError
from gsched.model.journal import ChangeState
from gsched.model.phases import NO_RULES
from gsched_sql import History, maintenance
from gsched_sql.engine import open_engine


class Locking(Slurm):
    """While it sends, another process takes the database and keeps it."""

    def __init__(self, database):
        super().__init__()
        self.other = sqlite3.connect(database, isolation_level=None)

    def apply(self, changes):
        self.other.execute("BEGIN IMMEDIATE")
        return super().apply(changes)


def changes_of(slurm, name):
    keys = {number: slurm.key(number) for number in JOBS}
    return [change(f"{name}/{n}", slurm.jobs[n].value, 10, key=keys[n]) for n in JOBS]


def test_a_database_that_is_locked_when_the_writes_have_gone_out_is_repaired(database):
    slurm = Locking(database)
    history = History(open_engine(url_of(database), busy_timeout_s=0.1))
    with history:
        journal = history.journal()
        journal.begin_round(round_info("r1"))
        with pytest.raises(TryAgainError, match="locked by another process") as caught:
            carry_out(slurm, journal, "r1", changes_of(slurm, "r1"), lambda: 2000)
        assert "fuser" in caught.value.hint
        assert history.errors == 1
        assert {job.value for job in slurm.jobs.values()} == {10}  # sent, and nobody was told
        assert {e.state for e in journal.unsettled(CLUSTER)} == {ChangeState.INTENT}
        with pytest.raises(TryAgainError):  # it may still look, but not settle
            settle_interrupted(slurm, journal, lambda: 2030)
        slurm.other.rollback()
        slurm.other.close()
        assert settle_interrupted(slurm, journal, lambda: 2060) == len(JOBS)
        found = journal.standing(CLUSTER)
        assert {(s.written, s.may_be) for s in found.values()} == {(10, ())}
        assert {channel for _, channel in found} == {CHANNEL}
    assert "audit" not in kinds(database)


def kinds(database):
    found = maintenance.check(url_of(database), NO_RULES, 1_800_000_000).findings
    return {finding.kind for finding in found if finding.is_error}


CHILD = """
import resource, sys
from support.history import CLUSTER
from support.journal import change, round_info
from support.small_slurm import JOBS, Slurm
from gsched.engine.settling import carry_out, settle_interrupted
from gsched.errors import UnavailableError
from gsched_sql import History

url, room = sys.argv[1], int(sys.argv[2])
slurm = Slurm()

def round(journal, number):
    settle_interrupted(slurm, journal, lambda: number)
    name = f"r{number}"
    journal.begin_round(round_info(name))
    value = 10 * (1 + number % 7)
    made = [change(f"{name}/{n}", slurm.jobs[n].value, value, key=slurm.key(n)) for n in JOBS]
    carry_out(slurm, journal, name, made, lambda: number)
    journal.end_round(name, number, {}, {})

with History.open(url) as history:
    journal = history.journal()
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    failed = 0
    for number in range(10_000):
        try:
            round(journal, number)
        except UnavailableError as e:
            failed += 1
            if failed == 3:
                print(e.message, flush=True)
                break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    round(journal, number + 1)
    assert failed == 3 == history.errors
    assert journal.unsettled(CLUSTER) == []
    standing = journal.standing(CLUSTER)
    for n in JOBS:
        assert standing[slurm.key(n), "site-factor"].written == slurm.jobs[n].value
"""


def test_a_database_without_room_fails_the_round_and_the_next_one_repairs(database):
    # A file may not grow beyond the limit: for SQLite that is a disk that fills up.
    room = database.stat().st_size + 64 * 1024
    argv = (sys.executable, "-c", CHILD, url_of(database), str(room))
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=environment, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(database) in done.stdout
    assert kinds(database) == set()
