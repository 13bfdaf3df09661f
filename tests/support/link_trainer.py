"""A trainer as a process, to be killed: it fills a slot, and has a child that outlives it.

The child is forked by C code, of which Python knows nothing: so it keeps all that the trainer had
open, its end of the writer's line too.

    python tests/support/link_trainer.py FOLDER RUN SOCKET STEP…

Fills a snapshot for each STEP, prints "ready PID-OF-CHILD" and waits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink


def main() -> None:
    folder, run, listening, *steps = sys.argv[1:]
    link = WriterLink.open(RunTarget(Path(folder), run), listening=listening)
    for step in map(int, steps):
        data = f"snapshot of {step}".encode()
        link.ensure_room(len(data))
        slot = link.free_slot()
        assert slot is not None
        link.buffer(slot)[: len(data)] = data
        link.filled(slot, step, len(data))
    child = ctypes.PyDLL(None).fork()
    if child:
        print("ready", child, flush=True)
    else:
        os.close(1)
    signal.pause()


if __name__ == "__main__":
    main()
