"""Past jobs → the jobs of a simulation: where they are read, which are taken, and what is left out.

A job counts with its first submission and the run time of all its attempts: what the cluster has
really carried. Nothing that is left out is left out silently: see `LeftOut`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.left_out import SHOWN, LeftOut
from gsched.app.sim.past_jobs import taught
from gsched.app.sim.rows import NONE, Coded, Gatherer, PastColumns, Whole, columns_of_jobs
from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.model.history import PastJob, Reject
from gsched.model.job import MAX_DEADLINE, UNLIMITED_S
from gsched.model.past import HistoryFilter, HistoryJob
from gsched.model.progress import Progress
from gsched.model.times import DAY_S
from gsched.sim.jobs import ANY, SimJobs
from gsched.traces.source import STDIN, open_trace

if TYPE_CHECKING:
    from gsched_sql import History

_LATEST = MAX_DEADLINE
_LONGEST_S = 2**33
_ALL = 2**31


@dataclass(frozen=True, eq=False)
class Past:
    """What was read: `source` in words, and the jobs first submitted in the window.

    Those that cannot be simulated are among them; `rejected` rows were not understood. `earlier`
    gives jobs that ended before the window, from which predictions learn, as they ended.
    """

    source: str
    jobs: PastColumns
    rejected: LeftOut
    earlier: Callable[[], Iterable[PastJob]] = tuple
    notes: tuple[str, ...] = ()


def read_files(
    files: Sequence[str],
    options: TraceOptions,
    window: tuple[int | None, int | None],
    told: Progress,
) -> Past:
    """The jobs of some files that were first submitted in `window` ([since, until), epoch).

    Raises DataError for a file that is cut off, is not of the format or has no job, UsageError for
    standard input that is named twice.
    """
    if list(files).count(STDIN) > 1:
        raise UsageError("standard input can be read once only")
    seen: dict[str, Any] = {}
    gatherer, notes = Gatherer(), dict[str, None]()
    num_rejects, rejects = 0, list[Reject]()
    counts_gpus = options.counts_gpus(files)
    for name in in_reading_order(options.format, files):
        rows = 0
        with open_trace(name) as stream:
            told_of = options.for_file(name, seen, counts_gpus)
            for chunk in reader_of(options.format)(stream, told_of):
                gatherer.take(chunk.attempts)
                num_rejects += len(chunk.rejects)
                rejects += chunk.rejects[: SHOWN - len(rejects)]
                notes.update(dict.fromkeys(chunk.notes))
                rows += chunk.rows_in
                told(f"reading {name}, rows", rows)
            if stream.damage:
                raise DataError(stream.damage, "get the whole file; nothing is simulated")
    past = gatherer.jobs()
    if not len(past) and not num_rejects:
        raise DataError(f"{', '.join(files)}: no job in it", "it has no row, but perhaps a header")
    if past.repeated_rows:
        tell = "row tells" if past.repeated_rows == 1 else "rows tell"
        notes[f"{past.repeated_rows:,} {tell} of an attempt that others tell of, too"] = None
    examples = tuple(f"{r.source}, line {r.line}: {r.reason}" for r in rejects)
    rejected = LeftOut("rejected", num_rejects, 0.0, examples)
    names = ", ".join("standard input" if name == STDIN else name for name in files)
    inside, earlier = _divided(past, window)
    return Past(
        f"{options.format}: {names}",
        past.take(inside),
        rejected,
        lambda: taught(past.take(earlier)),
        tuple(map(_sentence, notes)),
    )


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def read_history(
    settings: Settings, cluster: str | None, window: tuple[int | None, int | None], now: int
) -> Past:
    """The jobs of the history database that were first submitted in `window`.

    Those that ended before, as long ago as predictions look back, teach. Raises UsageError where
    the database has several clusters and none is named, ConfigError where there is no database.
    """
    since, until = window[0], now + 1 if window[1] is None else window[1]
    with open_history(settings) as history:
        name = _cluster(history, cluster)
        found = history.jobs(HistoryFilter(clusters=(name,), since=since, until=until))
        past = _with_deadlines(history, name, found)

    def earlier() -> Iterator[PastJob]:
        begin = 0 if since is None else since - settings.predict.history_days * DAY_S
        with open_history(settings) as history:
            jobs = history.past_jobs(name, begin, since or 0).jobs
        return (job for job in jobs if job.num_gpus > 0)

    inside, _ = _divided(past, (since, until))
    source = f"history database, cluster {name}"
    return Past(source, past.take(inside), LeftOut("rejected", 0), earlier)


def _cluster(history: History, wanted: str | None) -> str:
    known = history.clusters()
    if wanted is None and len(known) == 1:
        return known[0]
    listed = ", ".join(known)
    if wanted is None and known:
        raise UsageError(f"the history has several clusters: {listed}", "choose one: --cluster")
    if wanted not in known or wanted is None:
        hint = f"it has {listed}" if known else "bring jobs in: `gsched db ingest`, `db import`"
        what = "cluster" if wanted is None else f"cluster {wanted!r}"
        raise DataError(f"the history has no {what}", hint)
    return wanted


def _with_deadlines(history: History, cluster: str, jobs: Sequence[HistoryJob]) -> PastColumns:
    """The jobs with the deadlines that their users asked for; a soft one counts by its reward."""
    columns = columns_of_jobs(jobs)
    row_of = {job.key: row for row, job in enumerate(jobs)}
    deadline, weight = columns.deadline.copy(), columns.weight.copy()
    for request in reversed(history.requests(cluster, limit=_ALL)):  # the last one holds
        row = row_of.get(request.key)
        if row is None:
            continue
        told, soft = request.wants.deadline, request.wants.soft_deadlines
        deadline[row], weight[row] = np.nan, 1.0
        if told is not None:
            deadline[row] = told
        elif soft:
            deadline[row], weight[row] = soft[-1]
    return replace(columns, deadline=deadline, weight=weight)


def _divided(past: PastColumns, window: tuple[int | None, int | None]) -> tuple[Whole, Whole]:
    """Rows that were first submitted in the window, and others that had ended before it."""
    since, until = window
    inside = np.ones(len(past), dtype=np.bool_)
    earlier = np.zeros(len(past), dtype=np.bool_)
    if since is not None:
        inside &= past.submit_time >= since
        earlier = (past.end_time != NONE) & (past.end_time < since)
    if until is not None:
        inside &= past.submit_time < until
    return np.flatnonzero(inside), np.flatnonzero(earlier & ~inside)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The jobs of a simulation by column, in its order, before they have a cluster."""

    past: PastColumns
    left_out: tuple[LeftOut, ...]

    @property
    def gpu_time_s(self) -> float:
        """GPUs times run time as recorded, of those that are left out too."""
        of_past = (self.past.num_gpus * self.past.run_s.astype(np.float64)).sum()
        return float(of_past) + sum(left.gpu_time_s for left in self.left_out)

    def without(self, reason: str, unfit: NDArray[np.bool_]) -> Chosen:
        """The same without some jobs; they are counted. Raises DataError where none is left."""
        if not unfit.any():
            return self
        counted = (*self.left_out, _left_out(reason, self.past, np.flatnonzero(unfit)))
        if unfit.all():
            raise DataError(
                "no job can run on this cluster", "; ".join(out.words for out in counted)
            )
        return Chosen(self.past.take(np.flatnonzero(~unfit)), counted)


