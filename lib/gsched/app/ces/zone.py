"""The time zone by whose hours and days demand is forecast."""

from __future__ import annotations

import calendar
import time
import zoneinfo
from datetime import datetime, timedelta, tzinfo

from gsched.errors import ConfigError


class HostZone(tzinfo):
    """The zone of this host, by the C library: with its changes to and from summer time.

    ``datetime.astimezone`` knows the present offset alone. It turns moments into local times, and
    no local times into moments.
    """

    def fromutc(self, dt: datetime) -> datetime:
        """The local time of a moment, which comes as its UTC time."""
        local = time.localtime(calendar.timegm(dt.timetuple()))
        return datetime(*local[:5], min(local.tm_sec, 59), tzinfo=self)

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Not known of a local time."""
        return None

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Not known."""
        return None

    def tzname(self, dt: datetime | None) -> str:
        """No name that would be one everywhere."""
        return "local time"


HOST_ZONE = HostZone()


def zone_of(name: str) -> tzinfo:
    """The zone of that name, this host's for "". Raises ConfigError for one that is not known."""
    if not name:
        return HOST_ZONE
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"ces.time_zone = {name!r} is no time zone of this host",
            hint="`timedatectl list-timezones` has their names; empty = the host's own",
        ) from error
