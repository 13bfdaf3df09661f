"""Trainings as jobs on a real Slurm, each interrupted in its own way, all at the same time.

One testbed: gn01 is preempted by a QOS without a word to the batch shell, gn02 with
preempt_send_user_signal, gn03 fails, gn04 is left alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gsched.daemon.lease_backend import LiveLeases
from gsched.daemon.requests import RequestBook
from gsched.engine.leases import Verb
from gsched.model.job import JobKey
from gsched.slurm.client import CommandClient
from gsched.slurm.exclusions import Rules
from gsched.testbed.cluster import Testbed
from gsched.testbed.environment import own_user
from gsched.testbed.processes import find
from gsched.testbed.wait import wait_for
from gsched_sql import History
from support.site import GSCHED

TESTS = Path(__file__).parent.parent
KILL_WAIT_S = 10
GRACE_TIME_S = 10
START_LIMIT_S, END_LIMIT_S, POLL_S = 240.0, 240.0, 0.3
CONF = (
    "PreemptType=preempt/qos",
    "PreemptMode=REQUEUE",
    f"KillWait={KILL_WAIT_S}",
    "SlurmdTimeout=20",
)
ENDS = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", ""}
)
USER_SIGNAL = "SlurmctldParameters=power_save_interval=1"

SRUN = "#!/bin/bash\nsrun {python} -m support.trial_training {kind} {name}\n"
BARE = "#!/bin/bash\n{python} -m support.trial_training {kind} {name}\necho end: $?\n"
EXEC = "#!/bin/bash\nexec srun {python} -m support.trial_training {kind} {name}\n"
MEMBER = (
    "#!/bin/bash\n[ $SLURM_ARRAY_TASK_ID = 1 ] || export TRIAL_SLOW=0\n"
    "srun {python} -m support.trial_training {kind} member-$SLURM_ARRAY_TASK_ID\n"
)
PYTHON = "#!{python}\nfrom support import trial_training\ntrial_training.main()\n"


@dataclass(frozen=True)
class Trial:
    """One training as a job. `words` are gsched's and sbatch's options."""

    name: str
    cause: str
    script: str = SRUN
    kind: str = "plain"
    ranks: int = 1
    node: str = "gn04"
    words: tuple[str, ...] = ("--gs-checkpoint",)
    slow: int = 1
    """Starts that go slowly, so that they can be interrupted."""
    repeats: int = 1
    """Steps at most that are done twice."""

    @property
    def case(self) -> str:
        """Whose undisturbed run this one has to equal."""
        return f"{self.kind}:{self.ranks}"


PREEMPTED, TOLD, FAILS = "gn01", "gn02", "gn03"
CHECKPOINTS = ("--gs-checkpoint",)
TWO_RANKS = (*CHECKPOINTS, "--gs-runtime=ddp", "--ntasks=2")

TRIALS = (
    Trial("preempted", "preemption", node=PREEMPTED),
    Trial("lightning", "preemption", kind="lightning", node=PREEMPTED),
    Trial("hugging-face", "preemption", BARE, kind="hugging_face", node=PREEMPTED),
    Trial("ddp", "preemption", PYTHON, "ddp", 2, PREEMPTED, TWO_RANKS),
    Trial("fsdp", "preemption", PYTHON, "fsdp", 2, PREEMPTED, TWO_RANKS),
    Trial(
        "torchrun", "preemption", PYTHON, "ddp", 2, PREEMPTED,
        (*CHECKPOINTS, "--gs-runtime=ddp,launcher=torchrun,nproc=2"),
    ),
    Trial("told", "preemption, told before", node=TOLD),
    Trial(
        "told-ddp", "preemption, told before", PYTHON, "ddp", 4, TOLD,
        (*CHECKPOINTS, "--gs-runtime=ddp", "--ntasks=4"),
    ),
    # what was only in memory is lost with the node: the interval is that of written checkpoints
    Trial("node", "node failure", node=FAILS, words=("--gs-checkpoint=1",), repeats=4),
    Trial("daemons", "slurmd and slurmstepd killed", PYTHON, "ddp", 2, FAILS, TWO_RANKS),
    Trial("requeued", "scontrol requeue", EXEC),
    Trial("lease", "signal, then requeue"),
    Trial("limit", "time limit", words=("--gs-runtime=requeue,at_timeout=5,grace=12", "--time=1")),
    Trial("cancelled", "scancel, submitted again", words=("--gs-runtime=requeue,folder=again",)),
    Trial("member-1", "array member requeued", MEMBER, words=(*CHECKPOINTS, "--array=1-2")),
    Trial("member-2", "none: the member beside it", slow=0),
)  # fmt: skip
_GRACE = re.compile(r"([\d.]+) s of ([\d.]+) s grace used")
_MEMBERS = ("member-1", "member-2")


@dataclass(frozen=True)
class Steps:
    """What one rank has noted: (start, step) of each finished step."""

    noted: tuple[tuple[int, int], ...]

    @property
    def done(self) -> list[int]:
        """The steps in the order in which they were finished."""
        return [step for _, step in self.noted]

    @property
    def starts(self) -> int:
        """How often it was started and came to a step."""
        return len({start for start, _ in self.noted})

    @property
    def repeated(self) -> int:
        """How many were finished once more."""
        return len(self.done) - len(set(self.done))


@dataclass(frozen=True)
class Outcome:
    """What became of one trial. `grace_used_s` is None where the job did not come to say it."""

    trial: Trial
    state: str
    hashes: list[str]
    ranks: tuple[Steps, ...]
    grace_used_s: float | None
    grace_s: float | None
    words: str

    def row(self) -> dict[str, object]:
        """For tables."""
        return {
            "trial": self.trial.name,
            "cause": self.trial.cause,
            "framework": self.trial.kind,
            "ranks": self.trial.ranks,
            "starts": self.ranks[0].starts,
            "steps_repeated": max(rank.repeated for rank in self.ranks),
            "grace_used_s": self.grace_used_s,
            "grace_s": self.grace_s,
        }


@dataclass
class Trials:
    """The jobs on one testbed."""

    bed: Testbed
    folder: Path
    jobs: dict[str, str] = field(default_factory=dict)
    """By name, Slurm's number: of an array 7_2."""

    # -- submitting --------------------------------------------------------------------------------

    def slurm(self, *argv: str) -> str:
        answer = self.bed.run(argv)
        assert answer.returncode == 0, f"{argv}: {answer.stderr}"
        return answer.stdout

    def submit(self, trial: Trial, *more: str) -> None:
        """Hand it in as a user does."""
        suffix = ".py" if trial.script is PYTHON else ".sh"
        script = self.folder / f"{trial.name}{suffix}"
        script.write_text(
            trial.script.format(python=sys.executable, kind=trial.kind, name=trial.name)
        )
        arguments = (trial.kind, trial.name) if trial.script is PYTHON else ()
        place = "--exclude=gn01,gn02" if trial.node == FAILS else f"--nodelist={trial.node}"
        output = "member-%a" if trial.script is MEMBER else trial.name
        words = (GSCHED, "submit", "--parsable", *trial.words, place, "--mem=600", *more)
        done = self.bed.run(
            [*words, f"--output={self.folder}/{output}.out", str(script), *arguments],
            cwd=self.folder,
            extra_env={
                "PYTHONPATH": str(TESTS),
                "OMP_NUM_THREADS": "1",
                "TMPDIR": str(self.folder),  # what a killed node leaves goes with the testbed
                "TRIAL_DIR": str(self.folder),
                "TRIAL_SLOW": str(trial.slow),
            },
        )
        assert done.returncode == 0, (trial.name, done.stdout, done.stderr)
        job = done.stdout.strip()
        members = _MEMBERS if trial.script is MEMBER else ()
        self.jobs |= {name: f"{job}_{name[-1]}" for name in members} or {trial.name: job}

    def words(self, name: str) -> str:
        """What the job has said in all its attempts."""
        file = self.folder / f"{name}.out"
        return file.read_text(errors="replace") if file.exists() else ""

    # -- looking -----------------------------------------------------------------------------------

    def steps(self, name: str, rank: int = 0) -> Steps:
        file = self.folder / f"{name}.{rank}.steps"
        lines = file.read_text().splitlines() if file.exists() else []
        parts = (line.split() for line in lines)
        return Steps(tuple((int(p[0]), int(p[1])) for p in parts if len(p) == 2))

    def hashes(self, trial: Trial) -> list[str]:
        """Of all ranks; shorter while some have not come to their end."""
        files = (self.folder / f"{trial.name}.{rank}.hash" for rank in range(trial.ranks))
        return [file.read_text() for file in files if file.exists()]

    def outcome(self, trial: Trial) -> Outcome:
        words = self.words(trial.name)
        found = [tuple(map(float, pair)) for pair in _GRACE.findall(words)]
        used_s, grace_s = max(found, default=(None, None))
        return Outcome(
            trial,
            self.state(trial.name),
            self.hashes(trial),
            tuple(self.steps(trial.name, rank) for rank in range(trial.ranks)),
            used_s,
            grace_s,
            words,
        )

    def show(self, name: str) -> dict[str, str]:
        """What scontrol says of a job."""
        text = self.bed.run(["scontrol", "-o", "show", "job", self.jobs[name]]).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", text))

    def state(self, name: str) -> str:
        return self.show(name).get("JobState", "")

    def is_under_way(self, trial: Trial) -> bool:
        """All of its ranks have finished three steps."""
        return all(len(self.steps(trial.name, rank).noted) >= 3 for rank in range(trial.ranks))

    # -- interrupting ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Who may preempt whom; the node that is to fail is taken first."""
        manage = ("sacctmgr", "-i")
        self.slurm(*manage, "add", "qos", "high", "set", "priority=1000", "preempt=normal")
        self.slurm(*manage, "modify", "qos", "normal", "set", f"gracetime={GRACE_TIME_S}")
        self.slurm(*manage, "modify", "user", own_user(), "set", "qos+=high")
        for node in self.bed.spec.node_names:
            weight = 1 if node == FAILS else 10
            self.slurm("scontrol", "update", f"nodename={node}", f"weight={weight}")

    def interrupt(self) -> None:
        """All of them, each in its way."""
        self.preempt(PREEMPTED)
        self.kill_node(FAILS, ("node",))
        self.slurm("scontrol", "requeue", self.jobs["requeued"])
        self.slurm("scontrol", "requeue", self.jobs["member-1"])
        self.slurm("scancel", self.jobs["cancelled"])
        self.lease("lease")
        wait_for(lambda: self.show("preempted")["PreemptTime"] != "None", "the preemption")
        self.tell_users()
        self.preempt(TOLD)
        wait_for(lambda: self.state("cancelled") == "CANCELLED", "the cancelled one's end")
        (again,) = (trial for trial in TRIALS if trial.name == "cancelled")
        self.submit(again)

    def lease(self, name: str) -> None:
        """What the daemon does at a lease's end: a signal to save, then the requeue."""
        with pytest.MonkeyPatch.context() as patch:
            for key, value in self.bed.env().items():
                patch.setenv(key, value)
            client = CommandClient()
            config = client.config()
            url = f"sqlite:///{self.folder}/requests.db"
            History.create(url)
            requests = RequestBook(History.open(url).request_store())
            leases = LiveLeases(client, config, Rules(), requests)
            job = JobKey(config.cluster, int(self.jobs[name]), None, epoch=0)
            assert leases.act(Verb.SIGNAL, job) == ""
            wait_for(lambda: "(signal)" in self.words(name), "the checkpoint of the lease")
            assert leases.act(Verb.REQUEUE, job) == ""

    def is_over(self, trial: Trial) -> bool:
        """It has come to its end, or never will."""
        done = len(self.hashes(trial)) == trial.ranks
        return self.state(trial.name) in (("COMPLETED",) if done else ENDS)

    def preempt(self, node: str) -> None:
        """A job of the QOS `high` wants a whole node."""
        words = ("-q", "high", "-w", node, "--exclusive", "-o", "/dev/null", "--wrap", "true")
        self.slurm("sbatch", *words)

    def release(self) -> None:
        """Let all jobs start; they were held, so that they start at the same time."""
        self.slurm("scontrol", "release", ",".join(self.jobs.values()))

    def tell_users(self) -> None:
        """From now on who is preempted gets the signal of his --signal."""
        conf = self.bed.layout.slurm_conf
        text = conf.read_text()
        conf.write_text(text.replace(USER_SIGNAL, f"{USER_SIGNAL},preempt_send_user_signal"))
        self.slurm("scontrol", "reconfigure")

    def kill_node(self, node: str, whole_jobs: Sequence[str]) -> None:
        """SIGKILL to slurmd and all slurmstepd of a node; of `whole_jobs`, to all processes."""
        dead = {self.jobs[name] for name in whole_jobs}
        for process in find(self.bed.spec.root):
            variables = _environ(process.pid)
            is_daemon = process.program == "slurmd" and node in process.argv
            is_here = variables.get("SLURMD_NODENAME") == node
            is_lost = is_here and variables.get("SLURM_JOB_ID") in dead
            is_step = process.program == "slurmstepd" and self._is_step_on(process.pid, node)
            if is_daemon or is_lost or is_step:
                os.kill(process.pid, signal.SIGKILL)

    def _is_step_on(self, pid: int, node: str) -> bool:
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        children = [int(child) for file in threads for child in file.read_text().split()]
        return any(_environ(child).get("SLURMD_NODENAME") == node for child in children)


