"""A record in two slots of a fixed size, written by turns: whatever cuts a write off, one is whole.

A slot is a word that says what it is, CRC32 and LENGTH (hexadecimal and decimal digits), a line
end, LENGTH bytes of JSON, spaces, a line end. A reader takes the valid slot with the higher number.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from gsched.errors import DataError
from gsched.telemetry.checked import Checked

_Content = TypeVar("_Content")


def encode_slot(kind: bytes, fields: dict[str, Any], size: int) -> bytes:
    """One slot of `size` bytes. Raises DataError for `fields` that do not fit."""
    payload = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")
    header = kind + b" %08x %06d\n" % (zlib.crc32(payload), len(payload))
    if len(header) + len(payload) >= size:
        raise DataError(f"a record of {len(payload)} bytes does not fit into {size}")
    return (header + payload).ljust(size - 1) + b"\n"


def newest(
    kind: bytes, data: bytes, size: int, parse: Callable[[Checked], tuple[int, _Content]]
) -> tuple[int, _Content]:
    """Number and contents of the newer of the two slots that `data` begins with.

    Raises DataError where none is valid.
    """
    found, problem = [], ""
    for start in range(0, 2 * size, size):
        try:
            found.append(parse(_payload(kind, data[start : start + size])))
        except DataError as e:
            problem = problem or e.message
    if not found:
        raise DataError(f"nothing to be read: {problem}")
    return max(found, key=lambda pair: pair[0])


def _payload(kind: bytes, slot: bytes) -> Checked:
    header, _, rest = slot.partition(b"\n")
    if not header.startswith(kind + b" "):
        raise DataError("it does not begin as one")
    checksum, _, length = header[len(kind) :].strip().partition(b" ")
    try:
        payload = rest[: int(length)]
        is_right = zlib.crc32(payload) == int(checksum, 16)
    except ValueError:
        raise DataError("it does not begin as one") from None
    if not is_right:
        raise DataError("its checksum does not fit")
    return Checked.parse(payload)
