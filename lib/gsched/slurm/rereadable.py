"""A stream that can be read from its beginning again, though it cannot seek."""

from __future__ import annotations

import io
import tempfile
from typing import BinaryIO

from gsched.files import keeping_a_copy

_IN_MEMORY = 16 * 2**20
_BUFFER = 2**20


class Rereadable:
    """What is read of `source` is kept, so that it can be read from its beginning again.

    It is kept in memory, and beyond 16 MiB in a temporary file: a first look at a long file needs
    no more memory than one at a short file. Raises UnavailableError where there is no room for it.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._keeps = True

    def read(self, size: int) -> bytes:
        """The next bytes."""
        with keeping_a_copy():
            data = self._kept.read(size)
        if not data:
            data = self._source.read(size)
            if self._keeps:
                with keeping_a_copy():
                    self._kept.write(data)
        return data

    def look(self) -> BinaryIO:
        """The stream from its beginning; it can be read again afterwards."""
        with keeping_a_copy():
            self._kept.seek(0)
        return io.BufferedReader(_View(self), _BUFFER)

    def last_look(self) -> BinaryIO:
        """The stream from its beginning for the last time: what follows is not kept."""
        self._keeps = False
        return self.look()


class _View(io.RawIOBase):
    """What io's buffer reads from; closing it does no harm."""

    def __init__(self, stream: Rereadable) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
