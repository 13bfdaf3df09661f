"""Records for tests of the history, and the whole contents of a database as plain rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsched.model.history import AttemptRecord, Batch, Reject, Tres
from gsched.model.job import JobState
from gsched_sql.engine import open_engine, reading

CLUSTER = "alpha"

GPUS = (Tres("cpu", 8), Tres("gres/gpu", 2), Tres("gres/gpu:a100", 2), Tres("mem", 2**36))


def attempt(job_id: int = 7, submit_time: int = 1000, **facts: Any) -> AttemptRecord:
    """A job that ran from 1010 to 1110 on 2 GPUs, as sacct tells it, unless `facts` differ."""
    defaults: dict[str, Any] = {
        "cluster": CLUSTER,
        "array_task": None,
        "het_offset": None,
        "state": JobState.COMPLETED,
        "source": "sacct",
        "user": "alice",
        "tenant": "lab1",
        "partition": "gpu",
        "qos": "normal",
        "name": "train",
        "eligible_time": submit_time,
        "start_time": submit_time + 10,
        "end_time": submit_time + 110,
        "time_limit_s": 3600,
        "num_nodes": 1,
        "num_cpus": 8,
        "num_gpus": 2,
        "allocated": GPUS,
        "node_list": "n1",
        "exit_code": 0,
        "exit_signal": 0,
    }
    merged = defaults | facts
    merged.setdefault("state_text", merged["state"].value)
    return AttemptRecord(job_id=job_id, submit_time=submit_time, **merged)


def pending(job_id: int = 7, submit_time: int = 1000, **facts: Any) -> AttemptRecord:
    """The same job as squeue shows it while it waits."""
    waiting: dict[str, Any] = {
        "state": JobState.PENDING,
        "source": "squeue",
        "start_time": None,
        "end_time": None,
        "allocated": (),
        "requested": (Tres("cpu", 8), Tres("gres/gpu", 2)),
        "node_list": None,
        "exit_code": None,
        "exit_signal": None,
        "restarts": 0,
    }
    return attempt(job_id, submit_time, **(waiting | facts))


def running(job_id: int = 7, submit_time: int = 1000, **facts: Any) -> AttemptRecord:
    """The same job as squeue shows it while it runs."""
    return pending(
        job_id,
        submit_time,
        **(
            {
                "state": JobState.RUNNING,
                "start_time": submit_time + 10,
                "requested": (),
                "allocated": GPUS,
                "node_list": "n1",
            }
            | facts
        ),
    )


def batch(
    *records: AttemptRecord, rejects: Sequence[Reject] = (), skipped: int = 0, cursor: str = ""
) -> Batch:
    """A read that gave these rows."""
    rows_in = len(records) + len(rejects) + skipped
    return Batch(tuple(records), tuple(rejects), rows_in, skipped, cursor)


_ATTEMPTS = """
    SELECT c.name, a.job_id, a.array_task, a.het_offset, a.submit_time, j.epoch, u.name, t.name,
           p.name, q.name, n.name, a.state, a.state_text, a.source, a.eligible_time,
           a.start_time, a.end_time, a.time_limit_s, a.num_nodes, a.num_cpus, a.num_gpus,
           l.name, a.exit_code, a.exit_signal, a.restarts, a.source_id, a.phase, a.extra, a.claim,
           a.claims, r.name, g.name,
           (SELECT group_concat(field || value || claim, ';')
              FROM (SELECT * FROM conflicts WHERE attempt_id = a.id ORDER BY field, value))
      FROM attempts a
      JOIN jobs j ON j.id = a.logical_job
      JOIN clusters c ON c.id = a.cluster_id
      LEFT JOIN users u ON u.id = a.user_id
      LEFT JOIN tenants t ON t.id = a.tenant_id
      LEFT JOIN partitions p ON p.id = a.partition_id
      LEFT JOIN qos q ON q.id = a.qos_id
      LEFT JOIN job_names n ON n.id = a.name_id
      LEFT JOIN node_lists l ON l.id = a.node_list_id
      LEFT JOIN tres_lists r ON r.id = a.requested_id
      LEFT JOIN tres_lists g ON g.id = a.allocated_id
     ORDER BY 1, 2, 3, 4, 5
"""
_JOBS = """
    SELECT c.name, j.job_id, j.array_task, j.het_offset, j.epoch, u.name, t.name, p.name,
           q.name, n.name, j.state, j.state_text, j.start_time, j.end_time, j.time_limit_s,
           j.num_nodes, j.num_cpus, j.num_gpus, j.phase, j.num_attempts, j.queueing_s,
           j.duration_s, j.gpu_time_s, j.cpu_time_s
      FROM jobs j
      JOIN clusters c ON c.id = j.cluster_id
      LEFT JOIN users u ON u.id = j.user_id
      LEFT JOIN tenants t ON t.id = j.tenant_id
      LEFT JOIN partitions p ON p.id = j.partition_id
      LEFT JOIN qos q ON q.id = j.qos_id
      LEFT JOIN job_names n ON n.id = j.name_id
     ORDER BY 1, 2, 3, 4, 5
"""


def dump(path: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """Attempts, jobs and rejects without row numbers, in a fixed order."""
    with sqlite3.connect(path) as conn:
        rejects = conn.execute("SELECT source, reason, raw FROM rejects ORDER BY 1, 2, 3")
        found = (conn.execute(_ATTEMPTS).fetchall(), conn.execute(_JOBS).fetchall())
        result = (*found, rejects.fetchall())
    conn.close()
    return result


def url_of(database: Path | str) -> str:
    """The URL of a database: a file's path, or a URL already."""
    return database if isinstance(database, str) else f"sqlite:///{database}"


def select(database: Path | str, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query gives, by gsched's account."""
    engine = open_engine(url_of(database))
    try:
        with reading(engine) as conn:
            return [tuple(row) for row in conn.exec_driver_sql(query)]
    finally:
        engine.dispose()


def scalar(database: Path | str, query: str) -> Any:
    """The one value that a query gives."""
    return select(database, query)[0][0]
