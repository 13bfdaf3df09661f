"""The life of a lease: what Slurm's own state says has happened, and what is to be done next. Pure.

A lease belongs to one attempt of a job. Whatever was cut off in between, by a kill of the daemon or
by somebody else's hand, the job itself shows what became of it, at any time and without memory:

- it runs in the same attempt: it was not requeued;
- it waits, or runs, after one more restart: it was requeued, or even runs again;
- it has ended, or Slurm does not know it any more: the lease is over.

So `settled` comes before everything else, and the same call that carries a lease on reconciles it
after a restart. What is to be done is written down before (ENDING, SAVED), and done only while the
job is seen to run in the lease's own attempt: a requeue that was sent already has raised Slurm's
restart count, so that it is not sent a second time, and one that is sent twice all the same is
left alone by Slurm, for the job waits. A signal leaves no trace in Slurm: after a kill it is sent
again, so that a job may be told twice to save.

A job that tells of its checkpoints (SaveReport) has saved when it says, after it was told, that one
of them holds all the steps that it had finished before. If it says no such thing by the end of its
grace, or cannot be heard any more, it keeps its GPUs. A job that tells nothing, and told nothing
before, counts as SAVED when its grace is over. While a job writes a checkpoint of its own accord,
it is not told.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from gsched.model.accounts import LeaseGrant, Told
from gsched.model.job import Capability, JobState, JobView, LeaseState

REQUEUE_WINDOW_S = 120
"""So long after a job has saved it may be requeued: it trains on, and the work since then would be
lost. Some rounds of the daemon, until whoever is to have the GPUs is the first."""

CLOCK_SLACK_S = 60
"""A clock that was set back by more than this no longer tells how old a lease's state is."""

_HOLDS_GPUS = frozenset({JobState.RUNNING, JobState.SUSPENDED})
# Not a state in which a job stays: it is on the way into its next attempt.
_ENDED = frozenset({s for s in JobState if s.is_terminal} - {JobState.REQUEUED})
_TOLD = frozenset({LeaseState.SIGNALLED, LeaseState.SAVED})
WHEN_TOLD = "after it was told to save"
"""Within the detail of a lease whose job ended as if by that signal."""

_OF_SIGNAL = {
    JobState.FAILED: "a script that does not trap USR1 dies of it",
    JobState.COMPLETED: "was it done, or does it end at USR1 instead of training on?",
}


@dataclass(frozen=True, slots=True)
class JobSeen:
    """What the cluster shows of a job: its attempt, as in LeaseGrant, and state.

    `excluded` is the code of the reason for which it must not be requeued, "" for none.
    """

    attempt: int
    restarts: int
    state: JobState
    excluded: str = ""

    @classmethod
    def of(cls, view: JobView) -> JobSeen:
        """The same from a snapshot."""
        why = view.exclusion(Capability.PREEMPT)
        return cls(view.attempt, view.restarts, view.state, why.code if why else "")


@dataclass(frozen=True, slots=True)
class SaveReport:
    """What a running job tells of its checkpoints.

    `step` steps are finished, `committed_step` of them are in its newest checkpoint; None: not
    known, or there is none. `is_writing`: a checkpoint is being written, or nobody can tell.
    `run` and `seq` as in Told. `unheard`: why nobody can tell, "" where it is told.
    """

    step: int | None
    committed_step: int | None
    is_writing: bool = False
    run: str = ""
    seq: int = 0
    unheard: str = ""

    @property
    def told(self) -> Told | None:
        """What has to be saved of a job that is told to save now; None: that is not known."""
        return None if self.step is None else Told(self.step, self.run, self.seq)

    def has_saved(self, told: Told | None) -> bool | None:
        """Whether what was finished when the job was told is in a checkpoint, and none is written.

        `told` as in LeaseGrant: what it has not written since says nothing. Where it is None, a job
        that has saved all has saved; of any other one nothing can be said.
        """
        needed = self.step if told is None else told.step
        saved = self.committed_step
        is_news = told is None or (self.run == told.run and self.seq > told.seq)
        is_saved = needed is not None and saved is not None and saved >= needed
        if is_saved and is_news and not self.is_writing:
            return True
        return None if told is None else False


