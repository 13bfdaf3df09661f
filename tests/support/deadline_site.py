"""A private Slurm with real trainings, some of which have to end by a time; which of them did."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gsched.model.job import LeaseState
from gsched.model.target_records import TargetRecord
from gsched.testbed.cluster import Testbed
from gsched.testbed.environment import own_user
from gsched.testbed.processes import find
from gsched.testbed.wait import wait_for
from gsched_sql import History
from support.lease_site import CHECKPOINTS_EVERY_S, SCRIPT, LeaseSite
from support.site import GSCHED

TENANTS = ("east", "west")
CONF = ("KillWait=20", "SlurmdTimeout=10")
STEP_S = 0.5
START_S = 12.0
"""So long a training is said to need, on two shared cores, until its first step."""
WAIT_S = 90
"""Seconds for which who submits waits for an answer at most."""
LIMIT_MIN = 15
MAILER = '#!/bin/sh\nread -r first\necho "$1 $2 $3 $first" >> {mail}\n'
"""In place of mail(1): a line for each warning."""
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Wish:
    """A training of `run_s` seconds of steps on one GPU, handed in `at_s` after the beginning.

    `deadline_s` and `soft_s` (with rewards) count from then; without either it is best effort.
    `told_s` is what the site's table of durations says of it.
    """

    name: str
    tenant: str
    at_s: float
    run_s: float
    told_s: float
    deadline_s: float | None = None
    soft_s: tuple[tuple[float, float], ...] = ()

    @property
    def steps(self) -> int:
        """How many it does."""
        return max(1, round(self.run_s / STEP_S))

    @property
    def last_s(self) -> float | None:
        """The last deadline, from its submission."""
        return max([s for s, _ in self.soft_s] + [self.deadline_s or 0.0], default=0.0) or None


@dataclass(slots=True)
class Handed:
    """A wish that has been handed in, and what its user was answered."""

    wish: Wish
    job: int
    at: float
    code: int
    words: str
    answered_s: float
    deadlines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a job by slurmdbd: its last state, start and end (epoch; inf: not ended)."""

    state: str
    start: float
    end: float


FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY"})
"""States of jobs that are not started again."""

UNKNOWN = Ended("", float("inf"), float("inf"))
"""slurmdbd has not heard of it yet."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One wish and its end. `kept`: it ended by its last deadline."""

    handed: Handed
    ended: Ended

    @property
    def kept(self) -> bool:
        last = self.handed.deadlines[-1]
        return self.ended.state == "COMPLETED" and self.ended.end <= last

    def row(self) -> dict[str, Any]:
        """For tables: seconds from its submission."""
        handed, ended = self.handed, self.ended
        return {
            "training": handed.wish.name,
            "deadlines s": [round(at - handed.at) for at in handed.deadlines],
            "answer": handed.code,
            "answered after s": round(handed.answered_s, 1),
            "state": ended.state,
            "ended after s": None if ended.end == float("inf") else round(ended.end - handed.at),
            "kept": self.kept,
        }


