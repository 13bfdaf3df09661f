"""Passes all tests in three processes, for those on a real Slurm mostly wait.

Call it by ``python tests/run_all.py [options of pytest]``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IN_THREE = ("-n", "3", "--dist", "loadfile")
"""A file's tests stay together: they share a testbed."""


def main(options: list[str]) -> int:
    """Run them; returns 0 when all have passed."""
    words = [sys.executable, "-m", "pytest", *options, *IN_THREE, "tests"]
    return subprocess.run(words, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
