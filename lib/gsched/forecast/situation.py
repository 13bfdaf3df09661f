"""What a forecast is made from: the cluster and its queue at one moment, in plain numbers.

Nothing here knows Slurm or the simulator: a situation is made by whoever knows the cluster, goes as
JSON to the process that runs it forward (`codec.to_json`, `read_situation`), and is the same again.
Times are epoch seconds, durations seconds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from gsched.errors import DataError
from gsched.forecast.codec import from_json, to_json

__all__ = [
    "Blocked",
    "Demand",
    "Field",
    "Node",
    "PastArrival",
    "Piece",
    "RunningJob",
    "Situation",
    "WaitingJob",
    "check",
    "read_situation",
    "to_json",
]


@dataclass(frozen=True, slots=True)
class Field:
    """Nodes for which jobs compete in one unit: those of partitions that share nodes, in GPUs; the
    same nodes once more, in CPUs, for jobs without GPUs.

    Between `closes_at` and `opens_at` nothing runs (a maintenance of all its nodes that is to
    come): a job starts only if its limit lets it end before, or when the field is open again.
    """

    name: str
    unit: str  # "GPU", "CPU": for people
    closes_at: float | None = None
    opens_at: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node in one field. Nodes that nobody can use (down, drained) are left out.

    `kind` tells apart what not every job of the field may use: a GPU type, a feature, a partition
    that has only some of the nodes, or all of them together; any text.
    """

    name: str
    field: int  # row of Situation.fields
    units: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """Units of one node that a running job holds."""

    node: int  # row of Situation.nodes
    units: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job asks for in one field: `units` in all, on `nodes` nodes (0: as few as possible),
    each of one of `kinds` (none: of any).
    """

    field: int
    units: int
    nodes: int = 0
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that has held its pieces since `started_at`.

    Its pieces may lie in several fields (GPUs in one, the CPUs of the same nodes in another). Where
    they are not known, the simulator finds room for `demands`. `quantiles_s` are of its whole run
    time, as of its submission, at `Situation.levels`: the forecast itself considers that it has run
    so long already. `limit_s` None: it has no limit.
    """

    job_id: str
    started_at: float
    limit_s: float | None
    quantiles_s: tuple[float, ...]
    pieces: tuple[Piece, ...] = ()
    demands: tuple[Demand, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits and could start at any moment, or from `eligible_at` on (its begin time).

    Held jobs and those with open dependencies are left out. `order` says who is first: the least,
    of equals who was submitted first. `demands[0]` is what it waits for; the others are what it
    holds in later fields while it runs (the CPUs of a GPU job), which never delay it.
    """

    job_id: str
    demands: tuple[Demand, ...]
    order: float
    submitted_at: float
    limit_s: float | None
    quantiles_s: tuple[float, ...]
    eligible_at: float | None = None

    def begins_at(self, as_of: float) -> float:
        """The first moment from `as_of` on at which it could start."""
        return as_of if self.eligible_at is None else max(as_of, self.eligible_at)


@dataclass(frozen=True, slots=True)
class PastArrival:
    """A job that was submitted in the past: one like it may come at the same hour of a day to come.

    `order` is as it was when it was submitted. `quantiles_s` are of its run time, all the same
    where that is known.
    """

    submitted_at: float
    demands: tuple[Demand, ...]
    order: float
    limit_s: float | None
    quantiles_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """Units that are free but nobody may use before `until`: a reservation, a node that reboots."""

    pieces: tuple[Piece, ...]
    until: float


@dataclass(frozen=True, slots=True)
class Situation:
    """The cluster at `as_of`.

    `levels` are the probabilities of all `quantiles_s`, rising, each between 0 and 1. A job's order
    falls by `order_per_s` each second that it waits (FIFO: order = −seconds waited, 1 a second).
    `arrivals` are all that were submitted to these fields between `arrivals_from` and `as_of`;
    without any, nobody is expected to come. Who waits beyond `starvation_bound_s` (0: there is no
    bound) comes first. Slurm's backfill looks at `backfill_depth` jobs a pass (bf_max_job_test).
    """

    as_of: float
    levels: tuple[float, ...]
    fields: tuple[Field, ...]
    nodes: tuple[Node, ...]
    running: tuple[RunningJob, ...]
    waiting: tuple[WaitingJob, ...]
    blocked: tuple[Blocked, ...] = ()
    arrivals: tuple[PastArrival, ...] = ()
    arrivals_from: float | None = None
    order_per_s: float = 0.0
    starvation_bound_s: int = 0
    backfill_depth: int = 500


def read_situation(document: bytes) -> Situation:
    """What `to_json` made of a situation. Raises DataError for whatever is none."""
    situation = from_json(Situation, document)
    check(situation)
    return situation


def check(situation: Situation) -> None:
    """Raises DataError for a situation that contradicts itself, saying where."""
    levels = situation.levels
    rises = all(a < b for a, b in itertools.pairwise(levels))
    if not levels or not rises or not 0.0 < levels[0] <= levels[-1] < 1.0:
        raise DataError("levels are no rising probabilities between 0 and 1")
    if situation.starvation_bound_s < 0 or situation.backfill_depth < 1:
        raise DataError("a starvation bound below 0, or backfill that looks at no job")
    for field in situation.fields:
        if (closes := field.closes_at) is not None and not closes < (field.opens_at or closes):
            raise DataError(f"field {field.name!r} closes and never opens again")
    for node in situation.nodes:
        if not 0 <= node.field < len(situation.fields) or node.units < 1:
            raise DataError(f"node {node.name!r} has no units, or is in no field")
    for blocked in situation.blocked:
        _check_pieces(situation, blocked.pieces, "what is blocked")
        if not blocked.until > situation.as_of:
            raise DataError("what is blocked is free already")
    for running in situation.running:
        what = f"running job {running.job_id!r}"
        _check_pieces(situation, running.pieces, what)
        _check_times(situation, running.limit_s, running.quantiles_s, what)
        _check_demands(situation, running.demands, what)
        if running.started_at > situation.as_of or not (running.pieces or running.demands):
            raise DataError(f"{what} has not started yet, or holds nothing")
    _check_submitted(situation)


def _check_submitted(situation: Situation) -> None:
    seen: set[str] = set()
    for waiting in situation.waiting:
        what = f"waiting job {waiting.job_id!r}"
        if waiting.job_id in seen:
            raise DataError(f"{what} is there twice")
        seen.add(waiting.job_id)
        _check_one(situation, waiting, what)
    begin = situation.arrivals_from
    if situation.arrivals and begin is None:
        raise DataError("arrivals without the time from which on they are all there")
    for arrival in situation.arrivals:
        _check_one(situation, arrival, "a past arrival")
        if begin is not None and arrival.submitted_at < begin:
            raise DataError("a past arrival came before arrivals_from")


def _check_one(situation: Situation, job: WaitingJob | PastArrival, what: str) -> None:
    if not job.demands or job.submitted_at > situation.as_of or not math.isfinite(job.order):
        raise DataError(f"{what} asks for nothing, has no order, or comes from the future")
    _check_demands(situation, job.demands, what)
    _check_times(situation, job.limit_s, job.quantiles_s, what)


def _check_pieces(situation: Situation, pieces: tuple[Piece, ...], what: str) -> None:
    for piece in pieces:
        if not 0 <= piece.node < len(situation.nodes) or piece.units < 1:
            raise DataError(f"{what} holds units of a node that is not there")


def _check_demands(situation: Situation, demands: tuple[Demand, ...], what: str) -> None:
    last = -1
    for demand in demands:
        if not last < demand.field < len(situation.fields):
            raise DataError(f"{what} asks for a field that is not there, or comes too late")
        if demand.units < 1 or demand.nodes < 0:
            raise DataError(f"{what} asks for less than one unit")
        last = demand.field


def _check_times(
    situation: Situation, limit_s: float | None, quantiles_s: tuple[float, ...], what: str
) -> None:
    if limit_s is not None and not limit_s > 0:
        raise DataError(f"{what} has a time limit of {limit_s:g} s")
    rises = all(a <= b for a, b in itertools.pairwise(quantiles_s))
    if len(quantiles_s) != len(situation.levels) or not rises or not quantiles_s[0] >= 0:
        raise DataError(f"{what} has run times that are no quantiles at the levels")
