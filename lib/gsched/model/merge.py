"""How what several sources tell of one attempt becomes one row.

The rule is a *join*: applied in any order, any grouping and any number of times, the same records
give the same row, so that a second ingest changes nothing and overlapping reads do no harm.

Every field is decided by itself. A value comes with the claim of the record that told it:
(phase, end time, source); the strongest claim wins, between equal claims the greater value, and a
record that does not say (None, an empty list) takes nothing away. So a terminal record beats one
of a running job and that beats a pending one; of two terminal ones the later end counts; sacct
beats jobcomp beats squeue. A weaker source still completes what the stronger leaves open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState

NO_PART = -1
"""The array task or het offset of a job that has none, where None would not do: in keys."""

STATUS = "status"  # (state, state_text, source) of the strongest record: told together
TRES_FIELDS = ("requested", "allocated")
PLAIN_FIELDS = (
    "user",
    "tenant",
    "partition",
    "qos",
    "name",
    "eligible_time",
    "start_time",
    "end_time",
    "time_limit_s",
    "num_nodes",
    "num_cpus",
    "num_gpus",
    "node_list",
    "exit_code",
    "exit_signal",
    "restarts",
)

_SOURCE_RANK = {"sacct": 3, "jobcomp": 2, "squeue": 1}
_END_BITS: int = 40  # seconds until the year 36812
_RUNNING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})

Value = Any  # int, str, or a tuple of these: comparable within one field
Claimed = Mapping[str, tuple[int, Value]]
"""Field → (claim, value), without the fields that no source has told."""


class Part(NamedTuple):
    """A slot within its cluster; NO_PART for what a job has not."""

    job_id: int
    array_task: int
    het_offset: int


class Slot(NamedTuple):
    """The place that one id names in Slurm."""

    cluster: str
    part: Part


class AttemptKey(NamedTuple):
    """One attempt: a slot and the submit time that Slurm gave it."""

    slot: Slot
    submit_time: int


def part_of(job_id: int, array_task: int | None, het_offset: int | None) -> Part:
    """A slot as stored."""
    return Part(
        job_id,
        NO_PART if array_task is None else array_task,
        NO_PART if het_offset is None else het_offset,
    )


def unpart(stored: int) -> int | None:
    """A stored array task or het offset as the model has it."""
    return None if stored == NO_PART else stored


def key_of(record: AttemptRecord) -> AttemptKey:
    """The attempt that a record speaks of."""
    part = part_of(record.job_id, record.array_task, record.het_offset)
    return AttemptKey(Slot(record.cluster, part), record.submit_time)


def normalised(record: AttemptRecord) -> AttemptRecord:
    """The record without times that Slurm prints but that did not happen.

    - start and end of a pending job, and the end of a running one, are Slurm's plans.
    - a COMPLETING job without an end is being requeued: its start moves with the clock, and its
      restarts count the next attempt already.
    - a job cancelled before its start has start = end, and no nodes.
    """
    if record.state is JobState.PENDING:
        return replace(record, start_time=None, end_time=None)
    if record.state is JobState.COMPLETING and not record.end_time:
        return replace(record, start_time=None, end_time=None, restarts=None)
    if record.state in _RUNNING:
        return replace(record, end_time=None)
    instant = record.start_time == record.end_time and record.state is not JobState.COMPLETED
    if record.num_nodes == 0 or (instant and not record.node_list):
        return replace(record, start_time=None)
    return record


def _phase(record: AttemptRecord) -> int:
    """How final the record's state is. An unknown state is never taken for a running one."""
    if record.state.is_terminal:
        return 5
    if record.state is JobState.UNKNOWN:
        return 4 if record.end_time else 0
    if record.state is JobState.COMPLETING:  # its times are worse than those seen while it ran
        return 2
    return 3 if record.state in _RUNNING else 1


def claim_of(record: AttemptRecord) -> int:
    """The strength of a (normalised) record's claims, as one number."""
    end: int = min(max(record.end_time or 0, 0), 2**_END_BITS - 1)
    return (_phase(record) << _END_BITS | end) << 2 | _SOURCE_RANK.get(record.source, 0)


def claimed(record: AttemptRecord) -> Claimed:
    """What one record claims."""
    record = normalised(record)
    claim = claim_of(record)
    fields: dict[str, tuple[int, Value]] = {
        STATUS: (claim, (record.state.value, record.state_text, record.source))
    }
    for name in PLAIN_FIELDS:
        value = getattr(record, name)
        if value is not None:
            fields[name] = (claim, value)
    for name in TRES_FIELDS:
        tres: tuple[Tres, ...] = getattr(record, name)
        if tres:
            fields[name] = (claim, tuple(sorted((t.name, t.count) for t in tres)))
    return fields


def join(one: Claimed, other: Claimed) -> Claimed:
    """Both together: commutative, associative, and the same again for what is already in."""
    joined = dict(one)
    for name, told in other.items():
        mine = joined.get(name)
        if mine is None or told > mine:
            joined[name] = told
    return joined


def fold(records: Iterable[AttemptRecord]) -> dict[AttemptKey, Claimed]:
    """The records of one batch by attempt."""
    folded: dict[AttemptKey, Claimed] = {}
    for record in records:
        key = key_of(record)
        told = claimed(record)
        folded[key] = join(folded[key], told) if key in folded else told
    return folded


def numbers_of(record: AttemptRecord) -> Iterator[int]:
    """Every number that a record would put into a column."""
    yield record.job_id
    yield record.submit_time
    for name in ("array_task", "het_offset", *PLAIN_FIELDS):
        told = getattr(record, name)
        if isinstance(told, int):
            yield told
    for name in TRES_FIELDS:
        for tres in getattr(record, name):
            yield tres.count


def value(fields: Claimed, name: str) -> Value:
    """The value of a field, None (or no TRES) when no source has told it."""
    told = fields.get(name)
    if told is None:
        return () if name in TRES_FIELDS else None
    return told[1]


def pack_claims(fields: Claimed) -> tuple[int, str]:
    """Claims as stored: the row's own, and as JSON those of the fields that have a weaker one."""
    own = fields[STATUS][0]
    weaker = {name: claim for name, (claim, _) in sorted(fields.items()) if claim != own}
    return own, json.dumps(weaker, separators=(",", ":")) if weaker else ""


def unpack_claims(own: int, weaker: str, values: Mapping[str, Value]) -> Claimed:
    """The reverse of `pack_claims`, given the stored values."""
    claims = json.loads(weaker) if weaker else {}
    return {
        name: (claims.get(name, own), stored)
        for name, stored in values.items()
        if stored is not None and stored != ()
    }
