"""A training that saves when a file asks it to, and tells what it sees: a child of save_command.

    saving_on_demand.py FOLDER CHECKPOINT STATUS

It copies the file CHECKPOINT into FOLDER whenever FOLDER/save-now is there, writes what it does to
FOLDER/log, one line each, and ends with STATUS at SIGTERM.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

SAVE_NOW = "save-now"
_TICK_S = 0.02


def main() -> int:
    folder, checkpoint, status = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    log(folder, "started")
    num_saved = 0
    while signal.sigtimedwait({signal.SIGTERM}, _TICK_S) is None:
        if (folder / SAVE_NOW).exists():
            num_saved += 1
            (folder / SAVE_NOW).unlink()
            unfinished = folder / "unfinished"
            shutil.copy(checkpoint, unfinished)
            unfinished.rename(folder / f"saved-{num_saved}.pt")
            log(folder, f"saved {num_saved}")
    log(folder, "TERM")
    return status


def log(folder: Path, line: str) -> None:
    with (folder / "log").open("a") as stream:
        stream.write(line + "\n")
        os.fsync(stream)


if __name__ == "__main__":
    sys.exit(main())
