"""Names in gsched's settings that nobody bears: a typo there acts, or fails to, in silence."""

from __future__ import annotations

import difflib
import pwd
from collections.abc import Collection, Iterator, Mapping

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.daemon.helper import check_settings
from gsched.errors import ConfigError
from gsched.model.hostlist import expand, fold
from gsched.slurm.parse_config import parse_nodes, parse_partitions


def check_partitions(walk: Walk) -> Iterator[Finding]:
    """Partitions of ``partitions``, ``control_partitions`` and ``policy_scope``."""
    settings = walk.settings.daemon
    lists: Mapping[str, Collection[str]] = {
        "partitions": settings.partitions,
        "control_partitions": settings.control_partitions,
        "policy_scope": settings.policy_scope,
    }
    if not any(lists.values()):
        return
    known = {partition.name for partition in parse_partitions(walk.partitions_text)}
    for key, names in lists.items():
        yield from unknown_names("partition-unknown", f"daemon.{key}", "partition", names, known)
    ours = known & set(settings.partitions) if settings.partitions else known
    if ours and ours <= set(settings.control_partitions):
        yield Finding(
            "warn",
            "control-all",
            "daemon.control_partitions",
            "it names every partition that gsched orders: no job is moved",
            "leave some partitions out of daemon.control_partitions",
        )


def check_excludes(walk: Walk) -> Iterator[Finding]:
    """Users and accounts whose jobs shall not be touched: one that is none protects nobody."""
    settings = walk.settings.daemon
    yield from unknown_users("daemon.exclude_users", settings.exclude_users)
    if settings.exclude_accounts and walk.config.has_slurmdbd:
        text = walk.output("sacctmgr", "-n", "-P", "show", "account", "format=account")
        accounts = set(text.split())
        yield from unknown_names(
            "account-unknown",
            "daemon.exclude_accounts",
            "account",
            settings.exclude_accounts,
            accounts,
        )


def check_fairness(walk: Walk) -> Iterator[Finding]:
    """Accounts and types of GPUs in ``[fairness]``: a quota of nobody is lent to all for ever."""
    settings = walk.settings.fairness
    if settings.quotas and walk.config.has_slurmdbd:
        text = walk.output("sacctmgr", "-n", "-P", "show", "account", "format=account")
        known = set(text.split())
        yield from unknown_names(
            "account-unknown", "fairness.quotas", "account", settings.quotas, known
        )
    if settings.gpu_weights:
        text = walk.output("scontrol", "-a", "-o", "show", "node")
        types = {gpu_type for node in parse_nodes(text) for gpu_type, _ in node.gpus if gpu_type}
        yield from unknown_names(
            "gpu-type-unknown", "fairness.gpu_weights", "GPU type", settings.gpu_weights, types
        )


def check_helper(walk: Walk) -> Iterator[Finding]:
    """The table ``[helper]``, where it allows anything."""
    settings = walk.settings.helper
    if not settings.verbs:
        return
    try:
        check_settings(settings)
    except ConfigError as error:
        yield Finding("warn", "helper-settings", "helper", error.message, error.hint)
        return
    wanted = [name for hostlist in settings.nodes for name in expand(hostlist)]
    text = walk.output("scontrol", "-a", "-o", "show", "node")
    known = {node.name for node in parse_nodes(text)}
    unknown = [name for name in wanted if name not in known]
    names = [fold(unknown)] if unknown else []
    yield from unknown_names("node-unknown", "helper.nodes", "node", names, known)
    if not wanted:
        yield Finding(
            "warn",
            "helper-settings",
            "helper",
            "helper.verbs allows something, but helper.nodes is empty: nothing may be done",
            'name the nodes in [helper], such as nodes = ["gn[01-16]"]',
        )


def unknown_users(key: str, names: Collection[str]) -> Iterator[Finding]:
    """A finding for each name of the setting `key` that is no user's."""
    if names:
        known = {entry.pw_name for entry in pwd.getpwall()}
        unknown = [name for name in names if not _is_user(name)]
        yield from unknown_names("user-unknown", key, "user", unknown, known)


def unknown_names(
    code: str, key: str, what: str, names: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """A finding for each name of the setting `key` that is not among those `known`."""
    for name in names:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, 1)
        yield Finding(
            "warn",
            code,
            key,
            f"there is no {what} {name}",
            f"write {near[0]}?" if near else f"correct it or take it out of {key}",
        )


def _is_user(name: str) -> bool:
    """Directories such as LDAP need not list their users, but know each one."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
