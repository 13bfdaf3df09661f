"""Which formats a file might have, for the hint after the wrong one was given."""

from __future__ import annotations

from io import BytesIO

from gsched.app.trace_formats import FORMATS, reader_of
from gsched.errors import GschedError
from gsched.model.trace import ReadOptions
from gsched.traces.source import open_trace

_HEAD_BYTES = 256 * 1024
_ENOUGH = 0.9
"""The share of the first rows that a format must understand."""


def fitting_formats(name: str, tried: str) -> list[str]:
    """Formats but `tried` that understand the beginning of the file."""
    try:
        with open_trace(name) as stream:
            head = stream.read(_HEAD_BYTES)
    except (GschedError, OSError):
        return []
    if len(head) == _HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1]
    return [fmt for fmt in FORMATS if fmt != tried and _fits(fmt, head)]


def _fits(format_name: str, head: bytes) -> bool:
    rows = attempts = 0
    try:
        for chunk in reader_of(format_name)(BytesIO(head), ReadOptions("head")):
            rows += chunk.rows_in - chunk.rows_skipped
            attempts += chunk.attempts.count
    except GschedError:
        return False
    return attempts > 0 and attempts >= _ENOUGH * rows
