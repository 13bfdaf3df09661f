"""Slurm's power saving: whether it is on, whose it is, and whether its programs work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gsched.app.doctor.findings import Finding, Level
from gsched.app.doctor.slurm_user import SlurmUser, slurm_user_name, unseen
from gsched.app.doctor.walk import Walk
from gsched.app.user_names import user_name
from gsched.errors import DataError, GschedError
from gsched.model.hostlist import expand, fold
from gsched.model.power import VERBS, Verb
from gsched.mounts import mounts_of_this_host, own_disk_of
from gsched.power.state import State, Store
from gsched.slurm.parse_config import (
    parse_node_reasons,
    parse_node_starts,
    parse_nodes,
    parse_partitions,
)

_WHAT = "power saving"
_PROGRAMS = {"SuspendProgram": "gsched-suspend", "ResumeProgram": "gsched-resume"}
_ALSO = {
    "SuspendTimeout": "a node's whole shutdown must fit into it: back-ends answer when it has been "
    "told, and one that is woken before it is off does not come back",
    "ResumeTimeout": "a node's whole boot must fit into it",
}
SMALL_SUSPEND_TIME_S = 7 * 86400
LONGEST_WAKE_S = 3600
"""A slurmd that was started later than this after a resume was started for another reason."""
_ASAP = "POWER_DOWN_ASAP"
_POWER_FLAGS = {"power_down", "powering_down", "powered_down"}
WAKE_MARGIN = 0.8
"""A wake that takes more than this share of ResumeTimeout is nearly too slow."""


def check_power_saving(walk: Walk) -> Iterator[Finding]:
    """Whether nodes can be put to sleep by hand, and whether Slurm does so of its own accord."""
    seconds = _seconds(walk, "SuspendTime")
    wants = _wants(walk)
    if seconds is None:
        yield Finding(
            "warn" if wants else "note",
            "suspend-time",
            _WHAT,
            "SuspendTime is not set: no node can be powered down, by hand neither",
            "nothing, where nodes shall not sleep; else set SuspendTime in slurm.conf (8640000 to "
            "leave it to gsched) with SuspendProgram and ResumeProgram, and restart slurmctld",
        )
    elif seconds < SMALL_SUSPEND_TIME_S and (wants or walk.settings.power.backends.tables):
        yield Finding(
            "warn" if wants else "note",
            "suspend-time-small",
            _WHAT,
            f"SuspendTime is {seconds} s: Slurm itself puts a node to sleep that has been idle for "
            "so long, whatever gsched foresees",
            "set SuspendTime=8640000 in slurm.conf to leave it to gsched, and restart slurmctld",
        )


def _wants(walk: Walk) -> bool:
    """Whether gsched itself powers nodes down or up, or its helper may."""
    verbs = {"power-down", "power-up"} & set(walk.settings.helper.verbs)
    return bool(verbs) or walk.settings.ces.mode != "off"


def _is_used(walk: Walk) -> bool:
    return _wants(walk) or bool(walk.settings.power.backends.tables)


def check_programs(walk: Walk) -> Iterator[Finding]:
    """Whether Slurm can run what switches nodes."""
    if not _is_used(walk) or _seconds(walk, "SuspendTime") is None:
        return
    user, name = SlurmUser.of(walk), slurm_user_name(walk)
    for key, ours in _PROGRAMS.items():
        path = walk.config.get(key)
        try:
            why = _why_not_run(path, user, name)
        except PermissionError:
            yield unseen(_WHAT, [path])
            continue
        if why:
            yield Finding(
                "warn",
                "power-program",
                _WHAT,
                f"Slurm cannot run its {key}{f' {path}' if path else ''}: {why}",
                f"set {key}=/PATH/{ours} in slurm.conf, a program that {name} can execute, and "
                "restart slurmctld",
            )
    if walk.settings.power.backends.tables and not walk.config.get("ResumeFailProgram"):
        yield Finding(
            "note",
            "power-resume-fail",
            _WHAT,
            "ResumeFailProgram is not set: gsched does not hear of nodes that do not come up, and "
            "goes on suspending them",
            "set ResumeFailProgram=/PATH/gsched-resume-failed in slurm.conf, and restart slurmctld",
        )


def check_folder(walk: Walk) -> Iterator[Finding]:
    """Whether Slurm's programs can keep their state, as the user that they run as."""
    folder = walk.settings.power_dir
    if not walk.settings.power.backends.tables or not folder.is_dir():
        return
    user = slurm_user_name(walk)
    heads = sum(key.startswith("SlurmctldHost") for key in walk.config.values)
    if heads > 1 and own_disk_of(str(folder), mounts_of_this_host()):
        yield Finding(
            "warn",
            "power-two-heads",
            "power state",
            f"slurmctld may run on {heads} hosts, and {folder} is on a disk of this one: after a "
            "failover nothing is known of failures, of a stop, and of nodes that may be on",
            "put power.state_dir on a file system that all of them share",
        )
    owner = user_name(folder.stat().st_uid)
    if owner != user:
        yield Finding(
            "warn",
            "power-folder-owner",
            "power state",
            f"{folder} is {owner}'s, but Slurm runs its programs as {user}: nothing is suspended, "
            "and what is resumed is not remembered",
            f"chown -R --no-dereference {user} {folder}",
        )


