"""Parts of a program in forks of it, so that what takes long to load is loaded once."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def in_child(result: Path, work: Callable[[], Any]) -> Any:
    """What `work` returns, as JSON, from a fork of this process; `result` is a file for it."""
    child = os.fork()
    if child == 0:
        try:
            result.write_text(json.dumps(work()))
            sys.stderr.flush()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise SystemExit(f"a part of the program ended with status {status}")
    return json.loads(result.read_text())
