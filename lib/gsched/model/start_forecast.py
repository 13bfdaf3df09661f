"""A forecast of a job's start as it was kept, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

FORECAST_MODEL = "forecast"
"""The model of predictions of kind START that were shown, by which they are told apart."""
RAW_MODEL = "forecast-raw"
"""The same before their intervals were calibrated."""


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Times are epoch seconds. `start_time` None: it had not started, as far as the history knows;
    then `waits` says whether it still may.
    """

    as_of: int
    median: float
    low: float
    high: float
    start_time: int | None
    waits: bool
