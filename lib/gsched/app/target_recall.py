"""Promises that SQL has and the policy's memory lacks: an upgrade, or another scope, forgets none.

Memory belongs to a policy's name and to a version of its form. Where it begins anew, the promises
that stand are put into it as they were made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from gsched.daemon.requests import RequestBook
from gsched.model.decision import JsonValue
from gsched.model.target_records import TargetRecord
from gsched.model.targets import steps_of
from gsched.policy.base import Policy
from gsched.policy.chronus_memory import Asked, Book, Target, Used, name_of
from gsched.policy.scoped import MEMORY_VERSION, Scoped

log = logging.getLogger("gsched.daemon")

POLICIES = ("chronus", "unisched")
"""Those that promise deadlines; they remember them in one form."""


def recalled(
    policy: Policy,
    memory: Mapping[str, JsonValue],
    standing: Sequence[TargetRecord],
    requests: RequestBook,
) -> Mapping[str, JsonValue]:
    """`memory` with those of the promises that it lacks and whose jobs are in the queue.

    Of a job that asks for something else by now nothing is put in: its request is a new one.
    """
    names = [one.name for one in policy.policies] if isinstance(policy, Scoped) else [policy.name]
    planner = next((name for name in names if name in POLICIES), None)
    if planner is None:
        return memory
    own = _own(memory, planner) if isinstance(policy, Scoped) else memory
    book = Book.of(own)
    lacking = {}
    for record in standing:
        target = _target(record, requests)
        name = name_of(record.key)
        if target is not None and name not in book.targets and name not in book.refused:
            lacking[name] = target
    if not lacking:
        return memory
    log.warning("%d promised deadlines were not remembered: they stand as they were", len(lacking))
    book.targets |= lacking
    if not isinstance(policy, Scoped):
        return book.document()
    kept = _policies(memory)
    return {"version": MEMORY_VERSION, "policies": {**kept, planner: book.document()}}


def _policies(memory: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What each of several policies remembers."""
    kept = memory.get("policies")
    return kept if memory.get("version") == MEMORY_VERSION and isinstance(kept, dict) else {}


def _own(memory: Mapping[str, JsonValue], planner: str) -> Mapping[str, JsonValue]:
    found = _policies(memory).get(planner)
    return found if isinstance(found, dict) else {}


def _target(record: TargetRecord, requests: RequestBook) -> Target | None:
    """The promise as the policy remembers one; None where the job does not ask for it any more."""
    asked, promise = requests.of(record.key), record.promise
    if asked is None or promise is None or asked.first_seen > record.asked_time:
        return None
    if steps_of(asked.wants) != record.steps:
        return None
    times = record.steps.times
    return Target(
        Asked(asked.wants.number, times, record.steps.rewards, record.num_gpus),
        next((time for time in times if time >= promise.finish_time), times[-1]),
        promise.budget_gpu_s,
        promise.time,
        promise.probability,
        promise.restarts,
        _used(record),
    )


def _used(record: TargetRecord) -> Used:
    """As far as it was written: what is counted from look to look goes on from there."""
    used = record.used
    if used is None:
        return Used(0, 0.0, 0.0)
    return Used(used.attempt, used.gpu_s - used.attempt_gpu_s, used.attempt_gpu_s)