class DeadlineSite(LeaseSite):
    """A `LeaseSite` whose trainings differ in length, and whose durations the site knows."""

    def __init__(self, bed: Testbed) -> None:
        super().__init__(bed, dict.fromkeys(TENANTS, 1.0), 1, STEP_S)
        self.handed: dict[str, Handed] = {}
        self._table = bed.spec.root / "etc" / "durations.csv"
        told = f'estimator = "table"\ntable = "{self._table}"'
        self._common = self.config.read_text().replace('estimator = "constant"', told)
        self.config.write_text(self._common)
        self._mail = self.folder / "mail"
        mailer = self.folder / "mailer"
        mailer.write_text(MAILER.format(mail=self._mail))
        mailer.chmod(0o755)
        command = json.dumps([str(mailer), "{to}", "{job}", "{level}"])
        self.configure("deadlines", mail_command=command)
        self._common = self.config.read_text()

    @property
    def num_gpus(self) -> int:
        """Of all nodes."""
        return self.bed.spec.num_nodes * self.bed.spec.gpus_per_node

    def know(self, wishes: Sequence[Wish]) -> None:
        """Write the table of durations that gsched predicts from."""
        with self._table.open("w", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(["user", "name", "duration_s"])
            rows.writerows([own_user(), wish.name, round(wish.told_s)] for wish in wishes)

    # -- handing in ---------------------------------------------------------------------------

    def hand_in(self, wish: Wish, asks: bool = True, tells: bool = True) -> Handed:
        """As a user does: by gsched, with the deadline if it `tells`; or, not `asks`, by sbatch."""
        began, script = time.time(), self.folder / f"{wish.name}.sh"
        script.write_text(SCRIPT.format(python=sys.executable, name=wish.name, seed=1))
        ends = {int(began + s): reward for s, reward in wish.soft_s}
        strict = None if wish.deadline_s is None else int(began + wish.deadline_s)
        env = {**self.environment, "LEASED_STEPS": str(wish.steps)}
        words = ["sbatch", "--parsable"]
        if asks:
            words = [GSCHED, "submit", "--parsable", f"--gs-checkpoint={CHECKPOINTS_EVERY_S}"]
            words += [f"--gs-runtime=requeue,folder=ck-{wish.name}"]
        else:
            env["GSCHED_CHECKPOINT_DIR"] = str(self.folder / f"ck-{wish.name}")
        if asks and tells:
            words += [f"--gs-soft-deadline={iso(at)}={reward:g}" for at, reward in ends.items()]
            words += [] if strict is None else [f"--gs-deadline={iso(strict)}"]
            words += [f"--gs-wait={WAIT_S}"] if ends or strict else []
        words += [f"--account={wish.tenant}", f"--job-name={wish.name}", "--gres=gpu:1"]
        words += ["--mem=600", "-n1", f"--time={LIMIT_MIN}"]
        words += [f"--output={self.folder}/{wish.name}.out", str(script)]
        done = self.bed.run(words, cwd=self.folder, extra_env=env, timeout_s=WAIT_S + 60)
        number = done.stdout.strip().split(";")[0]
        assert number.isdigit(), (wish.name, done.stdout, done.stderr)
        deadlines = tuple(sorted([*ends, *([strict] if strict else [])]))
        answered_s = time.time() - began
        made = Handed(wish, int(number), began, done.returncode, done.stderr, answered_s, deadlines)
        self.handed[wish.name] = made
        return made

    # -- the daemon and the nodes -------------------------------------------------------------

    def tend(self) -> None:
        """Start again what was killed: the daemon, slurmctld."""
        if self.runner is not None and not self.runner.is_running():
            self.counted["daemons started"] += 1
            self.begin(self._hand_overs)
        if not self.has_controller():
            self.counted["slurmctld started"] += 1
            self.bed.start_slurmctld()

    def restart_daemon(self) -> None:
        """SIGKILL, and a new one."""
        assert self.runner is not None
        self.runner.signal(signal.SIGKILL)
        self.runner.process.wait()
        self.tend()

    def restart_slurmctld(self) -> None:
        """In order, at a moment at which no job begins.

        slurmctld of 22.05 gives GPUs away some seconds before their nodes have registered, and the
        steps of whoever gets them fail ("Invalid generic resource (gres) specification"); an srun
        that finds it gone asks again minutes later. So all trainings stand still until it knows its
        nodes: none ends, and none saves and gives way.
        """
        still = self.folder / "still"
        still.touch()
        try:
            wait_for(self._all_gpus_train, "all GPUs to have a training", 120.0, 0.2)
            self.bed.restart_slurmctld()
        finally:
            still.unlink()

    def _all_gpus_train(self) -> bool:
        """No job is on its way in or out: each has its step, has more to do, is not requeued."""
        states = self.job_states()
        holds = [job for job, state in states.items() if state in {"RUNNING", "COMPLETING"}]
        steps = self.bed.run(["squeue", "-h", "-s", "-o", "%i"]).stdout.split()
        leases = {life.events[-1][1] for life in self.leases() if life.events}
        done = {
            handed.job
            for name, handed in self.handed.items()
            if any(step.step >= handed.wish.steps for step in self.steps(name))
        }
        train = {job for job in holds if states[job] == "RUNNING" and f"{job}.0" in steps} - done
        return len(train) == len(holds) == self.num_gpus and LeaseState.SAVED not in leases

    def node_of(self, name: str) -> str:
        """The node that a running job has."""
        words = ("squeue", "-h", "-j", str(self.handed[name].job), "-o", "%N")
        return self.slurm(*words).strip()

    def kill_node(self, node: str) -> None:
        """SIGKILL to all that runs on it; Slurm is told that it is down, and requeues its jobs."""
        everybody = find(self.bed.spec.root)
        here = {p.pid for p in everybody if environ_of(p.pid).get("SLURMD_NODENAME") == node}
        steps = {p.parent for p in everybody if p.pid in here}
        daemons = [
            p.pid
            for p in everybody
            if (p.program == "slurmd" and node in p.argv)
            or (p.program == "slurmstepd" and p.pid in steps)
        ]
        for pid in [*daemons, *here]:  # first those that would tell of the others' end
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=trial")

    # -- what gsched says -----------------------------------------------------------------------

    def entry(self, name: str) -> dict[str, Any]:
        """A job's entry in the status file; {} where it has none."""
        path = self.state / "status.json"
        document = json.loads(path.read_text()) if path.exists() else {}
        return dict(document.get("jobs", {}).get(str(self.handed[name].job), {}))

    def target(self, name: str) -> dict[str, Any]:
        """What the status file says of a job's target; {} where it has none."""
        return dict(self.entry(name).get("target") or {})

    def warnings(self, name: str) -> list[str]:
        """The levels of which a job's owner was warned by mail, in their order."""
        lines = self._mail.read_text().splitlines() if self._mail.exists() else []
        mine = [line.split(" ", 3) for line in lines]
        return [level for to, job, level, _ in mine if job == str(self.handed[name].job) and to]

    def records(self) -> dict[str, list[TargetRecord]]:
        """By name, what the database keeps of its requests."""
        names = {handed.job: name for name, handed in self.handed.items()}
        found: dict[str, list[TargetRecord]] = {}
        with History.open(f"sqlite:///{self.state}/history.db") as history:
            for record in history.targets().asked(self.bed.spec.cluster):
                found.setdefault(names[record.key.job_id], []).append(record)
        return found

    def log(self) -> str:
        """What the daemon has said."""
        path = self.bed.spec.root / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- what became of them ------------------------------------------------------------------

    def ends(self) -> dict[int, Ended]:
        """By job, what became of its last attempt."""
        table = self.bed.run(
            ("sacct", "-X", "-a", "-n", "-P", "-S", "now-1days", "-o", "JobIDRaw,State,Start,End"),
            extra_env={"SLURM_TIME_FORMAT": "%s"},
        )
        assert table.returncode == 0, table.stderr
        found = {}
        for line in table.stdout.splitlines():
            job, state, start, end = line.split("|")
            times = [float(t) if t.isdigit() else float("inf") for t in (start, end)]
            found[int(job)] = Ended(state.split()[0], *times)
        return found

    def outcomes(self) -> dict[str, Outcome]:
        """By name, of all that have a deadline."""
        ends = self.ends()
        return {
            name: Outcome(handed, ends.get(handed.job, UNKNOWN))
            for name, handed in self.handed.items()
            if handed.deadlines
        }

    def wait_for_targets(
        self, *names: str, limit_s: float = 240.0, beyond_s: float = 5.0
    ) -> dict[str, Outcome]:
        """Until all jobs with deadlines (or those named) have ended, or their last is so long over.

        What is not known to have ended counts as missed, so slurmdbd is given its seconds.
        """

        def are_over() -> dict[str, Outcome] | None:
            self.tend()
            found = {n: o for n, o in self.outcomes().items() if not names or n in names}
            over = all(
                o.ended.state in FINAL or time.time() > o.handed.deadlines[-1] + beyond_s
                for o in found.values()
            )
            return found if over else None

        found = wait_for(are_over, "all deadlines to pass", limit_s, 0.5)
        assert found is not None
        return found

    def wait_for_steps(self, number: int, limit_s: float = 120.0) -> None:
        """Until so many trainings are at their steps."""
        wait_for(
            lambda: sum(bool(self.steps(name)) for name in self.handed) >= number,
            f"{number} trainings to be at their steps",
            limit_s,
            0.2,
        )


def environ_of(pid: int) -> dict[str, str]:
    """The environment of a process; {} of one that is gone."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.partition("=")[::2] for entry in entries if "=" in entry)


def iso(at: int) -> str:
    """An epoch as users write it, with the offset."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


@contextmanager
def deadline_site(num_nodes: int, gpus_per_node: int) -> Iterator[DeadlineSite]:
    """A site on a testbed of its own; its daemon ends with it."""
    bed = Testbed.temporary(
        num_nodes=num_nodes, gpus_per_node=gpus_per_node, accounting="slurmdbd", cred_expire_s=5,
        extra_conf=CONF,
    )  # fmt: skip
    with ExitStack() as running:
        with _ONE_AT_A_TIME:  # databases that are made at the same time fail on a busy machine
            running.enter_context(bed)
            site = DeadlineSite(bed)
        running.callback(site.end)
        yield site
