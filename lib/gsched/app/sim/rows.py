"""Past jobs by column, whoever told them: files of traces, saved accounting, the history.

A trace has millions of rows, so what a reader delivers becomes numpy columns chunk by chunk. Most
jobs have one attempt, which is the job; only where several rows speak of one job id are they put
together, by the rules of the history (``gsched.model.logical_jobs``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.deadlines import deadlines_of
from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.past import HistoryJob, logical_jobs
from gsched.model.trace import AttemptColumns, Cells, Constant

Whole = NDArray[np.int64]
Real = NDArray[np.float64]

NONE = np.iinfo(np.int64).min
"""In a column of whole numbers: nobody has told."""

_LARGEST = 2**62
_STATES = tuple(JobState)
_STATE_CODE = {state: code for code, state in enumerate(_STATES)}
_LIVE = [_STATE_CODE[s] for s in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)]
_COMPLETING, _COMPLETED = _STATE_CODE[JobState.COMPLETING], _STATE_CODE[JobState.COMPLETED]
_REQUEUED = _STATE_CODE[JobState.REQUEUED]
_REVOKED = _STATE_CODE[JobState.REVOKED]  # it ran on another cluster of the federation

_PARTS = ("job_id", "array_task", "het_offset")
_KEY = (*_PARTS, "submit_time")
_NUMBERS = (
    *_KEY,
    *("start_time", "end_time", "time_limit_s", "num_nodes", "num_cpus", "num_gpus"),
    *("restarts", "start_assumed"),
)
_TEXTS = ("cluster", "source", "state_text", "user", "tenant", "partition", "name", "node_list")
_KEPT_TEXTS = {"cluster", "user", "tenant", "partition", "name", "node_list"}
_NOTHING = Constant(None)
_NO_NUMBERS = np.empty(0, dtype=np.int64)
_TYPED = "gres/gpu:"
_KINDS = {"gpu_type": "requested", "ran_on": "allocated"}


class Coded(NamedTuple):
    """A column of texts: the number of each row's text among `values`, -1 where nobody told."""

    codes: NDArray[np.int32]
    values: Sequence[str]

    def take(self, rows: Whole) -> Coded:
        """These rows alone."""
        return Coded(self.codes[rows], self.values)


@dataclass(frozen=True, eq=False)
class PastColumns:
    """Logical jobs, one element a job in every column; NONE, NaN or -1 where nobody has told.

    `submit_time` is the first one, `start_time` and `end_time` are of the last attempt, `run_s` is
    the run time of all attempts together (0: it never ran). What still waits or runs has no end.
    `start_assumed`: the source tells no start, which is taken to be the submission. `deadline` is
    an epoch time, `weight` what it is worth to meet it. `gpu_type` is the type of GPU that a job
    asks for, `ran_on` the one that it ran on the last time.
    """

    job_id: Whole
    array_task: Whole
    het_offset: Whole
    submit_time: Whole
    start_time: Whole
    end_time: Whole
    run_s: Whole
    time_limit_s: Whole
    num_nodes: Whole
    num_cpus: Whole
    num_gpus: Whole
    attempts: Whole
    start_assumed: NDArray[np.bool_]
    deadline: Real
    weight: Real
    cluster: Coded
    user: Coded
    tenant: Coded
    partition: Coded
    name: Coded
    node_list: Coded
    gpu_type: Coded
    ran_on: Coded
    source_ids: Sequence[str | None]
    repeated_rows: int = 0

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, rows: Whole) -> PastColumns:
        """These rows alone."""
        taken: dict[str, Any] = {}
        for column in fields(PastColumns):
            values = getattr(self, column.name)
            if isinstance(values, Coded):
                taken[column.name] = values.take(rows)
            elif isinstance(values, np.ndarray):
                taken[column.name] = values[rows]
        taken["source_ids"] = [self.source_ids[row] for row in rows.tolist()]
        return PastColumns(**taken)

    def id_of(self, row: int) -> str:
        """A job's id as its source spells it."""
        told = self.source_ids[row]
        if told is not None:
            return told
        task, offset = int(self.array_task[row]), int(self.het_offset[row])
        part = f"_{task}" if task != NONE else f"+{offset}" if offset != NONE else ""
        return f"{self.job_id[row]}{part}"


