"""Attempts of jobs from a real slurmdbd: all, chosen ones, piece by piece, while it is away."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

from gsched.errors import TryAgainError, UsageError
from gsched.model.job import JobState
from gsched.slurm.client import CommandClient
from gsched.slurm.records import AccountingFilter
from gsched.testbed import processes
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

EVIL = "evil\nJobId=1 UserId=root(0) Name=x|\x1f\x1e,:é JobState=FAILED 'q\" $(id)"
DAY_S = 86_400


class Past:
    """A site whose jobs have ended in several ways, and their ids."""

    def __init__(self, bed):
        self.bed = bed
        self.began = int(time.time()) - 60
        self.failed = self.submit("--gpus=2", f"--job-name={EVIL}", script="exit 3")
        self.array = self.submit("--array=1-2", "--job-name=a,b", user="games", script="true")
        self.het = self.submit("-N1", ":", "-N1", user="news", script="true")
        self.requeued = self.submit("--gpus=1", "--job-name=requeued")
        self.wait_for_states({self.requeued: "RUNNING"})
        bed.run(["scontrol", "requeue", self.requeued])
        self.never = self.submit("--hold", "--job-name=never", user="games")
        bed.run(["scancel", self.never])
        self.waiting = self.submit("--hold", "--array=1-3")

    def submit(self, *options, user=None, script="sleep 600"):
        argv = ["sbatch", "--parsable", "-o", "/dev/null", *options]
        done = self.bed.run(argv, user, stdin=f"#!/bin/sh\n{script}\n")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait_for_states(self, wanted):
        argv = ["squeue", "-h", "-t", "all", "-o", "%i=%T"]
        pairs = {f"{job}={state}" for job, state in wanted.items()}
        wait_for(lambda: pairs <= set(self.bed.run(argv).stdout.split()), str(wanted))

    @property
    def until(self):
        return int(time.time()) + 60


@pytest.fixture(scope="module")
def past():
    with Testbed.temporary(num_nodes=2, accounting="slurmdbd") as bed:
        made = Past(bed)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in bed.env().items():
                patch.setenv(name, value)
            client = CommandClient()
            wait_for(lambda: is_complete(client, made), "sacct to know how all has ended")
        yield made


def is_complete(client, past):
    found = by_job(client.accounting(past.began, past.until))
    ended = [r for job in (past.failed, past.array, past.het) for r in found.get(int(job), ())]
    return (
        len(ended) == 5
        and all(record.end_time for record in ended)
        and len(found.get(int(past.requeued), ())) == 2
        and int(past.never) in found
    )


def by_job(batch):
    assert batch.rejects == ()
    assert batch.rows_in == len(batch.records) + batch.rows_skipped
    found = {}
    for record in batch.records:
        found.setdefault(record.job_id, []).append(record)
    return found


@pytest.fixture
def client(past, monkeypatch):
    """In the environment of a user who has set everything to something else."""
    hostile = {"SACCT_FORMAT": "jobid", "SLURM_TIME_FORMAT": "relative", "TZ": "Asia/Kolkata",
               "SLURM_CLUSTERS": "elsewhere", "SACCT_FEDERATION": "1"}  # fmt: skip
    for name, value in (past.bed.env() | hostile).items():
        monkeypatch.setenv(name, value)
    return CommandClient()


def test_attempts(client, past):
    found = by_job(client.accounting(past.began, past.until))
    (record,) = found[int(past.failed)]
    assert record.name == EVIL.replace('"', "`")  # slurmdbd keeps no quotation marks
    assert (record.num_gpus, record.exit_code) == (2, 3)
    assert (record.cluster, record.state) == (past.bed.spec.cluster, JobState.FAILED)
    first, second = found[int(past.requeued)]
    assert (first.state, second.state.is_terminal) == (JobState.REQUEUED, False)
    assert first.submit_time < second.submit_time
    (record,) = found[int(past.never)]
    assert (record.state, record.start_time) == (JobState.CANCELLED, None)
    assert {r.array_task for r in found[int(past.array)]} == {1, 2}
    assert {r.het_offset for r in found[int(past.het)]} == {0, 1}
    assert int(past.waiting) not in found  # no attempt of a task has begun


def test_a_filter_chooses(client, past):
    def jobs(**chosen):
        found = client.accounting(past.began, past.until, AccountingFilter(**chosen))
        return {str(record.job_id) for record in found.records}

    assert jobs(users=("games",)) == {past.array, past.never}
    assert jobs(users=("games", "news")) == {past.array, past.never, past.het}
    assert jobs(accounts=("lab2",)) == set()
    assert jobs(partitions=("gpu",)) >= {past.failed, past.array}
    assert jobs(states=("FAILED",)) == jobs(states=("F",)) == {past.failed}
    assert jobs(states=("CA", "F")) == {past.failed, past.never}
    assert jobs(names=("a,b",)) == {past.array}
    assert jobs(names=("never", "requeued")) == {past.never, past.requeued}
    assert jobs(job_ids=(past.het, f"{past.array}_2")) == {past.het, past.array}
    assert jobs(users=("games",), job_ids=(past.het,)) == set()
    two = AccountingFilter(job_ids=(f"{past.array}_2",))
    (only,) = client.accounting(past.began, past.until, two).records
    assert only.array_task == 2
    with pytest.raises(UsageError, match="no user 'nobody-here'"):
        jobs(users=("nobody-here",))


def test_chunks_go_on_where_a_read_was_interrupted(client, past):
    since = past.began - 5 * DAY_S
    chunks = client.accounting_chunks(since, past.until)
    first = next(chunks)
    rest = list(client.accounting_chunks(int(first.cursor), past.until))
    seen = {record for batch in (first, *rest) for record in batch.records}
    assert len(rest) >= 1
    assert set(client.accounting(since, past.until).records) == seen


def test_an_ordinary_user_reads_the_own_jobs(past):
    code = (
        "import json, sys\n"
        "from gsched.slurm.client import CommandClient\n"
        "from gsched.slurm.records import AccountingFilter\n"
        "mine = AccountingFilter(users=('games',))\n"
        "batch = CommandClient().accounting(int(sys.argv[1]), int(sys.argv[2]), mine)\n"
        "print(json.dumps(sorted({str(r.job_id) for r in batch.records})))\n"
    )
    argv = [sys.executable, "-c", code, str(past.began), str(past.until)]
    done = past.bed.run(argv, "games")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == sorted([past.array, past.never])


def test_a_coordinator_requeues_jobs_of_the_account(client, past):
    job = past.submit("--job-name=coordinated", user="news")
    past.wait_for_states({job: "RUNNING"})
    code = "import sys; from gsched_cli.main import run; sys.exit(run(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "requeue", job]
    assert client.coordinated_accounts("games") == frozenset()
    made = ["sacctmgr", "-i", "add", "coordinator", "account=lab1", "names=games"]
    assert past.bed.run(made).returncode == 0
    assert client.coordinated_accounts("games") == {"lab1"}
    assert client.privilege("games") == "user"
    done = past.bed.run(argv, "games")
    assert (done.returncode, done.stdout.splitlines()[1].split()) == (
        0, [job, "news", "RUNNING", "requeued"],
    )  # fmt: skip


def test_a_slurmdbd_that_hangs_is_no_reason_to_hang(client, past):
    (pid,) = [p.pid for p in processes.find(past.bed.spec.root) if p.program == "slurmdbd"]
    os.kill(pid, signal.SIGSTOP)
    told = []
    try:
        with pytest.raises(TryAgainError, match=r"gave no answer within 2.5 s"):
            CommandClient(2.5, told.append).accounting(past.until - 3000, past.until)
    finally:
        os.kill(pid, signal.SIGCONT)
    # slurmctld itself may wait for slurmdbd, and so be the one that is late
    assert [words.partition(" ")[2] for words in told] == ["does not answer yet; trying for 2.5 s"]
    assert not [p for p in processes.find(past.bed.spec.root) if p.program == "sacct"]
    assert client.accounting(past.began, past.until).records
