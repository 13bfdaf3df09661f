"""One daemon leads a cluster: the fence, the clock, other machines, and real processes at odds."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading

import pytest
from support.history import CLUSTER, scalar, select, url_of
from support.journal import KEY, change, prediction, round_info
from support.servers import each_engine

from gsched.errors import ConfigError, LostLeadershipError, TryAgainError
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched.testbed.wait import wait_for
from gsched_sql import History, inserts, machine, machine_id
from gsched_sql.engine import open_engine, writing

INTENT, SENT = ChangeState.INTENT, ChangeState.SENT
A, B = ("head1", "machine-of-1", 11), ("head2", "machine-of-2", 22)
on_servers = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def lead(history):
    return history.leadership(CLUSTER)


def shift(database, seconds):
    """Let the leader have been heard of so many seconds later: the clock went the other way."""
    engine = open_engine(url_of(database))
    with writing(engine) as conn:
        conn.exec_driver_sql(f"UPDATE leaders SET renewed_at = renewed_at + {seconds}")
    engine.dispose()


@on_servers
def test_another_host_is_refused_while_the_leader_lives_and_takes_over_after(lead, database):
    assert lead.take(*A, 60, 0) == 1
    with pytest.raises(TryAgainError, match=r"host head1 \(pid 11\) leads") as caught:
        lead.take(*B, 60, 0)
    assert "60 s" in caught.value.hint
    shift(database, -58)
    lead.renew(1, 60, 0)
    shift(database, -58)
    with pytest.raises(TryAgainError):
        lead.take(*B, 60, 0)
    found = lead.holder(0)
    assert (found.fence, found.host, found.machine_id, found.pid) == (1, *A)
    shift(database, -10)
    assert lead.holder(0) is None
    assert lead.take(*B, 60, 0) == 2
    with pytest.raises(LostLeadershipError, match=r"host head2 \(pid 22\) has taken over") as lost:
        lead.renew(1, 60, 0)
    assert lost.value.exit_code == 75
    lead.release(1, 0)  # of the past: nothing happens
    assert lead.holder(0).fence == 2
    lead.release(2, 0)
    assert lead.holder(0) is None
    with pytest.raises(LostLeadershipError, match="leads the cluster no more"):
        lead.renew(2, 60, 0)
    assert lead.take(*A, 60, 0) == 3


@on_servers
def test_a_renewal_tells_how_long_it_counts(lead, database):
    lead.take(*A, 60, 0)
    lead.renew(1, 600, 0)
    shift(database, -500)
    with pytest.raises(TryAgainError) as caught:
        lead.take(*B, 60, 0)
    assert "600 s" in caught.value.hint
    lead.renew(1, 60, 0)
    shift(database, -70)
    assert lead.take(*B, 60, 0) == 2


@on_servers
def test_time_is_told_by_the_servers_clock_alone(lead):
    lead.take(*A, 60, 0)
    for told in (0, 2**31, -(10**6)):  # a host whose clock is far off
        with pytest.raises(TryAgainError):
            lead.take(*B, 60, told)
        assert lead.holder(told).since > 1_600_000_000


@on_servers
@pytest.mark.parametrize("jump", [-(10**6), 10**6])
def test_a_clock_that_jumps_makes_no_second_leader(lead, history, database, jump):
    # The leader lives, but seems to have been heard of long ago, or in the far future.
    first = history.journal(lead.take(*A, 60, 0))
    shift(database, jump)
    second = history.journal(lead.take(*B, 60, 0))
    with pytest.raises(LostLeadershipError):
        first.begin_round(round_info("a"))
    second.begin_round(round_info("b"))
    assert select(database, "SELECT round_id FROM rounds") == [("b",)]


@on_servers
def test_a_clock_that_jumps_costs_a_leader_nothing_that_is_heard_of_first(lead, database):
    fence = lead.take(*A, 60, 0)
    shift(database, 10**6)
    lead.renew(fence, 60, 0)
    with pytest.raises(TryAgainError):
        lead.take(*B, 60, 0)


@each_engine
def test_a_killed_daemon_of_this_host_is_taken_over_from_at_once(lead, database):
    here = (socket.gethostname(), machine_id())
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as other:
        assert lead.take(*here, other.pid, 60, 1000) == 1
        with pytest.raises(TryAgainError, match=f"pid {other.pid}"):
            lead.take(*here, os.getpid(), 60, 1010)
        assert lead.take(*here, other.pid, 60, 1010) == 2  # the same process, after a reload
        other.kill()
    assert lead.holder(1010) is None
    assert lead.take(*here, os.getpid(), 60, 1010) == 3
    assert scalar(database, "SELECT count(*) FROM leaders") == 1


@each_engine
def test_clusters_have_leaders_of_their_own(history):
    here = (socket.gethostname(), machine_id(), os.getpid())
    assert history.leadership("alpha").take(*here, 60, 0) == 1
    assert history.leadership("beta").take(*here, 60, 0) == 1
    assert history.leadership("gamma").holder(0) is None


def test_sqlite_refuses_another_machine_until_the_file_is_claimed(lead, history, database):
    lead.take(*A, 60, 1000)
    for at in (1000, 10**9):  # however long ago: nothing tells that it is not alive
        with pytest.raises(ConfigError, match="host head1, another machine") as caught:
            lead.take("here", machine_id(), os.getpid(), 60, at)
    assert "gsched db init" in caught.value.hint
    History.create(url_of(database))
    assert lead.take("here", machine_id(), os.getpid(), 60, 1000) == 2


def test_sqlite_of_another_machine_that_has_ended_in_order_is_free(lead):
    lead.release(lead.take(*A, 60, 1000), 1000)
    assert lead.take(*B, 60, 1001) == 2


def test_a_machine_is_known_by_its_id_or_else_its_name(tmp_path, monkeypatch):
    path = tmp_path / "machine-id"
    monkeypatch.setattr(machine, "_MACHINE_ID", path)
    assert machine_id() == f"host:{socket.gethostname()}"
    for text in ("", "uninitialized\n"):
        path.write_text(text)
        assert machine_id() == f"host:{socket.gethostname()}"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    assert machine_id() == "0123456789abcdef0123456789abcdef"


# -- what a fence stops -----------------------------------------------------------------------


@pytest.fixture
def fenced(history, lead):
    """A journal whose round r1 has an open change, of a leader that has been taken over from."""
    fence = lead.take(*A, 60, 0)
    journal = history.journal(fence)
    journal.begin_round(round_info("r1"))
    journal.record("r1", [change("c1", 0, 5)], INTENT, 2001)
    lead.release(fence, 0)
    lead.take(*B, 60, 0)
    return journal


WRITES = {
    "begin_round": lambda j: j.begin_round(round_info("r2")),
    "record": lambda j: j.record("r1", [change("c2", 5, 6)], INTENT, 2002),
    "record again": lambda j: j.record("r1", [change("c1", 0, 5)], INTENT, 2002),
    "observe": lambda j: j.record("r1", [change("c2", 5, 6)], ChangeState.OBSERVED, 2002),
    "settle": lambda j: j.settle([("c1", SENT, "")], 2002),
    "settle the same": lambda j: j.settle([("c1", INTENT, "")], 2002),
    "end_round": lambda j: j.end_round("r1", 2002, {}, {"level": 1}),
    "record_predictions": lambda j: j.record_predictions([(KEY, 1000, prediction())], 2002),
}
TABLES = ("rounds", "actions", "audit_events", "standings", "policy_memory", "predictions")


@each_engine
def test_nothing_is_written_by_who_has_lost_the_lead(fenced, database):
    def rows():
        return {table: sorted(map(repr, select(database, f"SELECT * FROM {table}")))
                for table in TABLES}  # fmt: skip

    before = rows()
    for write in WRITES.values():
        with pytest.raises(LostLeadershipError):
            write(fenced)
    assert rows() == before
    assert [e.change.change_id for e in fenced.unsettled(CLUSTER)] == ["c1"]  # it may still look


def test_every_writing_call_of_the_journal_is_among_them(fenced):
    reading = {"memory", "standing", "unsettled"}
    calls = {name for name in dir(fenced) if not name.startswith("_")}
    assert calls - reading == {name for name in WRITES if " " not in name} - {"observe"}


# -- real processes ---------------------------------------------------------------------------

DAEMON = """
import itertools, sys, time
from support.history import CLUSTER
from support.journal import change, round_info
from gsched.errors import LostLeadershipError, TryAgainError, UnavailableError
from gsched.model.job import JobKey
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched.testbed.wait import wait_for
from gsched_sql import History, locks

