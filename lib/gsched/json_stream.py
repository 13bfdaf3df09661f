"""JSON documents read piece by piece: members of an object, elements of a long list.

A year of ``sacct --json`` is gigabytes; one job of it is some kilobytes. The standard library's
scanner takes one element at a time out of a buffer. Bare control characters and bytes that are no
UTF-8, which Slurm's JSON may hold in users' texts, are let through, as in ``parse_json_values``;
parsers that take a document in events refuse both.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from gsched.errors import DataError

_READ = 2**20
LONGEST = 64 * 2**20
"""Characters of one element, or of any other member."""
_AT_THE_END = 64  # so near the end of what was read, an error may be the cut and no fault
_BLANKS = " \t\r\n"


def read_members(stream: BinaryIO, listed: str) -> Iterator[tuple[str, Any]]:
    """(name, value) of each member of the document's object, in its order.

    Of the member `listed`, if it is a list, the elements come one by one, as ``(listed[], …)``,
    and then ``(listed, None)``. Several documents, one after the other, are read as one. Raises
    DataError for what is no JSON, and where a document ends in the middle.
    """
    return _Scanner(stream, "the JSON of a Slurm command").members(listed)


def read_elements(stream: BinaryIO) -> Iterator[Any]:
    """The elements of a list. Raises DataError as `read_members` does."""
    return _Scanner(stream, "a JSON list").elements("element")


class _Scanner:
    def __init__(self, stream: BinaryIO, what: str) -> None:
        self._stream = stream
        self._what = what
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._scan = json.JSONDecoder(strict=False).raw_decode
        self._buffer, self._at = "", 0
        self._is_over = False
        self._where = "the beginning"

    def members(self, listed: str) -> Iterator[tuple[str, Any]]:
        """See `read_members`."""
        while self._peek():
            self._expect("{")
            while self._peek() != "}":
                name = self._value()
                if not isinstance(name, str):
                    raise DataError(f"not {self._what}: {name!r} is no name")
                self._where = name
                self._expect(":")
                if name == listed and self._peek() == "[":
                    yield from ((f"{name}[]", element) for element in self.elements(name))
                    yield name, None
                else:
                    yield name, self._value()
                if self._peek() != "}":
                    self._expect(",")
            self._expect("}")

    def elements(self, name: str) -> Iterator[Any]:
        """See `read_elements`; `name` is for messages."""
        self._expect("[")
        number = 0
        while self._peek() != "]":
            number += 1
            self._where = f"{name} {number}"
            yield self._value()
            if self._peek() != "]":
                self._expect(",")
        self._expect("]")

    def _peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in _BLANKS:
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._fill(_READ):
                return ""

    def _expect(self, mark: str) -> None:
        found = self._peek()
        if found != mark:
            what = f"{found!r} in place of {mark!r}" if found else "the document ends"
            raise DataError(f"not {self._what}: {what} at {self._where}")
        self._at += 1

    def _value(self) -> Any:
        self._peek()
        size = _READ
        while True:
            try:
                value, end = self._scan(self._buffer, self._at)
            except RecursionError:
                raise DataError(f"JSON is nested too deeply at {self._where}") from None
            except json.JSONDecodeError as error:
                is_cut = error.pos > len(self._buffer) - _AT_THE_END
                if not (is_cut or error.msg.startswith("Unterminated")) or not self._fill(size):
                    raise self._fault(error.msg) from None
            except ValueError:  # Python's limit
                raise self._fault("a number has too many digits") from None
            else:
                # a number may go on in what is not read yet
                if end < len(self._buffer) or not self._fill(size):
                    self._at = end
                    return value
            if len(self._buffer) - self._at > LONGEST:
                raise self._fault(f"longer than {LONGEST} characters")
            size *= 2

    def _fault(self, what: str) -> DataError:
        how = "the document ends" if self._is_over else what
        return DataError(f"not {self._what}: {how} at {self._where}")

    def _fill(self, size: int) -> bool:
        """Read on; False at the end."""
        if self._is_over:
            return False
        data = self._stream.read(size)
        self._is_over = not data
        self._buffer = self._buffer[self._at :] + self._decode(data, final=not data)
        self._at = 0
        return True