def unheard(why: str) -> SaveReport:
    """Of a job that tells of its checkpoints, but not now."""
    return SaveReport(None, None, is_writing=True, unheard=why)


NOT_READABLE = unheard("its heartbeat cannot be read")

_SILENT = unheard("it tells nothing of its checkpoints any more")


@dataclass(frozen=True, slots=True)
class Move:
    """A transition to be written down, and why.

    `told` comes with SIGNALLED, see LeaseGrant. `is_unsaved`: the job keeps its GPUs because it has
    not saved in time. `is_of_signal`: it has ended as if by being told to save.
    """

    state: LeaseState
    detail: str = ""
    told: Told | None = None
    is_unsaved: bool = False
    is_of_signal: bool = False


class Verb(enum.Enum):
    """What is done to a job."""

    SIGNAL = "signal"
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class Act:
    """One thing to be done to the job of a lease.

    `act_id` is its idempotency key; it is void past `valid_until` (epoch), and in any other
    attempt than the lease's. Of a signal `undone` is the way back, of a requeue there is none.
    """

    act_id: str
    verb: Verb
    valid_until: int


def settled(grant: LeaseGrant, seen: JobSeen | None, now: int | None = None) -> tuple[Move, ...]:
    """What the look at its job says of a standing lease; `seen` None: Slurm knows no such job.

    `now` (epoch) tells whether a job that has ended did so while it was to save; None: not known.
    """
    if seen is None:
        return (Move(LeaseState.VANISHED, "Slurm does not know the job any more"),)
    if seen.restarts <= grant.restarts:
        if seen.attempt > grant.attempt:
            return (Move(LeaseState.VANISHED, "another job has its number"),)
        return _end(seen, was_told=_is_to_save(grant, now))
    moves: tuple[Move, ...] = ()
    if grant.lease.state is not LeaseState.REQUEUED:
        by_gsched = grant.lease.state is LeaseState.SAVED
        moves = (Move(LeaseState.REQUEUED, "" if by_gsched else "not by gsched"),)
    if seen.state in _HOLDS_GPUS:
        return (*moves, Move(LeaseState.REGRANTED))
    return (*moves, *_end(seen))


def is_present(grant: LeaseGrant, seen: JobSeen) -> bool:
    """Whether the job is in the lease's own attempt.

    The restart count tells a later one from the moment of the requeue on, the submit time only
    when the nodes are free. A slurmctld that was set back shows an earlier one.
    """
    return (seen.attempt, seen.restarts) == (grant.attempt, grant.restarts)


def _is_to_save(grant: LeaseGrant, now: int | None) -> bool:
    """Whether the job was told so short a time ago that what it does now comes of that."""
    if grant.lease.state not in _TOLD or grant.revoke is None or now is None:
        return False
    return now - grant.since <= grant.revoke.grace_s + CLOCK_SLACK_S


def _end(seen: JobSeen, *, was_told: bool = False) -> tuple[Move, ...]:
    if seen.state is JobState.CANCELLED:
        return (Move(LeaseState.CANCELLED),)
    if seen.state not in _ENDED:
        return ()
    how = seen.state.value.lower()
    if not was_told or seen.state not in _OF_SIGNAL:
        return (Move(LeaseState.ENDED, how),)
    words = f"{how} {WHEN_TOLD}: {_OF_SIGNAL[seen.state]}"
    return (Move(LeaseState.ENDED, words, is_of_signal=True),)


