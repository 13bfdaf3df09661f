"""Jobs of every kind that gsched leaves alone, really submitted, under a daemon that acts.

All but scrontab's: Debian's packages of Slurm have no scrontab(1).
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.requests import MemoryRequests
from support.site import GSCHED, Site, fresh_site

from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.model.job import Capability
from gsched.model.target_records import TargetState
from gsched.slurm.client import CommandClient
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

BIG = ("--gres=gpu:8", "-o", "/dev/null")


class Zoo:
    """A full site with one waiting job of each kind; `kinds` maps the code to the job's id."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.kinds: dict[str, str] = {}

    def sbatch(self, *words: str, user: str = "games") -> str:
        argv = ("sbatch", "--parsable", "-J", "d5", *BIG, *words, "--wrap", "true")
        return self.site.slurm(*argv, user=user).strip()

    def admit(self, people: contextlib.ExitStack) -> None:
        """Submit them all."""
        site = self.site
        course = "reservationname=course users=games starttime=now+1hour duration=60 nodecnt=1"
        site.slurm("scontrol", "create", "reservation", *course.split(), "flags=ignore_jobs")
        submit = [GSCHED, "submit", "--parsable", "--gs-none", "-J", "d5", *BIG, "--wrap", "true"]
        self.kinds = {
            "opted-out": site.bed.run(submit, "games").stdout.strip(),
            "excluded-user": self.sbatch(user="news"),
            "excluded-account": self.sbatch("-A", "lab9"),
            "reservation": self.sbatch("--reservation=course"),
            "unsplit-array": self.sbatch("--array=1-3"),
            "held": self.sbatch("--hold"),
            "manual-priority": self.sbatch(),
            "foreign-site-factor": self.sbatch(),
            "het-component": self.sbatch(":", "-n1"),
        }
        site.slurm("scontrol", "update", f"jobid={self.kinds['manual-priority']}", "priority=77")
        foreign = self.kinds["foreign-site-factor"]
        site.slurm("scontrol", "update", f"jobid={foreign}", "sitefactor=33")
        log = site.bed.spec.root / "terminal.log"
        people.enter_context(Background(site.bed, ["salloc", "-J", "d5", *BIG[:1], "true"], log))
        self.kinds["interactive"] = wait_for(self._last, "salloc to wait")

    def _last(self) -> str:
        """The job that was submitted last, once it is none of those known."""
        words = self.site.slurm("squeue", "-h", "-o", "%A").split()
        last = max(words, key=int)
        known = int(self.kinds["het-component"]) + 1
        return last if int(last) > known else ""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=1) as made:
        made.configure(
            "daemon",
            exclude_users='["news"]',
            exclude_accounts='["lab9"]',
        )
        made.know_durations({"d5": 5, "d900": 900})
        made.arm.fill()
        yield made


@pytest.fixture
def zoo(site: Site) -> Iterator[Zoo]:
    with contextlib.ExitStack() as people:
        made = Zoo(site)
        made.admit(people)
        yield made
        site.slurm("scancel", *{job.partition("_")[0] for job in made.kinds.values()})
        delete = ["scontrol", "delete", "reservationname=course"]  # refused while a job is in it
        wait_for(lambda: site.bed.run(delete).returncode == 0, "the reservation to go", poll_s=0.3)


def priorities(site: Site, job: str) -> str:
    """All that the order of a job depends on, as Slurm itself has it."""
    shown = site.slurm("scontrol", "-o", "show", "job", job)
    return " ".join(w for w in shown.split() if w.startswith(("Priority=", "Nice=", "SiteFactor=")))


def test_whatever_the_policy_none_of_them_is_written_to(site: Site, zoo: Zoo) -> None:
    movable = [site.submit("d900"), site.submit("d5"), site.submit("d900")]
    before = {kind: priorities(site, job) for kind, job in zoo.kinds.items()}
    seen: dict[str, dict[str, Any]] = {}
    for policy in ("fewest-gpus", "fifo", "qssf"):
        answer = site.bed.run(
            [GSCHED, "daemon", "once", "--act"], extra_env={"GSCHED_DAEMON_POLICY": policy}
        )
        assert answer.returncode == 0, answer.stderr
    for job in site.json("daemon", "once")["jobs"]:
        seen.setdefault(str(job["job"]), job)
    told = {
        kind: next(
            (entry["excluded"] or {}).get("code")
            for name, entry in seen.items()
            if name.partition("+")[0] == job
        )
        for kind, job in zoo.kinds.items()
    }
    assert told == {kind: kind for kind in zoo.kinds}
    written = {row["job"] for row in site.json("daemon", "audit", "-n", "500") if row["after"]}
    assert {str(i) for i in movable} <= written
    assert written & {j.partition("+")[0] for j in zoo.kinds.values()} == set()
    assert {kind: priorities(site, job) for kind, job in zoo.kinds.items()} == before
    factors = site.factors()
    own = {int(job) for kind, job in zoo.kinds.items() if kind != "foreign-site-factor"}
    assert {factors[i] for i in own & factors.keys()} <= {0}
    assert factors[int(zoo.kinds["foreign-site-factor"])] == 33
    site.slurm("scancel", *map(str, movable))


