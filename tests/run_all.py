"""Passes all tests in three processes, for those on a real Slurm mostly wait; one comes alone.

Call it by ``python tests/run_all.py [options of pytest]``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IN_THREE = ("-n", "3", "--dist", "loadfile")
"""A file's tests stay together: they share a testbed."""

ALONE = ("tests/slurm/test_fairness_live.py",)
"""What it judges is how much real trainings get done in a time, which tests beside it take."""

_NOTHING_COLLECTED = 5


def main(options: list[str]) -> int:
    """Run them; returns 0 when all have passed, else pytest's own code."""
    kept = [f"--ignore={file}" for file in ALONE]
    codes = [_pytest(options, *IN_THREE, *kept, "tests"), _pytest(options, *ALONE)]
    if set(codes) == {_NOTHING_COLLECTED}:
        return _NOTHING_COLLECTED
    return next((code for code in codes if code not in (0, _NOTHING_COLLECTED)), 0)


def _pytest(options: list[str], *words: str) -> int:
    command = [sys.executable, "-m", "pytest", *options, *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
