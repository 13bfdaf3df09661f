"""A journal in memory: for the simulator, where nothing outlives the process.

It answers as the one on disk does; one contract test holds both to that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.errors import GschedError
from gsched.model.decision import JsonValue
from gsched.model.job import JobKey, Prediction, PredictionKind
from gsched.model.journal import Change, ChangeState, JournalEntry, RoundInfo, Standing

_OPEN = (ChangeState.INTENT, ChangeState.SENT)
_NEVER_SENT = (ChangeState.OBSERVED, ChangeState.REJECTED)

Subject = tuple[JobKey, str]
"""A job and one of its channels."""


class MemoryJournal:
    """Implements ``gsched.engine.ports.Journal`` without a file."""

    def __init__(self) -> None:
        self.rounds: dict[str, RoundInfo] = {}
        self.entries: dict[str, JournalEntry] = {}
        self.summaries: dict[str, tuple[int, Mapping[str, JsonValue]]] = {}
        self.predictions: dict[
            tuple[JobKey, int, PredictionKind, str], tuple[int, Prediction]
        ] = {}  # by job, attempt, kind and model
        self._memory: dict[tuple[str, str], Mapping[str, JsonValue]] = {}
        self._open: dict[str, None] = {}  # change ids, oldest first
        self._settled: dict[Subject, _Fold | None] = {}  # what is known for good
        self._written: dict[Subject, list[str]] = {}  # ids of the changes after that, oldest first
        self._standing: dict[str, dict[Subject, Standing]] = {}  # by cluster

    def begin_round(self, info: RoundInfo) -> None:
        """Keep that a round has begun. Raises GschedError for an id that is taken."""
        if info.round_id in self.rounds:
            raise GschedError(f"the journal has a round {info.round_id} already")
        self.rounds[info.round_id] = info

    def end_round(
        self,
        round_id: str,
        ended_at: int,
        summary: Mapping[str, JsonValue],
        memory: Mapping[str, JsonValue],
    ) -> None:
        """Keep a round's counts and the policy's memory. Raises GschedError for no such round."""
        info = self._round(round_id)
        self.summaries[round_id] = (ended_at, dict(summary))
        # What is handed back is a copy, and what is no JSON fails here as it would on disk.
        self._memory[info.cluster, info.policy] = json.loads(json.dumps(dict(memory)))

    def memory(self, cluster: str, policy: str) -> Mapping[str, JsonValue]:
        """The policy's memory after its last finished round, {} at first."""
        return self._memory.get((cluster, policy), {})

    def record(self, round_id: str, changes: Sequence[Change], state: ChangeState, at: int) -> None:
        """Keep new changes as INTENT or OBSERVED. A change_id already there is left alone."""
        if state not in (ChangeState.INTENT, ChangeState.OBSERVED):
            raise ValueError(f"a change begins as INTENT or OBSERVED, not as {state.name}")
        for change in changes:
            if change.change_id in self.entries:
                continue
            self._round(round_id)
            self._put(JournalEntry(change, round_id, state, at, None, ""))
            subject = (change.key, change.channel)
            self._written.setdefault(subject, []).append(change.change_id)
            self._fold(subject)

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move changes (change_id, new state, detail) on.

        Raises GschedError, and changes nothing, for an unknown change and for one that has come to
        its end in another state.
        """
        moved: dict[str, JournalEntry] = {}
        for change_id, state, detail in settled:
            entry = moved.get(change_id) or self.entries.get(change_id)
            if entry is None:
                raise GschedError(f"the journal has no change {change_id}")
            if (entry.state, entry.detail) == (state, detail):
                continue
            if not entry.state.may_become(state):
                raise GschedError(
                    f"change {change_id} is {entry.state.value}, it cannot become {state.value}"
                )
            settled_at = None if state in _OPEN else at
            moved[change_id] = replace(entry, state=state, settled_at=settled_at, detail=detail)
        for entry in moved.values():
            self._put(entry)
        for subject in {(e.change.key, e.change.channel) for e in moved.values()}:
            self._fold(subject)

    def unsettled(self, cluster: str) -> Sequence[JournalEntry]:
        """Changes in state INTENT or SENT, oldest first: what an interrupted round left behind."""
        entries = (self.entries[change_id] for change_id in self._open)
        return [e for e in entries if e.change.key.cluster == cluster]

    def standing(self, cluster: str) -> Mapping[Subject, Standing]:
        """By (job, channel): the values that gsched has put on jobs and not taken back."""
        return dict(self._standing.get(cluster, {}))

    def record_predictions(
        self, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int
    ) -> None:
        """Keep (job, attempt, prediction): of each attempt the first one that each model gave."""
        for key, attempt, p in predictions:
            self.predictions.setdefault((key, attempt, p.kind, p.model_id), (at, p))

    def _round(self, round_id: str) -> RoundInfo:
        if round_id not in self.rounds:
            raise GschedError(f"the journal has no round {round_id}")
        return self.rounds[round_id]

    def _put(self, entry: JournalEntry) -> None:
        change_id = entry.change.change_id
        self.entries[change_id] = entry
        if entry.state in _OPEN:
            self._open[change_id] = None
        else:
            self._open.pop(change_id, None)

    def _fold(self, subject: Subject) -> None:
        """Work out the standing of a job's channel from its changes, oldest first."""
        after = self._written[subject]
        while after and self.entries[after[0]].state not in _OPEN:
            settled = self._settled.get(subject)
            self._settled[subject] = _step(settled, self.entries[after.pop(0)])
        fold = self._settled.get(subject)
        for change_id in after:
            fold = _step(fold, self.entries[change_id])
        key, channel = subject
        standing = self._standing.setdefault(key.cluster, {})
        standing.pop(subject, None)
        if fold is not None:
            standing[subject] = Standing(
                key, fold.attempt, channel, fold.found, fold.written, fold.may_be
            )


@dataclass(frozen=True, slots=True)
class _Fold:
    """Where the fold of one subject's changes stands."""

    found: int
    written: int
    attempt: int
    confirmed: int | None = None
    unconfirmed: tuple[int, ...] = ()

    @property
    def may_be(self) -> tuple[int, ...]:
        """Values that may be there: with unconfirmed ones also the one confirmed before them."""
        if not self.unconfirmed or self.confirmed is None or self.confirmed in self.unconfirmed:
            return self.unconfirmed
        return (self.confirmed, *self.unconfirmed)


def _step(fold: _Fold | None, entry: JournalEntry) -> _Fold | None:
    """The standing after one more change. VOID ones may have been taken: the job only left."""
    change = entry.change
    if entry.state in _NEVER_SENT:
        return fold
    is_confirmed = entry.state is ChangeState.CONFIRMED
    if is_confirmed and change.takes_back:
        return None
    if fold is None:
        found = change.before or 0  # what could not be read is taken for Slurm's own
        fold = _Fold(found=found, written=found, attempt=change.attempt)
    if is_confirmed:
        return _Fold(fold.found, change.after, change.attempt, change.after)
    known = change.after in fold.unconfirmed
    return replace(
        fold,
        written=fold.written if entry.state is ChangeState.VOID else change.after,
        attempt=change.attempt,
        unconfirmed=fold.unconfirmed if known else (*fold.unconfirmed, change.after),
    )
