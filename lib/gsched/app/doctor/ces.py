"""Cluster energy saving: whether what it needs is there, and how the running daemon fares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from gsched.app.ces.status import reason_text
from gsched.app.doctor.findings import Finding, Level
from gsched.app.doctor.names import unknown_names
from gsched.app.doctor.walk import Walk
from gsched.config.nodes import check_holidays
from gsched.daemon import control_client
from gsched.daemon.ces_facts import helper_problem
from gsched.errors import ConfigError, GschedError
from gsched.model.hostlist import expand, fold
from gsched.slurm.parse_config import parse_nodes, parse_partitions

_WHAT = "energy saving"
_VERBS = ("power-down", "power-up")
_OFF = 'or set [ces] mode = "off" in gsched.toml'
_LOG = f"the daemon's log says why (`journalctl -u gsched-daemon`); {_OFF}"


def check_settings(walk: Walk) -> Iterator[Finding]:
    """The table ``[ces]``: names that nobody bears, holidays that nobody knows."""
    table = walk.settings.ces
    if table.mode == "off":
        yield Finding("ok", "ces", _WHAT, "switched off")
        return
    try:
        check_holidays(table)
    except ConfigError as error:
        yield Finding("warn", "ces-holidays", "ces.country", error.message, error.hint)
    partitions = {each.name for each in parse_partitions(walk.partitions_text)}
    for key, names in (("partitions", table.partitions), ("least_idle", table.least_idle)):
        yield from unknown_names("partition-unknown", f"ces.{key}", "partition", names, partitions)
    excluded = [name for host_list in table.exclude_nodes for name in expand(host_list)]
    strange = sorted(set(excluded) - _nodes(walk))
    if strange:
        yield from unknown_names(
            "node-unknown", "ces.exclude_nodes", "node", [fold(strange)], _nodes(walk)
        )


def check_helper(walk: Walk) -> Iterator[Finding]:
    """Whether gsched-helper may do what energy saving orders, and to which nodes."""
    settings = walk.settings
    if settings.ces.mode == "off":
        return
    level: Level = "warn" if settings.ces.mode == "act" else "note"
    missing = [verb for verb in _VERBS if verb not in settings.helper.verbs]
    if missing:
        yield Finding(
            level,
            "ces-helper-verbs",
            _WHAT,
            f"helper.verbs lacks {' and '.join(missing)}: no node can be put to sleep and woken",
            'add "power-down" and "power-up" to verbs in [helper], and restart gsched-helper',
        )
        return
    allowed = {name for host_list in settings.helper.nodes for name in expand(host_list)}
    left_out = sorted(_nodes(walk) - allowed)
    if not _nodes(walk) & allowed:
        return  # told by the check of the helper itself
    if left_out:
        yield Finding(
            "note",
            "ces-helper-nodes",
            _WHAT,
            f"{fold(left_out)} {'is' if len(left_out) == 1 else 'are'} not among helper.nodes, and "
            "left alone",
            "nothing, where that is meant; else add them to nodes in [helper]",
        )


def _nodes(walk: Walk) -> set[str]:
    text = walk.output("scontrol", "-a", "-o", "show", "node")
    return {node.name for node in parse_nodes(text)}


def check_daemon(walk: Walk) -> Iterator[Finding]:
    """What the running daemon tells of it."""
    if walk.settings.ces.mode == "off":
        return
    try:
        told = control_client.status(walk.settings.daemon_socket).get("ces") or {}
    except GschedError:
        return  # no daemon runs, or it does not answer: other checks say so
    if not told:
        yield Finding(
            "note",
            "ces-not-begun",
            _WHAT,
            "the running daemon saves no energy yet",
            "gsched daemon reload, where [ces] has just been changed",
        )
        return
    if told.get("problem"):
        yield Finding("warn", "ces-failing", _WHAT, f"it fails: {told['problem']}", _LOG)
        return
    if why := helper_problem(told):
        yield Finding(
            "warn", "ces-helper-fails", _WHAT, f"no node is put to sleep or woken: {why}",
            "`systemctl status gsched-helper`, and verbs and nodes in [helper]; it reads them when "
            "it starts",
        )  # fmt: skip
    elif walk.settings.ces.mode == "act" and not told.get("acting"):
        why = told.get("why") or "the daemon does not say why"
        yield Finding(
            "note", "ces-observes", _WHAT, f"nothing is ordered: {why}",
            "nothing, where that is meant; `gsched daemon status` tells the daemon's mode",
        )  # fmt: skip
    if told.get("stopped"):
        yield Finding(
            "warn", "ces-stopped", _WHAT,
            f"nothing is put to sleep: {told['stopped']}",
            "`gsched power status` says what to mend; after failures `gsched power clear`",
        )  # fmt: skip
    yield from _given_up(told.get("given_up") or {})
    failed = _failed_to_wake(told)
    yield from failed
    pools = told.get("pools") or []
    nodes = sum(pool.get("nodes", 0) for pool in pools)
    if nodes and nodes == sum(pool.get("excluded", 0) for pool in pools):
        yield Finding(
            "note", "ces-all-excluded", _WHAT, f"none of {nodes} nodes is its to change",
            "`gsched ces plan` says of each why",
        )  # fmt: skip
        return
    observes = walk.settings.ces.mode == "observe"
    is_well = (told.get("acting") or observes) and not told.get("stopped") and not failed
    yield from (found for found in _forecasts(told) if is_well or found.level != "ok")


def _failed_to_wake(told: dict[str, Any]) -> list[Finding]:
    """Whether so many nodes have failed to wake that none is put to sleep."""
    number, most = told.get("wake_failures") or 0, told.get("max_failures") or 0
    if not most or number < most:
        return []
    names = fold(told.get("failed_nodes") or ())
    found = (
        f"no node is put to sleep: {number} did not wake lately ({names}), {most} are the limit "
        "(ces.max_failures)"
    )
    mend = "mend them, `scontrol update nodename=NODE state=resume` and `gsched power clear NODE`"
    return [Finding("warn", "ces-wake-failures", _WHAT, found, mend)]


def _given_up(nodes: Collection[str]) -> Iterator[Finding]:
    if nodes:
        yield Finding(
            "warn",
            "ces-given-up",
            _WHAT,
            f"orders to {fold(sorted(nodes))} come to nothing",
            "`gsched ces status` says why; `scontrol show node` what Slurm knows of them",
        )


def _forecasts(told: dict[str, Any]) -> Iterator[Finding]:
    """Whether demand is forecast: without, no node is put to sleep."""
    demand = told.get("demand") or {}
    if demand.get("problem"):
        yield Finding(
            "warn", "ces-forecast-failing", _WHAT,
            f"demand cannot be forecast, so that no node is put to sleep: {demand['problem']}",
            _LOG,
        )  # fmt: skip
        return
    pools = told.get("pools") or []
    without = [pool for pool in pools if pool.get("forecast_made_at") is None]
    if not without:
        yield Finding("ok", "ces", _WHAT, f"the demand of {len(pools)} pools is forecast")
        return
    reasons = Counter(reason_text(pool.get("forecast")) for pool in without)
    words = "; ".join(f"{reason} ({number})" for reason, number in sorted(reasons.items()))
    yield Finding(
        "note",
        "ces-no-forecast",
        _WHAT,
        f"no node of {len(without)} of {len(pools)} pools is put to sleep, for want of a forecast: "
        f"{words}",
        "nothing: it comes with time, or demand cannot be foreseen there",
    )
