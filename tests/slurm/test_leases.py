"""Leases on a real Slurm: jobs that save when told, are requeued and start again, though the
process that sees to it is killed at every named point.

Every kill is a real SIGKILL of a process of its own, which runs real rounds with a policy that
leases. All kill points go side by side, each with a job and a copy of the database of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.leasing import GRACE_S, Leasing
from support.site import Site

from gsched.app.daemon_model import NoPredictor
from gsched.app.user_names import user_number
from gsched.config.settings import DaemonSettings
from gsched.daemon.lease_backend import LiveLeases
from gsched.daemon.lease_heartbeats import HeartbeatReports
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.faults import LEASE_POINTS, FaultPoint
from gsched.engine.lease_driver import LeaseDriver
from gsched.engine.round import RoundRunner
from gsched.model.job import JobState, LeaseState
from gsched.slurm.client import CommandClient
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

LENGTH_S = 3600
HEARTBEATS = "GSCHED_HEARTBEAT_DIR"
KILLS = [point for point in LEASE_POINTS if point is not FaultPoint.LEASE_GRANTED]
JOB = """#!/bin/bash
#SBATCH --open-mode=append
trap 'echo saved ${SLURM_RESTART_COUNT:-0}' USR1
while true; do sleep 0.5 & wait $!; done
"""


class Rounds:
    """Rounds on one database; the clock goes `later_s` ahead, so that leases are at their end."""

    def __init__(
        self,
        history: History,
        chosen: int,
        later_s: int,
        point: FaultPoint | None,
        grace_s: int = GRACE_S,
    ):
        def hook(at: FaultPoint) -> None:
            if at is point:
                os.kill(os.getpid(), signal.SIGKILL)

        def clock() -> int:
            return int(time.time()) + later_s

        client, settings, numbers = CommandClient(), DaemonSettings(leases=True), itertools.count()
        config = client.config()
        backend = SlurmBackend(
            client,
            config.cluster,
            scale_for(config, settings),
            settings,
            lambda rows: [row.submit_time for row in rows],
            clock,
            RequestBook(history.request_store()),
        )
        reports = HeartbeatReports(lambda: os.environ.get(HEARTBEATS, ""), user_number)
        port = LiveLeases(client, config, backend.rules, backend.requests, reports)
        self.driver = LeaseDriver(config.cluster, history.leases(), port, clock, hook)
        policy = Leasing()
        policy.chosen, policy.grace_s = chosen, grace_s
        self.runner = RoundRunner(
            backend,
            policy,
            history.journal(),
            NoPredictor(),
            clock,
            lambda: f"{os.getpid()}-{next(numbers)}",
            leases=self.driver,
        )


class Lab:
    """One testbed; jobs by name, each in a folder where it says that it has saved."""

    def __init__(self, bed: Testbed, folder: Path) -> None:
        self.bed = bed
        self.work = bed.spec.root / "work"
        self.work.mkdir()
        self.work.chmod(0o777)
        self.database = folder / "history.db"
        History.create(f"sqlite:///{self.database}")

    def slurm(self, *argv: str, user: str | None = None) -> str:
        done = self.bed.run(argv, user, stdin=JOB if argv[0] == "sbatch" else None)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, name: str, *options: str) -> int:
        out = f"--output={self.work}/{name}"
        asks = "--comment=gs1{ckpt}"
        words = ("sbatch", "--parsable", "--gres=gpu:1", "--mem=100", "-n1", out, asks, *options)
        return int(self.slurm(*words, user="games"))

    def told(self, name: str) -> list[str]:
        """What a job wrote: a line for each time that it was told to save."""
        text = (self.work / name).read_text()
        return [line for line in text.splitlines() if line.startswith("saved")]

    def jobs(self) -> dict[int, tuple[str, int]]:
        """State and restart count by job id."""
        lines = self.slurm("squeue", "-h", "-a", "-t", "all", "-O", "JobID:|,State:|,RestartCnt:|")
        cells = (line.split("|") for line in lines.splitlines())
        return {int(job): (state, int(restarts)) for job, state, restarts, *_ in cells}

    def run(
        self,
        database: Path,
        job: int,
        later_s: int,
        point: FaultPoint | None = None,
        grace_s: int = GRACE_S,
    ) -> int:
        """Rounds in a process of their own, until the job's lease is over; its pid."""

        def work(history: History) -> None:
            leases, rounds = history.leases(), Rounds(history, job, later_s, point, grace_s)

            def is_over() -> bool:
                rounds.runner.run(acting=True)
                return leases.events(f"g{job}")[-1].after.is_over

            wait_for(is_over, f"the lease of {job} to be over", timeout_s=90, poll_s=0.2)

        return forked(database, work)