def _why_not_run(path: str, user: SlurmUser | None, name: str) -> str:
    if not path:
        return "it is not set"
    if user is None:
        return f"its SlurmUser {name} is no user of this host"
    return user.why_cannot("run", Path(path))


def check_times(walk: Walk) -> Iterator[Finding]:
    """Whether Slurm waits as long as switching takes."""
    settings = walk.settings.power
    if not settings.backends.tables:
        return
    for key, name, limit_s in (
        ("SuspendTimeout", "suspend_limit_s", settings.suspend_limit_s),
        ("ResumeTimeout", "resume_limit_s", settings.resume_limit_s),
    ):
        seconds = _seconds(walk, key)
        if seconds is not None and seconds <= limit_s:
            yield Finding(
                "warn",
                "power-limit",
                _WHAT,
                f"{key} is {seconds} s, and a call of gsched's may take {limit_s:g} s: Slurm gives "
                "the nodes up, or takes them for off, before gsched is done",
                f"set {key}={round(limit_s) + 30} in slurm.conf, or more ({_ALSO[key]}), and "
                f"restart slurmctld; or lower power.{name}",
            )
    nodes_text = walk.output("scontrol", "-a", "-o", "show", "node")
    yield from _wakes(walk, nodes_text)
    yield from _rates(walk, len(_covered(walk, nodes_text)))


def _wakes(walk: Walk, nodes_text: str) -> Iterator[Finding]:
    timeout_s = _seconds(walk, "ResumeTimeout")
    try:
        state = Store(walk.settings.power_dir).read()
    except GschedError:
        return  # told by the check of the state
    wakes = wake_times(state, parse_node_starts(nodes_text))
    if timeout_s is None or not wakes:
        return
    slow = {name: s for name, s in wakes.items() if s > WAKE_MARGIN * timeout_s}
    if slow:
        longest_s = max(slow.values())
        yield Finding(
            "warn",
            "power-slow-wake",
            _WHAT,
            f"{len(slow)} of {len(wakes)} nodes took more than {WAKE_MARGIN:.0%} of ResumeTimeout "
            f"({timeout_s} s) to wake, up to {longest_s:.0f} s: {fold(slow)}",
            f"set ResumeTimeout={round(2 * longest_s)} in slurm.conf, and restart slurmctld",
        )


def wake_times(state: State, starts: dict[str, int]) -> dict[str, float]:
    """Seconds from a node's last resume to its slurmd's start, of nodes of which both are known."""
    return {
        name: starts[name] - order.at
        for name, order in state.orders.items()
        if order.verb != "suspend" and 0 < starts.get(name, 0) - order.at <= LONGEST_WAKE_S
    }


