"""The process that foresees when jobs will start: does it answer, and may it compile?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.units import FOLDERS, unit_text
from gsched.app.doctor.walk import Walk
from gsched.daemon import control_client
from gsched.errors import GschedError

_WHAT = "forecasts"
_STALE_INTERVALS = 10
_STALE_S = 900
_DENIES = re.compile(r"^MemoryDenyWriteExecute=\s*(\S*)", re.MULTILINE)
_OFF = "or [forecast] enabled = false in gsched.toml, if nobody wants to know when jobs will start"


def check(walk: Walk, folders: Sequence[Path] = FOLDERS) -> Iterator[Finding]:
    """Whether the running daemon makes forecasts, and whether its unit lets it."""
    chosen = walk.settings.forecast
    if not chosen.enabled:
        yield Finding("ok", "forecasts", _WHAT, "switched off")
        return
    text = unit_text(folders)
    denied = _DENIES.findall(text) if text else []
    if denied and denied[-1].lower() in {"yes", "true", "on", "1"}:
        yield Finding(
            "warn",
            "forecast-sandbox",
            _WHAT,
            "the systemd unit denies memory that is written and executed "
            "(MemoryDenyWriteExecute), so that the simulator cannot be compiled",
            f"install gsched-daemon.service.d/20-forecast.conf as it comes with gsched; {_OFF}",
        )
    try:
        told = control_client.status(walk.settings.daemon_socket).get("forecast") or {}
    except GschedError:
        return  # no daemon runs, or it does not answer: other checks say so
    if not told:
        return
    as_of, problem = told.get("as_of"), told.get("problem")
    age_s = walk.clock() - as_of if as_of else 0.0
    if problem or age_s > max(_STALE_S, _STALE_INTERVALS * chosen.interval_s):
        known = f"the newest is {age_s:.0f} s old" if as_of else "there was none yet"
        yield Finding(
            "warn",
            "forecast-failing",
            _WHAT,
            f"the daemon makes none: {problem or 'the process takes long'}; {known}",
            f"the daemon's log says why (`journalctl -u gsched-daemon`); {_OFF}",
        )
        return
    if as_of:
        yield Finding("ok", "forecasts", _WHAT, f"of {told.get('jobs')} jobs, {age_s:.0f} s old")
