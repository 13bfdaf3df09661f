"""Deadlines: whether what is configured can promise anything, and warn anybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.names import unknown_names, unknown_users
from gsched.app.doctor.walk import Walk
from gsched.config.deadlines import DeadlineSettings
from gsched.errors import ConfigError
from gsched.model.job import Capability
from gsched.slurm.parse_preemption import QOS_FIELDS

_WHAT = "deadlines"


def check_settings(walk: Walk) -> Iterator[Finding]:
    """Whether a policy keeps deadlines, and knows how long jobs run."""
    settings = walk.settings
    if not keeps_deadlines(walk):
        if settings.deadlines != DeadlineSettings():
            yield Finding(
                "note",
                "deadlines-unused",
                _WHAT,
                f"[deadlines] is set, but policy {settings.daemon.policy} promises none",
                'set policy = "chronus" in [daemon], or take [deadlines] out',
            )
        return
    if settings.predict.estimator == "constant":
        yield Finding(
            "warn",
            "deadline-estimates",
            "predict.estimator",
            "no run time is predicted: a deadline can be promised only to jobs with a time limit "
            "that lets them end before it, or with profile runs",
            'set estimator = "model" in [predict] and train it: `gsched predict train`',
        )
    if not settings.heartbeat.dir:
        yield Finding(
            "note",
            "deadline-heartbeats",
            _WHAT,
            "no [heartbeat] dir: nobody sees before its end that a job is slower than was thought",
            "set dir in [heartbeat] to a folder that the nodes and this host share",
        )
    told = settings.deadlines
    if not told.max_per_user and not told.max_gpu_hours_per_user and told.max_share >= 1:
        yield Finding(
            "note",
            "deadline-share",
            _WHAT,
            "one user may have all GPUs promised: nothing bounds what is promised to one",
            "set max_per_user or max_gpu_hours_per_user in [deadlines]",
        )
    yield from _bound(walk)
    yield from _command(told)


def _bound(walk: Walk) -> Iterator[Finding]:
    """A bound of warnings above what promises begin with warns of each of them."""
    from gsched.policy.registry import describe

    told = walk.settings.deadlines.warn_probability
    given = walk.settings.daemon.knobs
    for policy in _policies(walk):
        for spec in describe(policy).knobs:
            quantile = given.get(spec.name, spec.default)
            is_one = spec.minimum <= quantile <= spec.maximum  # else the policy refuses it
            if spec.name == "quantile" and is_one and told > quantile:
                yield Finding(
                    "warn",
                    "deadline-bound",
                    "deadlines.warn_probability",
                    f"it is {told:g}, and deadlines are promised with a probability of "
                    f"{quantile:g}: each is at risk from its beginning",
                    f"set warn_probability below {quantile:g}, or raise quantile in [daemon.knobs]",
                )


def _command(told: DeadlineSettings) -> Iterator[Finding]:
    """The command that warns, as far as this user sees it."""
    if not told.mail_command:
        if told.mail_admin:
            yield Finding(
                "warn",
                "mail-command",
                "deadlines.mail_command",
                f"mail_admin is {told.mail_admin}, but there is no command that sends mail",
                "set mail_command in [deadlines]: see gsched-deadlines(7)",
            )
        return
    program = Path(told.mail_command[0])
    problem = _problem(program)
    if problem:
        yield Finding(
            "warn",
            "mail-command",
            "deadlines.mail_command",
            f"{program} {problem}: nobody is warned of a deadline at risk",
            "name a program that sends mail, with its whole path, in mail_command of [deadlines]",
        )


def _problem(program: Path) -> str:
    try:
        mode = program.stat().st_mode
    except OSError as error:
        return f"cannot be seen ({error.strerror})"
    if not stat.S_ISREG(mode) or not os.access(program, os.X_OK):
        return "is no program that may be run"
    if mode & stat.S_IWOTH:
        return "may be changed by anybody"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "needs setuid, which the daemon's systemd unit does not allow"
    return ""


def check_names(walk: Walk) -> Iterator[Finding]:
    """Users, accounts and QOS of ``[deadlines]``: one that is none lets nobody in."""
    told = walk.settings.deadlines
    yield from unknown_users("deadlines.users", told.users)
    if not walk.config.has_slurmdbd:
        return
    if told.accounts:
        text = walk.output("sacctmgr", "-n", "-P", "show", "account", "format=account")
        yield from unknown_names(
            "account-unknown", "deadlines.accounts", "account", told.accounts, set(text.split())
        )
    if told.qos:
        text = walk.output("sacctmgr", "-n", "-P", "show", "qos", f"format={QOS_FIELDS}")
        known = {line.partition("|")[0] for line in text.splitlines()}
        yield from unknown_names("qos-unknown", "deadlines.qos", "QOS", told.qos, known)


def keeps_deadlines(walk: Walk) -> bool:
    """Whether a policy in use does."""
    return bool(_policies(walk))


def _policies(walk: Walk) -> list[str]:
    """Those in use that do. One that cannot be loaded is another check's finding."""
    from gsched.policy.registry import describe

    daemon, found = walk.settings.daemon, []
    for name in dict.fromkeys([daemon.policy, *daemon.policy_scope.values()]):
        try:
            if Capability.ADMIT in describe(name).requires:
                found.append(name)
        except ConfigError:
            continue
    return found
