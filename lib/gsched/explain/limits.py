"""The limit that a reason code of Slurm means: its value, its present use, what the job asks for.

Slurm names a family of limits only (``AssocGrpGRES``); which one it is, and of which account, is
looked up in what scontrol shows of them. Limits that PrivateData hides stay unnamed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.explain.slurm_reasons import LimitName
from gsched.explain.words import count, short_time, size
from gsched.model.job import UNLIMITED_S
from gsched.slurm.parse_limits import LimitRecord, LimitValue, NodeDemand
from gsched.slurm.records import QueueRow

_TRES = {
    "cpu": ("cpu",),
    "mem": ("mem",),
    "node": ("node",),
    "energy": ("energy",),
    "billing": ("billing",),
    "gres": ("gres/",),
    "license": ("license/",),
    "bb": ("bb/",),
    "unknown": ("",),
}
_UNITS = {"cpu": "CPU", "node": "node", "billing": "billing unit", "gres/gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class LimitFact:
    """One limit in force: whose, of what, its value, what counts against it, what the job adds.

    Memory in bytes; times, and TRES times time, in seconds. None: not known.
    """

    owner: str
    name: str
    tres: str
    limit: float
    used: float | None
    asked: float | None
    is_least: bool = False

    @property
    def is_hopeless(self) -> bool:
        """Whether the job alone is beyond it, so that waiting does not help."""
        if self.asked is None:
            return self.limit == 0 and not self.is_least
        return self.asked < self.limit if self.is_least else self.asked > self.limit

    @property
    def is_reached(self) -> bool:
        """Whether the job does not fit now."""
        if self.is_hopeless:
            return True
        if self.used is None or self.is_least:
            return False
        return self.used + (self.asked or 0) > self.limit

    @property
    def words(self) -> str:
        """For people: whose limit, how much of it is used, and what the job asks for."""
        what = f"{self._amount(self.limit)} ({self.name})"
        if self.is_least:
            text = f"{self.owner} demands at least {what}"
        else:
            each = {"PJ": "one job of ", "PN": "one node of a job of "}.get(self.name[-2:], "")
            text = f"{each}{self.owner} may have {what}"
            if self.used is not None:
                text += f"; {self._amount(self.used)} in use"
        return text if self.asked is None else f"{text}; it asks for {self._amount(self.asked)}"

    def _amount(self, value: float) -> str:
        if math.isinf(value):
            return "UNLIMITED"
        if not self.tres:
            return short_time(value) if "Wall" in self.name else count(round(value), "job")
        minutes = "Mins" in self.name
        if self.tres == "mem":
            return f"{size(value / 60)} × minutes" if minutes else size(value)
        unit = _UNITS.get(self.tres)
        if minutes:
            number = f"{value / 60:.1f}".removesuffix(".0")
            return f"{number} {unit or self.tres}-minutes"
        return f"{value:.0f} {self.tres}" if unit is None else count(round(value), unit)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "owner": self.owner,
            "name": self.name,
            "tres": self.tres or None,
            "limit": self.limit,
            "used": self.used,
            "asked": self.asked if self.asked is None or math.isfinite(self.asked) else None,
            "hopeless": self.is_hopeless,
        }


@dataclass(frozen=True, slots=True)
class QosOrder:
    """The QOS whose limits hold for a job in one of its partitions, the one that goes first first.

    Of each limit, and of each TRES of it, the value of the first QOS that has one is in force.
    slurm.conf(5), QOS of a partition: that goes before the job's own, unless the job's own has the
    flag OverPartQOS.
    """

    partition: str
    names: tuple[str, ...]


def limit_facts(
    name: LimitName,
    row: QueueRow,
    records: Sequence[LimitRecord],
    uid: int | None,
    demand: NodeDemand | None,
    order: QosOrder,
) -> tuple[LimitFact, ...]:
    """The limits that `name` can mean for a job, those that hold it back first.

    `uid` is the number of the job's owner, None where this machine does not know the user. Nothing
    where the records of a QOS of `order` are not shown: it may be the one that is meant.
    """
    key = _key(name)
    if name.owner == "qos":
        values = _of_qos(name, key, row, records, uid, order)
    else:
        values = [
            (owner, tres, value)
            for record in records
            if (owner := _of_association(name, record, row)) is not None
            for tres, value in record.values.get(key, {}).items()
        ]
    found = [
        _fact(owner, key, tres, value, _asked(name, tres, row, demand), name)
        for owner, tres, value in values
        if value.limit is not None and _is_meant(name, tres)
    ]
    reached = [fact for fact in found if fact.is_reached]
    return tuple(reached or found)


def _key(name: LimitName) -> str:
    """Slurm's name of a limit in ``scontrol show assoc_mgr``."""
    if name.kind == "least":
        return "MinTRESPJ"
    if name.kind == "total":
        whole = {"jobs": "GrpJobs", "submit": "GrpSubmitJobs", "wall": "GrpWall"}
        counted = {"": "GrpTRES", "minutes": "GrpTRESMins", "run-minutes": "GrpTRESRunMins"}
        return whole.get(name.resource) or counted[name.counted]
    suffix = {"job": "PJ", "node": "PN", "user": "PU", "account": "PA", "": ""}[name.per]
    whole = {"jobs": "MaxJobs", "submit": "MaxSubmitJobs", "wall": "MaxWall"}
    counted = {"": "MaxTRES", "minutes": "MaxTRESMins", "run-minutes": "MaxTRESRunMins"}
    return (whole.get(name.resource) or counted[name.counted]) + suffix