class Gatherer:
    """Takes attempts in, chunk by chunk, and gives the logical jobs of all."""

    def __init__(self) -> None:
        self._numbers: dict[str, list[Whole]] = {name: [] for name in (*_NUMBERS, "state")}
        self._texts = {name: _Coder() for name in (*_TEXTS, *_KINDS)}
        self._reals: dict[str, list[Real]] = {"deadline": [], "weight": []}
        self._source_ids: list[Sequence[str | None]] = []

    def take(self, part: AttemptColumns) -> None:
        """Attempts as a reader delivers them."""
        told = part.columns
        for name in _NUMBERS:
            self._numbers[name].append(_whole(told.get(name, _NOTHING), part.count))
        states = _each(told.get("state", Constant(JobState.UNKNOWN)), _STATE_CODE.__getitem__)
        self._numbers["state"].append(_whole(states, part.count))
        for name in _TEXTS:
            self._texts[name].take(told.get(name, _NOTHING), part.count)
        for name, source in _KINDS.items():
            kinds = _each(told.get(source, Constant(())), _gpu_type)
            self._texts[name].take(kinds, part.count)
        for name, values in zip(self._reals, deadlines_of(part), strict=True):
            self._reals[name].append(values)
        self._source_ids.append(part.column("source_id"))

    def jobs(self) -> PastColumns:
        """The logical jobs of all that was taken."""
        rows = _Rows(
            numbers={n: np.concatenate(p or [_NO_NUMBERS]) for n, p in self._numbers.items()},
            texts={name: coder.coded() for name, coder in self._texts.items()},
            reals={name: np.concatenate(p or [np.empty(0)]) for name, p in self._reals.items()},
            source_ids=list(chain.from_iterable(self._source_ids)),
        )
        single, several = rows.by_job()
        alone = rows.alone(single)
        return _appended(alone, rows.together(several)) if len(several) else alone


