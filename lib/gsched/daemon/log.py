"""The daemon's log: lines on stderr, with levels where that is the journal.

Names of jobs and what Slurm's commands print come from strangers: whatever could move a terminal's
cursor or feign a line of its own is shown as an escape.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

_PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
_DEBUG = 7
_MAX_LINE = 4000


def set_up(level: int) -> None:
    """Let this process log to stderr what is at least of `level`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JournalFormatter() if is_journal() else _PlainFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)


def is_journal(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether stderr is a stream of the journal, see JOURNAL_STREAM in systemd.exec(5)."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def priority(level: int) -> str:
    """The prefix of a line of this logging level, see sd-daemon(3)."""
    return f"<{next((n for least, n in _PRIORITIES if level >= least), _DEBUG)}>"


def one_line(text: str) -> str:
    """`text` on one line without control, format or direction characters, of bounded length."""
    text = text[:_MAX_LINE]
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"gsched: {record.levelname}: {one_line(super().format(record))}"


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return priority(record.levelno) + one_line(super().format(record))
