"""kill -9 between any two calls leaves a whole database and nothing half counted."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys

from support.history import CLUSTER, scalar

from gsched.model.journal import ChangeState
from gsched_sql import History

BATCH = 50

CHILD = f"""
import itertools, sys
from support.history import attempt, batch
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.journal import Change, ChangeState, RoundInfo
from gsched_sql import History

url, run = sys.argv[1:]
with History.open(url) as history:
    journal = history.journal()
    first = int(history.cursor("s") or 0)
    for n in itertools.count(first + 1):
        records = [attempt(job, 1000 + n) for job in range(n * {BATCH}, (n + 1) * {BATCH})]
        history.ingest(batch(*records, cursor=str(n)), source_key="s")
        print(n, flush=True)
        round_id = f"{{run}}-{{n}}"
        journal.begin_round(RoundInfo(round_id, {CLUSTER!r}, n, "qssf", True, n, "m"))
        key = JobKey({CLUSTER!r}, n * {BATCH}, epoch=1000 + n)
        change = Change(round_id, key, key.epoch, "site-factor", 0, n, Reason("x"))
        journal.record(round_id, [change], ChangeState.INTENT, n)
        print(n, flush=True)
        journal.settle([(round_id, ChangeState.SENT, "")], n)
        journal.settle([(round_id, ChangeState.CONFIRMED, "")], n)
        journal.end_round(round_id, n, {{}}, {{"n": n}})
"""


def run_and_kill(database, run, lines):
    """Start the child, read `lines` lines of its progress, and kill it in the middle of more."""
    argv = [sys.executable, "-c", CHILD, f"sqlite:///{database}", str(run)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    ) as child:
        told = [child.stdout.readline() for _ in range(lines)]
        child.kill()
    assert child.returncode == -9
    assert all(told), "the child ended by itself"
    return int(told[-1])


def test_killed_writers_lose_nothing_that_was_told_and_leave_nothing_half_done(database):
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    for run in range(6):
        told = run_and_kill(database, run, rng.randint(1, 6))
        assert scalar(database, "PRAGMA integrity_check") == "ok"
        with History.open(f"sqlite:///{database}") as history:
            batches = int(history.cursor("s"))
            stats = history.stats()
            entries = history.journal().unsettled(CLUSTER)
            standing = history.journal().standing(CLUSTER)
        assert batches >= told, "a committed batch is gone"
        assert stats.rows["attempts"] == stats.rows["jobs"] == batches * BATCH
        assert stats.rows["tres_counts"] == 4  # of the one list that all have
        assert stats.gpu_time_s == 200 * batches * BATCH
        assert {e.state for e in entries} <= {ChangeState.INTENT, ChangeState.SENT}
        assert len(standing) == stats.rows["actions"]  # every change and its standing together


def test_a_foreign_key_never_dangles(database):
    run_and_kill(database, 0, 3)
    with sqlite3.connect(database) as conn:
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
    conn.close()
