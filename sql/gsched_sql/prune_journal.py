"""What the daemon and users left behind about jobs that are in the database no more.

Of a kept job everything is kept. What is about no kept job goes by its own age: journalled changes
with their transitions, predictions, requests, leases, deadlines that do not stand; then the rounds
to which nothing refers any more, and the spans of rounds. Changes that are not settled and those on
which a standing rests stay, and so do who leads and the span of the last round.

What is kept of nodes that sleep goes by its age, but for orders that are not settled and spans that
last. What delayed an attempt stays as long as it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, exists, func, select

from gsched.model.journal import ChangeState
from gsched.model.progress import Progress
from gsched.model.target_records import TargetState
from gsched_sql.engine import writing
from gsched_sql.prune_rows import (
    JOB_KEY,
    delete_actions,
    delete_leases,
    delete_targets,
    delete_where,
    same_attempt,
    same_job,
)
from gsched_sql.schema import (
    actions,
    audit_events,
    daemon_spans,
    fits,
    jobs,
    leases,
    node_orders,
    policy_memory,
    pool_counts,
    power_spans,
    predictions,
    requests,
    rounds,
    standings,
    targets,
    wake_delays,
)

_ROWS_AT_ONCE = 2000
_OPEN = (ChangeState.INTENT.value, ChangeState.SENT.value)


def prune(
    engine: Engine, cluster_id: int, before: int, on_progress: Progress
) -> Iterator[tuple[str, int]]:
    """Delete what is older than `before` and about no job; yields how much of each kind."""
    about_standing = exists().where(*(standings.c[n] == actions.c[n] for n in JOB_KEY))
    settled = actions.c.state.not_in(_OPEN) & ~about_standing
    of_no_array = ~exists().where(
        jobs.c.cluster_id == requests.c.cluster_id, jobs.c.job_id == requests.c.job_id
    )
    over = _of_no_job(targets) & (targets.c.state != TargetState.STANDING.value)
    kinds: tuple[tuple[str, Any, ColumnElement[bool], Any], ...] = (
        ("actions", actions.c.decided_at, _of_no_job(actions) & settled, delete_actions),
        ("predictions", predictions.c.made_at, _of_no_job(predictions), _delete_predictions),
        ("requests", requests.c.first_seen, of_no_array, _delete_requests),
        ("leases", leases.c.start_time, _of_no_job(leases), delete_leases),
        ("targets", targets.c.asked_time, over, delete_targets),
    )
    for kind, at, chosen, remove in kinds:
        table = at.table
        mine = (table.c.cluster_id == cluster_id) & (at < before) & chosen
        number = _delete_all(engine, table.c.id, mine, 0, remove)
        on_progress(kind, number)
        yield kind, number
    number = _delete_all(engine, rounds.c.round_id, _idle_rounds(cluster_id, before), "", _rounds)
    on_progress("rounds", number)
    yield "rounds", number
    number = _delete_all(engine, daemon_spans.c.id, _old_spans(cluster_id, before), 0, _spans)
    on_progress("spans", number)
    yield "spans", number
    number = _delete_all(engine, fits.c.id, _old_fits(cluster_id, before), 0, _fits)
    on_progress("fits", number)
    yield "fits", number
    for table, old in _old_power(before):
        mine = (table.c.cluster_id == cluster_id) & old
        number = _delete_all(engine, table.c.id, mine, 0, _by_row(table))
        on_progress(table.name, number)
        yield table.name, number


def _old_power(before: int) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Tables about sleeping nodes, and what goes from each."""
    o = node_orders.c
    yield node_orders, (o.decided_at < before) & o.state.not_in(_OPEN)
    yield power_spans, power_spans.c.end_time < before  # not NULL, which one that lasts has
    yield pool_counts, pool_counts.c.at < before
    of_no_attempt = ~exists().where(same_attempt(wake_delays))
    yield wake_delays, (wake_delays.c.allocated_at < before) & of_no_attempt


def _by_row(table: Table) -> Callable[[Connection, Sequence[Any]], int]:
    """Deletes rows of a table by their numbers."""
    return lambda conn, ids: delete_where(conn, table.c.id, ids)


def _of_no_job(table: Any) -> ColumnElement[bool]:
    return ~exists().where(same_job(table))


def _idle_rounds(cluster_id: int, before: int) -> ColumnElement[bool]:
    here = (rounds.c.cluster_id == cluster_id) & (rounds.c.started_at < before)
    used = (
        exists().where(table.c.round_id == rounds.c.round_id) for table in (actions, policy_memory)
    )
    return and_(here, *(~use for use in used))


def _old_spans(cluster_id: int, before: int) -> ColumnElement[bool]:
    c = daemon_spans.c
    newest = select(func.max(c.id)).where(c.cluster_id == cluster_id).scalar_subquery()
    return (c.cluster_id == cluster_id) & (c.end_time < before) & (c.id != newest)


def _old_fits(cluster_id: int, before: int) -> ColumnElement[bool]:
    c = fits.c
    newest = select(func.max(c.id)).where(c.cluster_id == cluster_id).scalar_subquery()
    return (c.cluster_id == cluster_id) & (c.fitted_at < before) & (c.id != newest)


def _delete_all(
    engine: Engine,
    key: Any,
    chosen: ColumnElement[bool],
    first: int | str,
    remove: Callable[[Connection, Sequence[Any]], int],
) -> int:
    """Delete the chosen rows in the order of their key, some at a time."""
    last, gone = first, 0
    while True:
        with writing(engine) as conn:
            query = select(key).where(key > last, chosen).order_by(key).limit(_ROWS_AT_ONCE)
            ids = conn.execute(query).scalars().all()
            if not ids:
                return gone
            gone += remove(conn, ids)
        last = ids[-1]


def _delete_predictions(conn: Connection, ids: Sequence[int]) -> int:
    return delete_where(conn, predictions.c.id, ids)


def _delete_requests(conn: Connection, ids: Sequence[int]) -> int:
    return delete_where(conn, requests.c.id, ids)


def _rounds(conn: Connection, round_ids: Sequence[str]) -> int:
    delete_where(conn, audit_events.c.round_id, round_ids)
    return delete_where(conn, rounds.c.round_id, round_ids)


def _spans(conn: Connection, span_ids: Sequence[int]) -> int:
    return delete_where(conn, daemon_spans.c.id, span_ids)


def _fits(conn: Connection, fit_ids: Sequence[int]) -> int:
    return delete_where(conn, fits.c.id, fit_ids)
