"""Which nodes past attempts held, for the forecast of demand: a hundred thousand at once.

Jobs lead to the attempts, because they have an index by their end. Names of nodes are read once,
and attempts on the same list of nodes share one tuple of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from gsched.model.job import JobState, finite_limit_s
from gsched.model.merge import Part
from gsched.model.node_use import NodeUse
from gsched_sql.names import chunks, cluster_id
from gsched_sql.schema import attempts, jobs, node_list_members, nodes
from gsched_sql.submits import next_submit, submits_of

_HOLD_NODES = [state.value for state in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)]


def between(conn: Connection, cluster: str, since: int, until: int) -> list[NodeUse]:
    """Attempts that held nodes at least partly in [since, until), by start.

    One whose end nobody has told counts until its id's next attempt was submitted or its time
    limit was over, where either is before `until`; else it still runs.
    """
    known = cluster_id(conn, cluster)
    if known is None:
        return []
    ended = [*_ended(conn, known, since, until)]
    running = [*_running(conn, known, since, until)]
    rows = sorted(ended + running, key=lambda row: row[0])
    names = _names(conn, {row[3] for row in rows if row[3] is not None})
    found = []
    for start, end, num_nodes, node_list in rows:
        members = names.get(node_list, ())
        if members or num_nodes:
            found.append(NodeUse(start, end, num_nodes or len(members), members))
    return found


_Held = tuple[int, int | None, int | None, int | None]
"""Start, end, number of nodes and row of the list of nodes of an attempt."""


def _ended(conn: Connection, cluster: int, since: int, until: int) -> Iterator[_Held]:
    """Ended attempts, of jobs that have ended or go on."""
    a = attempts.c
    chosen = a.end_time > since
    for of_jobs in (jobs.c.end_time > since, jobs.c.end_time.is_(None)):
        query = select(a.start_time, a.end_time, a.num_nodes, a.node_list_id)
        for row in conn.execute(_of(query, cluster, of_jobs & chosen, until)):
            if row[1] > row[0]:  # a clock may have been set back
                yield row[0], row[1], row[2], row[3]


def _of(query: Any, cluster: int, chosen: ColumnElement[bool], until: int) -> Any:
    """Of a query for attempts: those of a cluster that have begun before `until`, and here."""
    a = attempts.c
    return query.join_from(jobs, attempts, a.logical_job == jobs.c.id).where(
        jobs.c.cluster_id == cluster,
        chosen,
        a.start_time < until,
        a.state != JobState.REVOKED.value,  # ran on another cluster of the federation
    )


def _running(conn: Connection, cluster: int, since: int, until: int) -> Iterator[_Held]:
    """Attempts of which no end is told."""
    a = attempts.c
    query = select(
        *(a.start_time, a.num_nodes, a.node_list_id, a.time_limit_s, a.state),
        *(a.job_id, a.array_task, a.het_offset, a.submit_time),
    )
    # The end of a job is that of its last attempt: an earlier one may lack its own.
    is_open = a.end_time.is_(None) & a.state.in_(_HOLD_NODES)
    rows = [
        row
        for of_jobs in (jobs.c.end_time > since, jobs.c.end_time.is_(None))
        for row in conn.execute(_of(query, cluster, of_jobs & is_open, until))
    ]
    submits = submits_of(conn, cluster, {Part(*row[5:8]) for row in rows})
    for row in rows:
        end = _end_of(row, submits[Part(*row[5:8])], until)
        if end is None or end > max(since, row.start_time):
            yield row.start_time, end, row.num_nodes, row.node_list_id


def _end_of(row: Any, submits: Sequence[int], until: int) -> int | None:
    """When an attempt must have ended, None where it may still run at `until`."""
    later = next_submit(submits, row.submit_time)
    ends = [] if later is None else [later]
    limit_s = finite_limit_s(row.time_limit_s)
    if limit_s is not None and row.state != JobState.SUSPENDED.value:  # its time stands still
        ends.append(row.start_time + limit_s)
    end = min(ends, default=until)
    return end if end < until else None


def _names(conn: Connection, node_lists: Collection[int]) -> Mapping[int | None, tuple[str, ...]]:
    """The names of the nodes of these lists."""
    m = node_list_members.c
    members: dict[int, list[int]] = {}
    for some in chunks(sorted(node_lists)):
        for number, node in conn.execute(
            select(m.node_list_id, m.node_id).where(m.node_list_id.in_(some))
        ):
            members.setdefault(number, []).append(node)
    texts = {row[0]: row[1] for row in conn.execute(select(nodes.c.id, nodes.c.name))}
    return {number: tuple(sorted(map(texts.__getitem__, rows))) for number, rows in members.items()}