def forked(database: Path, work: Callable[[History], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with History.open(f"sqlite:///{database}") as history:
            work(history)
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def ended(pid: int) -> int:
    """Exit code of a child, negative: the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("leases")
    with (
        Testbed.temporary(num_nodes=1, gpus_per_node=16, cred_expire_s=5) as bed,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name, value in bed.env().items():
            patched.setenv(name, value)
        yield Lab(bed, folder)


def test_a_lease_ends_alike_wherever_its_process_is_killed(lab: Lab) -> None:
    jobs = {point: lab.submit(point.value) for point in KILLS}
    undone = lab.submit("undone")
    barred = {
        "no-requeue": lab.submit("no-requeue", "--no-requeue"),
        "no-checkpoint": lab.submit("no-checkpoint", "--comment=mine gs1{share}"),
        "opted-out": lab.submit("opted-out", "--comment=mine gs1{none,ckpt}"),
        "changed-later": lab.submit("changed-later"),
    }
    number = len(jobs) + 1 + len(barred)
    wait_for(lambda: [s for s, _ in lab.jobs().values()] == ["RUNNING"] * number, "all to run")

    # granted, by a process that is killed after the first grant, and then by another
    first = lab.run(lab.database, jobs[KILLS[0]], 0, FaultPoint.LEASE_GRANTED)
    assert ended(first) == -signal.SIGKILL

    def grant(history: History) -> None:
        Rounds(history, 0, 0, None).runner.run(acting=True)
        Rounds(history, 0, 0, None).runner.run(acting=True)

    assert ended(forked(lab.database, grant)) == 0
    with History.open(f"sqlite:///{lab.database}") as history:
        leased = sorted(g.key.job_id for g in history.leases().standing("testbed"))
    assert leased == sorted([*jobs.values(), undone, barred["changed-later"]])
    lab.slurm("scontrol", "update", f"jobid={barred['changed-later']}", "requeue=0", user="games")

    copies = {job: lab.database.with_name(f"{job}.db") for job in [*leased, *barred.values()]}
    for copy in copies.values():
        shutil.copy(lab.database, copy)
    killed = {p: lab.run(copies[job], job, LENGTH_S, p) for p, job in jobs.items()}
    back = forked(copies[undone], lambda history: take_back(history, undone))
    left = [forked(copies[j], lambda h, j=j: revoke_in_vain(h, j)) for j in barred.values()]
    again = {}
    for point in KILLS:
        assert ended(killed[point]) == -signal.SIGKILL, point
        again[point] = lab.run(copies[jobs[point]], jobs[point], LENGTH_S)
    assert [ended(pid) for pid in [*again.values(), back, *left]] == [0] * (len(jobs) + 5)

    present = lab.jobs()
    for point, job in jobs.items():
        assert present[job] == ("RUNNING", 1), point  # requeued once, and runs again
        assert way(copies[job], job) == [
            "granted", "ending", "signalled", "saved", "requeued", "regranted",
        ]  # fmt: skip
        # a signal leaves no trace in Slurm: sent but not written down, it is sent again
        times = 2 if point is FaultPoint.LEASE_SIGNAL_SENT else 1
        assert lab.told(point.value) == ["saved 0"] * times
    assert present[undone] == ("RUNNING", 0)
    assert way(copies[undone], undone) == ["granted", "ending", "signalled", "kept"]
    assert lab.told("undone") == ["saved 0"]
    for name, job in barred.items():
        assert present[job] == ("RUNNING", 0), name
        assert lab.told(name) == [], name


def test_a_job_that_tells_of_its_checkpoints_gives_way_when_it_has_saved(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that has not saved in time, or is not heard any more, keeps its GPUs; one that is
    saving is not told before.
    """
    heartbeats = lab.work / "heartbeats"
    heartbeats.mkdir()
    heartbeats.chmod(0o1777)
    monkeypatch.setenv(HEARTBEATS, str(heartbeats))
    folders = {kind: lab.work / f"telling-{kind}" for kind in ("saves", "never", "busy", "silent")}
    jobs = {}
    for kind, folder in folders.items():
        folder.mkdir()
        folder.chmod(0o777)
        script = f"#!/bin/bash\nexec {sys.executable} -m support.telling_job {kind} {folder}\n"
        words = ("sbatch", "--parsable", "--gres=gpu:1", "--mem=100", "-n1", "-o", f"{folder}/out")
        env = {"PYTHONPATH": str(Path(__file__).parents[1]), HEARTBEATS: str(heartbeats)}
        # as oneself: other users need not be able to read these files
        made = lab.bed.run([*words, "--comment=gs1{ckpt}"], stdin=script, extra_env=env)
        assert made.returncode == 0, made.stderr
        jobs[kind] = int(made.stdout)

    def tells(kind: str) -> bool:
        with HeartbeatFolder(heartbeats) as folder:
            record = folder.record(os.getuid(), str(jobs[kind]))
        if record is None:
            return False
        return record.committed_step is not None if kind == "silent" else record.step > 10

    for kind in jobs:
        wait_for(lambda k=kind: tells(k), f"the heartbeat of {kind}", timeout_s=60)
    database = tmp_path / "telling.db"
    History.create(f"sqlite:///{database}")

    def grant(history: History) -> None:
        for _ in range(2):
            Rounds(history, 0, 0, None).runner.run(acting=True)

    assert ended(forked(database, grant)) == 0
    copies = {kind: database.with_name(f"{kind}.db") for kind in jobs}
    for copy in copies.values():
        shutil.copy(database, copy)
    under_way = {
        "saves": lab.run(copies["saves"], jobs["saves"], LENGTH_S, grace_s=60),
        "never": lab.run(copies["never"], jobs["never"], LENGTH_S, grace_s=3),
        "busy": lab.run(copies["busy"], jobs["busy"], LENGTH_S, grace_s=60),
        "silent": lab.run(copies["silent"], jobs["silent"], LENGTH_S, grace_s=3),
    }
    assert [ended(under_way[kind]) for kind in ("never", "silent")] == [0, 0]
    assert way(copies["busy"], jobs["busy"]) == ["granted", "ending"]
    assert not (folders["busy"] / "told").exists()
    (folders["busy"] / "free").touch()
    assert [ended(under_way[kind]) for kind in ("saves", "busy")] == [0, 0]

    whole = ["granted", "ending", "signalled", "saved", "requeued", "regranted"]
    for kind in ("saves", "busy"):
        assert way(copies[kind], jobs[kind]) == whole, kind
        assert why(copies[kind], jobs[kind], LeaseState.SAVED) == "the job says so"
        assert (folders[kind] / "told").read_text().split() == ["0"], kind
        assert lab.jobs()[jobs[kind]] == ("RUNNING", 1), kind
    assert way(copies["never"], jobs["never"]) == ["granted", "ending", "signalled", "kept"]
    assert re.fullmatch(
        r"has not saved within 3 s: step 0 of the \d+ that were done is saved",
        why(copies["never"], jobs["never"], LeaseState.KEPT),
    )
    assert lab.jobs()[jobs["never"]] == ("RUNNING", 0)
    # what it said before it was told does not say that it has saved since
    assert way(copies["silent"], jobs["silent"]) == ["granted", "ending", "signalled", "kept"]
    said = why(copies["silent"], jobs["silent"], LeaseState.KEPT)
    assert said == "has not saved within 3 s: its heartbeat says nothing new"
    assert lab.jobs()[jobs["silent"]] == ("RUNNING", 0)
    lab.slurm("scancel", *map(str, jobs.values()))  # the GPUs are few


def test_a_script_that_does_not_trap_the_signal_is_told_of(lab: Lab, tmp_path: Path) -> None:
    script = "#!/bin/bash\nwhile true; do sleep 0.5; done\n"
    words = ("sbatch", "--parsable", "--gres=gpu:1", "--mem=100", "-n1", "-o", f"{lab.work}/plain")
    made = lab.bed.run([*words, "--comment=gs1{ckpt}"], "games", stdin=script)
    assert made.returncode == 0, made.stderr
    job, database = int(made.stdout), tmp_path / "plain.db"
    wait_for(lambda: lab.jobs()[job][0] == "RUNNING", "the job to run")
    History.create(f"sqlite:///{database}")
    granted = forked(database, lambda history: Rounds(history, 0, 0, None).runner.run(acting=True))
    assert ended(granted) == 0
    assert ended(lab.run(database, job, LENGTH_S, grace_s=60)) == 0
    assert way(database, job) == ["granted", "ending", "signalled", "ended"]
    said = "failed after it was told to save: a script that does not trap USR1 dies of it"
    assert why(database, job, LeaseState.ENDED) == said


def why(database: Path, job: int, state: LeaseState) -> str:
    """The detail with which the job's lease came to a state."""
    with History.open(f"sqlite:///{database}") as history:
        return next(e.detail for e in history.leases().events(f"g{job}") if e.after is state)


def take_back(history: History, job: int) -> None:
    """Revoke the job's lease; take that back when it has been told."""
    rounds = Rounds(history, job, LENGTH_S, None)

    def is_told() -> bool:  # a round in which Slurm does not answer in time tells nobody
        rounds.runner.run(acting=True)
        return history.leases().events(f"g{job}")[-1].after is LeaseState.SIGNALLED

    wait_for(is_told, "the job to be told")
    assert rounds.driver.take_back("a test") == (f"g{job}",)


def revoke_in_vain(history: History, job: int) -> None:
    """Rounds of a policy that wants this job's GPUs."""
    rounds = Rounds(history, job, LENGTH_S, None)
    for _ in range(3):
        rounds.runner.run(acting=True)


def way(database: Path, job: int) -> list[str]:
    with History.open(f"sqlite:///{database}") as history:
        return [event.after.value for event in history.leases().events(f"g{job}")]


def test_a_requeue_that_is_sent_twice_is_refused(lab: Lab) -> None:
    job = lab.submit("twice")
    wait_for(lambda: lab.jobs()[job][0] == "RUNNING", "the job to run")
    client = CommandClient()
    first, second = (client.requeue([str(job)])[0].error for _ in range(2))
    assert (first, second) == ("", "Job is pending execution")
    assert lab.jobs()[job][1] == 1
    assert client.requeue([str(job)], unfinished_only=True)[0].error == ""
    assert lab.jobs()[job][1] == 1


def test_work_that_is_done_is_not_begun_anew(lab: Lab) -> None:
    """Slurm requeues a job that has ended, too: it may end between the look and the requeue."""
    client = CommandClient()
    job = lab.submit("done")
    wait_for(lambda: lab.jobs()[job][0] == "RUNNING", "the job to run")
    lab.slurm("scancel", str(job))
    wait_for(lambda: lab.jobs()[job][0] == "CANCELLED", "the job to end")
    client.requeue([str(job)], unfinished_only=True)
    assert lab.jobs()[job] == ("CANCELLED", 0)
    assert client.requeue([str(job)])[0].error == ""
    wait_for(lambda: lab.jobs()[job][1] == 1, "Slurm to begin it anew")


def test_an_unfinished_task_of_an_array_is_requeued_alone(lab: Lab) -> None:
    array = lab.submit("tasks", "--array=1-2")
    wait_for(lambda: states(lab, array) == {"1": "RUNNING", "2": "RUNNING"}, "both to run")
    assert CommandClient().requeue([f"{array}_2"], unfinished_only=True)[0].error == ""
    wait_for(lambda: states(lab, array)["2"] != "RUNNING", "the second to wait")
    assert states(lab, array)["1"] == "RUNNING"


def states(lab: Lab, array: int) -> dict[str, str]:
    """By task."""
    lines = lab.slurm("squeue", "-h", "-r", "-j", str(array), "-o", "%K %T").splitlines()
    return dict(line.split() for line in lines)


def test_what_slurm_says_to_signals(lab: Lab) -> None:
    client = CommandClient()
    assert "Invalid job id" in client.signal("99999", "USR1").error
    assert client.jobs(["99999"]) == ()
    job = lab.submit("short")
    wait_for(lambda: lab.jobs()[job][0] == "RUNNING", "the job to run")
    lab.slurm("scancel", str(job))
    wait_for(lambda: lab.jobs()[job][0] == "CANCELLED", "the job to end")
    (row,) = client.jobs([str(job)])
    assert (row.raw_id, row.state) == (job, JobState.CANCELLED)


def test_the_daemon_leases_where_the_site_allows_it_and_users_have_asked(
    lab: Lab, tmp_path: Path
) -> None:
    """By the real daemon: whoever has not asked has no lease, and keeps its GPUs."""
    site = Site(lab.bed)
    plugin = tmp_path / "leasing-1.0.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: leasing\nVersion: 1.0\n")
    (plugin / "entry_points.txt").write_text("[gsched.policies]\nleasing=support.leasing:Leasing\n")
    path = f"{tmp_path}:{Path(__file__).parents[1]}"
    env = {"PYTHONPATH": path, "GSCHED_DAEMON_POLICY": "leasing"}
    refused = site.gsched("daemon", "once", "--act", env=env)
    assert refused.returncode == 78
    assert "policy leasing needs preempt" in refused.stderr
    job, other = lab.submit("daemon"), lab.submit("daemon-other", "--comment=gs1{share}")
    wait_for(lambda: {lab.jobs()[i][0] for i in (job, other)} == {"RUNNING"}, "the jobs to run")
    env |= {"GSCHED_DAEMON_LEASES": "true"}
    done = site.gsched("daemon", "once", "--act", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["problems"] > 0  # a grant for one who has not asked
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        leased = {grant.key.job_id for grant in history.leases().standing("testbed")}
    assert job in leased
    assert other not in leased
    told = json.loads(site.ok("show", str(job), "--json"))["gsched"]["lease"]
    assert (told["state"], told["end_time"] - told["since"]) == ("granted", LENGTH_S)
    assert json.loads(site.ok("show", str(other), "--json"))["gsched"] is None