@contextmanager
def play() -> Iterator[Trials]:
    """All trials from their submission to their ends; the jobs' Slurm is there until then."""
    with Testbed.temporary(
        num_nodes=4, accounting="slurmdbd", cred_expire_s=5, extra_conf=CONF
    ) as bed:
        trials = Trials(bed, bed.spec.root / "trials")
        trials.folder.mkdir()
        trials.prepare()
        for trial in TRIALS:
            if trial.name not in _MEMBERS[1:]:
                trials.submit(trial, "--hold")
        trials.release()
        for trial in TRIALS:
            wait_for(lambda t=trial: trials.is_under_way(t), trial.name, START_LIMIT_S, POLL_S)
        trials.interrupt()
        for trial in TRIALS:
            wait_for(lambda t=trial: trials.is_over(t), trial.name, END_LIMIT_S, POLL_S)
        yield trials


def undisturbed() -> dict[str, list[str]]:
    """By a trial's case, the hashes of a training that nobody interrupts."""
    cases = sorted({trial.case for trial in TRIALS})
    argv = [sys.executable, "-m", "support.trial_training", "undisturbed", *cases]
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "GSCHED_"))}
    done = subprocess.run(
        argv,
        env=plain | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def table(outcomes: Iterable[Outcome]) -> str:
    """One line an interruption."""
    rows = [outcome.row() for outcome in outcomes]
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _environ(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.partition("=")[::2] for entry in entries if "=" in entry)
