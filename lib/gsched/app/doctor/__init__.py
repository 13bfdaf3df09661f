"""Checks of everything that gsched stands on, each with its mend.

One module a theme; a check is a generator of findings that takes the walk. Nothing is changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from gsched.app.doctor import (
    ces,
    clock,
    configuration,
    database,
    deadlines,
    forecasts,
    heartbeats,
    history_source,
    jobscripts,
    leases,
    model,
    names,
    power,
    power_files,
    preemption,
    priorities,
    privilege,
    scheduling,
    service,
    slurm,
    sockets,
    state_folder,
    units,
)
from gsched.app.doctor.findings import Finding, guarded
from gsched.app.doctor.walk import Walk
from gsched.config.loader import load
from gsched.errors import ConfigError

__all__ = ["Finding", "Walk", "examine", "examine_slurm", "examine_state"]

_Check = tuple[str, str, Callable[[Walk], Iterator[Finding]]]

_OF_THE_SITE: tuple[_Check, ...] = (
    ("configuration-unseen", "configuration", configuration.check),
    ("configuration-unseen", "times", configuration.check_times),
    ("policy-unseen", "policy", configuration.check_policies),
    ("time-zone-unseen", "time zone", clock.check_zone),
    ("state-folder-unseen", "state folder", state_folder.check),
    ("state-folder-unseen", "free space", state_folder.check_space),
    ("heartbeat-folder-unseen", "heartbeat folder", heartbeats.check),
    ("leases-unseen", "leases", leases.check_settings),
    ("deadlines-unseen", "deadlines", deadlines.check_settings),
    ("job-scripts-unseen", "job scripts", jobscripts.check),
    ("power-state-unseen", "power state", power_files.check_state),
)
_OF_SLURM: tuple[_Check, ...] = (
    ("slurm-unseen", "Slurm", slurm.check_cluster),
    ("priorities-unseen", "priorities", priorities.check),
    ("backfill-unseen", "backfill", scheduling.check_backfill),
    ("requeue-unseen", "requeue", preemption.check_requeue),
    ("preemption-unseen", "preemption", preemption.check),
    ("leases-unseen", "leases", leases.check_slurm),
    ("power-saving-unseen", "power saving", power.check_power_saving),
    ("power-back-ends-unseen", "power back-ends", power_files.check),
    ("power-saving-unseen", "power saving", power.check_programs),
    ("power-saving-unseen", "power saving", power.check_times),
    ("power-state-unseen", "power state", power.check_folder),
    ("power-saving-unseen", "power back-ends", power.check_nodes),
    ("power-saving-unseen", "power saving", power.check_lost_orders),
    ("clock-unseen", "clock", clock.check_skew),
    ("history-source-unseen", "history source", history_source.check),
    ("privilege-unseen", "privilege", privilege.check),
    ("partitions-unseen", "partitions", names.check_partitions),
    ("excludes-unseen", "excludes", names.check_excludes),
    ("fairness-unseen", "fairness", names.check_fairness),
    ("deadlines-unseen", "deadlines", deadlines.check_names),
    ("helper-unseen", "helper", names.check_helper),
    ("ces-unseen", "energy saving", ces.check_settings),
    ("ces-unseen", "energy saving", ces.check_helper),
    ("query-unreachable", "query socket", sockets.check_query),
)
_OF_GSCHED: tuple[_Check, ...] = (
    ("database-unseen", "history database", database.check),
    ("model-unseen", "duration model", model.check),
    ("daemon-unseen", "daemon", service.check_daemon),
    ("daemon-unseen", "other daemons", service.check_others),
    ("forecasts-unseen", "forecasts", forecasts.check),
    ("ces-unseen", "energy saving", ces.check_daemon),
    ("gate-unseen", "gate", service.check_gate),
    ("gate-unseen", "values that stand", service.check_standing),
    ("socket-unseen", "local sockets", sockets.check_local),
    ("metrics-unseen", "metrics", sockets.check_metrics),
    ("unit-unseen", "systemd unit", units.check),
)


def examine(
    environ: Mapping[str, str] = os.environ, now: Callable[[], float] = time.time
) -> list[Finding]:
    """All checks, in an order in which mending them makes sense.

    What cannot be looked at is a finding as well: neither GschedError nor OSError is raised.
    """
    try:
        settings = load(environ)
    except ConfigError as error:
        return [
            Finding("fail", "configuration", "configuration", error.message, error.hint),
        ]
    walk = Walk(settings, environ, now)
    return [*_all(walk, _OF_THE_SITE), *examine_slurm(walk), *examine_state(walk)]


def examine_slurm(walk: Walk) -> list[Finding]:
    """The checks of this host's Slurm; of one that cannot be asked only that."""
    missing = guarded("slurm-unseen", "Slurm", lambda: slurm.check_reachable(walk))
    return missing or _all(walk, _OF_SLURM)


def examine_state(walk: Walk) -> list[Finding]:
    """The checks of what gsched itself keeps and runs: history, model, daemon, sockets."""
    return _all(walk, _OF_GSCHED)


def _all(walk: Walk, checks: tuple[_Check, ...]) -> list[Finding]:
    found: list[Finding] = []
    for code, what, check in checks:
        found += guarded(code, what, partial(check, walk))
    return found
