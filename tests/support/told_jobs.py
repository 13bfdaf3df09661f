"""Jobs on a testbed that tell which signals reach them (told.py), run by the launcher."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for
from support import told

TOLD = f"{sys.executable} -I {told.__file__}"

ARRANGEMENTS = {
    "srun": "srun @",
    "exec srun": "exec srun @",
    "exec": "exec @",
    "no srun": "@\nexit $?",
    "trap that forwards": "trap 'kill -USR1 $pid' USR1\n@ &\npid=$!\nwait $pid; wait $pid",
    "trap that does not": "trap 'echo shell >>$F' USR1\nsrun @",
    "trap at the end": "trap 'echo bye >>$F' EXIT\n@\nexit $?",
    "trap of both": "trap 'echo bye >>$F' EXIT\ntrap 'echo shell >>$F' USR1\n@\nexit $?",
    "background": "@ &\nwait $!",
    "srun in background": "srun @ &\nwait $!",
    "nested shells": "sh -c 'bash -c \"@; exit \\$?\"; exit $?'\nexit $?",
    "own session": "setsid --wait @\nexit $?",
    "container": "unshare --pid --fork --kill-child @\nexit $?",
    "no commands of Slurm": "PATH=/nowhere\n@\nexit $?",
}
"""Bodies of scripts; @ stands for the trainee, $F for the file that it notes in."""

NO_STEP = frozenset(ARRANGEMENTS) - {
    "srun", "exec srun", "trap that does not", "srun in background"
}  # fmt: skip

_SCRIPT = """#!/bin/sh
trap '' USR1 USR2
gsched_dir=$(mktemp -d "${{TMPDIR:-/tmp}}/gsched-job.XXXXXX")
cat > "$gsched_dir/slurm_script" <<'END-OF-SCRIPT'
{script}
END-OF-SCRIPT
exec {python} -I -m gsched.launch --job-dir "$gsched_dir" {options} -- \
    /bin/bash "$gsched_dir/slurm_script" "$@"
"""


def launched(script: str, options: str = "") -> str:
    """A job script that runs another by the launcher, as the templates do."""
    return _SCRIPT.format(script=script, python=sys.executable, options=options)


@dataclass(frozen=True)
class ToldJob:
    """A job and the file that its trainee notes in."""

    bed: Testbed
    job_id: str
    file: Path

    @classmethod
    def submit(
        cls,
        bed: Testbed,
        name: str,
        body: str,
        *sbatch: str,
        options: str = "--grace 5",
        last: str = "TERM",
    ) -> ToldJob:
        folder = bed.spec.root / "work"
        folder.mkdir(exist_ok=True)
        file = folder / name.replace(" ", "-")
        script = body.replace("@", f"{TOLD} {file} {last} 143")
        where = ["-D", str(folder), "-o", f"{file}.out", "--open-mode=append"]
        text = launched(f"F={file}\n{script}", options)
        argv = ["sbatch", "--parsable", "--requeue", "-J", "told", *where, *sbatch]
        done = bed.run(argv, stdin=text)
        assert done.returncode == 0, done.stderr
        return cls(bed, done.stdout.strip(), file)

    def words(self) -> list[str]:
        """What the trainee has noted."""
        return self.file.read_text().split() if self.file.exists() else []

    def output(self) -> str:
        return Path(f"{self.file}.out").read_text()

    def wait_for_words(self, *words: str) -> None:
        wait_for(lambda: self.words()[: len(words)] == list(words), f"{self.file}: {words}")

    def end(self) -> None:
        """Let the trainee end by itself."""
        self.file.with_suffix(".go").touch()

    def shown(self) -> dict[str, str]:
        """The job as scontrol shows it."""
        text = self.bed.run(["scontrol", "show", "job", self.job_id]).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for_state(self, *states: str) -> str:
        """Its exit code, as scontrol shows it, once it is in one of the states."""
        wait_for(lambda: self.shown()["JobState"] in states, f"{self.file}: {states}")
        return self.shown()["ExitCode"]
