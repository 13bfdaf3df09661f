"""The command client against a real Slurm."""

from __future__ import annotations

import os
import pwd
import time

import pytest

from gsched.errors import UnavailableError, UsageError
from gsched.model.job import Capability, JobState
from gsched.slurm import wire
from gsched.slurm.actions import MAX_SITE_FACTOR
from gsched.slurm.client import CommandClient
from gsched.slurm.exclusions import Rules, exclusions
from gsched.slurm.jobcomp import read_filetxt
from gsched.slurm.records import FreeText
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

OWN_USER = pwd.getpwuid(os.getuid()).pw_name
EVIL = "evil\nJobId=1 UserId=root(0) Name=x|\x1f\x1e,:é JobState=FAILED 'q\" $(id)"


@pytest.fixture
def client(bed, monkeypatch):
    """A client in the environment of the shared testbed, with a user's own defaults around it."""
    return client_of(bed, monkeypatch)


def client_of(bed, monkeypatch):
    for name, value in bed.env().items():
        monkeypatch.setenv(name, value)
    for name, value in {
        "SQUEUE_FORMAT": "%i", "SQUEUE_FORMAT2": "jobid", "SQUEUE_STATES": "RUNNING",
        "SQUEUE_USERS": "nobody", "SLURM_TIME_FORMAT": "relative", "SPRIO_FORMAT": "%i",
        "SLURM_CLUSTERS": "elsewhere", "SACCT_FORMAT": "jobid", "TZ": "Asia/Tokyo",
        "LC_ALL": "C", "SLURM_BITSTR_LEN": "5",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return CommandClient(timeout_s=60)


def submit(bed, *options, user=None, script="sleep 600"):
    done = bed.run(["sbatch", "--parsable", *options], user, stdin=f"#!/bin/sh\n{script}\n")
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split(";")[0])


def rows(client, states="live"):
    listing = client.queue(states)
    assert listing.rejects == ()
    return {row.slurm_id: row for row in listing.rows}


def held(bed, *options, **kwargs):
    return submit(bed, "--hold", *options, **kwargs)


def prioritised(client, *job_ids):
    """The priorities, once sprio lists these jobs."""
    return wait_for(
        lambda: shown if set(job_ids) <= (shown := client.priorities()).keys() else None,
        f"sprio to list {job_ids}",
        timeout_s=90,
    )


@pytest.fixture
def full(bed, client):
    """The job that holds all GPUs, so that GPU jobs wait."""
    job = submit(bed, "--nodes=4", "--gpus-per-node=8", "--job-name=full")
    wait_for(lambda: rows(client)[str(job)].state is JobState.RUNNING, "the large job to run")
    return job


def test_configuration_and_cluster(client, bed):
    config = client.config()
    assert config.cluster == bed.spec.cluster
    assert config.version[0] >= 22
    assert config.weights()["partition"] == bed.spec.priority_weights["partition"]
    assert [partition.is_default for partition in client.partitions()].count(True) == 1
    assert client.reservations() == ()
    assert client.cron_job_ids() == frozenset()
    assert client.privilege(OWN_USER) in {"root", "slurm-user"}
    assert client.privilege("games") == "user"


def test_nodes_and_their_gpus(client, bed, full):
    nodes = client.nodes()
    assert len(nodes) == bed.spec.num_nodes
    for node in nodes:
        assert node.gpus == ((bed.spec.gpu_type, bed.spec.gpus_per_node),)
        assert (node.gpus_used, node.is_usable) == (8, True)
        assert node.num_cpus == bed.spec.cpus_per_node
    named = f"nodename={nodes[0].name}"
    bed.run(["scontrol", "update", named, "state=drain", "reason=x State=IDLE"])
    try:
        drained = client.nodes()[0]
        assert (drained.is_usable, "drain" in drained.flags) == (False, True)
    finally:
        bed.run(["scontrol", "update", named, "state=resume"])


def test_a_running_and_a_pending_job(client, bed, full):
    waiting = submit(bed, "--gpus=3", "--time=1-02:00", "--nice=7", user="games")
    seen = rows(client)
    running = seen[str(full)]
    assert (running.num_gpus, running.min_nodes, running.is_batch) == (32, 4, True)
    assert abs(running.start_time - time.time()) < 600  # epoch, whatever TZ says
    row = seen[str(waiting)]
    assert (row.state, row.user, row.num_gpus, row.nice) == (JobState.PENDING, "games", 3, 7)
    assert row.time_limit_s == 93600
    assert row.raw_id == waiting


