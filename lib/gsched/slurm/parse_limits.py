"""Limits of associations and QOS, and licences, as scontrol(1) shows them to everybody. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gsched.errors import DataError
from gsched.model.units import parse_count, parse_memory, parse_time_limit
from gsched.slurm.fields import split_records

_MIB = 2**20
_RECORD = re.compile(r"(?:ClusterName|QOS)=")
_NAME_AND_ID = re.compile(r"(?P<name>.*?)(?:\((?P<id>\d+)\))?", re.ASCII)
_VALUE = re.compile(r"(?P<limit>[\d.]+|N)?(?:\((?P<used>[\d.]+)\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LimitValue:
    """One limit and what counts against it now; None: no limit, or no use is shown.

    Memory counts in bytes, times in seconds (Slurm's own are MiB and minutes).
    """

    limit: float | None
    used: float | None


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """The limits of one association or QOS.

    `values` maps Slurm's name of a limit (``GrpTRES``, ``MaxJobsPU``) to its values by TRES (``""``
    for a limit that is no TRES). Of a QOS, `qos` is its name, and a record whose `account` or
    `uid` is set holds what counts against its limits for that account or user. Else it is an
    association: of `user`, or of the whole `account` below `parent` where `user` is empty.
    """

    qos: str
    account: str
    user: str
    uid: int | None
    partition: str
    parent: str
    values: Mapping[str, Mapping[str, LimitValue]]


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What each node must give to a pending job, at least; `time_min_s` is that of ``--time-min``.

    `mem_bytes` 0 stands for all of a node's memory.
    """

    num_cpus: int
    mem_bytes: int
    time_min_s: int | None


DEMAND_FIELDS = ("JobID", "MinCpus", "MinMemory", "MinTime")


def parse_demand(text: str, separator: str, raw_id: int) -> NodeDemand | None:
    """``squeue -h -O`` with `DEMAND_FIELDS`; None when the job is not in it. Raises DataError."""
    for fields in split_records(text, separator, len(DEMAND_FIELDS)):
        if len(fields) == len(DEMAND_FIELDS) and fields[0] == str(raw_id):
            time_min_s = parse_time_limit(fields[3])
            return NodeDemand(
                num_cpus=parse_count(fields[1]),
                mem_bytes=parse_memory(fields[2]).num_bytes,
                time_min_s=time_min_s or None,
            )
    return None


def parse_licences(text: str) -> dict[str, int]:
    """Totals by name, of ``scontrol -o show licenses``. Raises DataError."""
    found = {}
    for match in re.finditer(r"^LicenseName=(\S+)\s+Total=(\d+)", text, re.MULTILINE | re.ASCII):
        found[match[1]] = int(match[2])
    return found


def parse_limits(text: str) -> tuple[LimitRecord, ...]:
    """``scontrol show assoc_mgr flags=assoc,qos``. Raises DataError for a value that is none."""
    records: list[LimitRecord] = []
    for lines in _blocks(text):
        if lines[0].startswith("QOS="):
            records += _qos(lines)
        else:
            records.append(_association(lines))
    return tuple(records)


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each record: from the one that names it to the next, empty ones left out."""
    block: list[str] = []
    for line in text.split("\n"):
        if _RECORD.match(line):
            if block:
                yield block
            block = [line]
        elif block and line.startswith(" "):
            block.append(line)
    if block:
        yield block


def _association(lines: list[str]) -> LimitRecord:
    words = _words(lines)
    user, uid = _name_and_id(words.get("UserName", ""))
    return LimitRecord(
        qos="",
        account=words.get("Account", ""),
        user=user,
        uid=uid,
        partition=words.get("Partition", ""),
        parent=_name_and_id(words.get("ParentAccount", ""))[0],
        values=_values(words),
    )


def _qos(lines: list[str]) -> Iterator[LimitRecord]:
    """A QOS, then one record for each account and each user that it counts for."""
    name, _ = _name_and_id(lines[0].removeprefix("QOS=").strip())
    parts: list[tuple[str, str, list[str]]] = [("", "", [])]
    section = ""
    for line in lines[1:]:
        stripped = line.strip()
        if stripped in {"Account Limits", "User Limits"}:
            section = stripped.partition(" ")[0]
        elif section and "=" not in stripped:
            parts.append((section, stripped, []))
        else:
            parts[-1][2].append(line)
    for section, whose, its_lines in parts:
        yield LimitRecord(
            qos=name,
            account=whose if section == "Account" else "",
            user="",
            uid=_uid(whose) if section == "User" else None,
            partition="",
            parent="",
            values=_values(_words(its_lines)),
        )


def _words(lines: list[str]) -> dict[str, str]:
    pairs = (word.partition("=") for line in lines for word in line.split())
    return {key: value for key, equals, value in pairs if equals}


def _name_and_id(text: str) -> tuple[str, int | None]:
    match = _NAME_AND_ID.fullmatch(text)
    if match is None:
        return text, None
    return match["name"], None if match["id"] is None else int(match["id"])


def _uid(whose: str) -> int | None:
    """The number of a user of a QOS: ``5`` on 22.05, ``games(5)`` on 24.11."""
    name, uid = _name_and_id(whose)
    return int(name) if uid is None and name.isascii() and name.isdecimal() else uid


def _values(words: Mapping[str, str]) -> Mapping[str, Mapping[str, LimitValue]]:
    found: dict[str, Mapping[str, LimitValue]] = {}
    for key, text in words.items():
        if not key.startswith(("Grp", "Max", "Min")) or key == "MinPrioThresh":
            continue
        if "TRES" in key:
            items = (item.rpartition("=") for item in text.split(",") if item)
            found[key] = {name: _value(key, name, value) for name, _, value in items}
        elif text:
            found[key] = {"": _value(key, "", text)}
    return MappingProxyType(found)


def _value(key: str, tres: str, text: str) -> LimitValue:
    """``4(3)``, ``N(3)`` or ``4`` in bytes and seconds. Raises DataError."""
    match = _VALUE.fullmatch(text)
    if match is None or not text:
        raise DataError(f"not a limit: {key} {tres}={text!r}")
    factor = 60 if "Mins" in key or "Wall" in key else 1
    if tres == "mem":
        factor *= _MIB
    limit = None if match["limit"] in {None, "N"} else float(match["limit"]) * factor
    used = None if match["used"] is None else float(match["used"]) * factor
    return LimitValue(limit, used)
