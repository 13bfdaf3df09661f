"""Passes all tests side by side: those on a real Slurm, in two processes, mostly wait.

    python tests/run_all.py [options of pytest]

The first half's output is shown as it comes, the other's when both have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WAITING = ("tests/slurm", "tests/shell", "tests/contract")
"""Folders whose tests wait for Slurm's daemons."""
IN_TWO = ("-n", "2", "--dist", "loadfile")
"""A file's tests stay together: they share a testbed."""


def main(options: list[str]) -> int:
    """Run both halves; returns 0 when both have passed."""
    pytest = [sys.executable, "-m", "pytest", *options]
    rest = [f"--ignore={folder}" for folder in WAITING]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as later:
        print(f"== {' '.join(WAITING)}; all others run beside them", flush=True)
        other = subprocess.Popen(
            [*pytest, "-p", "no:cacheprovider", *rest], cwd=ROOT, stdout=later, stderr=later
        )
        try:
            code = subprocess.run([*pytest, *IN_TWO, *WAITING], cwd=ROOT, check=False).returncode
        finally:
            other_code = other.wait()
        later.seek(0)
        print("== all other tests", flush=True)
        print(later.read(), flush=True)
        if other_code < 0:
            print(f"== ended by signal {-other_code}", flush=True)
    return 1 if code or other_code else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
