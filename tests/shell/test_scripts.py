"""Runs every script of this folder over the installed gsched, each in its own private Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
SCRIPTS = sorted(path.name for path in HERE.glob("*.sh") if path.name != "lib.sh")


@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script):
    done = subprocess.run(
        [BIN / "gsched", "testbed", "run", "--nodes", "2", "--", HERE / script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
