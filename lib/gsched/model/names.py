"""Job names made comparable: bounded, and masked.

Names come from users: any text, any length. Everything here costs a bounded time a name.
"""

from __future__ import annotations

import re

MAX_LENGTH = 256
_TAIL = 64
"""Characters kept from the end of a longer name: counters and versions are there."""

MASK_VERSION = 1
"""Raised whenever `masked` gives another text for some name: stored masks are then made again."""

_HASH, _DATE, _NUMBER = "@", "&", "#"
_PATTERNS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), _HASH),
    (re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}([-_./]?)[01][0-9]\1[0-3][0-9](?![0-9])"), _DATE),
    # a hash has letters and digits; words (`facade`) and numbers are no hashes
    (re.compile(r"(?<![0-9a-z])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}(?![0-9a-z])"), _HASH),
    # digits between letters belong to a word (`gpt2xl`, `h100x8`); other numbers vary by run
    (re.compile(r"(?<![^\W_])[0-9]+|[0-9]+(?![^\W_])"), _NUMBER),
)


def bounded(name: str) -> str:
    """`name` cut to MAX_LENGTH characters: its beginning and its end."""
    if len(name) <= MAX_LENGTH:
        return name
    return name[: MAX_LENGTH - _TAIL] + name[-_TAIL:]


def masked(name: str) -> str:
    """`name` without what differs from run to run: numbers, dates, hashes, UUIDs, letter case."""
    text = bounded(name).lower()
    for pattern, mark in _PATTERNS:
        text = pattern.sub(mark, text)
    return text
