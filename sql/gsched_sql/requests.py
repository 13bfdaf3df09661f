"""What users asked of gsched. Implements ``gsched.engine.ports.RequestStore``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, insert, or_, select

from gsched.model.job import JobKey
from gsched.model.jobid import JobId
from gsched.model.merge import Part, part_of, unpart
from gsched.model.user_request import UserRequest, wants_document, wants_of
from gsched_sql import schema
from gsched_sql.attempt_rows import in_slots
from gsched_sql.audit import of_job
from gsched_sql.engine import reading, writing
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.schema import requests, users

_SLOTS_A_READ = 2000


class SqlRequests:
    """Captured requests: a row for each token that a job has had, kept for good."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def latest(self, keys: Sequence[JobKey]) -> Mapping[JobKey, UserRequest]:
        """The last request of each of these jobs that has made one."""
        with reading(self._engine) as conn:
            return _latest(conn, keys)

    def capture(self, captured: Sequence[UserRequest]) -> None:
        """Keep new requests beside the earlier ones; one whose token is its job's last is known."""
        if not captured:
            return
        with writing(self._engine) as conn:
            known = _latest(conn, [request.key for request in captured])
            new = [r for r in captured if r.key not in known or known[r.key].token != r.token]
            clusters = intern(conn, schema.clusters, {r.key.cluster for r in new})
            names = intern(conn, users, {r.user for r in new})
            rows = [_row(r, clusters[r.key.cluster], names[r.user]) for r in new]
            if rows:
                conn.execute(insert(requests), rows)


def list_requests(
    conn: Connection, cluster: str, job: JobId | None, limit: int, with_whole_array: bool
) -> list[UserRequest]:
    """Newest first, of one job (an array's id: of all its tasks) or all.

    `with_whole_array`: of a task also those that were made for its array as a whole.
    """
    known = cluster_id(conn, cluster)
    if known is None:
        return []
    chosen = and_(True, *of_job(requests, job))
    if with_whole_array and job is not None and job.tasks:
        array = part_of(job.job_id, None, None)
        chosen = or_(chosen, in_slots(requests, known, [array]))
    query = (
        _with_user()
        .where(requests.c.cluster_id == known, chosen)
        .order_by(requests.c.first_seen.desc(), requests.c.id.desc())
        .limit(limit)
    )
    return [_request(row, cluster) for row in conn.execute(query)]


def _latest(conn: Connection, keys: Sequence[JobKey]) -> dict[JobKey, UserRequest]:
    by_cluster: dict[str, set[Part]] = {}
    for key in keys:
        part = part_of(key.job_id, key.array_task, key.het_offset)
        by_cluster.setdefault(key.cluster, set()).add(part)
    wanted = set(keys)
    found: dict[JobKey, UserRequest] = {}
    for cluster, parts in by_cluster.items():
        known = cluster_id(conn, cluster)
        if known is None:
            continue
        for some in chunks(sorted(parts), _SLOTS_A_READ):
            query = _with_user().where(in_slots(requests, known, some)).order_by(requests.c.id)
            for row in conn.execute(query):
                request = _request(row, cluster)
                if request.key in wanted:
                    found[request.key] = request
    return found


def _with_user() -> Any:
    return select(requests, users.c.name.label("user")).join(
        users, users.c.id == requests.c.user_id
    )


def _row(request: UserRequest, known: int, user_id: int) -> dict[str, Any]:
    key = request.key
    part = part_of(key.job_id, key.array_task, key.het_offset)
    return {
        "cluster_id": known,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": key.epoch,
        "user_id": user_id,
        "token": request.token,
        "wants": json.dumps(wants_document(request.wants)),
        "unknown": request.unknown,
        "first_seen": request.first_seen,
    }


def _request(row: Row[Any], cluster: str) -> UserRequest:
    task, offset = unpart(row.array_task), unpart(row.het_offset)
    return UserRequest(
        key=JobKey(cluster, row.job_id, task, offset, row.epoch),
        user=row.user,
        token=row.token,
        wants=wants_of(json.loads(row.wants)),
        first_seen=row.first_seen,
        unknown=row.unknown,
    )
