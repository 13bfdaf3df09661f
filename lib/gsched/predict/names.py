"""Which job names are alike: masked names (``gsched.model.names``) compared by their letters."""

from __future__ import annotations

from collections.abc import Mapping

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

SIMILARITY_CUTOFF = 0.8
"""Masked names are alike when at most a fifth of their characters differ (Levenshtein)."""


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