def choose(past: Past) -> Chosen:
    """Jobs that can be simulated, by first submission and then by id: not by the input's order.

    Raises DataError when there are none.
    """
    jobs = past.jobs
    reasons = _reasons(jobs)
    cluster = _used(jobs.cluster).codes
    parts = (jobs.het_offset, jobs.array_task, jobs.job_id)
    order = np.lexsort((*parts, cluster, jobs.submit_time))
    jobs = jobs.take(order)
    left_out = [past.rejected] if past.rejected.jobs else []
    taken = np.ones(len(jobs), dtype=np.bool_)
    for reason, unfit in reasons.items():
        now_out = taken & unfit[order]
        if now_out.any():
            left_out.append(_left_out(reason, jobs, np.flatnonzero(now_out)))
        taken &= ~now_out
    if not taken.any():
        raise DataError(
            f"{past.source}: no job that can be simulated",
            "; ".join(found.words for found in left_out) or "nothing was submitted in that time",
        )
    return Chosen(jobs.take(np.flatnonzero(taken)), tuple(left_out))


def _reasons(jobs: PastColumns) -> dict[str, NDArray[np.bool_]]:
    """By reason of LEFT_OUT, for which jobs it holds."""
    submit, start, end = jobs.submit_time, jobs.start_time, jobs.end_time
    impossible = (submit < 0) | (submit > _LATEST) | (jobs.run_s > _LONGEST_S)
    for column in (start, end):
        impossible |= (column != NONE) & ((column < 0) | (column > _LATEST))
    return {
        "impossible-time": impossible,
        "no-gpus": jobs.num_gpus == 0,
        "gpus-unknown": (jobs.num_gpus < 0) | (jobs.num_gpus > np.iinfo(np.int32).max),
        "not-ended": end == NONE,
        "never-ran": start == NONE,
        "ended-before-start": jobs.run_s < 0,
        "zero-duration": jobs.run_s == 0,
    }


