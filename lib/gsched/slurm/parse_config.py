"""Output of scontrol(1): configuration, nodes, partitions, reservations, cron jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from gsched.errors import DataError
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.hostlist import expand
from gsched.model.job import UNLIMITED_S
from gsched.model.units import (
    UNSET,
    count_gres,
    parse_count,
    parse_gres,
    parse_memory,
    parse_time_limit,
    parse_tres,
    tres_gres,
)
from gsched.slurm.fields import parse_time
from gsched.slurm.records import NodeFacts, SlurmConfig
from gsched.slurm.states import parse_node_state

_NEXT_KEY = re.compile(r" +(?=[A-Za-z][\w:/.]*=)")


def parse_config(text: str) -> SlurmConfig:
    """``scontrol show config``. Raises DataError when it names no cluster."""
    values = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            values[key.strip()] = value.strip()
    if not values.get("ClusterName"):
        raise DataError("scontrol show config names no cluster")
    return SlurmConfig(values)


def _records(text: str, first_key: str) -> Iterator[dict[str, str]]:
    """The lines of ``scontrol -o`` that describe something, by key.

    The first of a key counts: free text (Reason, Comment) stands behind what it could imitate.
    """
    for line in text.split("\n"):
        if not line.startswith(f"{first_key}="):
            continue  # "No reservations in the system"
        record: dict[str, str] = {}
        for pair in _NEXT_KEY.split(line):
            key, _, value = pair.partition("=")
            value = value.strip()
            record.setdefault(key, "" if value in UNSET else value)
        yield record


def _items(value: str) -> tuple[str, ...]:
    return tuple(item for item in value.split(",") if item)


def parse_nodes(text: str) -> tuple[NodeView, ...]:
    """``scontrol -d -o show node``. Raises DataError for what no node can be."""
    return tuple(_node(record) for record in _records(text, "NodeName"))


def _node(record: dict[str, str]) -> NodeView:
    state, flags = _node_state(record.get("State", ""))
    total, kinds = _gpus(record.get("Gres", ""))
    used, _ = _gpus(record.get("GresUsed", ""))
    if not used:
        used = _allocated_gpus(record.get("AllocTRES", ""))
    untyped = total - sum(count for _, count in kinds)
    return NodeView(
        name=record["NodeName"],
        state=state,
        flags=flags,
        num_cpus=_count(record.get("CPUEfctv") or record.get("CPUTot") or "0"),
        mem_bytes=_bytes(record.get("RealMemory") or "0"),
        gpus=((("", untyped),) if untyped else ()) + kinds,
        partitions=_items(record.get("Partitions", "")),
        features=_items(record.get("ActiveFeatures", "")),
        gpus_used=used,
        available_features=_items(record.get("AvailableFeatures", "")),
        cpus_used=_count(record.get("CPUAlloc") or "0"),
        mem_used_bytes=_bytes(record.get("AllocMem") or "0"),
    )


# Thousands of nodes have few kinds of values among them.
_node_state = lru_cache(maxsize=1024)(parse_node_state)
_count = lru_cache(maxsize=1024)(parse_count)


@lru_cache(maxsize=1024)
def _gpus(gres: str) -> tuple[int, tuple[tuple[str, int], ...]]:
    return count_gres(parse_gres(gres), "gpu")


@lru_cache(maxsize=1024)
def _allocated_gpus(tres: str) -> int:
    return count_gres(tres_gres(parse_tres(tres)), "gpu")[0]


@lru_cache(maxsize=1024)
def _bytes(memory: str) -> int:
    return parse_memory(memory).num_bytes


def parse_node_facts(text: str) -> tuple[NodeFacts, ...]:
    """``scontrol -o show node`` with epoch times. Raises DataError for what no node can be."""
    return tuple(
        NodeFacts(
            view=_node(record),
            boot_time=_epoch(record.get("BootTime", "")),
            last_busy_time=_epoch(record.get("LastBusyTime", "")),
            reason=record.get("Reason", ""),
        )
        for record in _records(text, "NodeName")
    )


def _epoch(text: str) -> int | None:
    return (int(text) or None) if text.isdecimal() else None


def parse_topology(text: str) -> dict[str, str]:
    """The leaf switch of each node in ``scontrol show topology``; {} where it knows none.

    Raises DataError for a node list that is none.
    """
    return {
        node: record["SwitchName"]
        for record in _records(text, "SwitchName")
        if record.get("Level") == "0"
        for node in expand(record.get("Nodes", ""))
    }


def parse_node_reasons(text: str) -> dict[str, str]:
    """Why nodes are drained or down, by name, in ``scontrol -o show node``; those alone."""
    found = {record["NodeName"]: record.get("Reason", "") for record in _records(text, "NodeName")}
    return {name: reason for name, reason in found.items() if reason}


def parse_node_starts(text: str) -> dict[str, int]:
    """When each node's slurmd was started, in ``scontrol -o show node`` with epoch times."""
    found = {r["NodeName"]: r.get("SlurmdStartTime", "") for r in _records(text, "NodeName")}
    return {name: int(at) for name, at in found.items() if at.isdecimal() and int(at)}