def test_gpus_in_the_spellings_of_sbatch(client, bed):
    kind = bed.spec.gpu_type
    wanted = {
        held(bed, f"--gres=gpu:{kind}:3"): 3,
        held(bed, "--nodes=2", "--gpus=5"): 5,
        held(bed, "--nodes=2", "--gpus=16", "--gpus-per-node=8"): 16,
        held(bed, "--nodes=2", f"--gpus-per-node={kind}:4"): 8,
        held(bed, "--ntasks=3", "--gpus-per-task=2"): 6,
        held(bed, "--nodes=2", "--sockets-per-node=2", "--gpus-per-socket=2"): 8,
        held(bed, "--gres=gpu"): 1,
        held(bed): 0,
    }
    seen = rows(client)
    assert {job: seen[str(job)].num_gpus for job in wanted} == wanted


def test_hostile_names_shift_no_column(client, bed):
    accounts = ["--account=x|y z"] if bed.spec.accounting != "slurmdbd" else []
    evil = held(bed, f"--job-name={EVIL}", f"--comment={EVIL} gs1{{none}}", *accounts)
    long = held(bed, f"--job-name={'n' * 1024}", f"--comment={'c' * 1024}")
    plain = held(bed, "--job-name=plain")
    texts = client.free_text([evil, long, plain, 99999])
    assert texts == {
        evil: FreeText(EVIL, f"{EVIL} gs1{{none}}"),
        long: FreeText("n" * 1024, "c" * 1024),
        plain: FreeText("plain", ""),
    }
    assert wire.read(texts[evil].comment).wants.opt_out
    seen = rows(client)
    assert [seen[str(job)].user for job in (evil, long, plain)] == [OWN_USER] * 3
    assert not accounts or seen[str(evil)].tenant == "x|y z"


def test_free_text_of_jobs_that_slurm_does_not_know(client, bed):
    assert client.free_text([]) == {}
    assert client.free_text([99999]) == {}
    assert client.free_text([99998, 99999]) == {}


def test_free_text_of_more_jobs_than_one_call_names(client, bed):
    job = held(bed, "--job-name=one")
    assert client.free_text([job, *range(100_000, 102_000)]) == {job: FreeText("one", "")}


def test_slurm_keeps_a_comment_of_the_length_that_the_token_may_fill(client, bed):
    comment = wire.append("x" * 1014, wire.Wants(opt_out=True))
    assert len(comment) == wire.MAX_COMMENT_BYTES
    job = held(bed, f"--comment={comment}")
    assert client.free_text([job])[job].comment == comment
    too_long = bed.run(["sbatch", "--hold", f"--comment={comment}x"], stdin="#!/bin/sh\n")
    assert too_long.returncode != 0


def test_arrays_and_heterogeneous_jobs(client, bed):
    array = held(bed, "--array=1-4%2,9")
    het = held(bed, "--nodes=1", ":", "--nodes=1", "--gres=gpu:2")
    seen = rows(client)
    row = seen[str(array)]
    assert (row.is_unsplit_array, row.array_tasks) == (True, "1-4,9%2")
    assert (seen[f"{het}+0"].num_gpus, seen[f"{het}+1"].num_gpus) == (0, 2)
    assert seen[f"{het}+1"].raw_id == het + 1
    bed.run(["scontrol", "release", str(array)])
    tasks = wait_for(
        lambda: [r for r in rows(client).values() if r.state is JobState.RUNNING], "tasks to run"
    )
    assert {r.slurm_id for r in tasks} <= {f"{array}_1", f"{array}_2"}


def test_live_and_all(client, bed):
    ended = submit(bed, "--job-name=ended", script="exit 3")
    wait_for(lambda: str(ended) not in rows(client), "the job to end")
    row = rows(client, "all")[str(ended)]
    assert row.state is JobState.FAILED
    assert row.end_time >= row.start_time


def test_a_job_requeued_and_held_is_live(client, bed):
    job = submit(bed)
    wait_for(lambda: rows(client)[str(job)].state is JobState.RUNNING, "the job to run")
    before = rows(client)[str(job)]
    bed.run(["scontrol", "requeuehold", str(job)])
    row = wait_for(
        lambda: r if (r := rows(client)[str(job)]).state is JobState.PENDING else None,
        "the job to wait again",
    )
    assert (row.priority, row.restarts) == (0, 1)
    assert row.submit_time >= before.submit_time


def test_site_factors_are_set_in_one_call_and_errors_are_told_by_job(client, bed, full):
    jobs = [submit(bed, "--gpus=8") for _ in range(3)]
    prioritised(client, *jobs)
    outcomes = client.set_site_factors(
        [(str(jobs[0]), 500), ("99999", 1), (str(jobs[1]), -250), ("99998_4", 1), ("99997+1", 1)]
    )
    assert [(o.slurm_id, bool(o.error)) for o in outcomes] == [
        (str(jobs[0]), False), ("99999", True), (str(jobs[1]), False), ("99998_4", True),
        ("99997+1", True),
    ]  # fmt: skip
    assert "Invalid job id" in outcomes[1].error
    shown = client.priorities()
    assert [shown[job].site_factor for job in jobs] == [500, -250, 0]
    assert shown[jobs[0]].total - shown[jobs[1]].total == pytest.approx(750, abs=20)
    assert not any(shown[job].is_manual for job in jobs)


