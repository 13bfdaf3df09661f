"""A private Slurm whose tenants train real models on leased GPUs, and what became of each step."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from gsched.errors import UnavailableError
from gsched.model.job import LeaseState
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.environment import own_user
from gsched.testbed.processes import find
from support.site import GSCHED, Site

TESTS = Path(__file__).parent.parent
SCRIPT = "#!/bin/bash\nsrun {python} -m support.leased_training {name} {seed}\n"
CHECKPOINTS_EVERY_S = 10
FORGOTTEN_LOOKS = 8
_HOLDS = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})
_LOST = frozenset({"FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"})


@dataclass
class Training:
    """One training of a tenant's, and the numbers of the jobs that it has run in, one by one."""

    name: str
    tenant: str
    seed: int
    jobs: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step: in which start of the training, when (epoch), its loss to the last bit."""

    start: int
    step: int
    at: float
    loss: str


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs that a job had for a time, as sacct tells it; `end` is now while it runs."""

    job: int
    tenant: str
    start: float
    end: float
    gpus: int


@dataclass(frozen=True, slots=True)
class LeaseLife:
    """One lease, and each state that it came to with the time (epoch)."""

    lease_id: str
    job: int
    start_time: int
    length_s: int
    events: list[tuple[int, LeaseState]]

    @property
    def states(self) -> list[str]:
        """All states that it has been in."""
        return [state.value for _, state in self.events]

    def at(self, state: LeaseState) -> int | None:
        """When it came to a state."""
        return next((at for at, each in self.events if each is state), None)


