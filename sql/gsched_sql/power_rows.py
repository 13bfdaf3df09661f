"""Rows of the tables about sleeping nodes ↔ the model's values.

The job for which a node wakes lies in ``power_jobs``, where each reader finds his own jobs alone;
orders and spans are for everybody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, select

from gsched.errors import DataError
from gsched.model.decision import JsonValue, Reason
from gsched.model.job import JobKey
from gsched.model.jobid import parse_job_id
from gsched.model.journal import ChangeState
from gsched.model.merge import part_of, unpart
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)
from gsched_sql import schema
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.names import chunks, intern
from gsched_sql.schema import (
    node_orders,
    node_pools,
    nodes,
    pool_counts,
    power_jobs,
    power_spans,
    wake_delays,
)

_JOB = "job"
"""The figure of an order's reason that names a job."""

COUNTED = ("running", "idle", "falling", "asleep", "waking", "excluded", "wanted")
"""The columns of a count that are numbers of nodes."""


class Numbers(NamedTuple):
    """The rows of what values name: the cluster, and nodes and pools by name."""

    cluster: int
    nodes: Mapping[str, int]
    pools: Mapping[str, int]


def numbers(
    conn: Connection, cluster: str, pools: Iterable[str], named: Iterable[str] = ()
) -> Numbers:
    """Rows of names, made where there is none yet. Needs ``engine.writing``."""
    return Numbers(
        intern(conn, schema.clusters, [cluster])[cluster],
        intern(conn, nodes, named),
        intern(conn, node_pools, pools),
    )


def add(conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Add rows; returns their numbers. Needs ``engine.writing``."""
    if not rows:
        return []
    first = next_id(conn, table)
    told = [(number, *row.values()) for number, row in enumerate(rows, first)]
    insert_rows(conn, table, ("id", *rows[0]), told)
    return [row[0] for row in told]


def keep_jobs(
    conn: Connection, column: Any, cluster: int, told: Sequence[tuple[int, JsonValue]]
) -> None:
    """Keep the job of each row (of orders or spans, by `column` of power_jobs); "" is none."""
    for some in chunks([number for number, _ in told]):
        conn.execute(delete(power_jobs).where(column.in_(some)))
    rows = [
        {"cluster_id": cluster, "job_id": _job_number(job), "job": job, column.name: number}
        for number, job in told
        if isinstance(job, str) and job
    ]
    add(conn, power_jobs, rows)


def _job_number(job: str) -> int:
    try:
        return parse_job_id(job).job_id
    except DataError:
        return 0


def order_row(order: NodeOrder, state: ChangeState, known: Numbers) -> dict[str, Any]:
    """A new row of `node_orders`, without the job of its reason."""
    params = dict(order.reason.params)
    if isinstance(params.get(_JOB), str):
        params[_JOB] = ""
    return {
        "order_id": order.order_id,
        "cluster_id": known.cluster,
        "node_id": known.nodes[order.node],
        "pool_id": known.pools[order.pool],
        "verb": order.verb.value,
        "reason_code": order.reason.code,
        "reason_params": json.dumps(params),
        "valid_until": order.valid_until,
        "state": state.value,
        "decided_at": order.decided_at,
        "detail": "",
    }


def order_job(order: NodeOrder) -> JsonValue:
    """The job that the reason of an order names, as `keep_jobs` takes it."""
    return order.reason.params.get(_JOB)


def orders(conn: Connection, chosen: ColumnElement[bool]) -> list[NodeOrderEntry]:
    """Orders with their state, by when they were decided and then as they were recorded."""
    o = node_orders.c
    query = _named(node_orders, power_jobs.c.order_row).where(chosen)
    return [_entry_of(row) for row in conn.execute(query.order_by(o.decided_at, o.id))]


def _named(table: Table, job_of: Any) -> Select[Any]:
    """The rows of a table with the names of node and pool, and their job."""
    c = table.c
    columns = (nodes.c.name.label("node"), node_pools.c.name.label("pool"), power_jobs.c.job)
    return (
        select(table, *columns)
        .join(nodes, nodes.c.id == c.node_id)
        .join(node_pools, node_pools.c.id == c.pool_id)
        .join(power_jobs, job_of == c.id, isouter=True)
    )


def _entry_of(row: Any) -> NodeOrderEntry:
    params = json.loads(row.reason_params)
    if row.job is not None:
        params[_JOB] = row.job
    order = NodeOrder(
        order_id=row.order_id,
        node=row.node,
        pool=row.pool,
        verb=NodeVerb(row.verb),
        reason=Reason(row.reason_code, params),
        decided_at=row.decided_at,
        valid_until=row.valid_until,
    )
    return NodeOrderEntry(order, ChangeState(row.state), row.settled_at, row.detail)


def span_row(span: PowerSpan, known: Numbers) -> dict[str, Any]:
    """A row of `power_spans`, without its job."""
    return {
        "cluster_id": known.cluster,
        "node_id": known.nodes[span.node],
        "start_time": span.start,
        "phase": span.phase.value,
        "end_time": span.end,
        "pool_id": known.pools[span.pool],
        "cause": span.cause.value,
        "outcome": span.outcome,
    }


def spans(conn: Connection, chosen: ColumnElement[bool]) -> list[PowerSpan]:
    """Spans by start, node and name of the phase."""
    query = _named(power_spans, power_jobs.c.span_row).where(chosen)
    found = [
        PowerSpan(
            row.node,
            row.pool,
            PowerPhase(row.phase),
            row.start_time,
            row.end_time,
            PowerCause(row.cause),
            row.outcome,
            row.job or "",
        )
        for row in conn.execute(query)
    ]
    return sorted(found, key=lambda span: (span.start, span.node, span.phase.value))


def count_row(count: PoolCount, known: Numbers) -> dict[str, Any]:
    """A row of `pool_counts`."""
    key = {"cluster_id": known.cluster, "pool_id": known.pools[count.pool], "at": count.time}
    return key | {name: getattr(count, name) for name in COUNTED}


def counts(conn: Connection, query: Select[Any], pools: Mapping[int, str]) -> list[PoolCount]:
    """The counts that a query of `pool_counts` finds; `pools` are names by row."""
    c = pool_counts.c
    columns = query.with_only_columns(c.pool_id, c.at, *(c[name] for name in COUNTED))
    return [PoolCount(pools[pool], *rest) for pool, *rest in conn.execute(columns)]


def delay_row(delay: WakeDelay, known: Numbers) -> dict[str, Any]:
    """A row of `wake_delays`. Raises DataError where the job is none."""
    job = parse_job_id(delay.job)
    part = part_of(job.job_id, job.array_task, job.het_offset)
    return {
        "cluster_id": known.cluster,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "submit_time": delay.submit_time,
        "pool_id": known.pools[delay.pool],
        "nodes_waking": delay.nodes_waking,
        "allocated_at": delay.allocated_at,
        "started_at": delay.started_at,
    }


def delays(conn: Connection, chosen: ColumnElement[bool]) -> list[WakeDelay]:
    """Delays by when they began and the job's id."""
    query = select(wake_delays, node_pools.c.name.label("pool")).join(
        node_pools, node_pools.c.id == wake_delays.c.pool_id
    )
    found = [
        WakeDelay(
            JobKey("", row.job_id, unpart(row.array_task), unpart(row.het_offset)).slurm_id,
            row.submit_time,
            row.pool,
            row.nodes_waking,
            row.allocated_at,
            row.started_at,
        )
        for row in conn.execute(query.where(chosen))
    ]
    return sorted(found, key=lambda delay: (delay.allocated_at, delay.job))
