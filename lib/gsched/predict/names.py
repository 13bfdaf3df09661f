"""Which job names are alike: masked names (``gsched.model.names``) compared by their letters."""

from __future__ import annotations

from functools import lru_cache

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from gsched.model.names import masked

SIMILARITY_CUTOFF = 0.8
"""Masked names are alike when at most a fifth of their characters differ (Levenshtein)."""


@lru_cache(maxsize=2**14)
def mask_of(name: str) -> str:
    """``masked``, kept for the names that come again; `name` is bounded."""
    return masked(name)


def most_similar(wanted: str, masks: list[str], limit: int) -> list[str]:
    """At most `limit` of `masks` like the masked name `wanted`.

    Most alike first; empty when none passes SIMILARITY_CUTOFF.
    """
    found = process.extract(
        wanted,
        masks,
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=SIMILARITY_CUTOFF,
        limit=limit,
    )
    return [mask for mask, _, _ in found]


def nearest(wanted: str, masks: list[str]) -> int | None:
    """Index of the mask most like the masked name `wanted`; None when none is alike."""
    found = process.extractOne(
        wanted, masks, scorer=Levenshtein.normalized_similarity, score_cutoff=SIMILARITY_CUTOFF
    )
    return None if found is None else found[2]