def parse_partitions(text: str) -> tuple[PartitionView, ...]:
    """``scontrol -o show partition``. Raises DataError for a limit or node list that is none."""
    return tuple(
        PartitionView(
            name=record["PartitionName"],
            is_default=record.get("Default") == "YES",
            is_up=record.get("State") == "UP",
            nodes=tuple(expand(record.get("Nodes", ""))),
            max_time_s=_limit(parse_time_limit(record.get("MaxTime", ""))),
            max_nodes=_number(record.get("MaxNodes", "")),
            default_time_s=_limit(parse_time_limit(record.get("DefaultTime", ""))),
            state=record.get("State", "").lower(),
            qos=record.get("QoS", ""),
            allow_accounts=_named(record.get("AllowAccounts", "")),
            deny_accounts=_named(record.get("DenyAccounts", "")),
            allow_groups=_named(record.get("AllowGroups", "")),
            allow_qos=_named(record.get("AllowQos", "")),
            deny_qos=_named(record.get("DenyQos", "")),
            tier=_tier(record.get("PriorityTier", "")),
        )
        for record in _records(text, "PartitionName")
    )


def parse_partition_numbers(text: str, key: str) -> dict[str, int]:
    """A whole number of each partition, by name, in ``scontrol -o show partition``."""
    found = parse_partition_values(text, key)
    return {name: int(value) for name, value in found.items() if value.isdecimal()}


def parse_partition_values(text: str, key: str) -> dict[str, str]:
    """A value of each partition, by name; "" where it has none."""
    return {r["PartitionName"]: r.get(key, "") for r in _records(text, "PartitionName")}


def _named(text: str) -> tuple[str, ...]:
    return () if text == "ALL" else _items(text)


def _limit(seconds: int | None) -> int | None:
    return None if seconds is None or seconds >= UNLIMITED_S else seconds


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _tier(text: str) -> int:
    number = _number(text)
    return 1 if number is None else number  # slurm.conf(5): what it is unless set


def parse_reservations(text: str) -> tuple[ReservationView, ...]:
    """``scontrol -o show reservation`` with epoch times. Raises DataError without times."""
    found = []
    for record in _records(text, "ReservationName"):
        start, end = parse_time(record.get("StartTime", "")), parse_time(record.get("EndTime", ""))
        if start is None or end is None:
            raise DataError(f"reservation {record['ReservationName']} has no start or end time")
        found.append(
            ReservationView(
                name=record["ReservationName"],
                nodes=tuple(expand(record.get("Nodes", ""))),
                start_time=start,
                end_time=end,
                users=_items(record.get("Users", "")),
                accounts=_items(record.get("Accounts", "")),
            )
        )
    return tuple(found)


def parse_federation(text: str) -> str:
    """The name in ``scontrol show federation``, '' for a cluster that is in none."""
    found = re.search(r"^Federation: *(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def parse_cron_jobs(text: str) -> frozenset[int]:
    """Raw ids of the scrontab jobs in ``scontrol -o show job``.

    A job's name may hold line ends and so imitate the line of another job. It cannot take that
    job's own line away: an id counts only when every line that begins with it says CronJob=Yes,
    and so nobody can make another's job look like a cron job. (Hiding one's own cron job gains
    nothing: Slurm refuses to modify cron jobs.)
    """
    starts = [match.start() for match in re.finditer(r"^JobId=\d{1,10} ", text, re.MULTILINE)]
    yes: dict[int, bool] = {}
    for begin, end in pairwise([*starts, len(text)]):
        raw_id = int(text[begin + len("JobId=") : text.index(" ", begin)])
        says_so = re.search(r"\sCronJob=Yes\b", text[begin:end]) is not None
        yes[raw_id] = yes.get(raw_id, True) and says_so
    return frozenset(raw_id for raw_id, is_cron in yes.items() if is_cron)


_ERROR_FOR_JOB = re.compile(r"(?P<reason>.+) for job (?P<id>[\d_+]+)", re.ASCII)
_ERROR_FOR_TASK = re.compile(r"(?P<id>\d+_\d+): (?P<reason>.+)", re.ASCII)


def parse_update_errors(stderr: str) -> dict[str, str]:
    """Reasons by job id in what ``scontrol update`` complained of; other lines are warnings."""
    matches = (
        _ERROR_FOR_JOB.fullmatch(line) or _ERROR_FOR_TASK.fullmatch(line)
        for line in map(str.strip, stderr.split("\n"))
    )
    return {match["id"]: match["reason"] for match in matches if match is not None}
