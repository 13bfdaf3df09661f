"""A busy site for faults: jobs that flow, jobs that gsched orders, and jobs it must never touch.

Users' short jobs come and go in the partition ``gpu``. Those in ``kept`` wait for good, on a node
that is full: the ordered ones, whose right order is known, and the witnesses, one of each kind that
gsched leaves alone, each as somebody else's hand has left it.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gsched.errors import UnavailableError
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.environment import as_user
from gsched.testbed.wait import wait_for
from support.site import GSCHED, Site

KEPT = "gn03"
"""The node that is full for good."""
EXCLUDED_USER = "backup"
DURATIONS_S = tuple(round(10 * 1.15**n) for n in range(32))
"""Of the ordered jobs: so far from each other that no two get the same SiteFactor."""
ORDERED = 8
"""Jobs with a known right order that wait at a time."""
_IN_FLIGHT = 12
_PATIENCE = {"GSCHED_SLURM_COMMAND_TIMEOUT_S": "3"}
_FACTS = ("UserId", "Account", "QOS", "Nice", "Requeue", "Restarts", "TimeLimit", "Partition")
_FACTS_TOO = ("Reservation", "Dependency", "Comment", "ReqNodeList", "MinCPUsNode")


class FaultSite(Site):
    """The site; `operator` runs the daemon ('' = the testbed's owner)."""

    def __init__(self, bed: Testbed, seed: int = 1, operator: str = "") -> None:
        super().__init__(bed)
        self.rng = random.Random(seed)
        self.operator = operator
        self.ordered: dict[int, int] = {}  # job → its duration
        self.witnesses: dict[int, str] = {}  # job → what must be left alone
        self.own_factors: dict[int, int] = {}  # SiteFactors set by other hands
        self.facts: dict[int, dict[str, str]] = {}
        self.runner: Background | None = None
        self.checks_order = True
        self.extra_env: dict[str, str] = {}
        self.secret = ""  # what must not be in the log
        self._log_from = 0
        self._churn: threading.Thread | None = None
        self._paused, self._ended = threading.Event(), threading.Event()
        self.marks = bed.spec.root / "work" / "marks"
        self.configure(
            "daemon",
            exclude_users=f'["{EXCLUDED_USER}"]',
            burst_interval_s="0.2",
            decide_limit_s="1.0",
            query_listen='"127.0.0.1:0"',
        )
        self.know_durations({f"d{d}": d for d in (*range(1, 10), 50, *DURATIONS_S)})
        if operator:
            for path in (self.state, *self.state.iterdir()):
                os.chown(path, *_ids(operator))

    # -- the queue ----------------------------------------------------------------------------

    def populate(self) -> None:
        """Fill the kept node, queue the ordered jobs and the witnesses."""
        self.marks.parent.mkdir(exist_ok=True)
        self.marks.touch()
        self.marks.chmod(0o666)
        filling = ("-p", "kept", "-w", KEPT, "--exclusive", "--wrap", "sleep 86400")
        self.slurm("sbatch", "-o", "/dev/null", *filling)
        wait_for(lambda: self._count("R", "kept") == 1, "the kept node to be full")
        self.enlarge(ORDERED)
        for kind, options in _WITNESSES.items():
            self._add_witness(kind, options)
        wait_for(lambda: self.ordered.keys() <= self.factors().keys(), "sprio to list the jobs")
        self.facts = self._facts()

    def _add_witness(self, kind: str, options: tuple[str, ...]) -> None:
        user = EXCLUDED_USER if kind == "excluded-user" else "games"
        words = ("--parsable", "-p", "kept", "-J", "d50", "-o", "/dev/null", *options)
        command = ("sbatch",) if kind != "opted-out" else (GSCHED, "submit", "--gs-none")
        job = int(self.slurm(*command, *words, "--wrap", "sleep 1", user=user).split(";")[0])
        self.witnesses[job] = kind
        if kind in _SET_BY_ADMIN:
            name, value = _SET_BY_ADMIN[kind]
            self.slurm("scontrol", "update", f"jobid={job}", f"{name}={value}")
            if name == "sitefactor":
                self.own_factors[job] = int(value)

    def enlarge(self, number: int = 1) -> None:
        """More ordered jobs: all values move with them. The oldest leave beyond ORDERED."""
        for _ in range(number):
            duration = self.rng.choice(sorted(set(DURATIONS_S) - set(self.ordered.values())))
            words = ("--parsable", "-p", "kept", "-J", f"d{duration}", "-o", "/dev/null")
            made = self.slurm("sbatch", *words, "--gres=gpu:8", "--wrap", "true", user="games")
            self.ordered[int(made)] = duration
        while len(self.ordered) > ORDERED:
            oldest = min(self.ordered)
            del self.ordered[oldest]
            self.slurm("scancel", str(oldest))

    def right_order(self) -> list[int]:
        return sorted(self.ordered, key=lambda job: self.ordered[job])

    def is_in_order(self) -> bool:
        """Whether Slurm's priorities are in the policy's order."""
        return [job for job in self.by_priority() if job in self.ordered] == self.right_order()

    def _count(self, states: str, partition: str) -> int:
        return len(self.slurm("squeue", "-h", "-t", states, "-p", partition, "-o", "%A").split())

    def _facts(self) -> dict[int, dict[str, str]]:
        """What no daemon may change, by job."""
        found = {}
        for line in self.slurm("scontrol", "-o", "show", "job").splitlines():
            words = dict(word.partition("=")[::2] for word in line.split())
            job = int(words["JobId"])
            names = [*_FACTS, *_FACTS_TOO]
            if self.witnesses.get(job) in ("held", "manual-priority"):
                names += ["Priority", "JobState"]
            found[job] = {name: words.get(name, "") for name in names}
        return found

    def touched(self) -> list[str]:
        """Jobs that are not as their owners left them, in words."""
        found = []
        factors = self.factors()
        for job, kind in self.witnesses.items():
            if factors.get(job, self.own_factors.get(job, 0)) != self.own_factors.get(job, 0):
                found.append(f"the SiteFactor of job {job} ({kind}) became {factors[job]}")
        now = self._facts()
        for job in (*self.ordered, *self.witnesses):
            before = self.facts.setdefault(job, now.get(job, {}))  # a new one: as it is
            found += [
                f"{name} of job {job} was {value}, is {now.get(job, {}).get(name)}"
                for name, value in before.items()
                if now.get(job, {}).get(name) != value
            ]
        return found

    # -- jobs that flow -----------------------------------------------------------------------

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Users submit short jobs all the time during the block."""
        self._churn = threading.Thread(target=self._submit_for_ever, daemon=True)
        self._churn.start()
        try:
            yield
        finally:
            self._ended.set()
            self._churn.join()

    def _submit_for_ever(self) -> None:
        script = f"echo s >> {self.marks}; sleep 0.3; echo e >> {self.marks}"
        rng = random.Random(self.rng.random())
        while not self._ended.wait(0.3):
            if self._paused.is_set():
                continue
            with suppress(AssertionError, UnavailableError):  # Slurm is away: users try again
                if self._count("PD,R,CG", "gpu") >= _IN_FLIGHT:
                    continue
                name = f"d{rng.randrange(1, 9)}"
                words = ("-p", "gpu", "-J", name, "-o", "/dev/null", "--gres=gpu:8")
                self.slurm("sbatch", *words, "--wrap", script, user=rng.choice(("games", "news")))

    def pause_users(self) -> None:
        """Nobody submits, until `resume_users`: a slurmctld that is killed forgets new jobs."""
        self._paused.set()

    def resume_users(self) -> None:
        self._paused.clear()

    def ended_jobs(self) -> int:
        """How many of the users' short jobs have run to their end."""
        return self.marks.read_text().count("e")

    def save_queue(self) -> None:
        """Bring slurmctld to where it can be killed: it would forget what it heard of last.

        A submit, and the end of a job, whose GPUs it then takes for used for ever.
        """
        self.pause_users()
        wait_for(lambda: self._count("PD,R,CG", "gpu") == 0, "the users' jobs to end")
        self.bed.restart_slurmctld()

    # -- the daemon ---------------------------------------------------------------------------

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> Background:
        """`gsched daemon run --act`, a round every half second, and its first round."""
        began = self.status().get("as_of", 0)
        self.launch(*words, env=env)
        self.wait_for_round(began)
        assert self.runner is not None
        return self.runner

    def launch(self, *words: str, env: Mapping[str, str] | None = None) -> Background:
        """The same without waiting for a round."""
        argv: Sequence[str] = (GSCHED, "daemon", "run", "--interval", "0.5", "--act", *words)
        own = {}
        if self.operator:
            argv = as_user(tuple(argv), self.operator)
            own = {"HOME": str(self.bed.layout.home(self.operator)), "USER": self.operator}
        log = self.bed.spec.root / "daemon.log"
        self.runner = Background(
            self.bed, argv, log, {**own, **_PATIENCE, **self.extra_env, **(env or {})}
        )
        return self.runner

    def once(self, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """One acting round in a process of its own."""
        extra = {**_PATIENCE, **self.extra_env, **(env or {})}
        return self.gsched("daemon", "once", "--act", "--json", env=extra)

    def ok_once(self) -> None:
        """One acting round, which must succeed."""
        answer = self.once()
        assert answer.returncode == 0, answer.stderr

    def gone(self) -> bool:
        return self.runner is None or not self.runner.is_running()

    def kill(self) -> None:
        """kill -9 of the daemon."""
        assert self.runner is not None
        self.runner.signal(signal.SIGKILL)
        self.runner.process.wait()

    def stop(self) -> None:
        if self.runner is not None:
            with suppress(ProcessLookupError):
                self.runner.signal(signal.SIGCONT)
            self.runner.stop()

    def status(self) -> dict[str, Any]:
        """The status file; {} where there is none that can be read."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.state / "status.json").read_text())
            return found
        return {}

    def wait_for_round(self, after: float, timeout_s: float = 60.0) -> None:
        """Wait for a round that looked at Slurm after the time `after`."""
        wait_for(
            lambda: self._ended_round_since(after),
            f"a round after {after:.0f}; the daemon says: {self.said()[-3:]}",
            timeout_s,
        )

    def _ended_round_since(self, after: float) -> bool:
        if self.gone():
            raise UnavailableError(f"the daemon has ended: {self.said()[-3:]}")
        return bool(self.status().get("as_of", 0) > after)

    def listen(self) -> None:
        """Forget what the daemon has said so far."""
        log = self.bed.spec.root / "daemon.log"
        self._log_from = log.stat().st_size if log.exists() else 0

    def said(self) -> list[str]:
        """Each different line since `listen`, in order."""
        log = self.bed.spec.root / "daemon.log"
        if not log.exists():
            return []
        with log.open("rb") as f:
            f.seek(self._log_from)
            text = f.read().decode(errors="replace")
        return list(dict.fromkeys(text.splitlines()))

    def says(self, words: str) -> bool:
        return any(words in line for line in self.said())

    # -- stand-ins ----------------------------------------------------------------------------

    def stand_in(self, program: str, body: str) -> None:
        """From now on the daemon finds a script in place of `program`; "$real" is the true one."""
        folder = self.bed.spec.root / "stand-ins"
        folder.mkdir(exist_ok=True)
        path = folder / f".{program}"
        path.write_text(f"#!/bin/bash\nreal=/usr/bin/{program}\n{body}\n")
        path.chmod(0o755)
        path.rename(folder / program)

    def remove_stand_ins(self) -> None:
        for path in (self.bed.spec.root / "stand-ins").glob("*"):
            path.unlink()

    @property
    def stand_ins_path(self) -> dict[str, str]:
        """PATH with the folder of stand-ins first; there need not be any yet."""
        return {"PATH": f"{self.bed.spec.root}/stand-ins:{self.bed.env()['PATH']}"}


_WITNESSES: dict[str, tuple[str, ...]] = {
    "foreign-site-factor": (),
    "manual-priority": (),
    "held": ("--hold",),
    "opted-out": (),
    "excluded-user": (),
    "unsplit-array": ("--array=1-3",),
    "user-hold-and-nice": ("--hold", "--nice=50"),
}
_SET_BY_ADMIN = {
    "foreign-site-factor": ("sitefactor", "512"),
    "manual-priority": ("priority", "4242"),
    "excluded-user": ("sitefactor", "-300"),
}


def _ids(user: str) -> tuple[int, int]:
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


@contextmanager
def fault_site(seed: int = 1, operator: str = "", **spec: Any) -> Iterator[FaultSite]:
    """A populated fault site on a testbed of its own; its users are at work."""
    conf = (f"PartitionName=kept Nodes={KEPT} State=UP MaxTime=INFINITE", "MessageTimeout=2")
    merged = {"num_nodes": 3, "extra_conf": conf, **spec}
    with Testbed.temporary(**merged) as bed:
        site = FaultSite(bed, seed, operator)
        try:
            site.populate()
            with site.flowing():
                yield site
        finally:
            site.stop()
