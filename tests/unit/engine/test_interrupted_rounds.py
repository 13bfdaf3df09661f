"""What becomes of a change: rounds that were cut off, and what Slurm shows afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.rounds import JOBS, KilledError, backend_with, killed_at, runner_for, states
from support.sim import job, simulated

from gsched.engine.faults import ROUND_POINTS, FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.settling import APPLY_CHUNK
from gsched.model.journal import Change, ChangeState, Outcome, Readback
from gsched.sim.backend import SimBackend


@pytest.mark.parametrize("point", ROUND_POINTS)
def test_after_a_kill_at_any_point_the_next_round_repairs(point: FaultPoint) -> None:
    many = [job(i, duration_s=1 + i * 7 % 97) for i in range(1, 2 * APPLY_CHUNK)]
    backend = backend_with(many)
    journal = MemoryJournal()

    with pytest.raises(KilledError):
        runner_for(backend, many, journal, on_point=killed_at(point)).run(acting=True)
    runner_for(backend, many, journal).run(acting=True)
    undisturbed = backend_with(many)
    runner_for(undisturbed, many).run(acting=True)
    assert backend.pending_order() == undisturbed.pending_order()
    assert journal.unsettled("c") == []
    settled = {e.state for e in journal.entries.values()}
    assert settled <= {ChangeState.CONFIRMED, ChangeState.VOID}


def test_what_was_sent_before_the_kill_is_recognised_not_sent_again() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()

    with pytest.raises(KilledError):
        runner_for(backend, JOBS, journal, on_point=killed_at(FaultPoint.ALL_SENT)).run(acting=True)
    result = runner_for(backend, JOBS, journal).run(acting=True)
    assert result.recovered == 4
    assert result.changes == ()


def test_another_value_in_slurm_is_void_and_never_confirmed() -> None:
    class OtherHand(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            return super().apply([replace(c, after=7) for c in changes])

    backend = OtherHand(*simulated(JOBS))
    backend.advance()
    journal = MemoryJournal()
    result = runner_for(backend, JOBS, journal).run(acting=True)
    assert set(result.settled.values()) == {(ChangeState.VOID, "Slurm shows 7")}
    assert states(journal) == [ChangeState.VOID] * 4
    assert {(e.detail, e.settled_at) for e in journal.entries.values()} == {("Slurm shows 7", 100)}


class Unreadable(SimBackend):
    """Accepts changes; as long as `is_dark`, the values of waiting jobs cannot be read."""

    is_dark = True

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        return self._as_far_as_seen(super().read_back(changes))

    def looked_up(self, changes: Sequence[Change]) -> list[Readback]:
        return self._as_far_as_seen(super().looked_up(changes))

    def _as_far_as_seen(self, seen: list[Readback]) -> list[Readback]:
        return [replace(r, value=None) for r in seen] if self.is_dark else seen


def test_what_cannot_be_read_yet_stays_sent_and_is_settled_in_a_later_round() -> None:
    backend = Unreadable(*simulated(JOBS))
    backend.advance()
    journal = MemoryJournal()
    runner = runner_for(backend, JOBS, journal)
    assert runner.run(acting=True).count(ChangeState.SENT) == 4
    assert states(journal) == [ChangeState.SENT] * 4
    again = runner.run(acting=True)
    assert (again.recovered, again.changes) == (0, ())
    assert states(journal) == [ChangeState.SENT] * 4
    backend.is_dark = False
    last = runner.run(acting=True)
    assert (last.recovered, last.changes) == (4, ())
    assert states(journal) == [ChangeState.CONFIRMED] * 4
    assert {e.detail for e in journal.entries.values()} == {"(looked up later)"}


def test_what_was_never_sent_before_the_kill_ends_void_and_is_sent_anew_by_chunks() -> None:
    many = [job(i, duration_s=1 + i) for i in range(2 * APPLY_CHUNK)]
    backend = backend_with(many)
    journal = MemoryJournal()
    killed = runner_for(backend, many, journal, on_point=killed_at(FaultPoint.CHUNK_SENT))
    with pytest.raises(KilledError):
        killed.run(acting=True)
    assert states(journal) == [ChangeState.INTENT] * len(many)
    first_tries = list(journal.entries)
    result = runner_for(backend, many, journal).run(acting=True)
    ends = [journal.entries[change_id].state for change_id in first_tries]
    assert ends[:APPLY_CHUNK] == [ChangeState.CONFIRMED] * APPLY_CHUNK
    assert ends[APPLY_CHUNK:] == [ChangeState.VOID] * APPLY_CHUNK
    assert result.recovered == len(many)
    assert len(result.changes) == result.count(ChangeState.CONFIRMED) == APPLY_CHUNK
    assert not {c.change_id for c in result.changes} & set(first_tries)


def test_an_observing_round_leaves_open_changes_to_the_one_that_acts() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    killed = runner_for(backend, JOBS, journal, on_point=killed_at(FaultPoint.INTENT_RECORDED))
    with pytest.raises(KilledError):
        killed.run(acting=True)
    left = journal.unsettled("c")
    runner = runner_for(backend, JOBS, journal)
    assert runner.run(acting=False).recovered == 0
    assert journal.unsettled("c") == left
    assert len(left) == 4
    assert runner.run(acting=True).recovered == 4
    assert journal.unsettled("c") == []
