"""What the clock and the calendar say of a moment: people work by them, and so do clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gsched.errors import ConfigError

CALENDAR = ("hour", "weekday", "day", "is_day_off", "days_to_day_off")

_FURTHEST = 4  # days ahead in which a day off is looked for


@dataclass(frozen=True, slots=True)
class Calendar:
    """The zone that people live in, and the country (ISO 3166, with `region`) of their holidays.

    Without a country only Saturdays and Sundays are days off.
    """

    zone: tzinfo = UTC
    country: str = ""
    region: str = ""

    def columns(self, moments: NDArray[np.int64]) -> NDArray[np.float64]:
        """A row a moment (epoch seconds), a column a name of CALENDAR.

        Hours count from 0 to 24 with fractions, weekdays from Monday = 0, days in the month from 1.
        `days_to_day_off` is 0 on a day off and at most 4.
        """
        rows = np.empty((len(moments), len(CALENDAR)))
        for row, moment in enumerate(moments.tolist()):
            local = datetime.fromtimestamp(moment, self.zone)
            hour = local.hour + local.minute / 60 + local.second / 3600
            rows[row] = hour, *_of_day(self, local.date())
        return rows

    def is_day_off(self, day: date) -> bool:
        """Whether people do not work on that day."""
        return day.weekday() >= 5 or day in _holidays(self.country, self.region, day.year)


@cache
def _of_day(calendar: Calendar, day: date) -> tuple[float, float, float, float]:
    ahead = [day + timedelta(days=days) for days in range(_FURTHEST)]
    distance = next((n for n, each in enumerate(ahead) if calendar.is_day_off(each)), _FURTHEST)
    return float(day.weekday()), float(day.day), float(distance == 0), float(distance)


@cache
def _holidays(country: str, region: str, year: int) -> Mapping[date, str]:
    """Public holidays of a year, by date; none without a country. ConfigError for an unknown one.

    The library is imported where it is needed: it knows 250 countries.
    """
    if not country:
        return {}
    import holidays

    try:
        found: Mapping[date, str] = holidays.country_holidays(
            country, subdiv=region or None, years=year
        )
    except NotImplementedError as error:
        raise ConfigError(
            f"no holidays are known of country {country!r} {region}".rstrip(),
            hint="a country is a code of ISO 3166 (US, DE, CN), a region one of ISO 3166-2",
        ) from error
    return dict(found)