@dataclass
class _Rows:
    """All attempts by column, before they are put together."""

    numbers: dict[str, Whole]
    texts: dict[str, Coded]
    reals: dict[str, Real]
    source_ids: list[str | None]

    def by_job(self) -> tuple[Whole, Whole]:
        """Rows that alone speak of their job id, and those that share one with others."""
        ids = self.numbers["job_id"]
        if len(np.unique(ids)) == len(ids):  # by far the quickest to find out
            return np.arange(len(ids)), _NO_NUMBERS
        keys = [self.numbers[name] for name in _PARTS]
        keys.append(self.texts["cluster"].codes.astype(np.int64))
        order = np.lexsort(keys)
        is_new = np.zeros(len(order), dtype=np.bool_)
        is_new[:1] = True
        for key in keys:
            is_new[1:] |= np.diff(key[order]) != 0
        group = np.cumsum(is_new) - 1
        is_single = np.bincount(group, minlength=1)[group] == 1
        return np.sort(order[is_single]), np.sort(order[~is_single])

    def alone(self, rows: Whole) -> PastColumns:
        """Jobs of one attempt each, by the rules of `gsched.model.merge.happened`."""
        numbers: dict[str, Any] = {name: column[rows] for name, column in self.numbers.items()}
        texts: dict[str, Any] = {name: column.take(rows) for name, column in self.texts.items()}
        state, start, end = (numbers.pop("state"), numbers["start_time"], numbers["end_time"])
        is_live = np.isin(state, _LIVE) | ((state == _COMPLETING) & (end == NONE))
        instant = (start == end) & (state != _COMPLETED) & (texts["node_list"].codes < 0)
        never_ran = (numbers["num_nodes"] == 0) | instant | (state == _REVOKED)
        numbers["start_time"] = np.where(is_live | never_ran, NONE, start)
        numbers["end_time"] = np.where(is_live | (state == _REQUEUED), NONE, end)
        numbers["run_s"] = _run_s(numbers["start_time"], numbers["end_time"])
        numbers["start_assumed"] = numbers["start_assumed"] == 1
        del numbers["restarts"]
        return PastColumns(
            **numbers,
            attempts=np.ones(len(rows), dtype=np.int64),
            **self._reals_of(rows),
            **{name: column for name, column in texts.items() if name in (*_KEPT_TEXTS, *_KINDS)},
            source_ids=[self.source_ids[row] for row in rows.tolist()],
        )

    def together(self, rows: Whole) -> PastColumns:
        """The jobs of rows of which several speak of one id."""
        jobs = logical_jobs(self._records(rows))
        clusters = {name: code for code, name in enumerate(self.texts["cluster"].values)}
        keys = [self.texts["cluster"].codes[rows].tolist()]
        keys += [self.numbers[name][rows].tolist() for name in _KEY]
        row_of = dict(zip(zip(*keys, strict=True), rows.tolist(), strict=True))
        last = np.array([row_of[_last_attempt(job, clusters)] for job in jobs], dtype=np.int64)
        repeated = len(rows) - sum(len(job.attempts) for job in jobs)
        kinds: dict[str, Any] = {name: self.texts[name].take(last) for name in _KINDS}
        return replace(
            columns_of_jobs(jobs),
            **self._reals_of(last),
            **kinds,
            repeated_rows=repeated,
        )

    def _reals_of(self, rows: Whole) -> dict[str, Any]:
        return {name: column[rows] for name, column in self.reals.items()}

    def _records(self, rows: Whole) -> Iterator[AttemptRecord]:
        """The attempts of some rows, with all that decides which belong together."""
        numbers = {name: self.numbers[name][rows].tolist() for name in (*_NUMBERS, "state")}
        texts = {
            name: [self.texts[name].values[c] if c >= 0 else None for c in codes.tolist()]
            for name in _TEXTS
            for codes in [self.texts[name].codes[rows]]
        }
        for place, row in enumerate(rows.tolist()):
            told: dict[str, Any] = {name: _told(column[place]) for name, column in numbers.items()}
            told |= {name: column[place] for name, column in texts.items()}
            told["state"] = _STATES[told["state"]]
            yield AttemptRecord(source_id=self.source_ids[row], **told)


def columns_of_jobs(jobs: Sequence[HistoryJob]) -> PastColumns:
    """Logical jobs, as the history has them, by column; without deadlines."""
    lasts = [job.attempts[-1] for job in jobs]

    def whole(values: Iterable[int | None]) -> Whole:
        return _whole(list(values), len(jobs))

    def coded(values: Iterable[str | None]) -> Coded:
        coder = _Coder()
        coder.take(list(values), len(jobs))
        return coder.coded()

    return PastColumns(
        job_id=whole(job.key.job_id for job in jobs),
        array_task=whole(job.key.array_task for job in jobs),
        het_offset=whole(job.key.het_offset for job in jobs),
        submit_time=whole(job.key.epoch for job in jobs),
        start_time=whole(job.start_time for job in jobs),
        end_time=whole(job.end_time for job in jobs),
        run_s=whole(_run_of(job) for job in jobs),
        time_limit_s=whole(job.time_limit_s for job in jobs),
        num_nodes=whole(job.num_nodes for job in jobs),
        num_cpus=whole(job.num_cpus for job in jobs),
        num_gpus=whole(job.num_gpus for job in jobs),
        attempts=whole(len(job.attempts) for job in jobs),
        start_assumed=np.array([bool(a.start_assumed) for a in lasts], dtype=np.bool_),
        deadline=np.full(len(jobs), np.nan),
        weight=np.ones(len(jobs)),
        cluster=coded(job.key.cluster for job in jobs),
        user=coded(job.user for job in jobs),
        tenant=coded(job.tenant for job in jobs),
        partition=coded(job.partition for job in jobs),
        name=coded(job.name for job in jobs),
        node_list=coded(a.node_list for a in lasts),
        gpu_type=coded(_gpu_type(a.requested) for a in lasts),
        ran_on=coded(_gpu_type(a.allocated) for a in lasts),
        source_ids=[a.source_id for a in lasts],
    )


