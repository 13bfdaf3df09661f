"""A job that tells how far it is, as a training does, and is told to save: python, no torch.

    telling_job.py saves|never|busy|silent FOLDER

Its steps take a tenth of a second. ``saves``: at USR1 a checkpoint of the present step is written
for half a second. ``never``: it goes on and saves nothing. ``busy``: it writes a checkpoint from
its beginning on until FOLDER/free is there, and saves at USR1 then. ``silent``: its first
SILENT_AFTER steps are saved and told, and nothing of what follows. Each USR1 is a line in
FOLDER/told.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from gsched.runtime.heartbeat import Heartbeat

STEP_S, WRITE_S = 0.1, 0.5
SILENT_AFTER = 20


def main() -> None:
    """Until somebody ends it."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    told: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: told.append(number))
    restart = os.environ.get("SLURM_RESTART_COUNT", "0")
    heartbeat = Heartbeat(checkpoint_dir=folder)
    if is_busy := kind == "busy":
        heartbeat.saving(begins=True)
    step, answered = 0, 0
    while True:
        time.sleep(STEP_S)
        step += 1
        if kind == "silent" and step >= SILENT_AFTER:
            if step == SILENT_AFTER:
                heartbeat.report(step)
                heartbeat.committed(step)
            continue
        heartbeat.report(step)
        if is_busy and (folder / "free").exists():
            heartbeat.committed(step)
            heartbeat.saving(begins=False)
            is_busy = False
        if len(told) > answered:
            answered = len(told)
            with (folder / "told").open("a") as lines:
                lines.write(f"{restart}\n")
            if kind != "never":
                heartbeat.saving(begins=True)
                time.sleep(WRITE_S)
                heartbeat.committed(step)
                heartbeat.saving(begins=False)


if __name__ == "__main__":
    main()
