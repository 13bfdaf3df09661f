"""Passes all tests: in three processes, for those on a real Slurm, which come first, mostly wait.

python tests/run_all.py [options of pytest]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = ("tests/slurm", "tests/shell", "tests/contract")
"""Folders whose tests wait for Slurm's daemons, and take longest."""
IN_THREE = ("-n", "3", "--dist", "loadfile")
"""A file's tests stay together: they share a testbed."""


def folders() -> list[str]:
    """Every folder of tests, those that wait first."""
    found = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    others = {Path(*path.parts[:2]).as_posix() for path in found}
    return [*FIRST, *sorted(others - {*FIRST})]


def main(options: list[str]) -> int:
    """Run them; returns 0 when all have passed."""
    words = [sys.executable, "-m", "pytest", *options, *IN_THREE, *folders()]
    return subprocess.run(words, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