def _rates(walk: Walk, num_nodes: int) -> Iterator[Finding]:
    for key, timeout_key in (("SuspendRate", "SuspendTimeout"), ("ResumeRate", "ResumeTimeout")):
        a_minute = _seconds(walk, key)
        timeout_s = _seconds(walk, timeout_key)
        if not a_minute or timeout_s is None:
            continue
        needed_s = 60 * num_nodes / a_minute
        if needed_s > timeout_s:
            yield Finding(
                "note",
                "power-rate",
                _WHAT,
                f"{key} is {a_minute} nodes a minute: all {num_nodes} that [power] covers take "
                f"{needed_s / 60:.0f} minutes",
                f"set {key}=0 in slurm.conf for no limit, and restart slurmctld, where power and "
                "cooling bear it",
            )


def check_lost_orders(walk: Walk) -> Iterator[Finding]:
    """Whether a slurmctld that died has left nodes drained by a power-down that it forgot."""
    text = walk.output("scontrol", "-a", "-o", "show", "node")
    reasons = parse_node_reasons(text)
    lost = [
        node.name
        for node in parse_nodes(text)
        if reasons.get(node.name, "").startswith(_ASAP)
        and "drain" in node.flags
        and not _POWER_FLAGS & set(node.flags)
    ]
    if lost:
        nodes = fold(lost)
        yield Finding(
            "warn",
            "power-lost-order",
            _WHAT,
            f"drained by a power-down that Slurm has lost on the way, and used no more: {nodes}",
            f"`scontrol update nodename={nodes} state=power_down_asap`; once POWERED_DOWN is shown "
            f"a job wakes them, or `scontrol update nodename={nodes} state=power_up`",
        )


def check_nodes(walk: Walk) -> Iterator[Finding]:
    """Whether each node that may be put to sleep can be, and whether the names are nodes' names."""
    backends = walk.settings.power.backends
    if not backends.tables:
        return
    nodes_text = walk.output("scontrol", "-a", "-o", "show", "node")
    known = {node.name for node in parse_nodes(nodes_text)}
    for number, backend in enumerate(backends.tables, 1):
        if not any(map(backend.has, known)):
            yield Finding(
                "warn",
                "power-nodes-unknown",
                "power back-ends",
                f"table {number} of power.backends has no node of this cluster",
                "correct its nodes, or take it out",
            )
    wanted = known - _excepted(walk)
    if _wants(walk):
        wanted &= {name for nodes in walk.settings.helper.nodes for name in expand(nodes)}
    for verb in VERBS:
        lacking = [name for name in sorted(wanted) if backends.of(name, verb) is None]
        if lacking:
            yield _uncovered(verb, fold(lacking), "warn" if _wants(walk) else "note")


def _uncovered(verb: Verb, nodes: str, level: Level) -> Finding:
    mend = "add a table for them, or except them by SuspendExcNodes in slurm.conf"
    if verb == "restart":
        return Finding(
            "note",
            "power-no-restart",
            "power back-ends",
            f"no table of power.backends can restart {nodes}: one that did not go off when it "
            "should is not taken back by Slurm, which waits for a new boot time",
            mend,
        )
    found = f"no table of power.backends can {verb} {nodes}: it would fail"
    return Finding(level, "power-nodes-uncovered", "power back-ends", found, mend)


def _covered(walk: Walk, nodes_text: str) -> list[str]:
    tables = walk.settings.power.backends.tables
    names = (node.name for node in parse_nodes(nodes_text))
    return [name for name in names if any(backend.has(name) for backend in tables)]


def _excepted(walk: Walk) -> set[str]:
    """Nodes that Slurm never puts to sleep; what is not understood excepts nothing."""
    found: set[str] = set()
    with suppress(DataError):
        found |= set(expand(re.sub(r":\d+", "", walk.config.get("SuspendExcNodes"))))
    parts = set(re.sub(r":\d+", "", walk.config.get("SuspendExcParts")).split(","))
    for partition in parse_partitions(walk.partitions_text) if parts != {""} else ():
        if partition.name in parts:
            found |= set(partition.nodes)
    return found


def _seconds(walk: Walk, key: str) -> int | None:
    """A number of Slurm's configuration; None where it is off or not known."""
    found = re.match(r"\d+", walk.config.get(key))
    return int(found[0]) if found else None
