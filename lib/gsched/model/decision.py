"""What a policy answers: an order, actions, and a reason for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gsched.model.job import Capability, JobKey

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""What can be kept in the journal and in a policy's memory."""


QUEUES = ("gpu", "cpu")
"""Jobs with GPUs and jobs without: they compete for different resources."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A pending job's place in the order of its queue.

    `position` counts from 1 among the `of` jobs of `queue` (one of QUEUES). `key` is the policy's
    own value, smaller first; of a job that starves it is the time since when it waits. `level` in
    [-1, 1] is how far the job is to be moved from the median job (0), +1 = first; a STATIC policy
    derives it from the job alone.
    """

    queue: str
    position: int
    of: int
    key: float
    level: float


LAST_ORDER_STANDS = ".last-order-stands"
"""End of the code of a reason with which a job without a rank keeps the place that it has."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: a stable code and the numbers behind it (shown by ``gsched why`` and the audit).

    A job with a reason and no rank is at the median place, unless the code ends with
    LAST_ORDER_STANDS: the policy cannot tell for now.
    """

    code: str
    params: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionBase:
    """What every action carries.

    `action_id` is the idempotency key. The action is void when the job's attempt is no longer
    `attempt`, when the snapshot is older than `after_seq`, or past `valid_until`. `undo` names the
    way back (None = cannot be undone).
    """

    needs: ClassVar[Capability]
    """What the backend must be able to do to carry it out."""

    action_id: str
    key: JobKey
    attempt: int
    after_seq: int
    valid_until: int
    undo: str | None


@dataclass(frozen=True, slots=True)
class Grant(ActionBase):
    """Give a job its GPUs for one lease of `length_s`; 0 = as long as suits the backend."""

    needs: ClassVar[Capability] = Capability.PREEMPT

    length_s: int


@dataclass(frozen=True, slots=True)
class Renew(ActionBase):
    """Let a job keep its GPUs for one more lease, also where one is being revoked; see Grant."""

    needs: ClassVar[Capability] = Capability.PREEMPT

    length_s: int


@dataclass(frozen=True, slots=True)
class Revoke(ActionBase):
    """Take a lease back after `grace_s` seconds for a checkpoint, for the good of `beneficiary`."""

    needs: ClassVar[Capability] = Capability.PREEMPT

    grace_s: int
    beneficiary: JobKey | None


@dataclass(frozen=True, slots=True)
class Resize(ActionBase):
    """Run an elastic job on `num_gpus` GPUs from its next attempt on."""

    needs: ClassVar[Capability] = Capability.RESIZE

    num_gpus: int


@dataclass(frozen=True, slots=True)
class Place(ActionBase):
    """Prefer `nodes`, or with `binding` insist on them."""

    needs: ClassVar[Capability] = Capability.PLACE

    nodes: tuple[str, ...]
    binding: bool


@dataclass(frozen=True, slots=True)
class Share(ActionBase):
    """Let the jobs of `group` share GPUs in `mode` (``shard``, ``mps``)."""

    needs: ClassVar[Capability] = Capability.SHARE

    mode: str
    group: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Power(ActionBase):
    """Put `nodes` to sleep or wake them (`on`)."""

    needs: ClassVar[Capability] = Capability.POWER

    nodes: tuple[str, ...]
    on: bool


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A part of a calendar: a job is to hold `num_gpus` from `start_time` to `end_time` (epoch)."""

    start_time: int
    end_time: int
    num_gpus: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """What could be promised instead of what was refused; each is checked as the request was.

    `kind`: ``later`` (the job as it is), ``fewer-gpus`` (with `num_gpus`), ``soft`` (the deadline
    as the first of soft ones, of which `finish_time` meets a later one).
    """

    kind: str
    finish_time: int
    num_gpus: int
    probability: float


@dataclass(frozen=True, slots=True)
class Admit(ActionBase):
    """Accept a job's request with the promised finish time and its probability; `plan` is how.

    Comes again in every round for as long as the target stands, with what holds then.
    A `finish_time` of MAX_DEADLINE: no end can be planned (no node is usable).
    `budget_gpu_s` is for how many GPU-seconds it was admitted (0: not said), `admitted_time` when
    (epoch, 0: now).
    """

    needs: ClassVar[Capability] = Capability.ADMIT

    finish_time: int
    probability: float
    plan: tuple[PlannedRun, ...] = ()
    budget_gpu_s: float = 0.0
    admitted_time: int = 0


@dataclass(frozen=True, slots=True)
class Refuse(ActionBase):
    """Decline a request; `earliest` is the first finish time that could be promised.

    Why is the job's reason. Comes again in every round while the job is in the queue.
    """

    needs: ClassVar[Capability] = Capability.ADMIT

    earliest: int | None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class SetKnob(ActionBase):
    """Set one knob of the running policy."""

    needs: ClassVar[Capability] = Capability.TUNE

    knob: str
    value: float


Action = Grant | Renew | Revoke | Resize | Place | Share | Power | Admit | Refuse | SetKnob


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's whole answer to one snapshot.

    `order` and `reasons` may be columns (``ranks.RankTable``, ``ranks.ReasonTable``): quick for
    many jobs. `memory` comes back at the next decision (JSON values, kept in the journal).
    `next_wakeup` is when the policy wants to decide again though nothing happened (None = only on
    events).
    """

    order: Mapping[JobKey, Rank]
    actions: tuple[Action, ...]
    reasons: Mapping[JobKey, Reason]
    memory: Mapping[str, JsonValue]
    next_wakeup: int | None = None
