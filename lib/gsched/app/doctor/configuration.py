"""gsched's own configuration: where it comes from, who can change it, and its policies."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.errors import ConfigError

FEW_ROUNDS = 10
SHORT_BOUND_S = 3600
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def check(walk: Walk) -> Iterator[Finding]:
    """The files that were read. An unreadable one is an error before any check."""
    sources = walk.settings.sources
    told = ", ".join(map(str, sources)) or "none: defaults are in force"
    yield Finding("ok", "configuration", "configuration", told)
    for path in sources:
        yield from _exposed(path)


def _exposed(path: Path) -> Iterator[Finding]:
    mode = path.stat().st_mode
    if mode & _WRITABLE_BY_OTHERS:
        yield Finding(
            "warn",
            "configuration-writable",
            "configuration",
            f"{path} can be written by others than its owner (mode {stat.S_IMODE(mode):04o})",
            f"chmod go-w {path}",
        )


def check_times(walk: Walk) -> Iterator[Finding]:
    """Times that are allowed, but hardly meant."""
    settings = walk.settings.daemon
    least_s = FEW_ROUNDS * max(settings.interval_s, settings.burst_interval_s)
    if 0 < settings.control_interval_s < least_s:
        yield Finding(
            "warn",
            "control-interval",
            "daemon.control_interval_s",
            f"{settings.control_interval_s} s are fewer than {FEW_ROUNDS} rounds: values are "
            "written and taken back all the time, and the report compares nothing",
            "set control_interval_s in [daemon] to 604800 (weeks), or 0 for no control",
        )
    if 0 < settings.starvation_bound_s < SHORT_BOUND_S:
        yield Finding(
            "warn",
            "starvation-bound",
            "daemon.starvation_bound_s",
            f"a job starves after {settings.starvation_bound_s} s: in a queue that is longer, jobs "
            "are ordered by their waits and not by the policy",
            "set starvation_bound_s in [daemon] to a day or more (604800 is the default)",
        )


def check_policies(walk: Walk) -> Iterator[Finding]:
    """The policies that the settings name, with their knobs."""
    from gsched.policy.registry import load

    settings = walk.settings.daemon
    wanted = [("daemon.policy", settings.policy, settings.knobs)]
    wanted += [(f"daemon.policy_scope.{p}", name, {}) for p, name in settings.policy_scope.items()]
    for key, name, knobs in wanted:
        try:
            load(name, **knobs)
        except ConfigError as error:
            yield Finding("fail", "policy", "policy", f"{key}: {error.message}", error.hint)
        else:
            yield Finding("ok", "policy", "policy", f"{key} is {name}")
