"""The lines of a text file from anywhere, each of bounded length.

A file of ten gigabytes without a line end must not be a line of ten gigabytes in memory.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_LINE_BYTES = 1 << 20
"""What stands behind them in a line is not read."""

MAX_LINE_CHARS = MAX_LINE_BYTES // 4
"""A line of so many characters is too long. None that was cut has fewer: none takes 5 bytes."""

TOO_LONG = "the line is too long"
"""Why a row of such a line is rejected."""

_BLOCK_BYTES = 1 << 17
_MAX_RAW_CHARS = 4096


def text_lines(
    stream: BinaryIO, *, only_lf: bool = False, errors: str = "backslashreplace"
) -> io.TextIOWrapper:
    """The lines of a text file, each of bounded length (see `MAX_LINE_BYTES`).

    Text is UTF-8, or UTF-16 with a byte-order mark; bytes that are neither become ``\\xNN``, or
    what `errors` says. Lines end with LF, CR LF or CR, and come with LF; with `only_lf` they end
    with LF alone, and a CR is a character as others are.
    """
    buffered = io.BufferedReader(_BoundedLines(stream, only_lf=only_lf), _BLOCK_BYTES)
    is_utf16 = buffered.peek(2)[:2] in {b"\xff\xfe", b"\xfe\xff"}
    encoding = "utf-16" if is_utf16 else "utf-8-sig"
    newline = "\n" if only_lf else None
    return io.TextIOWrapper(buffered, encoding, errors, newline)


def shortened(text: str) -> str:
    """Text of bounded length, for a reject."""
    return text if len(text) <= _MAX_RAW_CHARS else f"{text[: _MAX_RAW_CHARS - 1]}…"


class _BoundedLines(io.RawIOBase):
    """The bytes of a stream, without what a line has beyond `MAX_LINE_BYTES`."""

    def __init__(self, stream: BinaryIO, *, only_lf: bool) -> None:
        self._stream = stream
        self._only_lf = only_lf
        self._line_bytes = 0  # of the line that is not ended yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        while block := self._stream.read(min(len(view), _BLOCK_BYTES)):
            kept = self._bounded(block)
            if kept:
                view[: len(kept)] = kept
                return len(kept)
        return 0

    def _bounded(self, block: bytes) -> bytes:
        end = b"\n" if self._only_lf or b"\n" in block else b"\r"
        first = block.find(end)
        room = max(MAX_LINE_BYTES - self._line_bytes, 0)
        if first < 0:
            self._line_bytes += len(block)
            return block[:room]
        self._line_bytes = len(block) - block.rfind(end) - 1
        return block if first <= room else block[:room] + block[first:]
