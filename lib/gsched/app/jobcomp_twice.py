"""Records of jobcomp's file that contradict what was told before: refused, never merged.

Slurm writes one record an attempt. The file can hold others: a job's name may hold a whole record
of somebody else's job (see ``gsched.slurm.jobcomp``). Merged, a forged record would silently
rewrite what is known; so the first that is told of an attempt stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from gsched.model.history import AttemptRecord, Batch, Reject
from gsched.model.merge import (
    SOURCE_RANK,
    STATUS,
    AttemptKey,
    Claimed,
    claim_parts,
    claimed,
    key_of,
)
from gsched.slurm.parse_jobcomp import SOURCE

TWICE = "jobcomp tells of this attempt twice, and not the same"
OTHER_USER = "jobcomp names another user than squeue or sacct does"

_RANK = SOURCE_RANK[SOURCE]


def keys_of(batch: Batch) -> Collection[AttemptKey]:
    """The attempts of a batch, each once."""
    return dict.fromkeys(map(key_of, batch.records))


def without_contradictions(batch: Batch, stored: Mapping[AttemptKey, Claimed]) -> Batch:
    """`batch`, each record that contradicts an earlier one or a stored attempt a reject."""
    first: dict[AttemptKey, AttemptRecord] = {}
    kept: list[AttemptRecord] = []
    rejects = list(batch.rejects)
    for record in batch.records:
        key = key_of(record)
        reason = _contradiction(record, first.get(key), stored.get(key, {}))
        if reason:
            rejects.append(Reject(SOURCE, 0, reason, repr(record)))
        else:
            first[key] = record
            kept.append(record)
    return replace(batch, records=tuple(kept), rejects=tuple(rejects))


def _contradiction(record: AttemptRecord, first: AttemptRecord | None, stored: Claimed) -> str:
    """What is wrong with a record, "" for nothing."""
    if first is not None:
        return "" if first == record else TWICE
    told = claimed(record)
    for name, known in stored.items():
        is_own = claim_parts(known.claim)[2] == _RANK
        mine = told.get(name)
        if is_own and (mine is None or mine.value != known.value):
            return TWICE
        if name == "user" and not is_own and mine is not None and mine.value != known.value:
            return OTHER_USER
    if STATUS in stored and claim_parts(stored[STATUS].claim)[2] == _RANK:
        fresh = told.keys() - stored.keys()
        return TWICE if fresh else ""
    return ""
