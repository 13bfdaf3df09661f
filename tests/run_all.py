"""Passes all tests in three processes, for those on a real Slurm mostly wait; one comes alone.

What failed on a real Slurm beside two other processes, each with daemons of its own on two cores,
is passed once more with nothing beside it, by whole files and only where there is little of it; it
is told by name at the end, for it may be a fault that shows under load alone. Whatever fails then,
or elsewhere, has failed, and so has everything where a test was skipped that should not have been.

Call it by ``python tests/run_all.py [options of pytest]``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IN_THREE = ("-n", "3", "--dist", "loadfile")
"""A file's tests stay together: they share a testbed."""

ALONE = ("tests/slurm/test_fairness_live.py",)
"""What it judges is how much real trainings get done in a time, which tests beside it take."""

ON_A_SLURM = "tests/slurm/"
MOST_AGAIN = 3
"""So many failed tests at most are worth another look; more are no accident."""

_FAILED, _NOTHING_COLLECTED = 1, 5


def main(options: list[str]) -> int:
    """Run them; returns 0 when all have passed, else pytest's own code."""
    kept = [f"--ignore={file}" for file in ALONE]
    with tempfile.TemporaryDirectory() as folder:
        cache = ("-o", f"cache_dir={folder}")
        first = _pytest(options, *cache, *IN_THREE, *kept, "tests")
        is_whole = not (Path(folder) / "v" / "gsched" / "skipped").exists()
        failed = _failed(Path(folder)) if first == _FAILED and is_whole else []
    alone = _pytest(options, *ALONE)
    if is_worth_another_look(failed):
        first = _pytest(options, *sorted({test.partition("::")[0] for test in failed}))
        told = "passed alone" if first == 0 else "failed again"
        print(f"FAILED BESIDE OTHERS, {told}:", *failed, sep="\n  ", flush=True)
    codes = {first, alone}
    if codes == {_NOTHING_COLLECTED}:
        return _NOTHING_COLLECTED
    return next((code for code in (first, alone) if code not in (0, _NOTHING_COLLECTED)), 0)


def is_worth_another_look(failed: list[str]) -> bool:
    """Whether these tests, by pytest's names, may have failed for what ran beside them."""
    on_a_slurm = all(test.startswith(ON_A_SLURM) for test in failed)
    return 0 < len(failed) <= MOST_AGAIN and on_a_slurm


def _failed(cache: Path) -> list[str]:
    """Names of the tests that pytest noted as failed there."""
    noted = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(noted.read_text())) if noted.exists() else []


def _pytest(options: list[str], *words: str) -> int:
    command = [sys.executable, "-m", "pytest", *options, *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
