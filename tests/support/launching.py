"""The launcher as a process, outside Slurm: its script, its signals, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gsched.launch.processes import Tree, look_at
from gsched.testbed.wait import wait_for
from support import told

_started: list[subprocess.Popen[str]] = []

TOLD = f"{sys.executable} -I {told.__file__}"


@dataclass
class Launched:
    """A launcher that runs; its trainee notes in `notes`."""

    process: subprocess.Popen[str]
    notes: Path
    folder: Path

    def wait_for_words(self, *words: str) -> None:
        wait_for(lambda: self.words() == list(words), f"{words}, not {self.words()}", 20)

    def words(self) -> list[str]:
        return self.notes.read_text().split() if self.notes.exists() else []

    def signal(self, name: str) -> None:
        """As Slurm sends it to the batch process alone."""
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def signal_all(self, name: str) -> None:
        """As Slurm sends it to all processes of the job."""
        number = getattr(signal, f"SIG{name}")
        for pid in [*Tree().below(self.process.pid), self.process.pid]:
            os.kill(pid, number)

    def end(self) -> tuple[int, str]:
        """Exit code and what was said, once it has ended."""
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


def launch(
    tmp_path: Path, body: str, *options: str, job_dir: Path | None = None, **environ: str
) -> Launched:
    """Run a body of bash by the launcher; @ stands for the trainee, $F for what it notes in.

    The launcher has a process group of its own, and is started as the head of a job script does.
    """
    folder = job_dir or tmp_path / "gsched-job"
    folder.mkdir()
    script = folder / "slurm_script"
    notes = tmp_path / "notes"
    script.write_text(f"F={notes}\n" + body.replace("@", f"{TOLD} {notes} TERM 143"))
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "GSCHED_"))}
    process = subprocess.Popen(
        [
            *("/bin/sh", "-c", "trap '' USR1 USR2; exec \"$@\"", "sh"),
            *(sys.executable, "-I", "-m", "gsched.launch", "--job-dir", folder),
            *(*options, "--", "/bin/bash", script, "first", "second word"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=kept | environ,
        cwd=tmp_path,
        process_group=0,
    )
    _started.append(process)
    return Launched(process, notes, folder)


def kill_left() -> None:
    """End the launchers of a test that has failed; their scripts end with them."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def is_gone(pid: int) -> bool:
    process = look_at(pid)
    return process is None or process.is_zombie
