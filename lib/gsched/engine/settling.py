"""From the intent to what the cluster shows: changes sent, looked at, settled in the journal."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.phase_times import PhaseTimes
from gsched.engine.ports import Backend, Clock, Journal
from gsched.model.journal import Change, ChangeState, Readback

APPLY_CHUNK = 50
"""Changes sent at a time; after each chunk the journal learns which were accepted."""

Ended = dict[str, tuple[ChangeState, str]]
"""By change_id: the state in which a change ended, and a detail."""

_UNCONFIRMED = "accepted, not readable yet"
_EXPIRED = "not sent: it was decided too long ago"


def settle_interrupted(backend: Backend, journal: Journal, clock: Clock) -> int:
    """Settle what earlier rounds left open by what the backend's last look showed.

    For the one who holds the writer lock only: nobody else's changes are under way then. Returns
    how many were settled.
    """
    entries = journal.unsettled(backend.cluster)
    if not entries:
        return 0
    changes = {e.change.change_id: e.change for e in entries}
    settled = []
    for seen in backend.looked_up(tuple(changes.values())):
        state, detail = _judge(changes[seen.change_id], seen)
        if state is not ChangeState.SENT:
            settled.append((seen.change_id, state, f"{detail} (looked up later)".strip()))
    journal.settle(settled, clock())
    return len(settled)


def carry_out(
    backend: Backend,
    journal: Journal,
    round_id: str,
    changes: Sequence[Change],
    clock: Clock,
    on_point: FaultHook = no_faults,
    times: PhaseTimes | None = None,
) -> Ended:
    """Intent, act, confirm. Returns how each change ended (by change_id).

    One that ended as SENT was accepted, and the next look settles it.
    """
    if not changes:
        return {}
    times = times or PhaseTimes()
    with times.of("journal"):
        journal.record(round_id, changes, ChangeState.INTENT, clock())
    on_point(FaultPoint.INTENT_RECORDED)
    ended: Ended = {c.change_id: (ChangeState.INTENT, "not answered") for c in changes}
    for start in range(0, len(changes), APPLY_CHUNK):
        answered = _send(backend, changes[start : start + APPLY_CHUNK], clock(), times)
        on_point(FaultPoint.CHUNK_SENT)
        _settle(journal, answered, clock, times)
        ended |= answered
    on_point(FaultPoint.ALL_SENT)
    seen = _confirm(backend, [c for c in changes if _is_sent(ended[c.change_id])], times)
    _settle(journal, seen, clock, times)
    on_point(FaultPoint.CONFIRMED)
    return ended | seen


def _send(backend: Backend, chunk: Sequence[Change], at: int, times: PhaseTimes) -> Ended:
    """Send what has not expired: between decision and now the process may have stood still."""
    expired = {c.change_id for c in chunk if c.valid_until is not None and at > c.valid_until}
    ended: Ended = dict.fromkeys(expired, (ChangeState.VOID, _EXPIRED))
    valid = [c for c in chunk if c.change_id not in expired]
    if valid:
        with times.of("apply"):
            outcomes = backend.apply(valid)
        for o in outcomes:
            state = ChangeState.SENT if o.accepted else ChangeState.REJECTED
            ended[o.change_id] = (state, o.error)
    return ended


def _confirm(backend: Backend, sent: Sequence[Change], times: PhaseTimes) -> Ended:
    if not sent:
        return {}
    by_id = {c.change_id: c for c in sent}
    ended: Ended = dict.fromkeys(by_id, (ChangeState.SENT, _UNCONFIRMED))
    with times.of("apply"):
        answers = backend.read_back(sent)
    return ended | {seen.change_id: _judge(by_id[seen.change_id], seen) for seen in answers}


def _settle(journal: Journal, ended: Ended, clock: Clock, times: PhaseTimes) -> None:
    with times.of("journal"):
        journal.settle([(change_id, *end) for change_id, end in ended.items()], clock())


def _is_sent(end: tuple[ChangeState, str]) -> bool:
    return end[0] is ChangeState.SENT


def _judge(change: Change, seen: Readback) -> tuple[ChangeState, str]:
    if not seen.present:
        return ChangeState.VOID, "the job no longer waits, or waits anew"
    if seen.value is None:
        return ChangeState.SENT, _UNCONFIRMED
    if seen.value == change.after:
        return ChangeState.CONFIRMED, ""
    return ChangeState.VOID, f"Slurm shows {seen.value}"
