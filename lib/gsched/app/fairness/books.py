"""The job history as the books of fairness: when which job asked for GPUs, and when it held some.

A job asks from when it may start (a requeued one from its requeue on) to its end, and holds from
start to end of each attempt. While it waits, its GPUs are worth what it asked for, while it holds
them, what it was given. Quotas and worths are those that the daemon has noted over time; the first
that were noted are taken for the time before as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gsched.fairness.books import Books, Quotas, Stretches
from gsched.fairness.worth import weighted
from gsched.model.accounts import QuotaChange, SiteQuotas, WeightChange
from gsched.model.gpu_use import NOT_TOLD, GpuCounts, GpuUse
from gsched.model.jobtable import FloatColumn, IntColumn
from gsched_sql import History


@dataclass(frozen=True, eq=False)
class BookedJobs:
    """Which jobs those of the books are, by their code; parts that a job has not are -1.

    A job whose account was changed while it waited is there once for each account. `user` goes by
    the codes of `users`.
    """

    job_id: IntColumn
    array_task: IntColumn
    het_offset: IntColumn
    epoch: IntColumn
    user: IntColumn
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What the books are of, and what is missing in them.

    `open_attempts` wait or run still as far as is known, and count until the end of the window;
    the end of `assumed_ends` was not told: they count until their id's next attempt, or their time
    limit. Attempts of `unknown_gpus` and of `odd_times` (an end before the start) are left out.
    `pruned_before`: jobs that ended before that time (epoch) are gone. `quotas_since` is when the
    first quotas were noted, None where none ever were. `gpu_weights` are the worths by which GPUs
    count at the end of the window, 1 where not named; they changed at `weights_changed` (epochs in
    the window), and what was before counts by those of then. Without `of_all_users` the database
    shows this login its own jobs alone.
    """

    jobs: BookedJobs
    open_attempts: int
    assumed_ends: int
    unknown_gpus: int
    odd_times: int
    pruned_before: int | None
    quotas_since: int | None
    quota_source: str
    gpu_weights: Mapping[str, float]
    weights_changed: tuple[int, ...]
    of_all_users: bool


def fairness_books(
    history: History,
    cluster: str,
    since: int,
    until: int,
    quotas_if_none: SiteQuotas,
    *,
    by_worth: bool = True,
) -> tuple[Books, Known]:
    """The books of [since, until) (epoch), and what they lack.

    `quotas_if_none` are those of now: they count where the daemon has noted none yet. Without
    `by_worth` a GPU is a GPU. Stretches may reach beyond the window; accounts of it are not changed
    by that.
    """
    ledger = history.fairness()
    use = ledger.gpu_use(cluster, since, until)
    attempts = _Attempts.of(use, until)
    job, jobs, tenant = _jobs(use, attempts.rows)
    asking = {row: use.tenants[row] for row in np.unique(tenant).tolist()}
    changes = ledger.quotas(cluster)
    first = min((change.since_time for change in changes), default=None)
    if first is None:
        changes = _assumed(quotas_if_none, sorted(asking.values()))
    names = sorted({*asking.values(), *(change.tenant for change in changes)})
    code = {name: number for number, name in enumerate(names)}
    worths = _spans(ledger.weights(cluster), quotas_if_none) if by_worth else _ALL_ALIKE
    asked, held = _stretches(use, attempts, job, worths)
    books = Books(
        tenants=tuple(names),
        tenant=_mapped(tenant, {row: code[name] for row, name in asking.items()}),
        weight=np.ones(len(tenant)),
        asked=asked,
        held=held,
        quotas=_quotas(changes, code),
    )
    last, changed = _worths_told(worths, since, until)
    known = Known(
        jobs=jobs,
        open_attempts=attempts.num_open,
        assumed_ends=attempts.num_assumed,
        unknown_gpus=attempts.num_unknown,
        odd_times=attempts.num_odd,
        pruned_before=use.pruned_before,
        quotas_since=first,
        quota_source=changes[-1].source if first is not None else quotas_if_none.source,
        gpu_weights=last,
        weights_changed=changed,
        of_all_users=history.sees_all_rows(),
    )
    return books, known


_ALL_ALIKE: list[tuple[float, float, Mapping[str, float]]] = [(-np.inf, np.inf, {})]


