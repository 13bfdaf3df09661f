"""What interruptions cost real trainings on a real Slurm: steps done twice, grace used.

The trials of tests/slurm/test_no_step_lost.py, once. Writes tests/results/interruptions.json.

    python tests/bench/bench_interruptions.py

Ends with a traceback when a training has not come to the end of the undisturbed one.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.machine import slurm_release  # noqa: E402
from support.trial_training import SLOW_STEP_S, TOTAL  # noqa: E402
from support.trials import GRACE_TIME_S, KILL_WAIT_S, TRIALS, play, table, undisturbed  # noqa: E402

RESULT = ROOT / "tests" / "results" / "interruptions.json"
WHAT = (
    "Trainings of a few thousand parameters as jobs of `gsched submit --gs-checkpoint`, all at "
    "once on one machine, each interrupted once in its own way while it takes half a second a "
    "step; then it goes on by itself (after scancel: submitted again), and must come to the "
    "hash of parameters, optimiser and random state of the undisturbed run, on every rank. "
    "steps_repeated: finished more than once, the most of all ranks; a snapshot is taken at "
    "every step, and in `node`, where memory is lost, a checkpoint written each second. "
    "grace_used_s: from SIGTERM to the checkpoint on disk, as the job's log says it; null where"
    " the job does not come to say it, because the node or, with proctrack/linuxproc, srun has "
    "killed it: the writer outside the step saves then."
)


def main() -> int:
    expected, began = undisturbed(), time.monotonic()
    with play() as trials:
        outcomes = [trials.outcome(trial) for trial in TRIALS]
    for outcome in outcomes:
        assert outcome.hashes == expected[outcome.trial.case], outcome
    print(table(outcomes))
    release = slurm_release()
    document = {
        "what": WHAT,
        "slurm": f"{release[0]:02}.{release[1]:02}",
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "steps": TOTAL,
        "step_s": SLOW_STEP_S,
        "preemption_grace_s": GRACE_TIME_S,
        "kill_wait_s": KILL_WAIT_S,
        "all_s": round(time.monotonic() - began, 1),
        "trials": [outcome.row() for outcome in outcomes],
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
