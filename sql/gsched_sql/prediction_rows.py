"""Rows of `predictions` and `prediction_quantiles`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from gsched.model.job import JobKey, Prediction
from gsched.model.merge import Part, part_of
from gsched_sql import schema
from gsched_sql.attempt_rows import in_slots
from gsched_sql.names import chunks, intern
from gsched_sql.schema import prediction_quantiles
from gsched_sql.schema import predictions as table

_SLOTS_A_READ = 2000


def keep(conn: Connection, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int) -> None:
    """Insert what is new: one prediction an attempt, kind and model, the first one."""
    cluster_ids = intern(conn, schema.clusters, {key.cluster for key, _, _ in predictions})
    rows: dict[tuple[Any, ...], tuple[dict[str, Any], Prediction]] = {}
    for key, attempt, prediction in predictions:
        row = _row(key, cluster_ids[key.cluster], attempt, prediction, at)
        rows.setdefault(_identity(row), (row, prediction))
    for known in _stored(conn, [row for row, _ in rows.values()]):
        rows.pop(known, None)
    if not rows:
        return
    conn.execute(insert(table), [row for row, _ in rows.values()])
    spread = {known: p.quantiles for known, (_, p) in rows.items() if p.quantiles}
    if not spread:
        return
    # Read back: an INSERT that returns its numbers in order goes row by row on SQLite.
    ids = _stored(conn, [rows[known][0] for known in spread])
    quantiles = [
        {"prediction_id": ids[known], "position": n, "probability": probability, "value": value}
        for known, pairs in spread.items()
        for n, (probability, value) in enumerate(pairs)
    ]
    conn.execute(insert(prediction_quantiles), quantiles)


def _stored(conn: Connection, rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """Identity → number of what is stored of the jobs of `rows`."""
    by_cluster: dict[int, set[Part]] = {}
    for row in rows:
        part = Part(row["job_id"], row["array_task"], row["het_offset"])
        by_cluster.setdefault(row["cluster_id"], set()).add(part)
    stored = {}
    for cluster_id, parts in by_cluster.items():
        for some in chunks(sorted(parts), _SLOTS_A_READ):
            for found in conn.execute(select(table).where(in_slots(table, cluster_id, some))):
                stored[_identity(found._mapping)] = found.id
    return stored


def _identity(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*schema.SLOT, "attempt", "kind", "model_id"))


def _row(
    key: JobKey, cluster_id: int, attempt: int, prediction: Prediction, at: int
) -> dict[str, Any]:
    part = part_of(key.job_id, key.array_task, key.het_offset)
    return {
        "cluster_id": cluster_id,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": key.epoch,
        "attempt": attempt,
        "kind": prediction.kind.value,
        "model_id": prediction.model_id,
        "mean": prediction.mean,
        "source": prediction.source,
        "similar_jobs": prediction.similar_jobs,
        "as_of": prediction.as_of,
        "made_at": at,
    }