def carried_on(
    grant: LeaseGrant, seen: JobSeen, report: SaveReport | None, now: int
) -> Move | Act | None:
    """The next step of a lease that `settled` has nothing to say of; None: wait.

    `report` is what the job itself tells, None: nothing. A move is written down, and the lease
    asked about again; an act is done, and then looked at.
    """
    state, revoke = grant.lease.state, grant.revoke
    if revoke is None or not state.can_be_undone or not is_present(grant, seen):
        return None
    if seen.excluded:
        return Move(LeaseState.KEPT, f"left alone: {seen.excluded}")
    if state is LeaseState.ENDING:
        step: Move | Act = Act(f"{revoke.revoke_id}/signal", Verb.SIGNAL, revoke.valid_until)
    elif state is LeaseState.SIGNALLED:
        if report is None and grant.told is not None:
            report = _SILENT
        saved = report.has_saved(grant.told) if report is not None else None
        over_at = grant.since + revoke.grace_s
        if saved is not True and seen.state is not JobState.RUNNING:
            return _interrupted(grant, seen, over_at, now)
        if saved is not True and grant.since - CLOCK_SLACK_S <= now < over_at:
            return None
        if saved is False and report is not None and now >= over_at:
            return Move(LeaseState.KEPT, _unsaved(grant, report), is_unsaved=True)
        why = "the job says so" if saved else f"its grace of {revoke.grace_s} s is over"
        step = _in_time(Move(LeaseState.SAVED, why), over_at + REQUEUE_WINDOW_S, grant, now)
    else:
        valid_until = grant.since + REQUEUE_WINDOW_S
        step = Act(f"{revoke.revoke_id}/requeue", Verb.REQUEUE, valid_until)
    if isinstance(step, Act):
        step = _in_time(step, step.valid_until, grant, now)
        if isinstance(step, Act) and seen.state is not JobState.RUNNING:
            return None  # suspended or just ending: it could not save, or need not be requeued
    if state is LeaseState.ENDING and report is not None and report.is_writing:
        if isinstance(step, Act):
            return None  # a checkpoint that is being written is not disturbed
        why = report.unheard or "it was saving until then"
        return replace(step, detail=f"{step.detail}: {why}", is_unsaved=True)
    return step


def _interrupted(grant: LeaseGrant, seen: JobSeen, over_at: int, now: int) -> Move | None:
    """Of a job that was told to save and does not run: its grace cannot be told from then on."""
    if seen.state is JobState.SUSPENDED:
        why = "has not saved: it was suspended when it was to"
        return Move(LeaseState.KEPT, why, is_unsaved=True)
    late = _in_time(Move(LeaseState.SAVED), over_at + REQUEUE_WINDOW_S, grant, now)
    return late if isinstance(late, Move) and late.state is LeaseState.LAPSED else None


def _unsaved(grant: LeaseGrant, report: SaveReport) -> str:
    """How far a job has come that has not saved in time."""
    grace_s = grant.revoke.grace_s if grant.revoke else 0
    words = f"has not saved within {grace_s} s"
    if report.unheard or grant.told is None:
        return f"{words}: {report.unheard}"
    if report.run != grant.told.run or report.seq <= grant.told.seq:
        return f"{words}: its heartbeat says nothing new"
    saved = "no step" if report.committed_step is None else f"step {report.committed_step:,}"
    being = ", and a checkpoint is being written" if report.is_writing else ""
    return f"{words}: {saved} of the {grant.told.step:,} that were done is saved{being}"


def _in_time(step: Move | Act, valid_until: int, grant: LeaseGrant, now: int) -> Move | Act:
    if now > valid_until:
        return Move(LeaseState.LAPSED, f"too late by {now - valid_until} s")
    if now < grant.since - CLOCK_SLACK_S:
        return Move(LeaseState.LAPSED, "the clock was set back")
    return step


def answered(act: Act, refusal: str, told: Told | None = None) -> Move | None:
    """What an answer of Slurm's says of the lease: `refusal` is "" when the act was taken.

    `told` is what the job said before the signal was sent. A requeue that was taken says nothing
    yet: the job shows it.
    """
    if refusal:
        return Move(LeaseState.REFUSED, f"{act.verb.value}: {refusal}")
    if act.verb is Verb.SIGNAL:
        return Move(LeaseState.SIGNALLED, told=told)
    return None


def undone(grant: LeaseGrant, seen: JobSeen, why: str) -> Move | None:
    """How a revoke is taken back, None where it cannot be.

    For a lease that `settled` has nothing to say of: recorded, told or saved, but not requeued.
    """
    can_be = grant.lease.state.can_be_undone and is_present(grant, seen)
    return Move(LeaseState.KEPT, why) if can_be else None


def moved(grant: LeaseGrant, move: Move, at: int) -> LeaseGrant:
    """The lease after a transition."""
    lease = replace(grant.lease, state=move.state)
    return replace(grant, lease=lease, since=at, told=move.told or grant.told)
