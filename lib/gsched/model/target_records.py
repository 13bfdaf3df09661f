"""What is kept of deadlines: what was asked and promised, how it stands, and what came of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.model.decision import Alternative, JsonValue, PlannedRun
from gsched.model.job import JobKey
from gsched.model.targets import Steps


class TargetState(enum.Enum):
    """What has become of a request for a deadline.

    KEPT: the job ended by its last deadline. MISSED: it did not. WITHDRAWN: it was cancelled before
    that, or another request took the place of this one. FAILED: its own program failed, or came to
    its limit, before that. UNKNOWN: it left the queue, and nobody has told how.
    """

    STANDING = "standing"
    REFUSED = "refused"
    KEPT = "kept"
    MISSED = "missed"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    UNKNOWN = "unknown"


OUTCOMES = tuple(s for s in TargetState if s not in (TargetState.STANDING, TargetState.REFUSED))
"""What a promise may have come to."""


class Risk(enum.Enum):
    """How a promise stands: LATE once its last deadline is over and the job has not ended."""

    ON_TARGET = "on-target"
    AT_RISK = "at-risk"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Promise:
    """What was promised at admission: when, an end and its probability, for how many GPU-seconds
    (0: not said). `restarts` is how many the job had had by then.
    """

    time: int
    finish_time: int
    probability: float
    budget_gpu_s: float = 0.0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class PromiseUse:
    """GPU-seconds that a job has held since its admission. `attempt_gpu_s` of them in `attempt`,
    the one that was counted last (submit time).
    """

    gpu_s: float
    attempt: int
    attempt_gpu_s: float


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """One request for a deadline. `key` and `asked_time` (epoch) name it.

    `since` is when it came to its state. `promise` is None for one that was never admitted;
    `finish_time` and `probability` are what holds now, or held last, `plan` how. `why`, with
    `params`, is the policy's code of a refusal, with the `earliest` end that could be promised and
    `alternatives`. `end_time` is when the job ended, `reward` what it was worth by `steps`.
    `warned` is the level of the last warning, `warned_time` when it was given. `used` is what of
    the promise is used up (None: not known). `gone_time` is since when the job is not in the queue
    any more, while nobody has told how it ended.
    """

    key: JobKey
    asked_time: int
    user: str
    steps: Steps
    num_gpus: int
    state: TargetState
    since: int
    promise: Promise | None = None
    finish_time: int | None = None
    probability: float | None = None
    risk: Risk = Risk.ON_TARGET
    plan: tuple[PlannedRun, ...] = ()
    earliest: int | None = None
    why: str = ""
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    end_time: int | None = None
    reward: float | None = None
    warned: Risk = Risk.ON_TARGET
    warned_time: int | None = None
    used: PromiseUse | None = None
    gone_time: int | None = None

    @property
    def deadline(self) -> int:
        """The last of its deadlines (epoch)."""
        return self.steps.times[-1]


RESERVED, UNRESERVED = "reserved", "unreserved"
"""A reservation of Slurm is to be made for a target; it is gone."""


@dataclass(frozen=True, slots=True)
class TargetEvent:
    """Something that befell a target: `what` is a value of TargetState or Risk, or one of the two
    above.

    `told_time` is when its warning was handed to the site's command, None where none was, or not
    yet.
    """

    at: int
    what: str
    finish_time: int | None = None
    probability: float | None = None
    told_time: int | None = None
