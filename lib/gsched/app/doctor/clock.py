"""Clocks: this host's against slurmctld's, and the time zone of what people read and write."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.slurm.munge import TTL_S
from gsched.slurm.parse_sdiag import parse_sdiag

TOLERANCE_S = 5
"""So far apart clocks do no harm: rounds take as long."""


def check_skew(walk: Walk) -> Iterator[Finding]:
    """How far this host's clock is from slurmctld's."""
    began = walk.clock()
    server_time = parse_sdiag(walk.output("sdiag")).server_time
    skew_s = server_time - began
    if abs(skew_s) <= TOLERANCE_S + (walk.clock() - began):
        yield Finding("ok", "clock", "clock", "this host's and slurmctld's agree")
        return
    side = "behind" if skew_s > 0 else "ahead of"
    consequence = ", and munge's proofs expire" if abs(skew_s) > TTL_S else ""
    yield Finding(
        "warn",
        "clock-skew",
        "clock",
        f"this host is {abs(skew_s):.0f} s {side} slurmctld: waiting times are wrong{consequence}",
        "let one time service keep both: `systemctl enable --now chrony`, then `chronyc makestep`",
    )


def check_zone(walk: Walk) -> Iterator[Finding]:
    """Whether TZ names a zone: the C library takes any other text for UTC, in silence."""
    zone = walk.environ.get("TZ", "")
    if not zone or zone.startswith((":/", "/")) or "," in zone or _is_zone(zone.lstrip(":")):
        return
    yield Finding(
        "warn",
        "time-zone",
        "time zone",
        f"TZ={zone} is no time zone of this host: times are shown, and freeze windows kept, in UTC",
        "unset TZ, or set it to a name that `timedatectl list-timezones` has",
    )


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return any(c.isdigit() for c in name)  # a POSIX rule: CET-1CEST
    return True
