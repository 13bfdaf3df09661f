"""A merged attempt as records again: what `merge.fold` makes of them is the same attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.merge import (
    SOURCE_RANK,
    STATUS,
    TRES_FIELDS,
    AttemptKey,
    Claimed,
    Value,
    claim_parts,
    claimed,
    unpart,
)

_STATES = (
    JobState.UNKNOWN,
    JobState.PENDING,
    JobState.COMPLETING,
    JobState.RUNNING,
    JobState.UNKNOWN,
    JobState.COMPLETED,
)
"""A state as final as a claim says."""

_COMPLETING = _STATES.index(JobState.COMPLETING)
_SOURCES = {rank: source for source, rank in SOURCE_RANK.items()}


def records_of(key: AttemptKey, merged: Claimed) -> Iterator[AttemptRecord]:
    """The fewest records that tell all of `merged`: one a claim, and one a conflicting value.

    The first has the attempt's own state. A record of a weaker claim has a state and a source that
    are as strong as those were that told its values; which they were is not kept.
    """
    told = _Told(key, merged)
    for claim in sorted({one.claim for one in merged.values()}, reverse=True):
        values = {name: one.value for name, one in merged.items() if one.claim == claim}
        yield from told.records(claim, values)
    for name, one in merged.items():
        for other in sorted(one.others):
            yield from told.records(one.claim, {name: other})


class _Told:
    """What is told of one attempt."""

    def __init__(self, key: AttemptKey, merged: Claimed) -> None:
        self._key = key
        self._merged = merged

    def records(self, claim: int, values: Mapping[str, Value]) -> Iterator[AttemptRecord]:
        """One record with `values`, or a second one for a start that the first would not keep."""
        kept, *others = self._statuses(claim)
        record = self._record(claim, values.get(STATUS, kept), values)
        if "start_time" not in values or "start_time" in claimed(record):
            yield record
            return
        yield self._record(
            claim, values.get(STATUS, kept), {n: v for n, v in values.items() if n != "start_time"}
        )
        start = {"start_time": values["start_time"]}
        tries = [self._record(claim, status, start) for status in (kept, *others)]
        yield next((told for told in tries if "start_time" in claimed(told)), tries[0])

    def _statuses(self, claim: int) -> list[tuple[str, str, str]]:
        """The states of records of this claim: the one that is kept, and those in conflict."""
        own = self._merged[STATUS]
        if claim == own.claim:
            return [own.value, *sorted(own.others)]
        phase, _, rank = claim_parts(claim)
        state = _STATES[phase].value
        return [(state, state, _SOURCES.get(rank, ""))]

    def _record(
        self, claim: int, status: tuple[str, str, str], values: Mapping[str, Value]
    ) -> AttemptRecord:
        phase, end_time, _ = claim_parts(claim)
        told: dict[str, Any] = {
            name: tuple(Tres(*pair) for pair in value) if name in TRES_FIELDS else value
            for name, value in values.items()
            if name != STATUS
        }
        if end_time:
            told.setdefault("end_time", end_time)
        elif phase == _COMPLETING:
            told["end_time"] = 1  # it has one, which does not count; else it were being requeued
        nodes = self._merged.get("node_list")
        if nodes and nodes.claim >= claim and "start_time" in told:
            told.setdefault("node_list", nodes.value)  # it has run, though perhaps for no time
        (cluster, part), submit_time = self._key
        state, state_text, source = status
        return AttemptRecord(
            cluster=cluster,
            job_id=part.job_id,
            array_task=unpart(part.array_task),
            het_offset=unpart(part.het_offset),
            submit_time=submit_time,
            state=JobState(state),
            state_text=state_text,
            source=source,
            **told,
        )
