"""The calendar: hours of the zone, weekends, holidays of a country."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from gsched.demand.calendar import CALENDAR, Calendar
from gsched.errors import ConfigError


def columns(calendar: Calendar, *moments: datetime) -> list[dict[str, float]]:
    rows = calendar.columns(np.array([int(moment.timestamp()) for moment in moments]))
    return [dict(zip(CALENDAR, row, strict=True)) for row in rows.tolist()]


def test_thanksgiving_is_a_day_off_in_the_united_states_alone():
    thursday = datetime(2017, 11, 23, 12, 30, tzinfo=UTC)
    here, there = (columns(Calendar(country=c), thursday)[0] for c in ("US", "DE"))
    assert here == {
        "hour": 12.5, "weekday": 3, "day": 23, "is_day_off": 1, "days_to_day_off": 0,
    }  # fmt: skip
    assert (there["is_day_off"], there["days_to_day_off"]) == (0, 2)


def test_without_a_country_weekends_are_off():
    days = [date(2023, 11, n) for n in range(13, 20)]
    assert [Calendar().is_day_off(day) for day in days] == [False] * 5 + [True] * 2


def test_regions_have_holidays_of_their_own():
    epiphany = date(2023, 1, 6)  # a Friday
    assert Calendar(country="DE", region="BY").is_day_off(epiphany)
    assert not Calendar(country="DE", region="BE").is_day_off(epiphany)


def test_hours_are_those_of_the_zone_in_summer_too():
    zone = ZoneInfo("Europe/Berlin")
    winter, summer = (datetime(2023, month, 15, 10, tzinfo=UTC) for month in (1, 7))
    told = columns(Calendar(zone), winter, summer)
    assert [row["hour"] for row in told] == [11, 12]


@pytest.mark.parametrize("country", ["XX", "Germania"])
def test_an_unknown_country_is_refused(country):
    with pytest.raises(ConfigError, match=country):
        Calendar(country=country).is_day_off(date(2023, 1, 2))
