"""The ports of a round: what a backend, a journal and a predictor must offer.

Implemented by ``gsched.daemon.slurm_backend`` and ``gsched.sim.backend`` (Backend), ``gsched_sql``
(Journal, RequestStore) and ``gsched.predict`` (Predictor).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Reason
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

Stopwatch = Callable[[], float]
"""Gives seconds that only grow, from any beginning: what a phase of a round has taken."""


class OverTimeError(BaseException):
    """Raised into a policy that decides for too long.

    No Exception, so that a policy's own ``except Exception`` cannot swallow it.
    """


TimeLimit = Callable[[float], AbstractContextManager[object]]
"""Makes a context whose body OverTimeError interrupts after so many seconds (by a signal)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of one round, and how many more are left for a later one.

    `postponed` counts writes that differ enough to be made, but for which this round has no
    budget left or comes too soon after the last burst. `reasons` are the decision's, of those jobs
    of which the backend has something to add.
    """

    changes: tuple[Change, ...]
    postponed: int = 0
    reasons: Mapping[JobKey, Reason] = field(default_factory=dict)


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
    """A cluster that a round can look at and act on: a live Slurm or a simulated one.

    A round looks once. `snapshot`, `looked_up` and `plan` say what that look showed; they ask the
    cluster for no listing of their own.
    """

    cluster: str
    capabilities: frozenset[Capability]

    def look(self) -> None:
        """Read the cluster: the one listing of a round.

        Raises UnavailableError or TryAgainError when the cluster does not answer.
        """
        ...

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """The state that the last look showed.

        `standing` tells gsched's own values from other hands'.
        """
        ...

    def looked_up(self, changes: Sequence[Change]) -> Sequence[Readback]:
        """What the last look showed of `changes` that were sent, or perhaps sent, before it."""
        ...

    def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
        """The writes that turn the last snapshot's state into the decided one: what differs."""
        ...

    def apply(self, changes: Sequence[Change]) -> Sequence[Outcome]:
        """Send the changes. One bad change does not stop the others."""
        ...

    def read_back(self, changes: Sequence[Change]) -> Sequence[Readback]:
        """Ask for the values that were just sent, without a listing of the queue.

        A change of which this cannot tell is not in the answer, or is there with the value None:
        the next round's look settles it.
        """
        ...


class Predictor(Protocol):
    """Predicts run times. Sees only what ended before `now`."""

    @property
    def model_id(self) -> str:
        """Names what predicts; jobs are predicted anew when it is another one."""
        ...

    def predict(self, jobs: Sequence[JobView], now: int) -> Sequence[Prediction | None]:
        """One prediction a job, in order; None where nothing can be said."""
        ...
