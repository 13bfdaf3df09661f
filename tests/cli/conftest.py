"""The installed ``gsched`` program, run as a user runs it, beside recorded stand-ins for Slurm.

The real Slurm is met in tests/slurm and tests/shell; here it is about words, pipes and exit codes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("gsched")


@pytest.fixture
def environment(tmp_path):
    """Nothing of the machine's own configuration, Slurm or locale."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GSCHED_STATE_DIR": str(tmp_path / "state"),
    }


@pytest.fixture
def gsched(environment, tmp_path):
    """Run ``gsched ARGS``; gives returncode, stdout and stderr as text."""

    def call(*args, stdin="", environ=None, **options):
        return subprocess.run(
            [PROGRAM, *args],
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=environment | (environ or {}),
            cwd=tmp_path,
            check=False,
            **options,
        )

    return call


@dataclass
class StandIn:
    """A command of Slurm that writes down how it was called and answers as told."""

    folder: Path

    def answers(self, stdout="", stderr="", code=0):
        """What it prints and returns from now on."""
        document = {"stdout": stdout, "stderr": stderr, "code": code}
        (self.folder / "answer.json").write_text(json.dumps(document))

    @property
    def calls(self):
        """How it was called: argv, stdin and env of each call."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


_STAND_IN = """#!{python}
import json, os, sys
here = {folder!r}
call = {{"argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ)}}
with open(here + "/calls.jsonl", "a") as file:
    file.write(json.dumps(call) + "\\n")
with open(here + "/answer.json") as file:
    answer = json.load(file)
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["code"])
"""


@pytest.fixture
def stand_in(tmp_path, environment):
    """Make a stand-in for one command of Slurm, first on PATH."""

    def make(name):
        folder = tmp_path / "stand-ins" / name
        folder.mkdir(parents=True)
        program = folder / name
        program.write_text(_STAND_IN.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
        command = StandIn(folder)
        command.answers()
        return command

    return make
