"""A small site on a fresh private Slurm: gsched installed, nodes full, jobs waiting."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.trial import Arm
from gsched.testbed.wait import wait_for
from gsched_sql import History

GSCHED = str(Path(sys.executable).parent / "gsched")


class Site:
    """One testbed with a history database and, unless a test says otherwise, a duration table."""

    def __init__(self, bed: Testbed) -> None:
        self.bed = bed
        self.arm = Arm("site", bed, (GSCHED, "submit"))
        self.config = bed.spec.root / "etc" / "gsched.toml"
        self.state = bed.spec.root / "gsched"
        self._durations: dict[str, int] = {}
        self._last_change = 0.0
        History.create(f"sqlite:///{self.state}/history.db")

    # -- gsched and Slurm -------------------------------------------------------------------

    def gsched(
        self, *words: str, user: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.bed.run([GSCHED, *words], user, extra_env=env)

    def ok(self, *words: str, user: str | None = None) -> str:
        """Run gsched, which must succeed; returns its stdout."""
        answer = self.gsched(*words, user=user)
        assert answer.returncode == 0, f"gsched {' '.join(words)}: {answer.stderr}"
        return answer.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def slurm(self, *argv: str, user: str | None = None) -> str:
        """Run a Slurm command, which must succeed."""
        answer = self.bed.run(argv, user)
        assert answer.returncode == 0, f"{argv}: {answer.stderr}"
        return answer.stdout

    def configure(self, section: str, **values: str) -> None:
        """Append a table of settings (values as TOML)."""
        lines = [f"{key} = {value}" for key, value in values.items()]
        text = self.config.read_text()
        self.config.write_text(text + "\n".join(["", f"[{section}]", *lines, ""]))

    # -- a queue whose right order is known -------------------------------------------------

    def know_durations(self, durations: Mapping[str, int]) -> None:
        """Let gsched predict from a table: job name → seconds."""
        self._durations |= durations
        path = self.bed.spec.root / "etc" / "durations.csv"
        rows = [f"{user},{n},{d}" for n, d in self._durations.items() for user in ("games", "root")]
        path.write_text("\n".join(["user,name,duration_s", *rows, ""]))
        if "[predict]" not in self.config.read_text():
            self.configure("predict", estimator='"table"', table=f'"{path}"')

    def queue_up(self, durations_s: Sequence[int], gpus: int = 8, user: str = "games") -> list[int]:
        """Fill the nodes and queue one job a duration; returns the ids in the same order."""
        self.know_durations({f"d{d}": d for d in durations_s})
        self.arm.fill()
        return [self.submit(f"d{d}", gpus, user) for d in durations_s]

    def submit(self, name: str, gpus: int = 8, user: str = "games", *options: str) -> int:
        self._last_change = time.time()
        words = ["sbatch", "--parsable", "-J", name, f"--gres=gpu:{gpus}", "-o", "/dev/null"]
        return int(self.slurm(*words, *options, "--wrap", "sleep 0.1", user=user))

    def factors(self) -> dict[int, int]:
        """SiteFactor of every job that sprio lists."""
        words = self.slurm("sprio", "-h", "-o", "%i %S").split()
        return dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True))

    def by_priority(self) -> list[int]:
        """Waiting jobs, the highest priority first."""
        words = self.slurm("sprio", "-h", "-o", "%i %Y").split()
        pairs = zip(map(int, words[::2]), map(int, words[1::2]), strict=True)
        return [job for job, _ in sorted(pairs, key=lambda p: (-p[1], p[0]))]

    def states(self) -> dict[int, str]:
        """State of every job that Slurm still knows."""
        words = self.slurm("squeue", "-h", "-t", "all", "-o", "%A %T").split()
        return dict(zip(map(int, words[::2]), words[1::2], strict=True))

    def state_is_saved(self) -> bool:
        """Whether slurmctld has written down (every few seconds) what a crash must not lose."""
        saved = (self.bed.spec.root / "state" / "job_state").stat().st_mtime
        return saved > self._last_change + 1

    def drain_queue(self) -> None:
        """Open the gate and wait until everything has run."""
        self.arm.open_gate()
        wait_for(self.arm.is_done, "the queue to run dry", timeout_s=120)

    def daemon(self, *words: str, env: Mapping[str, str] | None = None) -> Background:
        """`gsched daemon run` beside the test, a round every half second."""
        argv = [GSCHED, "daemon", "run", "--interval", "0.5", *words]
        return Background(self.bed, argv, self.bed.spec.root / "daemon.log", env)


@contextmanager
def fresh_site(**spec: Any) -> Iterator[Site]:
    """A site on a testbed of its own."""
    with Testbed.temporary(**{"num_nodes": 2, **spec}) as bed:
        yield Site(bed)