def equal_parts(site: SiteQuotas, tenants: Sequence[str]) -> dict[str, float]:
    """The quotas of a site that names none: to each of these tenants as many GPUs."""
    return {name: site.total_gpus / len(tenants) for name in sorted(tenants)}


@dataclass(frozen=True, eq=False)
class _Attempts:
    """Rows of a GpuUse that count, with the times in which they ask and hold."""

    rows: IntColumn
    begin: FloatColumn
    start: FloatColumn  # inf: has not started
    stop: FloatColumn
    num_open: int
    num_assumed: int
    num_unknown: int
    num_odd: int

    @classmethod
    def of(cls, use: GpuUse, until: int) -> _Attempts:
        """Those of known GPUs, whose times can be."""
        submit, eligible, start, end, by = (
            np.array(column, dtype=np.int64)
            for column in (
                *(use.submit_time, use.eligible_time, use.start_time, use.end_time, use.ends_by),
            )
        )
        has_started, is_first = start != NOT_TOLD, submit == np.array(use.epoch, dtype=np.int64)
        was_eligible = eligible != NOT_TOLD
        begin = np.where(is_first & was_eligible, np.maximum(submit, eligible), submit)
        begin = np.where(has_started, np.minimum(begin, start), begin)
        is_assumed = (end == NOT_TOLD) & (by != NOT_TOLD)
        is_open = (end == NOT_TOLD) & (by == NOT_TOLD)
        stop = np.where(is_open, until, np.where(is_assumed, by, end))
        is_known = np.array(use.num_gpus, dtype=np.int64) != NOT_TOLD
        asks = has_started | was_eligible  # held by hand, or by a dependency: it asks for nothing
        is_odd = has_started & ~is_open & (stop < start) & asks & is_known
        rows = np.flatnonzero(asks & is_known & ~is_odd & (begin < stop))
        first = np.where(has_started, start, np.inf)
        return cls(
            rows.astype(np.int64),
            begin[rows].astype(np.float64),
            first[rows],
            stop[rows].astype(np.float64),
            num_open=int(is_open[rows].sum()),
            num_assumed=int(is_assumed[rows].sum()),
            num_unknown=int((~is_known & asks).sum()),
            num_odd=int(is_odd.sum()),
        )


def _jobs(use: GpuUse, rows: IntColumn) -> tuple[IntColumn, BookedJobs, IntColumn]:
    """The job codes of these rows, which jobs those are, and their tenants (as in `use`)."""
    job = np.array(use.job, dtype=np.int64)[rows]
    tenant = np.array(use.tenant, dtype=np.int64)[rows]
    _, first, code = np.unique(
        np.stack((job, tenant)), axis=1, return_index=True, return_inverse=True
    )
    chosen = rows[first]
    job_id, array_task, het_offset, epoch, user_row = (
        np.array(column, dtype=np.int64)[chosen]
        for column in (use.job_id, use.array_task, use.het_offset, use.epoch, use.user)
    )
    users = np.unique(user_row)
    user = np.searchsorted(users, user_row).astype(np.int64)
    names = tuple(use.users[row] for row in users.tolist())
    told = BookedJobs(job_id, array_task, het_offset, epoch, user, names)
    return code.reshape(-1).astype(np.int64), told, tenant[first]


def _stretches(
    use: GpuUse,
    attempts: _Attempts,
    job: IntColumn,
    spans: Sequence[tuple[float, float, Mapping[str, float]]],
) -> tuple[Stretches, Stretches]:
    """When the attempts asked and when they held, cut where the worth of a GPU has changed."""
    asked, held = [], []
    has_started = np.isfinite(attempts.start)
    ran = np.flatnonzero(has_started)
    wait_end = np.minimum(attempts.start, attempts.stop)
    for begin, end, weights in spans:
        waits, runs = _weighted(use, attempts.rows, weights)
        waiting = Stretches(job, attempts.begin, wait_end, waits)
        running = Stretches(job, attempts.start, attempts.stop, runs).of(ran)
        held.append(running.within(begin, end))
        asked += [waiting.within(begin, end), held[-1]]
    return _joined(asked), _joined(held)