def _left_out(reason: str, jobs: PastColumns, rows: Whole) -> LeftOut:
    gpus, run_s = jobs.num_gpus[rows], jobs.run_s[rows]
    known = (gpus > 0) & (gpus < 2**31) & (run_s > 0) & (run_s <= _LONGEST_S)
    gpu_time_s = float((gpus[known] * run_s[known].astype(np.float64)).sum())
    examples = tuple(jobs.id_of(row) for row in rows[:SHOWN].tolist())
    return LeftOut(reason, len(rows), gpu_time_s, examples)


class JobIds(Sequence[str]):
    """Ids as the source spells them, made when they are asked for."""

    def __init__(self, past: PastColumns) -> None:
        self._past = past

    def __len__(self) -> int:
        return len(self._past)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self._past.id_of(r) for r in range(*row.indices(len(self)))]
        return self._past.id_of(row)


def sim_jobs(
    past: PastColumns, pool: NDArray[np.int32], num_nodes: Whole, gpu_type: NDArray[np.int32]
) -> SimJobs:
    """The jobs for a cluster; `pool`, `num_nodes` and `gpu_type` are by that cluster."""
    origin = int(past.submit_time[0])
    limit = past.time_limit_s.astype(np.float64)
    limit[(past.time_limit_s < 1) | (past.time_limit_s >= UNLIMITED_S)] = np.nan
    tenants, users, names = map(_used, (past.tenant, past.user, past.name))
    return SimJobs(
        cluster="+".join(_used(past.cluster).values),
        origin=origin,
        ids=JobIds(past),
        submit_s=(past.submit_time - origin).astype(np.float64),
        duration_s=past.run_s.astype(np.float64),
        num_gpus=past.num_gpus.astype(np.int32),
        num_nodes=num_nodes.astype(np.int32),
        num_cpus=np.clip(past.num_cpus, 0, np.iinfo(np.int32).max).astype(np.int32),
        pool=pool,
        tenant=tenants.codes,
        tenants=tuple(tenants.values),
        user=users.codes,
        users=tuple(users.values),
        name=names.codes,
        names=names.values,
        time_limit_s=limit,
        deadline_s=past.deadline - origin,
        weight=past.weight,
        predicted_duration_s=np.full(len(past), np.nan),
        share_class=np.full(len(past), ANY, dtype=np.int32),
        gpu_type=gpu_type,
    )


def _used(column: Coded) -> Coded:
    """The same texts without those that no row has, in the order of the alphabet."""
    used = sorted({column.values[code] for code in np.unique(column.codes) if code >= 0})
    place = {value: code for code, value in enumerate(used)}
    moved = np.array([*(place.get(v, ANY) for v in column.values), ANY], dtype=np.int32)
    return Coded(moved[column.codes], used)
