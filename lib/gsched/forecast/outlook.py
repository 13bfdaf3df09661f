"""What a forecast says: when each waiting job will start, and what would start it sooner.

Times are epoch seconds. Nothing here needs the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.forecast.situation import WaitingJob

NEVER_FITS = "never-fits"
"""The nodes of its field, all free, do not hold the job."""


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """How a forecast is made.

    `samples` futures are drawn from `seed`; the interval has the probability `coverage`. Jobs to
    come are drawn for `horizon_s`, then nobody comes any more.
    """

    samples: int = 32
    seed: int = 0
    coverage: float = 0.8
    horizon_s: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of the samples and the quantiles that enclose the coverage in the middle."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Start:
    """When a waiting job will start. `raw` is before the calibration, `calibrated_on` the number of
    earlier forecasts that it was learnt from (0: `start` is `raw`). `next_free` is the row of
    Outlook.next_free, None where nothing runs that could make room.
    """

    job_id: str
    start: Interval
    raw: Interval
    calibrated_on: int = 0
    next_free: int | None = None


@dataclass(frozen=True, slots=True)
class NoStart:
    """Why there is no forecast for a job: NEVER_FITS."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextFree:
    """The running job that will probably be the next to give back units on these nodes."""

    job_id: str
    nodes: tuple[str, ...]
    units: int
    end: Interval


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast of all waiting jobs, in the order of the situation.

    `overcommitted` counts units that running jobs hold beyond what the nodes have.
    """

    as_of: float
    samples: int
    seed: int
    coverage: float
    starts: tuple[Start, ...]
    no_starts: tuple[NoStart, ...]
    next_free: tuple[NextFree, ...]
    overcommitted: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A job as it would be after one change, to be tried: `job` with other demands, limit, run
    times or order.

    `kind` is ``gpus``, ``partition``, ``time-limit`` or another word of the caller's, `option` what
    a user would type, `value` the number or name in it.
    """

    kind: str
    option: str
    value: str
    job: WaitingJob


@dataclass(frozen=True, slots=True)
class ChangedStart:
    """When the job would start with that change; None: it would never fit."""

    kind: str
    option: str
    value: str
    start: Interval | None
