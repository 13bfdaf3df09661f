"""A fit of the run-time model as it is recorded, and what became of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gsched.model.decision import JsonValue


class FitOutcome(enum.Enum):
    """What became of a fitted model. `value` is its word in the database."""

    ADOPTING = "adopting"
    """It is being put in use, or whoever did so was killed."""
    ADOPTED = "adopted"
    PINNED = "pinned"
    """Another model is pinned; this one was kept beside it."""
    INTERRUPTED = "interrupted"
    """Its process ended before it was in use."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit. Times are epoch seconds; `took_s` seconds with the reading of the history.

    It knows `num_jobs` jobs that were submitted from `data_from` on and had ended by `data_until`,
    before `as_of`. `details` are its scores, weights and versions as JSON. `started_by` is
    ``command`` or ``timer``; `why` says in words why the outcome is what it is.
    """

    cluster: str
    model_id: str
    fitted_at: int
    took_s: float
    started_by: str
    as_of: int
    data_from: int
    data_until: int
    num_jobs: int
    features: tuple[str, ...]
    details: Mapping[str, JsonValue]
    outcome: FitOutcome
    why: str
