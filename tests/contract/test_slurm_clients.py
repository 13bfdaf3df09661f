"""What every SlurmClient promises: one body for the real Slurm and for its recorded answers.

The recorded client is the command client itself over recordings of tests/data/slurm: what the
parsers make of an older or newer release must keep the same promises as what this machine's Slurm
says.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gsched.errors import SlurmCommandError
from gsched.model.job import JobState
from gsched.model.jobid import parse_job_id, parse_tasks
from gsched.slurm.client import CommandClient
from gsched.slurm.records import AccountingFilter, FreeText
from gsched.slurm.run import Completed
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

DATA = Path(__file__).parents[1] / "data" / "slurm"
RECORDED_SEPARATOR = "\x1frecorded-separator\x1e"
RELEASES = ("22.05", "24.11", "22.05/lab", "24.11/lab", "26.05/lab")
LONG_AGO, FAR_AHEAD = 1_600_000_000, 1_600_000_000 + 27 * 86_400
EVIL = "x|\n\x1f1\x1e JobId=1 UserId=root(0)"


class Recording:
    """Runs no command: gives what the release once said, with the separator that is asked for."""

    def __init__(self, release):
        self.folder = DATA / release

    def __call__(self, argv, *, stdin=None, timeout_s):
        if stdin is not None:
            return self._update(tuple(argv), stdin)
        text = (self.folder / self._file(argv)).read_text(encoding="utf-8", errors="replace")
        separators = [re.search(r"\x1f[0-9a-f]{16}\x1e", word) for word in argv]
        for found in filter(None, separators):
            text = text.replace(RECORDED_SEPARATOR, found[0])
        return Completed(tuple(argv), 0, text, "")

    @staticmethod
    def _file(argv):
        if argv[0] == "squeue":
            return "squeue-text.txt" if any("Comment" in word for word in argv) else "squeue.txt"
        if argv[0] == "scontrol":
            what = argv[-1]
            return {"config": "config.txt"}.get(what, f"{what}s.txt")
        return f"{argv[0]}.txt"

    @staticmethod
    def _update(argv, stdin):
        """The words of 22.05, where every job is unknown."""
        ids = re.findall(r"jobid=(\S+)|^requeue (\S+)", stdin, re.MULTILINE)
        lines = [f"Invalid job id specified for job {a or b}\n" for a, b in ids]
        return Completed(argv, 1, "", "".join(lines))


@pytest.fixture(scope="module")
def real():
    """A site with a waiting, a running and an ended job, an array and a het job; accounting too."""
    with Testbed.temporary(num_nodes=2, accounting="slurmdbd") as bed:

        def submit(*options, user="games", script="sleep 600"):
            done = bed.run(["sbatch", "--parsable", *options], user, stdin=f"#!/bin/sh\n{script}\n")
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        ended = submit(f"--job-name={EVIL}", f"--comment={EVIL}", script="exit 3")
        full = submit("--nodes=2", "--gpus-per-node=8")
        states = ["squeue", "-h", "-t", "all", "-o", "%i=%T"]
        wait_for(
            lambda: {f"{ended}=FAILED", f"{full}=RUNNING"} <= set(bed.run(states).stdout.split()),
            "the first jobs to have their states",
        )
        submit("--gpus=2", "--time=5", user="news")
        submit("--hold", "--array=1-5:2%2")
        submit("--hold", "-N1", ":", "-N1", "--gres=gpu:1")
        wait_for(lambda: bed.run(["sprio", "-h"]).stdout, "sprio to list a job")
        known = ["sacct", "-n", "-X", "-a", "-o", "jobid,state", "-j", ended]
        wait_for(lambda: "FAILED" in bed.run(known).stdout, "sacct to know the ended job")
        yield bed


@pytest.fixture(params=["real", *RELEASES])
def client(request, monkeypatch):
    if request.param != "real":
        return CommandClient(runner=Recording(request.param))
    bed = request.getfixturevalue("real")
    for name, value in bed.env().items():
        monkeypatch.setenv(name, value)
    return CommandClient()


def test_the_configuration_names_the_cluster_and_its_release(client):
    config = client.config()
    assert config.cluster
    assert (22, 5) <= config.version[:2] < (30,)
    assert config.has_slurmdbd
    assert config.weights().keys() >= {"age", "fairshare", "jobsize", "partition", "qos"}


@pytest.mark.parametrize("states", ["live", "all"])
def test_rows_are_whole_and_their_ids_are_those_of_users(client, states):
    listing = client.queue(states)
    assert listing.rejects == ()
    assert len(listing.rows) == len({row.raw_id for row in listing.rows}) >= 4
    for row in listing.rows:
        named = parse_job_id(row.slurm_id)
        assert (named.job_id, named.array_task) == (row.job_id, row.array_task)
        assert named.het_offset == row.het_offset
        assert row.user
        assert row.partitions
        assert row.state is not JobState.UNKNOWN
        assert row.submit_time > LONG_AGO
        assert bool(row.array_tasks) == row.is_unsplit_array
        if row.is_unsplit_array:
            assert parse_tasks(row.array_tasks).ranges
            assert row.state is JobState.PENDING
        assert sum(option.count for option in row.gpu_options) == row.num_gpus
        assert 1 <= row.min_nodes <= row.max_nodes
    assert {True, False} == {row.is_unsplit_array for row in listing.rows}
    assert {None, 0, 1} <= {row.het_offset for row in listing.rows}
    assert sum(row.num_gpus for row in listing.rows) > 0


def test_free_text_belongs_to_its_job(client):
    rows = client.queue("all").rows
    texts = client.free_text([row.raw_id for row in rows])
    assert texts.keys() == {row.raw_id for row in rows}
    assert all(isinstance(text, FreeText) and text.name for text in texts.values())
    one = rows[0].raw_id
    assert client.free_text([one])[one] == texts[one]
    assert client.free_text([]) == {}


def test_priorities_are_of_pending_jobs_and_add_up(client):
    pending = {r.raw_id for r in client.queue().rows if r.state is JobState.PENDING}
    shown = client.priorities()
    assert shown
    assert shown.keys() <= pending
    for row in shown.values():
        if not row.is_manual:
            parts = sum(row.components.values()) + row.site_factor - row.nice
            assert row.total == pytest.approx(max(1, parts), abs=len(row.components) + 2)


def test_nodes_and_partitions_fit_together(client):
    nodes = {node.name: node for node in client.nodes()}
    partitions = client.partitions()
    assert [p.is_default for p in partitions].count(True) == 1
    for partition in partitions:
        assert set(partition.nodes) <= nodes.keys()
    for node in nodes.values():
        assert 0 <= node.gpus_used <= node.num_gpus
        assert set(node.partitions) <= {p.name for p in partitions}
        assert node.state != "unknown"
    assert sum(node.num_gpus for node in nodes.values()) > 0


def test_the_outcome_of_an_update_is_told_by_job(client):
    outcomes = client.set_site_factors([("4000000", 1), ("4000001", 2)])
    assert [o.slurm_id for o in outcomes] == ["4000000", "4000001"]
    assert all("Invalid job id" in o.error for o in outcomes)
    assert client.set_site_factors([]) == client.requeue([]) == ()
    (outcome,) = client.requeue(["4000000"])
    assert "Invalid job id" in outcome.error


def test_the_accounting_adds_up_and_overlaps_change_nothing(client):
    now = max(row.submit_time for row in client.queue("all").rows) + 3600
    whole = client.accounting(now - 86_400, now)
    assert whole.rejects == ()
    assert len(whole.records) + whole.rows_skipped == whole.rows_in > 0
    keys = [attempt_key(record) for record in whole.records]
    assert len(keys) == len(set(keys))
    assert [r.submit_time for r in whole.records] == sorted(r.submit_time for r in whole.records)
    chunks = list(client.accounting_chunks(now - 3 * 86_400, now))
    assert int(chunks[-1].cursor) == now
    assert {attempt_key(r) for chunk in chunks for r in chunk.records} >= set(keys)


def attempt_key(record):
    job = (record.cluster, record.job_id, record.array_task, record.het_offset)
    return (*job, record.submit_time)


def test_names_are_looked_for_as_a_whole(client):
    now = max(row.submit_time for row in client.queue("all").rows) + 3600
    name = client.accounting(now - 86_400, now).records[0].name
    found = client.accounting(now - 86_400, now, AccountingFilter(names=(name,)))
    assert {record.name for record in found.records} == {name}
    none = client.accounting(now - 86_400, now, AccountingFilter(names=("no, such name",)))
    assert none.records == ()


def test_an_answer_that_is_no_answer_is_an_error_with_all_its_parts():
    def broken(argv, *, stdin=None, timeout_s):
        return Completed(tuple(argv), 3, "", "squeue: error: something\nelse\n")

    with pytest.raises(SlurmCommandError) as caught:
        CommandClient(runner=broken).queue()
    assert (caught.value.argv[0], caught.value.status) == ("squeue", 3)
    assert caught.value.stderr == "squeue: error: something\nelse\n"
    assert caught.value.message == "squeue failed: squeue: error: something else"
