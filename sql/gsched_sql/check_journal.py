"""Checks of what the daemon keeps, of leases, samples and the sums of pruned jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, and_, exists, func, select

from gsched.errors import DataError
from gsched.model.job import LeaseState
from gsched.model.journal import ChangeState
from gsched.model.times import DAY_S
from gsched_sql.findings import Findings
from gsched_sql.prune_rows import same_job
from gsched_sql.samples import BLOCK_SAMPLES, unpacked
from gsched_sql.schema import (
    SLOT,
    actions,
    attempts,
    audit_events,
    conflicts,
    daemon_spans,
    fits,
    jobs,
    lease_events,
    leases,
    node_orders,
    partitions,
    policy_memory,
    power_memory,
    predictions,
    requests,
    rounds,
    sample_blocks,
    standings,
    tenants,
    usage_days,
    users,
)

_ROWS_AT_ONCE = 1000
_STATES = {state.value: state for state in ChangeState}
_LEASE_STATES = {state.value: state for state in LeaseState}
_FIRST = (ChangeState.INTENT.value, ChangeState.OBSERVED.value)
_JSON: tuple[tuple[Any, type | None], ...] = (
    (conflicts.c.value, None),
    (rounds.c.summary, dict),
    (actions.c.reason_params, dict),
    (standings.c.may_be, list),
    (requests.c.wants, dict),
    (policy_memory.c.memory, dict),
    (fits.c.features, list),
    (fits.c.details, dict),
    (node_orders.c.reason_params, dict),
    (power_memory.c.memory, dict),
)


def check(conn: Connection, found: Findings) -> None:
    """All checks of these tables."""
    for column, kind in _JSON:
        _json(conn, column, kind, found)
    for table in (predictions, actions):
        _jobs_of(conn, table, found)
    _ways(conn, found)
    _spans(conn, found)
    _leases(conn, found)
    _samples(conn, found)
    _usage(conn, found)


def _json(conn: Connection, column: Any, kind: type | None, found: Findings) -> None:
    for (text,) in _stream(conn, select(column).where(column.is_not(None))):
        try:
            value = json.loads(text)
            is_right = kind is None or isinstance(value, kind)
        except (ValueError, RecursionError):
            is_right = False
        if not is_right:
            found.add("json", f"{column.table.name}.{column.name}: {text[:60]}")


def _jobs_of(conn: Connection, table: Table, found: Findings) -> None:
    """Predictions and changes name their jobs as the history does, where it knows them."""
    c = table.c
    same_slot = and_(*(c[name] == attempts.c[name] for name in SLOT))
    known = select(c.job_id, c.attempt, c.epoch).join(
        attempts, and_(same_slot, attempts.c.submit_time == c.attempt)
    )
    other = known.join(jobs, jobs.c.id == attempts.c.logical_job).where(jobs.c.epoch != c.epoch)
    for job_id, attempt, epoch in conn.execute(other.limit(1000)):
        found.add("epoch", f"{table.name}: job {job_id} submitted {attempt}, epoch {epoch}")
    told = exists().where(same_slot, attempts.c.submit_time == c.attempt)
    unknown = select(func.count()).select_from(table).where(~told, ~exists().where(same_job(table)))
    count = conn.execute(unknown).scalar_one()
    if count:
        found.add("unknown-job", f"{table.name}: {count}", count)


def _ways(conn: Connection, found: Findings) -> None:
    """Each change has come to its state by transitions that there are."""
    e = audit_events.c
    query = (
        select(actions.c.change_id, actions.c.state, e.from_state, e.to_state)
        .outerjoin(audit_events, e.change_id == actions.c.change_id)
        .order_by(actions.c.id, e.id)
    )
    for (change_id, state), events in groupby(_stream(conn, query), key=lambda row: tuple(row[:2])):
        way = [tuple(row[2:]) for row in events]
        if not _is_way(way) or way[-1][1] != state:
            found.add("audit", f"{change_id}: {state}")


def _is_way(way: Sequence[tuple[str | None, str | None]]) -> bool:
    """Whether (from, to) of the transitions of a change make one way from its beginning."""
    before = None
    for from_state, to_state in way:
        if from_state != before or to_state not in _STATES:
            return False
        if before is None:
            if to_state not in _FIRST:
                return False
        elif not _STATES[before].may_become(_STATES[to_state]):
            return False
        before = to_state
    return True


def _spans(conn: Connection, found: Findings) -> None:
    c = daemon_spans.c
    wrong = (c.end_time < c.begin_time) | (c.rounds < 1) | (c.writes < 0)
    for row in conn.execute(select(daemon_spans).where(wrong).limit(1000)):
        found.add("spans", f"{row.mode} from {row.begin_time} to {row.end_time}")


def _leases(conn: Connection, found: Findings) -> None:
    e = lease_events.c
    query = (
        select(leases.c.lease_id, leases.c.state, e.from_state, e.to_state)
        .outerjoin(lease_events, e.lease_row == leases.c.id)
        .order_by(leases.c.id, e.id)
    )
    for (lease_id, state), events in groupby(_stream(conn, query), key=lambda row: tuple(row[:2])):
        before = None
        is_chain = True
        for _, _, from_state, to_state in events:
            is_chain = is_chain and from_state == before and _may_follow(before, to_state)
            before = to_state
        if not is_chain or before != state:
            found.add("lease", f"{lease_id}: {state}")


def _may_follow(before: str | None, after: str | None) -> bool:
    """Whether a lease can come from one state (None: it began) to another."""
    if before not in _LEASE_STATES or after not in _LEASE_STATES:
        return before is None and after == LeaseState.GRANTED.value
    return _LEASE_STATES[before].may_become(_LEASE_STATES[after])


def _samples(conn: Connection, found: Findings) -> None:
    for row in _stream(conn, select(sample_blocks)):
        where = f"series {row.series_id} from {row.start_time}, every {row.interval_ms} ms"
        if row.interval_ms < 1 or row.start_time % row.interval_ms:
            found.add("samples", f"{where}: not where blocks begin")
            continue
        try:
            values = unpacked(row.samples)
        except DataError as e:
            found.add("samples", f"{where}: {e.message}")
            continue
        there = BLOCK_SAMPLES - sum(value != value for value in values)  # NaN differs from itself
        if there != row.num_samples:
            found.add("samples", f"{where}: {there} samples, not {row.num_samples}")


def _usage(conn: Connection, found: Findings) -> None:
    c = usage_days.c
    for column, table in ((c.user_id, users), (c.tenant_id, tenants), (c.partition_id, partitions)):
        lost = (
            select(column, func.count())
            .outerjoin(table, table.c.id == column)
            .where(column != 0, table.c.id.is_(None))
            .group_by(column)
            .limit(1000)
        )
        for value, count in conn.execute(lost):
            found.add("usage", f"{table.name} {value} is not known", count)
    measured = [c.gpu_time_jobs, c.cpu_time_jobs, c.duration_jobs, c.queueing_jobs]
    wrong = (c.jobs < 1) | (c.attempts < c.jobs) | (c.day % DAY_S != 0)
    for column in measured:
        wrong = wrong | (column < 0) | (column > c.jobs)
    for row in conn.execute(select(usage_days).where(wrong).limit(1000)):
        found.add("usage", f"cluster {row.cluster_id} day {row.day}: {row.jobs} jobs")


def _stream(conn: Connection, query: Any) -> Iterator[Any]:
    with conn.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)) as result:
        yield from result
