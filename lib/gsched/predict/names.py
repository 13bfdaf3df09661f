"""Job names made comparable: bounded, masked, and alike or not.

Names come from users: any text, any length. Everything here costs a bounded time a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

MAX_LENGTH = 256
_TAIL = 64
"""Characters kept from the end of a longer name: counters and versions are there."""

SIMILARITY_CUTOFF = 0.8
"""Masked names are alike when at most a fifth of their characters differ (Levenshtein)."""

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


def most_similar(wanted: str, masks: Mapping[str, str], limit: int) -> list[str]:
    """Keys of at most `limit` of the `masks` (key → masked name) like the masked name `wanted`.

    Most alike first; empty when none passes SIMILARITY_CUTOFF.
    """
    found = process.extract(
        wanted,
        masks,
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=SIMILARITY_CUTOFF,
        limit=limit,
    )
    return [key for _, _, key in found]


def nearest(wanted: str, masks: list[str]) -> int | None:
    """Index of the mask most like the masked name `wanted`; None when none is alike."""
    found = process.extractOne(
        wanted, masks, scorer=Levenshtein.normalized_similarity, score_cutoff=SIMILARITY_CUTOFF
    )
    return None if found is None else found[2]