def _run_of(job: HistoryJob) -> int | None:
    """Seconds that all attempts ran together, None while it has not ended."""
    if job.end_time is None or job.state is JobState.REVOKED:
        return None if job.end_time is None else 0
    total = 0
    for attempt in job.attempts:
        if attempt.start_time is not None and attempt.end_time is not None:
            total += attempt.end_time - attempt.start_time
    return total


def _run_s(start: Whole, end: Whole) -> Whole:
    ran = np.where((start == NONE) | (end == NONE), 0, end) - np.where(
        (start == NONE) | (end == NONE), 0, start
    )
    return np.where(end == NONE, NONE, ran)


def _last_attempt(job: HistoryJob, clusters: dict[str, int]) -> tuple[int, ...]:
    key = job.key
    parts = (key.job_id, key.array_task, key.het_offset)
    told = (NONE if part is None else part for part in parts)
    return (clusters[key.cluster], *told, job.attempts[-1].submit_time)


def _appended(first: PastColumns, more: PastColumns) -> PastColumns:
    """Both, one after the other."""
    joined: dict[str, Any] = {}
    for column in fields(PastColumns):
        one, other = getattr(first, column.name), getattr(more, column.name)
        if isinstance(one, Coded):
            joined[column.name] = _joined(one, other)
        elif isinstance(one, np.ndarray):
            joined[column.name] = np.concatenate((one, other))
        else:  # the list of ids, the number of repeated rows
            joined[column.name] = one + other
    return PastColumns(**joined)


def _joined(one: Coded, other: Coded) -> Coded:
    known = {value: code for code, value in enumerate(one.values)}
    codes = [known.setdefault(value, len(known)) for value in other.values]
    moved = np.array([*codes, -1], dtype=np.int32)[other.codes]  # -1 finds the last: -1
    return Coded(np.concatenate((one.codes, moved)), list(known))


class _Coder:
    """Texts that come again → numbers."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._parts: list[NDArray[np.int32]] = []

    def take(self, cells: Cells, count: int) -> None:
        """The next `count` rows."""
        if isinstance(cells, Constant):
            self._parts.append(np.full(count, self._code(cells.value), dtype=np.int32))
        else:
            code = self._code
            self._parts.append(np.fromiter((code(v) for v in cells), np.int32, count))

    def coded(self) -> Coded:
        """All rows so far."""
        codes = np.concatenate(self._parts) if self._parts else np.empty(0, dtype=np.int32)
        return Coded(codes, list(self._codes))

    def _code(self, text: str | None) -> int:
        return -1 if text is None else self._codes.setdefault(text, len(self._codes))


def _each(cells: Cells, of: Callable[[Any], Any]) -> Cells:
    """A column with `of` each value."""
    if isinstance(cells, Constant):
        return Constant(of(cells.value))
    return [of(value) for value in cells]


def _whole(cells: Cells, count: int) -> Whole:
    if isinstance(cells, Constant):
        return np.full(count, _number(cells.value), dtype=np.int64)
    try:
        return np.array(cells, dtype=np.int64)
    except (TypeError, OverflowError):  # there are None, or numbers that nothing has so many of
        return np.fromiter(map(_number, cells), np.int64, count)


def _number(value: int | None) -> int:
    return NONE if value is None else min(max(value, -_LARGEST), _LARGEST)


def _told(value: int) -> int | None:
    return None if value == NONE else value


def _gpu_type(told: Iterable[Tres]) -> str | None:
    """The type of GPU among what a job asks for or got, None where there is none or several."""
    kinds = {t.name.removeprefix(_TYPED) for t in told if t.name.startswith(_TYPED)}
    return kinds.pop() if len(kinds) == 1 else None
