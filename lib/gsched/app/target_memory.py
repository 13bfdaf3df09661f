"""What the policy's memory tells of deadlines, beside what a round decides."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.daemon.target_document import told_params
from gsched.model.decision import Decision, JsonValue, Reason
from gsched.model.job import JobKey
from gsched.model.target_records import PromiseUse
from gsched.policy.chronus_memory import Book, name_of, used_of

REFUSED = "refused"
"""So the codes of refusals begin, behind the policy's name."""


def why_refused(decision: Decision, key: JobKey, private: bool) -> Reason | None:
    """The reason. A job that runs has no reason: what the policy remembers tells it."""
    reason = decision.reasons.get(key)
    if reason is None or not reason.code.partition(".")[2].startswith(REFUSED):
        books = map(Book.of, _memories(decision.memory))
        found = next((b.refused[name_of(key)] for b in books if name_of(key) in b.refused), None)
        reason = Reason(found.code, found.params) if found is not None and found.code else reason
    return reason and Reason(reason.code, told_params(reason.params, private))


def _memories(memory: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    """Of the policy in use, and where there are several of each of them."""
    several = memory.get("policies")
    own = several.values() if isinstance(several, dict) else ()
    return [memory, *(kept for kept in own if isinstance(kept, dict))]


def promise_use(memory: Mapping[str, JsonValue], key: JobKey) -> PromiseUse | None:
    """What a promise has used, as the policy counts it."""
    found = next(filter(None, (used_of(kept, key) for kept in _memories(memory))), None)
    return None if found is None else PromiseUse(found.gpu_s, found.attempt, found.last)


def way_of(memory: Mapping[str, JsonValue]) -> str:
    """How the policy has made its plans in this round, "" where it does not say."""
    for kept in _memories(memory):
        last = kept.get("last")
        way = last.get("way") if isinstance(last, dict) else None
        if isinstance(way, str) and way:
            return way[:32]
    return ""
