"""What `chronus` remembers: what was promised to whom, and who was refused.

JSON, versioned, by job: Slurm's id and the epoch of its first submit. What cannot be read is
forgotten: such a job is judged anew. Lists instead of objects, as there may be thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from gsched.model.decision import Alternative, JsonValue
from gsched.model.job import JobKey, JobState, JobView
from gsched.model.targets import Steps
from gsched.policy.chronus_calendar import FOREVER, Span
from gsched.policy.chronus_room import Load
from gsched.policy.tenant_use import held_gpus

_Row = TypeVar("_Row")

MEMORY_VERSION = 1

MAX_EXPLAINED = 1000
"""Refusals that are remembered with all that explains them; more have the answer alone."""

MAX_REFUSED = 6000
"""Refusals that are remembered at all."""

MAX_REQUESTS = 2000
"""Requests of one user that are judged while their jobs are in the queue; and MAX_REFUSED of all
users. Others are refused without a look, until some of them have left.
"""

MAX_RUNS = 24
"""Of a target's last plan so many runs are remembered."""


def name_of(key: JobKey) -> str:
    """How memory calls a job."""
    return f"{key.slurm_id}@{key.epoch}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a deadline: what tells it from another one of the same job.

    With how many GPUs (0: not known) and in which pool ("": not known): whoever changes these while
    the job waits asks for something else.
    """

    number: int
    times: tuple[int, ...]
    rewards: tuple[float, ...]
    num_gpus: int = 0
    pool: str = ""

    @classmethod
    def of(cls, view: JobView, steps: Steps, pool: str) -> Asked:
        """What a job asks for now."""
        gpus = view.request.gpus.minimum
        return cls(view.wants.number, steps.times, steps.rewards, gpus, pool)

    def is_still(self, now: Asked, holds_gpus: bool) -> bool:
        """Whether a job that asks for `now` has asked for this. Where it runs, Slurm names the one
        of its partitions that it runs in.
        """
        told = (self.number, self.times, self.rewards) == (now.number, now.times, now.rewards)
        is_as_wide = self.num_gpus in (0, now.num_gpus)
        return told and is_as_wide and (holds_gpus or self.pool in ("", now.pool))


@dataclass(frozen=True, slots=True)
class Used:
    """GPU-seconds that a job has held since it was admitted, counted from look to look.

    `before` in attempts that are over, less what it had at admission; `last` in `attempt`.
    """

    attempt: int
    before: float
    last: float

    @classmethod
    def at_admission(cls, view: JobView, now: int) -> Used:
        """Nothing, whatever it has held before."""
        held = _held_gpu_s(view, now)
        return cls(view.attempt, -held, held)

    def at(self, view: JobView, now: int) -> Used:
        """As a look shows it."""
        held = _held_gpu_s(view, now)
        if view.attempt == self.attempt:
            return Used(self.attempt, self.before, max(self.last, held))
        return Used(view.attempt, self.before + self.last, held)

    @property
    def gpu_s(self) -> float:
        """All of it."""
        return max(0.0, self.before + self.last)


def _held_gpu_s(view: JobView, now: int) -> float:
    """In the present attempt."""
    if view.state is JobState.PENDING or view.allocation is None:
        return 0.0
    return float(held_gpus(view) * max(0, now - view.allocation.start_time))


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: the job ends until `due`, one of its deadlines, with `probability`.

    `budget_gpu_s` is what it may need for that; `restarts` is how many it had when it was admitted.
    `runs` is the last plan. `is_behind`: it was held meanwhile, and is planned after all others.
    """

    asked: Asked
    due: int
    budget_gpu_s: float
    admitted_time: int
    probability: float
    restarts: int
    used: Used
    runs: tuple[Span, ...] = ()
    is_behind: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was declined (code and params of the reason), and what could be instead."""

    asked: Asked
    code: str
    params: Mapping[str, JsonValue]
    earliest: int | None = None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(slots=True)
class Book:
    """All that is remembered, by `name_of` a job; `way` and `gap` are those of the last plans.

    `loads` is what jobs have brought, by name of the pool. `passed_over` are refused for this round
    alone, and not remembered: there are too many.
    """

    targets: dict[str, Target] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    passed_over: dict[str, Refusal] = field(default_factory=dict)
    way: str = ""
    gap: float = 0.0

    @classmethod
    def of(cls, memory: Mapping[str, JsonValue], now: int = FOREVER) -> Book:
        """What of a policy's memory can be read; nothing in it is later than `now`."""
        book = cls()
        if memory.get("version") != MEMORY_VERSION:
            return book
        for name, row in _mapping(memory.get("targets")).items():
            target = _read(_target, row)
            if target is not None:
                book.targets[name] = target
        for name, row in _mapping(memory.get("refused")).items():
            refusal = _read(_refusal, row)
            if refusal is not None and name not in book.targets:
                book.refused[name] = refusal
        for name, row in _mapping(memory.get("loads")).items():
            book.loads[name] = Load.of(row, now)
        last = _mapping(memory.get("last"))
        way, gap = last.get("way"), last.get("gap")
        book.way = way if isinstance(way, str) else ""
        book.gap = float(gap) if isinstance(gap, int | float) and math.isfinite(gap) else 0.0
        return book

    def document(self) -> dict[str, JsonValue]:
        """As it is to be remembered."""
        targets: dict[str, JsonValue] = {n: _target_row(t) for n, t in self.targets.items()}
        refused: dict[str, JsonValue] = {}
        for number, (name, refusal) in enumerate(islice(self.refused.items(), MAX_REFUSED)):
            refused[name] = _refusal_row(refusal, is_whole=number < MAX_EXPLAINED)
        return {
            "version": MEMORY_VERSION,
            "targets": targets,
            "refused": refused,
            "loads": {name: load.row() for name, load in self.loads.items()},
            "last": {"way": self.way, "gap": self.gap},
        }