def test_who_opts_out_later_is_left_alone_and_gets_the_old_value_back(site: Site) -> None:
    first, second, third = (site.submit(name) for name in ("d900", "d5", "d900"))

    def comment(text: str) -> None:
        site.slurm("scontrol", "update", f"jobid={second}", f"comment={text}", user="games")

    with site.daemon("--act"):
        wait_for(lambda: site.factors()[second] > 0, "the short job to be moved up")
        comment("gs1{none}")
        wait_for(lambda: site.factors()[second] == 0, "the old value to come back")
        comment("wiped")
        before = site.json("daemon", "status")["last_round_as_of"]
        wait_for(
            lambda: site.json("daemon", "status")["last_round_as_of"] > before + 3, "more rounds"
        )
        assert site.factors()[second] == 0  # the captured request stands
        comment("gs1{}")
        wait_for(lambda: site.factors()[second] > 0, "it to be moved again")
    site.slurm("scancel", *map(str, (first, second, third)))


def test_tasks_that_slurm_split_off_are_moved_and_the_rest_of_the_array_is_not(site: Site) -> None:
    words = ("sbatch", "--parsable", "-J", "d5", *BIG, "--array=1-6", "--wrap", "true")
    array = site.slurm(*words, user="games").strip()
    for task in (2, 4, 5):  # an edit of its own gives a task its own record
        site.slurm("scontrol", "update", f"jobid={array}_{task}", "nice=3", user="games")
    site.slurm("scontrol", "update", f"jobid={array}_4", "comment=gs1{none}", user="games")
    others = [str(site.submit("d900")) for _ in range(3)]
    rows = {job["job"]: job for job in site.json("daemon", "once", "--act")["jobs"]}
    moved = {name for name, job in rows.items() if job["change_state"] == "confirmed"}
    assert moved == {f"{array}_2", f"{array}_5"}  # the others are the median
    assert rows[array]["excluded"]["code"] == "unsplit-array"
    assert rows[f"{array}_4"]["excluded"]["code"] == "opted-out"
    cleared = set(site.json("daemon", "clear")["jobs"]["cleared"])
    site.ok("daemon", "clear", "--lift-halt")
    assert moved <= cleared
    assert set(site.factors().values()) == {0}
    site.slurm("scancel", array, *others)


def rpcs(site: Site) -> dict[str, int]:
    """How often slurmctld was asked since the last `sdiag --reset`, by type."""
    text = site.slurm("sdiag").partition("statistics by user")[0]
    return {n: int(c) for n, c in re.findall(r"^\t(REQUEST_\S+)\s.*count:(\d+)", text, re.M)}


def test_values_stand_and_another_hands_is_left_alone_from_then_on(site: Site) -> None:
    site.know_durations({"d60": 60})
    jobs = [site.submit(name) for name in ("d5", "d60", "d900")]
    site.ok("daemon", "once", "--act")
    ours = {job: value for job, value in site.factors().items() if job in jobs}
    assert ours[jobs[0]] > 0 > ours[jobs[2]]
    site.bed.restart_slurmctld()
    wait_for(lambda: site.factors().items() >= ours.items(), "slurmctld to know its jobs again")
    site.slurm("sdiag", "--reset")
    site.ok("daemon", "once", "--act")  # nothing to do, and nothing asked twice
    asked = rpcs(site)
    assert asked["REQUEST_JOB_INFO"] == asked["REQUEST_PRIORITY_FACTORS"] == 1
    assert "REQUEST_UPDATE_JOB" not in asked
    site.slurm("scontrol", "update", f"jobid={jobs[0]}", "sitefactor=55")
    for policy in ("fifo", "qssf"):
        answer = site.bed.run(
            [GSCHED, "daemon", "once", "--act"], extra_env={"GSCHED_DAEMON_POLICY": policy}
        )
        assert answer.returncode == 0, answer.stderr
    assert site.factors()[jobs[0]] == 55
    (told,) = [j for j in site.json("daemon", "once")["jobs"] if str(j["job"]) == str(jobs[0])]
    assert told["excluded"]["code"] == "foreign-site-factor"
    site.ok("daemon", "clear")
    site.ok("daemon", "clear", "--lift-halt")
    left = site.factors()
    assert [left[job] for job in jobs] == [55, 0, 0]
    site.slurm("scancel", *map(str, jobs))


