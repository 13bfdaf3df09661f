"""A line on stderr that says how far long work is; only at a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from gsched_cli.output import cut, safe_text

_EVERY_S = 0.2
_WIDTH = 79


class ProgressLine:
    """Writes over its last words; leaves an empty line behind. `with ProgressLine() as line:`."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._next_at = 0.0

    def show(self, words: str) -> None:
        """Say `words`, unless something was said just now."""
        if not self._shows or (now := time.monotonic()) < self._next_at:
            return
        self._next_at = now + _EVERY_S
        print(f"\r\x1b[K{cut(safe_text(words), _WIDTH)}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._next_at:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
