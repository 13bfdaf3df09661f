"""The ports of a round: what a backend, a journal and a predictor must offer.

Implemented by ``gsched.daemon.slurm_backend`` and ``gsched.sim.backend`` (Backend), ``gsched_sql``
(Journal, RequestStore) and ``gsched.predict`` (Predictor).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability, JobKey, JobView, Prediction
from gsched.model.journal import (
    Change,
    ChangeState,
    JournalEntry,
    Outcome,
    Readback,
    RoundInfo,
    Standing,
)
from gsched.model.user_request import UserRequest

Clock = Callable[[], int]
"""Gives epoch seconds. Injected, so that a simulated day needs no day."""


class Journal(Protocol):
    """Durable record of what was decided, sent and seen. Every call commits before it returns."""

    def begin_round(self, info: RoundInfo) -> None:
        """Keep that a round has begun."""
        ...

    def end_round(
        self,
        round_id: str,
        ended_at: int,
        summary: Mapping[str, JsonValue],
        memory: Mapping[str, JsonValue],
    ) -> None:
        """Keep a round's counts and the policy's memory."""
        ...

    def memory(self, cluster: str, policy: str) -> Mapping[str, JsonValue]:
        """The policy's memory after its last finished round, {} at first."""
        ...

    def record(self, round_id: str, changes: Sequence[Change], state: ChangeState, at: int) -> None:
        """Keep new changes as INTENT or OBSERVED. A change_id already there is left alone."""
        ...

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move changes (change_id, new state, detail) on."""
        ...

    def unsettled(self, cluster: str) -> Sequence[JournalEntry]:
        """Changes in state INTENT or SENT: what an interrupted round left behind."""
        ...

    def standing(self, cluster: str) -> Mapping[tuple[JobKey, str], Standing]:
        """By (job, channel): the values that gsched has put on jobs and not taken back."""
        ...

    def record_predictions(
        self, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int
    ) -> None:
        """Keep (job, attempt, prediction) for later comparison with the truth; idempotent."""
        ...


class RequestStore(Protocol):
    """Durable record of what users asked for. Every call commits before it returns."""

    def latest(self, keys: Sequence[JobKey]) -> Mapping[JobKey, UserRequest]:
        """The last request of each of these jobs that has made one."""
        ...

    def capture(self, requests: Sequence[UserRequest]) -> None:
        """Keep new requests beside the earlier ones; one whose token is its job's last is known."""
        ...


class Backend(Protocol):
    """A cluster that a round can look at and act on: a live Slurm or a simulated one."""

    cluster: str
    capabilities: frozenset[Capability]

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """The present state; `standing` tells gsched's own values from other hands'.

        Raises UnavailableError when the cluster does not answer.
        """
        ...

    def plan(
        self,
        decision: Decision,
        state: ClusterState,
        round_id: str,
    ) -> Sequence[Change]:
        """The writes that turn the last snapshot's state into the decided one: what differs."""
        ...

    def apply(self, changes: Sequence[Change]) -> Sequence[Outcome]:
        """Send the changes. One bad change does not stop the others."""
        ...

    def read_back(self, changes: Sequence[Change]) -> Sequence[Readback]:
        """Look again at what the changes touched."""
        ...


class Predictor(Protocol):
    """Predicts run times. Sees only what ended before `now`."""

    model_id: str

    def predict(self, jobs: Sequence[JobView], now: int) -> Sequence[Prediction | None]:
        """One prediction a job, in order; None where nothing can be said."""
        ...
