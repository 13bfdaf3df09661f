"""A clock that a test steps: with this folder on PYTHONPATH, ``time.time`` of a Python process is
the machine's plus the seconds in the file that STAND_IN_CLOCK names. The machine's own clock is
everybody's and cannot be stepped by a test.
"""

import os
import time

_PATH = os.environ.get("STAND_IN_CLOCK", "")
_true_time, _true_time_ns = time.time, time.time_ns


def _offset_s() -> int:
    try:
        with open(_PATH, encoding="ascii") as f:
            return int(f.read() or 0)
    except OSError:
        return 0


if _PATH:
    time.time = lambda: _true_time() + _offset_s()
    time.time_ns = lambda: _true_time_ns() + _offset_s() * 10**9
