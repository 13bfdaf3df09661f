"""A trainee without torch that writes down which signals reach it.

`python told.py FILE LAST CODE` notes in FILE, a word a line: `ready`, the names of the signals that
come, `saved` half a second after LAST, at which it ends with CODE, and `done` where FILE.go appears
first. A start that finds FILE.go ends at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

CAUGHT = ("HUP", "INT", "TERM", "USR1", "USR2")
SAVING_S = 0.5
LIFE_S = 120.0
TICK_S = 0.05


def main() -> None:
    path, last, code = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seen: list[str] = []
    for name in CAUGHT:
        signal.signal(getattr(signal, f"SIG{name}"), lambda number, _: seen.append(_name(number)))
    note(path, "ready")
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end and not path.with_suffix(".go").exists():
        while seen:
            note(path, name := seen.pop(0))
            if name == last:
                save(path)
                sys.exit(code)
        time.sleep(TICK_S)
    note(path, "done")


def save(path: Path) -> None:
    """It takes its time, and says what gsched's runtime says of a training that is not done."""
    end = time.monotonic() + SAVING_S
    while time.monotonic() < end:
        time.sleep(TICK_S)
    note(path, "saved")
    if mark := os.environ.get("GSCHED_STOPPED_MARK"):
        Path(mark).touch()


def note(path: Path, word: str) -> None:
    with path.open("a") as file:
        file.write(f"{word}\n")


def _name(number: int) -> str:
    return signal.Signals(number).name.removeprefix("SIG")


if __name__ == "__main__":
    main()