def test_a_user_who_keeps_gsched_away_from_all_jobs(site: Site) -> None:
    folder = site.bed.layout.home("games") / ".config" / "gsched"
    folder.mkdir(parents=True)
    (folder / "gsched.toml").write_text("[submit]\nopt_out = true\n")
    argv = [GSCHED, "submit", "--parsable", "-J", "d5", *BIG, "--comment", "mine", "--wrap", "true"]
    own = {"GSCHED_CONFIG": ""}  # the user's own file is read
    answer = site.bed.run(argv, "games", extra_env=own)
    assert answer.returncode == 0, answer.stderr
    job = answer.stdout.strip()
    assert site.slurm("squeue", "-h", "-j", job, "-o", "%k").strip() == "mine gs1{none}"
    (folder / "gsched.toml").unlink()
    site.slurm("scancel", job)


def test_what_a_site_without_requeue_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under JobRequeue=0 only who asks for --requeue may be requeued."""
    with fresh_site(num_nodes=1, extra_conf=("JobRequeue=0",)) as site:
        for name, value in site.bed.env().items():
            monkeypatch.setenv(name, value)
        site.arm.fill()
        plain, willing = site.submit("d5"), site.submit("d5", 8, "games", "--requeue")
        client = CommandClient()
        config, settings = client.config(), DaemonSettings()
        backend = SlurmBackend(
            client,
            config.cluster,
            scale_for(config, settings),
            settings,
            lambda rows: [r.submit_time for r in rows],
            lambda: int(time.time()),
            RequestBook(MemoryRequests()),
        )
        backend.look()
        views = {v.key.job_id: v for v in backend.snapshot({}).jobs.views}
        barred = {i: {e.capability for e in views[i].exclusions} for i in (plain, willing)}
        assert barred == {plain: {Capability.PREEMPT, Capability.RESIZE}, willing: set()}


def test_in_a_federation_the_daemon_only_observes() -> None:
    with fresh_site(num_nodes=1, accounting="slurmdbd") as site:
        site.know_durations({"d5": 5})
        site.ok("daemon", "once", "--act")
        site.slurm("sacctmgr", "-i", "add", "federation", "union", "clusters=testbed")
        wait_for(
            lambda: "union" in site.slurm("scontrol", "show", "federation"), "slurmctld to hear"
        )
        refused = site.gsched("daemon", "once", "--act")
        assert refused.returncode == 78
        assert "cluster testbed is a member of the federation union" in refused.stderr
        assert "--observe" in refused.stderr
        site.ok("daemon", "once")


PROMISED = {"held", "manual-priority", "foreign-site-factor", "unsplit-array"}
"""Kinds whose order is not gsched's to change, and whose deadline it may promise all the same."""


def test_deadlines_of_theirs_change_nothing_and_nobody_who_may_not_gives_way(
    site: Site, zoo: Zoo
) -> None:
    """Under chronus, with leases: the only policy that promises, and takes GPUs for it."""
    ends = int(time.time()) + 3600
    asked = {kind: job for kind, job in zoo.kinds.items() if kind != "opted-out"}
    for job in asked.values():
        site.slurm("scontrol", "update", f"jobid={job}", f"comment=gs1{{deadline={ends},ckpt}}")
    running = {job: state for job, state in site.states().items() if state == "RUNNING"}
    assert running
    for job in running:  # else nobody could be promised what they hold
        site.slurm("scontrol", "update", f"jobid={job}", "timelimit=10")
    movable = site.submit("d5", 8, "games", f"--comment=gs1{{deadline={ends}}}")
    before = {kind: priorities(site, job) for kind, job in zoo.kinds.items()}
    env = {"GSCHED_DAEMON_POLICY": "chronus", "GSCHED_DAEMON_LEASES": "true"}
    for _ in range(3):
        answer = site.bed.run([GSCHED, "daemon", "once", "--act"], extra_env=env)
        assert answer.returncode == 0, answer.stderr
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        cluster = site.bed.spec.cluster
        records = {str(r.key.job_id): r.state for r in history.targets().asked(cluster)}
        assert history.leases().standing(cluster) == []
    assert records.pop(str(movable)) is TargetState.STANDING
    kinds = {job.partition("+")[0]: kind for kind, job in asked.items()}
    assert {kinds[job] for job in records} <= PROMISED, records
    assert {kind: priorities(site, job) for kind, job in zoo.kinds.items()} == before
    written = {row["job"] for row in site.json("daemon", "audit", "-n", "500") if row["after"]}
    assert written & {job.partition("+")[0] for job in zoo.kinds.values()} == set()
    states = site.states()
    assert {job: states[job] for job in running} == running
    site.slurm("scancel", str(movable))
