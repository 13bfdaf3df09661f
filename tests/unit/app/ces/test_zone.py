"""The zone of the calendar: this host's own changes to summer time as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from gsched.app.ces.zone import zone_of
from gsched.demand.calendar import Calendar
from gsched.errors import ConfigError


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_hosts_zone_tells_what_the_named_one_does_all_through_a_year(berlin: None) -> None:
    since = int(datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")).timestamp())
    moments = np.arange(since, since + 366 * 86400, 1800)
    own = Calendar(zone_of("")).columns(moments)
    named = Calendar(zone_of("Europe/Berlin")).columns(moments)
    assert (own == named).all()
    assert (own != Calendar(zone_of("UTC")).columns(moments)).any()


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="no time zone"):
        zone_of("Europe/Atlantis")