def _is_meant(name: LimitName, tres: str) -> bool:
    if not tres:
        return True
    return any(
        tres.startswith(prefix) if prefix.endswith("/") or not prefix else tres == prefix
        for prefix in _TRES.get(name.resource, ())
    )


def _of_qos(
    name: LimitName,
    key: str,
    row: QueueRow,
    records: Sequence[LimitRecord],
    uid: int | None,
    order: QosOrder,
) -> list[tuple[str, str, LimitValue]]:
    """Owner, TRES and value of the limits in force."""
    in_force: dict[str, tuple[str, str, LimitValue]] = {}
    for qos in order.names:
        record = next((r for r in records if r.qos == qos and _is_its(name, r, row, uid)), None)
        if record is None:
            return []
        owner = f"QOS {qos}"
        if qos != row.qos:
            owner += f" of partition {order.partition}"
        whose = {"user": f"user {row.user} in ", "account": f"account {row.tenant} in "}
        for tres, value in record.values.get(key, {}).items():
            if value.limit is not None:
                in_force.setdefault(tres, (whose.get(name.per, "") + owner, tres, value))
    return list(in_force.values())


def _is_its(name: LimitName, record: LimitRecord, row: QueueRow, uid: int | None) -> bool:
    """Whether a record of a QOS counts for the job: that of its user, its account, or of all."""
    if name.per == "user":
        return record.uid is not None and record.uid == uid
    if name.per == "account":
        return record.account == row.tenant
    return record.uid is None and not record.account


def _of_association(name: LimitName, record: LimitRecord, row: QueueRow) -> str | None:
    """Who has these limits, in words; None when they are not the job's.

    Of an account those of groups alone: a user's own record has what is inherited of the others.
    """
    if record.qos or (record.partition and record.partition not in row.partitions):
        return None
    if not record.user:
        return f"account {record.account}" if name.kind == "total" else None
    its_own = record.user == row.user and record.account == row.tenant
    return f"user {record.user} in account {record.account}" if its_own else None


def _fact(
    owner: str,
    key: str,
    tres: str,
    value: LimitValue,
    asked: float | None,
    name: LimitName,
) -> LimitFact:
    limit = value.limit if value.limit is not None else 0.0
    return LimitFact(owner, key, tres, limit, value.used, asked, name.kind == "least")


def _asked(name: LimitName, tres: str, row: QueueRow, demand: NodeDemand | None) -> float | None:
    """What the job adds, in the unit of the limit; None when that is not known."""
    if name.resource in {"jobs", "submit"}:
        return 1.0
    if name.resource == "wall":
        # of a group's wall time what was used is counted, not what is asked for
        return None if name.kind == "total" else _limit_s(row)
    if name.per == "node":
        per_node = {"cpu": demand and demand.num_cpus, "mem": demand and demand.mem_bytes}
        per_node["gres/gpu"] = row.gpus_per_node
        return per_node.get(tres) or None
    amount = {t.name: t.count for t in row.tres}.get(tres)
    if amount is None and tres.startswith("gres/gpu:"):
        return None  # a type that the job does not name: it may get one of another
    if not name.counted:
        return float(amount or 0)
    if name.counted == "minutes" and name.kind == "total":
        return None  # of minutes used so far, Slurm adds nothing in advance
    limit_s = _limit_s(row)
    if limit_s is None:
        return None
    return float(amount) * limit_s if amount else 0.0


def _limit_s(row: QueueRow) -> float | None:
    """The time limit, infinite for a job without one."""
    if row.time_limit_s is None:
        return None
    return math.inf if row.time_limit_s >= UNLIMITED_S else row.time_limit_s
