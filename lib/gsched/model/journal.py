"""What the journal keeps: changes from the intent to what Slurm confirmed, and rounds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gsched.model.decision import Reason
from gsched.model.job import JobKey


@dataclass(frozen=True, slots=True)
class Change:
    """One write that the backend would make: `channel` of a job from `before` to `after`.

    `before` is what the snapshot showed, None when it could not be read. `change_id` is the
    idempotency key under which the journal keeps it. It is meant for this `attempt` alone, and to
    be sent up to `valid_until` (epoch; None = always): a process that stood still meanwhile drops
    it. `takes_back`: `after` is the value that the job had before gsched's first write, so that
    nothing of gsched stands once it is confirmed.
    """

    change_id: str
    key: JobKey
    attempt: int
    channel: str
    before: int | None
    after: int
    reason: Reason
    takes_back: bool = False
    valid_until: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the backend answered one change: accepted, or why not."""

    change_id: str
    accepted: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Readback:
    """What a re-read after the changes showed. `value` None: the job is gone or not readable."""

    change_id: str
    value: int | None
    present: bool


class ChangeState(enum.Enum):
    """The life of a journalled change."""

    OBSERVED = "observed"  # decided only: the daemon does not act
    INTENT = "intent"  # written down, perhaps sent
    SENT = "sent"  # Slurm accepted it
    CONFIRMED = "confirmed"  # seen in Slurm
    REJECTED = "rejected"  # Slurm refused it
    VOID = "void"  # the job was gone, or another value had come in the meantime

    @property
    def is_open(self) -> bool:
        """Whether the change's end is not known: Slurm may have taken it."""
        return self in (ChangeState.INTENT, ChangeState.SENT)

    def may_become(self, later: ChangeState) -> bool:
        """Whether a change in this state can come to another, or be told of again in its own."""
        if later is self:
            return True
        return self.is_open and later not in (ChangeState.INTENT, ChangeState.OBSERVED)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A journalled change with its present state and times (epoch seconds)."""

    change: Change
    round_id: str
    state: ChangeState
    decided_at: int
    settled_at: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The value that gsched left on a job: `found` before its first write, `written` by its last.

    `may_be` lists values whose sending was never confirmed: Slurm may show any of them.
    """

    key: JobKey
    attempt: int
    channel: str
    found: int
    written: int
    may_be: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """Identity of one round: who decided, on which snapshot, and whether it may act."""

    round_id: str
    cluster: str
    started_at: int
    policy: str
    acting: bool
    seq: int
    model_id: str


@dataclass(frozen=True, slots=True)
class Leader:
    """The daemon that leads a cluster. `fence` rises by one with each that takes over.

    Times are epoch seconds of the database's clock: the server's, SQLite's own host's.
    """

    fence: int
    host: str
    machine_id: str
    pid: int
    since: int
    renewed_at: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class DaemonSpan:
    """A time in which a daemon ran rounds in one mode by one policy (epoch seconds).

    `end_time` is that of the last round, or where the next span begins without a gap. `writes` are
    the changes that its rounds sent.
    """

    mode: str
    policy: str
    begin_time: int
    end_time: int
    rounds: int
    writes: int