locks.IDLE_LIMIT_S = 1
url, host = sys.argv[1:]
me = (host, "machine of " + host, 1)
with History.open(url) as history:
    lead = history.leadership(CLUSTER)

    def taken():
        try:
            return lead.take(*me, 2, 0)
        except TryAgainError as e:
            print("refused", flush=True)
            return 0

    fence = wait_for(taken, "the lead")
    print("leads", fence, flush=True)
    journal = history.journal(fence)
    for n in itertools.count():
        key = JobKey(CLUSTER, n + 1, epoch=1000)
        name = f"{host}/{fence}/{n}"
        try:
            lead.renew(fence, 2, 0)
            journal.begin_round(round_info(name))
            journal.record(name, [change(name, 0, 5, key=key)], ChangeState.INTENT, 2000)
            journal.settle([(name, ChangeState.SENT, "")], 2001)
            journal.end_round(name, 2002, {}, {})
        except LostLeadershipError as e:
            print("lost", flush=True)
            break
        except UnavailableError as e:  # the server has ended the connection of who stood still
            continue
"""


@contextlib.contextmanager
def daemon(database, host):
    """A process that leads as soon as it can, and the lines that it tells."""
    argv = (sys.executable, "-c", DAEMON, url_of(database), host)
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))
        reader.start()
        try:
            yield process, lines
        finally:
            process.kill()
            reader.join()


def owners(database):
    """The fences in the order in which rounds were begun and intents kept."""
    rows = select(database, "SELECT change_id FROM audit_events WHERE to_state = 'intent'"
                            " ORDER BY id")  # fmt: skip
    return [int(change_id.split("/")[1]) for (change_id,) in rows]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_what_a_round_writes_is_not_copied(history, monkeypatch):
    """PostgreSQL would wait for ever for the rows of a daemon that stands still after COPY."""

    class CopiedError(Exception):
        pass

    def copied(*_):
        raise CopiedError

    def record(name, count):
        journal.begin_round(round_info(name))
        changes = [change(f"{name}/{n}", 0, 5, key=JobKey(CLUSTER, n + 1)) for n in range(count)]
        journal.record(name, changes, ChangeState.INTENT, 2000)

    journal = history.journal()
    record("first", 1000)  # the jobs are known from now on
    monkeypatch.setattr(inserts, "_copy", copied)
    record("second", 400)
    with pytest.raises(CopiedError):
        record("third", 1000)


@on_servers
def test_a_daemon_that_stood_still_records_no_intent_after_it_was_taken_over_from(database):
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    with daemon(database, "first") as (first, told_by_first):
        rounds = rng.randrange(3, 40)
        wait_for(lambda: len(owners(database)) >= rounds, "rounds of the first")
        with daemon(database, "second") as (second, told_by_second):
            wait_for(lambda: "refused\n" in told_by_second, "the second to be refused")
            assert "leads 2\n" not in told_by_second
            first.send_signal(signal.SIGSTOP)  # wherever it is: in a transaction, too
            # where it stands in a transaction, the server ends that after two minutes
            wait_for(lambda: "leads 2\n" in told_by_second, "the second to lead", timeout_s=240)
            done = owners(database).count(1)
            wait_for(lambda: owners(database).count(2) >= 3, "rounds of the second")
            first.send_signal(signal.SIGCONT)
            assert first.wait(60) == 0
            wait_for(lambda: told_by_first[-1] == "lost\n", "the first to tell")
            assert owners(database).count(1) == done
            with daemon(database, "third") as (_, told_by_third):
                wait_for(lambda: "refused\n" in told_by_third, "the third to be refused")
                second.kill()
                wait_for(lambda: "leads 3\n" in told_by_third, "the third to lead")
    assert owners(database) == sorted(owners(database))