class LeaseSite(Site):
    """Tenants with a quota of GPUs each; `steps` of a training take `step_s` more each."""

    def __init__(self, bed: Testbed, quotas: Mapping[str, float], steps: int, step_s: float):
        super().__init__(bed)
        self.quotas = quotas
        self.folder = bed.spec.root / "leased"
        self.folder.mkdir()
        self.environment = {
            "PYTHONPATH": ":".join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(self.folder),
            "LEASED_DIR": str(self.folder),
            "LEASED_STEPS": str(steps),
            "LEASED_STEP_S": str(step_s),
        }
        self.trainings: dict[str, Training] = {}
        self.plan = self.folder / "plan"
        self.plan_done = self.folder / "plan.done"
        self.runner: Background | None = None
        self._hand_overs: int | None = None
        self.counted: Counter[str] = Counter()
        self._forgotten = 0  # looks, one after the other
        self.slow()
        self._add_accounts()
        heartbeats = self.folder / "heartbeats"
        heartbeats.mkdir(mode=0o1777)
        self.configure("heartbeat", dir=f'"{heartbeats}"')
        self.configure("fairness.quotas", **{name: f"{gpus}" for name, gpus in quotas.items()})
        self.configure("forecast", enabled="false")
        self.configure("predict", estimator='"constant"')
        self._common = self.config.read_text()

    def _add_accounts(self) -> None:
        names, manage = ",".join(self.quotas), ("sacctmgr", "-i", "add")
        self.slurm(*manage, "account", names, f"cluster={self.bed.spec.cluster}")
        self.slurm(*manage, "user", own_user(), f"account={names}")

    # -- trainings ----------------------------------------------------------------------------

    def add(self, tenant: str, number: int, asks: bool = True) -> list[Training]:
        """So many trainings of a tenant, submitted; all of one tenant begin alike.

        `asks`: their users ask for checkpoints, so that their jobs may lose their leases.
        """
        seed = 1 + list(self.quotas).index(tenant)
        made = [Training(f"{tenant}-{n}", tenant, seed) for n in range(1, number + 1)]
        for training in made:
            self.trainings[training.name] = training
            self.train(training, asks)
        return made

    def train(self, training: Training, asks: bool = True) -> None:
        """Hand it in as a user does; again, where its job is gone."""
        script = self.folder / f"{training.name}.sh"
        script.write_text(
            SCRIPT.format(python=sys.executable, name=training.name, seed=training.seed)
        )
        words = ["sbatch", "--parsable"]
        extra = {"GSCHED_CHECKPOINT_DIR": str(self.folder / f"ck-{training.name}")}
        if asks:
            words = [
                *(GSCHED, "submit", "--parsable", f"--gs-checkpoint={CHECKPOINTS_EVERY_S}"),
                f"--gs-runtime=requeue,folder=ck-{training.name}",
            ]
            extra = {}
        words += [f"--account={training.tenant}", f"--job-name={training.name}"]
        words += ["--gres=gpu:1", "--mem=600", "-n1", f"--output={self.folder}/{training.name}.out"]
        done = self.bed.run(
            [*words, str(script)], cwd=self.folder, extra_env={**self.environment, **extra}
        )
        if "Unable to contact" in done.stderr:
            raise UnavailableError(done.stderr)
        assert done.returncode == 0, (training.name, done.stdout, done.stderr)
        training.jobs.append(int(done.stdout.strip().split(";")[0]))

    def slow(self) -> None:
        """Steps take their time from now on."""
        (self.folder / "slow").touch()

    def fast(self) -> None:
        """Steps go as fast as they can from now on, so that all trainings come to their ends."""
        (self.folder / "slow").unlink(missing_ok=True)

    def steps(self, name: str) -> list[Step]:
        """All finished steps, in the order in which they were."""
        path = self.folder / f"{name}.steps"
        lines = path.read_text().splitlines() if path.exists() else []
        cells = (line.split() for line in lines)
        return [Step(int(a), int(b), float(c), d) for a, b, c, d in cells]

    def starts(self, name: str) -> list[list[Step]]:
        """The steps of each start."""
        return [list(steps) for _, steps in groupby(self.steps(name), lambda step: step.start)]

    def has_ended(self, name: str) -> bool:
        return (self.folder / f"{name}.hash").exists()

    def undisturbed(self) -> subprocess.Popen[str]:
        """Train with each seed without a job, beside the others; its end is to be waited for."""
        words = [sys.executable, "-m", "support.leased_training", "undisturbed"]
        words += sorted({str(training.seed) for training in self.trainings.values()})
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "GSCHED_"))}
        return subprocess.Popen(
            words, env={**plain, **self.environment, "LEASED_STEP_S": "0"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def differences(self, training: Training) -> list[str]:
        """Where its curve, or its end, is not that of the undisturbed run, in words."""
        alone, mine = f"undisturbed-{training.seed}", self.steps(training.name)
        right = {step.step: step.loss for step in self.steps(alone)}
        found = [f"step {s.step}: {s.loss}" for s in mine if s.loss != right[s.step]]
        if missing := right.keys() - {step.step for step in mine}:
            found.append(f"{len(missing)} steps are missing, the first: {min(missing)}")
        ends = [(self.folder / f"{name}.hash").read_text() for name in (alone, training.name)]
        return found + ([] if ends[0] == ends[1] else ["another end"])

    def repeated(self, name: str) -> list[int]:
        """Of each start after the first, how many steps it did once more."""
        starts = self.starts(name)
        reached, found = 0, []
        for steps in starts:
            found.append(max(0, reached + 1 - steps[0].step))
            reached = max(reached, steps[-1].step)
        return found[1:]

    # -- the daemon ---------------------------------------------------------------------------

    def lease_by(self, policy: str, **knobs: float) -> None:
        """The policy and the knobs of the next daemon."""
        self.config.write_text(self._common)
        self.configure("daemon", policy=f'"{policy}"', leases="true")
        self.configure("daemon.knobs", **{name: f"{value}" for name, value in knobs.items()})

    def begin(self, hand_overs: int | None = None) -> None:
        """The daemon; with leases of `hand_overs` hand-overs, and kills by the plan, if given."""
        words, env = [GSCHED], dict(self.environment)
        if hand_overs is not None:
            words = [sys.executable, "-m", "support.leased_daemon"]
            env |= {"LEASED_HAND_OVERS": str(hand_overs), "LEASED_PLAN": str(self.plan)}
        words += ["daemon", "run", "--act", "--interval", "1"]
        self._hand_overs = hand_overs
        self.runner = Background(self.bed, words, self.bed.spec.root / "daemon.log", env)

    def tend(self) -> None:
        """What systemd, an administrator and users do: start again what was killed.

        A slurmctld that is killed forgets the seconds before. It may then start jobs a second time,
        take that for a fault of their node, drain it and hold them; and believe that GPUs are in
        use which nobody has, until it is started once more.
        """
        if self.runner is not None and not self.runner.is_running():
            self.counted["daemons started"] += 1
            self.begin(self._hand_overs)
        if not self.has_controller():
            self.counted["slurmctld started"] += 1
            self.bed.start_slurmctld()
        self._mend_nodes()
        states = self.job_states()
        for training in self.trainings.values():
            job = training.jobs[-1]
            if states.get(job) in _LOST and not self.has_ended(training.name):
                with suppress(UnavailableError):  # slurmctld is killed just now: users try again
                    self.train(training)
                    self.counted["jobs submitted again"] += 1

    def _mend_nodes(self) -> None:
        if "drain" in self.bed.run(["sinfo", "-h", "-o", "%T"]).stdout:
            self.counted["nodes resumed"] += 1
            node = self.bed.spec.node_names[0]
            self.bed.run(["scontrol", "update", f"nodename={node}", "state=resume"])
        lines = self.bed.run(["squeue", "-h", "-t", "PD", "-o", "%A %r"]).stdout.splitlines()
        if held := [line.split()[0] for line in lines if line.endswith(" held")]:
            self.counted["jobs released"] += len(held)
            self.bed.run(["scontrol", "release", ",".join(held)])
        states = [state for state in self.job_states().values() if state in _HOLDS]
        self._forgotten = self._forgotten + 1 if self._gpus_in_use() > len(states) else 0
        if self._forgotten >= FORGOTTEN_LOOKS:
            self.counted["GPUs in use by nobody: slurmctld started"] += 1
            self._forgotten = 0
            self.bed.restart_slurmctld()

    def _gpus_in_use(self) -> int:
        """By the node's record; each of the trainings has one."""
        told = self.bed.run(["scontrol", "-o", "show", "nodes"]).stdout
        found = re.search(r"AllocTRES=\S*gres/gpu=(\d+)", told)
        return int(found[1]) if found else 0

    def end(self) -> None:
        if self.runner is not None:
            self.runner.stop()

    def has_controller(self) -> bool:
        """Whether slurmctld runs."""
        return any(process.program == "slurmctld" for process in find(self.bed.spec.root))

    def job_states(self) -> dict[int, str]:
        """As squeue tells them; {} where Slurm does not answer."""
        done = self.bed.run(["squeue", "-h", "-t", "all", "-o", "%A %T"])
        words = done.stdout.split() if done.returncode == 0 else []
        return dict(zip(map(int, words[::2]), words[1::2], strict=True))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What this process asks Slurm meanwhile, it asks this site's."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.bed.env().items():
                patched.setenv(name, value)
            yield

    # -- what happened ------------------------------------------------------------------------

    def leases(self) -> list[LeaseLife]:
        """All leases, in the order in which they were granted."""
        database = sqlite3.connect(f"file:{self.state}/history.db?mode=ro", uri=True)
        with closing(database):
            lives = {
                row: LeaseLife(lease_id, job, begin, length_s, [])
                for row, lease_id, job, begin, length_s in database.execute(
                    "select id, lease_id, job_id, start_time, length_s from leases order by id"
                )
            }
            for row, at, state in database.execute(
                "select lease_row, at, to_state from lease_events order by id"
            ):
                lives[row].events.append((at, LeaseState(state)))
        return list(lives.values())

    def held(self) -> list[Held]:
        """All attempts that had GPUs, as slurmdbd knows them."""
        words = ("sacct", "-D", "-X", "-a", "-n", "-P", "-S", "now-1days")
        table = self.bed.run(
            [*words, "-o", "JobIDRaw,Account,Start,End,AllocTRES"],
            extra_env={"SLURM_TIME_FORMAT": "%s"},
        )
        assert table.returncode == 0, table.stderr
        found = []
        for line in table.stdout.splitlines():
            job, tenant, start, end, tres = line.split("|")
            gpus = dict(part.partition("=")[::2] for part in tres.split(",")).get("gres/gpu", "0")
            if start.isdigit() and int(gpus):
                until = float(end) if end.isdigit() else time.time()
                found.append(Held(int(job), tenant, float(start), until, int(gpus)))
        return found


def shares(held: Sequence[Held], tenants: Sequence[str], since: float, until: float) -> list[float]:
    """Of the GPU-time in a window, the part of each tenant."""
    received = dict.fromkeys(tenants, 0.0)
    for each in held:
        seconds = min(each.end, until) - max(each.start, since)
        if seconds > 0 and each.tenant in received:
            received[each.tenant] += seconds * each.gpus
    total = sum(received.values()) or 1.0
    return [received[tenant] / total for tenant in tenants]