def test_the_range_of_site_factors(client, bed, full):
    job = submit(bed, "--gpus=8")
    prioritised(client, job)
    for value in (MAX_SITE_FACTOR, -MAX_SITE_FACTOR, 0):
        assert client.set_site_factors([(str(job), value)])[0].error == ""
        assert client.priorities()[job].site_factor == value


@pytest.mark.parametrize(
    ("slurm_id", "value"),
    [
        ("1 priority=0", 1), ("1\nshutdown", 1), ("", 1), ("1_[1-3]", 1), ("1,2", 1), ("ALL", 1),
        ("7", MAX_SITE_FACTOR + 1), ("7", -MAX_SITE_FACTOR - 1),
    ],
)  # fmt: skip
def test_nothing_but_ids_and_numbers_reaches_scontrol(client, bed, slurm_id, value):
    with pytest.raises(UsageError):
        client.set_site_factors([(slurm_id, value)])
    assert client.config().cluster == bed.spec.cluster  # still up


def test_no_values_need_no_command(client):
    assert client.set_site_factors([]) == ()


def test_a_user_may_not_set_site_factors(client, bed, full):
    job = submit(bed, "--gpus=8", user="games")
    prioritised(client, job)
    denied = bed.run(["scontrol", "update", f"jobid={job}", "sitefactor=5"], "games")
    assert "denied" in denied.stderr
    assert client.priorities()[job].site_factor == 0


def test_priorities_that_an_admin_has_set(client, bed, full):
    job, other = submit(bed, "--gpus=8"), submit(bed, "--gpus=8")
    prioritised(client, job, other)
    bed.run(["scontrol", "update", f"jobid={job}", "priority=4242"])
    shown = client.priorities()
    assert (shown[job].is_manual, shown[job].total) == (True, 4242)
    assert not shown[other].is_manual
    assert held(bed) not in client.priorities()


def test_exclusions_on_the_real_thing(client, bed, full):
    free = submit(bed, "--gpus=8")
    plain = held(bed)
    array = held(bed, "--array=1-3")
    no_requeue = submit(bed, "--gpus=8", "--no-requeue")
    shown, seen = prioritised(client, free, no_requeue), rows(client)

    def codes(job, capability):
        row = seen[str(job)]
        found = exclusions(row, shown.get(row.raw_id), Rules(), opted_out=False, is_cron=False,
                           is_foreign=False)  # fmt: skip
        return {e.code for e in found if e.capability is capability}

    assert codes(free, Capability.REORDER) == codes(free, Capability.PREEMPT) == set()
    assert codes(plain, Capability.REORDER) == {"held"}
    assert codes(array, Capability.REORDER) == {"unsplit-array", "held"}
    assert codes(no_requeue, Capability.REORDER) == set()
    assert codes(no_requeue, Capability.PREEMPT) == {"no-requeue"}


def test_reservations(client, bed):
    made = bed.run(
        ["scontrol", "create", "reservation", "ReservationName=course", "starttime=now+1hour",
         "duration=60", "users=root,games", f"nodes={client.nodes()[0].name}"]
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    try:
        reservation = client.reservations()[0]
        assert (reservation.name, reservation.users) == ("course", ("root", "games"))
        assert reservation.end_time - reservation.start_time == 3600
        job = held(bed, "--reservation=course")
        assert rows(client)[str(job)].reservation == "course"
        bed.cancel_jobs()
    finally:
        bed.run(["scontrol", "delete", "reservationname=course"])


def test_the_file_of_finished_jobs(client, bed):
    config = client.config()
    path = bed.layout.jobcomp_file
    cursor = read_filetxt(path, config.cluster).cursor if path.exists() else ""
    job = submit(bed, "--gpus=2", f"--job-name={EVIL}", script="exit 3")
    plain = submit(bed, "--job-name=two\nlines", "--time=5", script="exit 0")
    wait_for(lambda: {str(job), str(plain)}.isdisjoint(rows(client)), "the jobs to end")
    batch = wait_for(
        lambda: b if (b := read_filetxt(path, config.cluster, cursor)).rows_in == 2 else None,
        "two records in the file",
    )
    (record,) = batch.records
    assert (record.job_id, record.name, record.time_limit_s) == (plain, "two\nlines", 300)
    assert record.state is JobState.COMPLETED
    (reject,) = batch.rejects
    assert reject.raw.startswith(f"JobId={job} ")


def test_a_cluster_without_slurmdbd_has_no_accounting(client, bed):
    now = int(time.time())
    with pytest.raises(UnavailableError, match="no slurmdbd"):
        client.accounting(now - 3600, now)
    with pytest.raises(UnavailableError, match="no slurmdbd"):
        list(client.accounting_chunks(now - 3600, now))
