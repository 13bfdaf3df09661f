"""A journal in memory: for the simulator, where nothing outlives the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsched.model.decision import JsonValue
from gsched.model.job import JobKey, Prediction
from gsched.model.journal import Change, ChangeState, JournalEntry, RoundInfo, Standing

_OPEN = (ChangeState.INTENT, ChangeState.SENT)


class MemoryJournal:
    """Implements ``gsched.engine.ports.Journal`` without a file."""

    def __init__(self) -> None:
        self.rounds: dict[str, RoundInfo] = {}
        self.entries: dict[str, JournalEntry] = {}
        self.summaries: dict[str, tuple[int, Mapping[str, JsonValue]]] = {}
        self.predictions: dict[tuple[JobKey, int], tuple[int, Prediction]] = {}
        self._memory: dict[tuple[str, str], Mapping[str, JsonValue]] = {}
        self._standing: dict[tuple[JobKey, str], Standing] = {}

    def begin_round(self, info: RoundInfo) -> None:
        """Keep that a round has begun."""
        self.rounds[info.round_id] = info

    def end_round(
        self,
        round_id: str,
        ended_at: int,
        summary: Mapping[str, JsonValue],
        memory: Mapping[str, JsonValue],
    ) -> None:
        """Keep a round's counts and the policy's memory."""
        info = self.rounds[round_id]
        self.summaries[round_id] = (ended_at, summary)
        self._memory[info.cluster, info.policy] = memory

    def memory(self, cluster: str, policy: str) -> Mapping[str, JsonValue]:
        """The policy's memory after its last finished round, {} at first."""
        return self._memory.get((cluster, policy), {})

    def record(self, round_id: str, changes: Sequence[Change], state: ChangeState, at: int) -> None:
        """Keep new changes as INTENT or OBSERVED."""
        for change in changes:
            entry = JournalEntry(change, round_id, state, at, None, "")
            self.entries.setdefault(change.change_id, entry)

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move changes (change_id, new state, detail) on."""
        for change_id, state, detail in settled:
            entry = replace(self.entries[change_id], state=state, settled_at=at, detail=detail)
            self.entries[change_id] = entry
            if state in (ChangeState.SENT, ChangeState.CONFIRMED):
                self._stand(entry.change)

    def _stand(self, change: Change) -> None:
        at = (change.key, change.channel)
        earlier = self._standing.get(at)
        found = earlier.found if earlier else change.before or 0
        self._standing[at] = Standing(
            change.key, change.attempt, change.channel, found, change.after
        )

    def unsettled(self, cluster: str) -> Sequence[JournalEntry]:
        """Changes in state INTENT or SENT."""
        mine = (e for e in self.entries.values() if e.change.key.cluster == cluster)
        return [e for e in mine if e.state in _OPEN]

    def standing(self, cluster: str) -> Mapping[tuple[JobKey, str], Standing]:
        """By (job, channel): the values that gsched has put on jobs."""
        return {at: s for at, s in self._standing.items() if at[0].cluster == cluster}

    def record_predictions(
        self, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int
    ) -> None:
        """Keep (job, attempt, prediction) and when it was made."""
        self.predictions.update({(key, attempt): (at, p) for key, attempt, p in predictions})
