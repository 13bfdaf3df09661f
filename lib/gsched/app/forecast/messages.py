"""What the daemon and its forecasting process say to each other, as `gsched.forecast.codec` has it.

The same Python runs on both sides; what comes is checked all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.forecast.calibration import Calibration
from gsched.forecast.outlook import Change, ChangedStart, ForecastOptions, Outlook
from gsched.forecast.situation import PastArrival, Situation


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Past arrivals for a situation, from a time on."""

    since: float
    jobs: tuple[PastArrival, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Changes of one waiting job that are to be tried."""

    job_id: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A situation without its arrivals: they change seldom, and None means those of before.

    Changes are tried in the order of `wanted`, those of the first `certainly` jobs in any case, the
    others until `cpu_s` seconds of processor time have gone into the answer.
    """

    situation: Situation
    arrivals: Arrivals | None
    options: ForecastOptions
    calibration: Calibration
    wanted: tuple[Wanted, ...]
    certainly: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of the changes of one job."""

    job_id: str
    starts: tuple[ChangedStart, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """`cpu_s` is the processor time that all took, `outlook_cpu_s` without the changes."""

    outlook: Outlook
    tried: tuple[Tried, ...]
    cpu_s: float
    outlook_cpu_s: float