def _weighted(
    use: GpuUse, rows: IntColumn, weights: Mapping[str, float]
) -> tuple[FloatColumn, FloatColumn]:
    """By row: the GPUs that an attempt waits for, and those that it runs on, by their worth."""
    count = np.array(use.num_gpus, dtype=np.int64)[rows]
    if not weights:
        return count.astype(np.float64), count.astype(np.float64)
    wanted, given = (
        np.array(column, dtype=np.int64)[rows] for column in (use.requested, use.allocated)
    )
    lists = np.where(given != 0, given, wanted)
    return _worth(use.gpus, wanted, count, weights), _worth(use.gpus, lists, count, weights)


def _worth(
    gpus: Mapping[int, GpuCounts], lists: IntColumn, count: IntColumn, weights: Mapping[str, float]
) -> FloatColumn:
    """Of rows with so many GPUs, of the types that their lists tell; what is not told is worth 1.

    Lists that tell of more GPUs than a row has are in the same proportion for it.
    """
    known = np.unique(lists)
    number = np.zeros(len(known))
    worth = np.zeros(len(known))
    for place, row in enumerate(known.tolist()):
        told = gpus.get(row, ())
        number[place] = sum(n for _, n in told)
        worth[place] = weighted(told, weights)
    at = np.searchsorted(known, lists)
    typed = np.minimum(number[at], count)
    mean = np.divide(worth[at], number[at], out=np.ones(len(at)), where=number[at] > 0)
    found: FloatColumn = typed * mean + (count - typed) * weights.get("", 1.0)
    return found


def _spans(
    changes: Sequence[WeightChange], if_none: SiteQuotas
) -> list[tuple[float, float, Mapping[str, float]]]:
    """From when to when which worths hold; the first ones from the beginning of time on."""
    if not changes:
        return [(-np.inf, np.inf, if_none.gpu_weights)]
    moments = sorted({change.since_time for change in changes})
    now: dict[str, float] = {}
    found = []
    for begin, end in pairwise([*moments, np.inf]):
        now |= {change.gpu_type: change.weight for change in changes if change.since_time == begin}
        found.append((float(begin), float(end), dict(now)))
    return [(-np.inf, *found[0][1:]), *found[1:]]


def _worths_told(
    spans: Sequence[tuple[float, float, Mapping[str, float]]], since: int, until: int
) -> tuple[dict[str, float], tuple[int, ...]]:
    """The worths other than 1 at the end of the window, and when in it they became others."""
    named = [
        (begin, {name: weight for name, weight in weights.items() if weight != 1.0})
        for begin, _, weights in spans
        if begin < until
    ]
    changed = [int(begin) for (_, before), (begin, now) in pairwise(named) if before != now]
    return named[-1][1], tuple(begin for begin in changed if begin > since)


def _quotas(changes: Sequence[QuotaChange], code: Mapping[str, int]) -> Quotas:
    """By code; those that were noted first hold before as well."""
    first = min((change.since_time for change in changes), default=0)
    since = [-np.inf if c.since_time == first else c.since_time for c in changes]
    return Quotas(
        np.array([code[change.tenant] for change in changes], dtype=np.int64),
        np.array(since, dtype=np.float64),
        np.array([change.gpus for change in changes], dtype=np.float64),
    )


def _assumed(site: SiteQuotas, tenants: Sequence[str]) -> list[QuotaChange]:
    """What a site says now, as if it had always held."""
    gpus = site.gpus or equal_parts(site, tenants)
    return [QuotaChange(name, 0, amount, site.source) for name, amount in gpus.items()]


def _mapped(rows: IntColumn, code: Mapping[int, int]) -> IntColumn:
    known = np.unique(rows)
    codes = np.array([code[row] for row in known.tolist()], dtype=np.int64)
    found: IntColumn = codes[np.searchsorted(known, rows)] if len(known) else known
    return found


def _joined(parts: Sequence[Stretches]) -> Stretches:
    pieces = [part for part in parts if len(part.job)] or parts[:1]
    if len(pieces) == 1:
        return pieces[0]
    return Stretches(
        *(np.concatenate([getattr(p, name) for p in pieces])
          for name in ("job", "begin_s", "end_s", "gpus"))
    )  # fmt: skip
