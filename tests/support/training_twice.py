"""Runs a program of small trainings, and reads what they came to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent


def outcomes(module: str, folder: Path) -> dict[str, Any]:
    """What `python -m MODULE FOLDER` prints as its last line: JSON. `log` has what it said."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "GSCHED_"))}
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder)],
        env=environment | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"log": done.stderr}