def used_of(memory: Mapping[str, JsonValue], key: JobKey) -> Used | None:
    """What a target has used, as this memory has it; None for one that it does not know."""
    row = _mapping(memory.get("targets")).get(name_of(key))
    target = None if memory.get("version") != MEMORY_VERSION else _read(_target, row)
    return None if target is None else target.used


def _mapping(value: object) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _read(read: Callable[[Any], _Row], row: JsonValue) -> _Row | None:
    """None for a row that is not as it was written."""
    try:
        return read(row)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None


def _target_row(target: Target) -> list[JsonValue]:
    used = target.used
    runs: list[JsonValue] = [moment for span in target.runs[:MAX_RUNS] for moment in span]
    return [
        _asked_row(target.asked),
        target.due,
        target.budget_gpu_s,
        target.admitted_time,
        target.probability,
        target.restarts,
        [used.attempt, used.before, used.last],
        runs,
        target.is_behind,
    ]


def _target(row: list[Any]) -> Target:
    asked, due, budget, admitted, probability, restarts, used, runs, is_behind = row
    moments = [int(moment) for moment in runs]
    return Target(
        _asked(asked),
        int(due),
        _finite(budget),
        int(admitted),
        _finite(probability),
        int(restarts),
        Used(int(used[0]), _finite(used[1]), _finite(used[2])),
        tuple(zip(moments[::2], moments[1::2], strict=True)),
        bool(is_behind),
    )


def _refusal_row(refusal: Refusal, is_whole: bool) -> list[JsonValue]:
    others: list[JsonValue] = [
        [a.kind, a.finish_time, a.num_gpus, a.probability] for a in refusal.alternatives
    ]
    params: dict[str, JsonValue] = dict(refusal.params) if is_whole else {}
    row = [_asked_row(refusal.asked), refusal.code, params, refusal.earliest]
    return [*row, others if is_whole else []]


def _refusal(row: list[Any]) -> Refusal:
    asked, code, params, earliest, others = row
    if not (isinstance(code, str) and isinstance(params, dict)):
        raise TypeError("no refusal")
    return Refusal(
        _asked(asked),
        code,
        params,
        None if earliest is None else int(earliest),
        tuple(
            Alternative(str(kind), int(finish), int(gpus), _finite(probability))
            for kind, finish, gpus, probability in others
        ),
    )


def _asked_row(asked: Asked) -> list[JsonValue]:
    times: list[JsonValue] = list(asked.times)
    rewards: list[JsonValue] = list(asked.rewards)
    return [asked.number, times, rewards, asked.num_gpus, asked.pool]


def _asked(row: list[Any]) -> Asked:
    number, times, rewards, gpus, pool = row
    if len(times) != len(rewards) or not times or not isinstance(pool, str):
        raise ValueError("no request")
    return Asked(int(number), tuple(map(int, times)), tuple(map(_finite, rewards)), int(gpus), pool)


def _finite(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ValueError("no number")
    return number
