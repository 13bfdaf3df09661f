"""What README shows is typed here exactly as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).parents[2]


def test_the_tour_works_as_written() -> None:
    text = (ROOT / "README.md").read_text()
    tour = re.search(r"## A tour.*?```\n(.*?)```", text, re.DOTALL)
    assert tour is not None
    export, enter, *inside = tour[1].splitlines()
    assert export == "export PATH=$PWD/.venv/bin:$PATH"
    assert enter.startswith("gsched testbed run -- bash ")
    # The shell inside reads the lines that follow, as a person would type them.
    done = subprocess.run(
        ["bash", "-e", "-c", enter],
        input="set -e\n" + "\n".join(inside) + "\n",
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for seen in (
        "Submitted batch job 1\n",
        "RANK  JOBID",
        '1 "wrap" is held by its user',
        "ok    Slurm: ",
    ):
        assert seen in done.stdout
