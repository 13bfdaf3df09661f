"""The tests themselves, as a script runs them: in the background, with signals ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_tests_that_send_signals_pass_where_the_run_ignores_them():
    chosen = ["unit/slurm/test_run.py", "-k", "reach_the_command or control_c or ends_gsched"]
    done = subprocess.run(
        ["env", "--ignore-signal=INT,HUP", sys.executable, "-m", "pytest", "-q", *chosen],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
