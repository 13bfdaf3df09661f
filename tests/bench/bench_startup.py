"""CPU time from the start of a command to its end, without any answer of Slurm.

Writes tests/results/startup.json: user + system time of the process, median of N runs. The budget
is 150 ms; it is recorded here and not asserted, for machines differ.

    python tests/bench/bench_startup.py [RUNS]
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("gsched")
RESULT = ROOT / "tests" / "results" / "startup.json"
BUDGET_MS = 150

STARTS = {
    "gsched --help": ["--help"],
    "gsched submit --gs-dry-run --wrap true": ["submit", "--gs-dry-run", "--wrap", "true"],
    "gsched queue --help": ["queue", "--help"],
    "gsched why --help": ["why", "--help"],
    "completion of a command": [],
}
COMPLETION = {"_GSCHED_COMPLETE": "bash_complete", "COMP_WORDS": "gsched s", "COMP_CWORD": "1"}


def cpu_ms(args: list[str]) -> float:
    """User and system CPU time of one run, in milliseconds."""
    environ = os.environ | ({} if args else COMPLETION)
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(PROGRAM, ["gsched", *args], environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"gsched {' '.join(args)} ended with status {status}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    """Measure, print and record."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    figures = {}
    for name, args in STARTS.items():
        cpu_ms(args)  # writes byte code, fills the page cache
        samples = [cpu_ms(args) for _ in range(runs)]
        figures[name] = {
            "cpu_ms_median": round(statistics.median(samples), 1),
            "cpu_ms_min": round(min(samples), 1),
        }
        print(f"{figures[name]['cpu_ms_median']:7.1f} ms  {name}")
    document = {
        "what": "CPU time (user + system) of a whole command, milliseconds",
        "budget_ms": BUDGET_MS,
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": figures,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
