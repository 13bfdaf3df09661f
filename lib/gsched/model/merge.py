"""How what several sources tell of one attempt becomes one row.

The rule is a *join*: applied in any order, any grouping and any number of times, the same records
give the same row, so that a second ingest changes nothing and overlapping reads do no harm.

Every field is decided by itself. A value comes with the claim of the record that told it:
(phase, end time, source); the strongest claim wins, between equal claims the greater value, and a
record that does not say (None, an empty list) takes nothing away. So a terminal record beats one
of a running job and that beats a pending one; of two terminal ones the later end counts; sacct
beats jobcomp beats squeue. A weaker source still completes what the stronger leaves open.

Where equal claims of an ended attempt tell different values, the values that are not kept are
*conflicts* and are kept beside it. A stronger claim ends the dispute and takes the conflicts away,
so that they, too, do not depend on the order. A state that only adds who brought it about
(``CANCELLED by 5``) is no conflict with the state alone. What waits or runs may be altered
(`scontrol update`): what differs there is no conflict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState

NO_PART = -1
"""The array task or het offset of a job that has none, where None would not do: in keys."""

MAX_INTEGER = 2**63 - 1
"""The largest number that a database stores."""

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
    "start_assumed",
    "source_id",
    "phase",
    "extra",
)

SOURCE_RANK = {"sacct": 3, "jobcomp": 2, "squeue": 1}
_END_BITS: int = 40  # seconds until the year 36812
_ENDED = 4  # the phases from here on are of attempts that have ended
_RUNNING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})

Value = Any  # int, str, or a tuple of these: comparable within one field


class Told(NamedTuple):
    """The value of one field, how strong its claim is, and what equal claims told instead."""

    claim: int
    value: Value
    others: frozenset[Value] = frozenset()


Claimed = Mapping[str, Told]
"""What was told by field, without the fields that no source has told."""


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


def happened(
    state: JobState,
    start_time: int | None,
    end_time: int | None,
    num_nodes: int | None,
    node_list: str | None,
) -> tuple[int | None, int | None]:
    """Start and end without what Slurm prints but what did not happen.

    - start and end of a pending job, and the end of a running one, are Slurm's plans.
    - the start of a job that is being requeued (see `is_requeuing`) moves with the clock.
    - a job cancelled before its start has start = end, and no nodes.
    """
    if state is JobState.PENDING or is_requeuing(state, end_time):
        return None, None
    if state in _RUNNING:
        return start_time, None
    instant = start_time == end_time and state is not JobState.COMPLETED
    if num_nodes == 0 or (instant and not node_list):
        return None, end_time
    return start_time, end_time


def is_requeuing(state: JobState, end_time: int | None) -> bool:
    """Whether a job is COMPLETING without an end: its restarts count the next attempt already."""
    return state is JobState.COMPLETING and not end_time


def _phase(state: JobState, end_time: int | None) -> int:
    """How final a state is. An unknown one is never taken for a running one."""
    if state.is_terminal:
        return 5
    if state is JobState.UNKNOWN:
        return _ENDED if end_time else 0
    if state is JobState.COMPLETING:  # its times are worse than those seen while it ran
        return 2
    return 3 if state in _RUNNING else 1


def claim_of(state: JobState, end_time: int | None, source: str) -> int:
    """The strength of a record's claims, as one number; `end_time` is the one that `happened`."""
    end: int = min(max(end_time or 0, 0), 2**_END_BITS - 1)
    return (_phase(state, end_time) << _END_BITS | end) << 2 | SOURCE_RANK.get(source, 0)


def claim_parts(claim: int) -> tuple[int, int, int]:
    """(how final, end time, rank of the source) of a claim: the reverse of `claim_of`."""
    return claim >> (_END_BITS + 2), claim >> 2 & (2**_END_BITS - 1), claim & 3


def _is_final(claim: int) -> bool:
    """Whether a claim is one of an ended attempt."""
    return claim >> (_END_BITS + 2) >= _ENDED


def claimed(record: AttemptRecord) -> Claimed:
    """What one record claims."""
    start_time, end_time = happened(
        record.state, record.start_time, record.end_time, record.num_nodes, record.node_list
    )
    if is_requeuing(record.state, record.end_time):
        record = replace(record, restarts=None)
    record = replace(record, start_time=start_time, end_time=end_time)
    claim = claim_of(record.state, end_time, record.source)
    status = (record.state.value, record.state_text, record.source)
    fields: dict[str, Told] = {STATUS: Told(claim, status)}
    for name in PLAIN_FIELDS:
        value = getattr(record, name)
        if value is not None:
            fields[name] = Told(claim, value)
    for name in TRES_FIELDS:
        tres: tuple[Tres, ...] = getattr(record, name)
        if tres:
            fields[name] = Told(claim, sorted_tres(tres))
    return fields


def sorted_tres(tres: Iterable[Tres]) -> tuple[tuple[str, int], ...]:
    """A list of resources as it is compared and stored."""
    return tuple(sorted((t.name, t.count) for t in tres))


def join(one: Claimed, other: Claimed) -> Claimed:
    """Both together: commutative, associative, and the same again for what is already in."""
    joined = dict(one)
    for name, told in other.items():
        mine = joined.get(name)
        if mine is None or told.claim > mine.claim:
            joined[name] = told
        elif told.claim == mine.claim and told != mine:
            joined[name] = _dispute(name, mine, told)
    return joined


def _dispute(name: str, one: Told, other: Told) -> Told:
    """Two answers of equal claim: the greatest value is kept."""
    values = {one.value, other.value, *one.others, *other.others}
    kept = max(values)
    others = values - {kept} if _is_final(one.claim) else set()
    if name == STATUS:
        others = {v for v in others if not any(_says_more(w, v) for w in values)}
    return Told(one.claim, kept, frozenset(others))


def _says_more(status: Value, than: Value) -> bool:
    """Whether a status also names who: sacct's text has CANCELLED by 5, its JSON CANCELLED.

    What says more is greater, too, and says more than all that the other one does: so those that
    are left of some values, and of others, are those that are left of all of them together.
    """
    (state, text, source), (other_state, other_text, other_source) = status, than
    is_same = (state, source) == (other_state, other_source)
    return is_same and text.startswith(f"{other_text} by ")


def fold(records: Iterable[AttemptRecord]) -> dict[AttemptKey, Claimed]:
    """The records of one batch by attempt."""
    folded: dict[AttemptKey, Claimed] = {}
    for record in records:
        key = key_of(record)
        told = claimed(record)
        folded[key] = join(folded[key], told) if key in folded else told
    return folded


def value(fields: Claimed, name: str) -> Value:
    """The value of a field, None (or no TRES) when no source has told it."""
    told = fields.get(name)
    if told is None:
        return () if name in TRES_FIELDS else None
    return told.value


def pack_claims(fields: Claimed) -> tuple[int, str | None]:
    """Claims as stored: the row's own, and as JSON those of the fields that have a weaker one."""
    own = fields[STATUS].claim
    weaker = {name: told.claim for name, told in sorted(fields.items()) if told.claim != own}
    return own, json.dumps(weaker, separators=(",", ":")) if weaker else None


def unpack_claims(
    own: int,
    weaker: str | None,
    values: Mapping[str, Value],
    others: Mapping[str, Iterable[Value]],
) -> Claimed:
    """The reverse of `pack_claims`, given the stored values and the conflicts by field."""
    claims = json.loads(weaker) if weaker else {}
    return {
        name: Told(claims.get(name, own), stored, frozenset(others.get(name, ())))
        for name, stored in values.items()
        if stored is not None and stored != ()
    }
