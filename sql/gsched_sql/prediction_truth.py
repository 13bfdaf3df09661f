"""Predictions beside what came true, by the queries ``prediction_*`` in ``queries/``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CTE, Connection, and_, case, select

from gsched.model.job import JobState, PredictionKind
from gsched.model.prediction_truth import PredictionTruth
from gsched_sql.named_queries import over
from gsched_sql.schema import SLOT, attempts, predictions

_NO_RUN = (JobState.REVOKED.value, JobState.REQUEUED.value, JobState.UNKNOWN.value)
"""Ends that say nothing of how long the job would have run; training leaves them out as well."""


def prediction_truth(
    conn: Connection, cluster_id: int, made_since: int | None
) -> list[PredictionTruth]:
    """The run times and starts that were predicted (since a time), by kind and model."""
    truth = _truth(cluster_id, made_since)
    medians = {
        (row.kind, row.model_id): float(row.median_error)
        for row in conn.execute(over("prediction_errors", truth))
    }
    coverage: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for row in conn.execute(over("prediction_coverage", truth)):
        share = (row.probability, int(row.covered) / row.known, row.known)
        coverage.setdefault((row.kind, row.model_id), []).append(share)
    return [
        PredictionTruth(
            kind=PredictionKind(row.kind),
            model_id=row.model_id,
            made=row.made,
            known=row.known,
            median_error=medians.get((row.kind, row.model_id)),
            mean_error=None if row.mean_error is None else float(row.mean_error),
            coverage=tuple(coverage.get((row.kind, row.model_id), ())),
        )
        for row in conn.execute(over("prediction_truth", truth))
    ]


def _truth(cluster_id: int, made_since: int | None) -> CTE:
    p, a = predictions.c, attempts.c
    ran = and_(a.end_time.is_not(None), a.state.not_in(_NO_RUN))
    is_duration = p.kind == PredictionKind.DURATION.value
    actual: Any = case(
        (and_(is_duration, ran), a.end_time - a.start_time),
        (p.kind == PredictionKind.START.value, a.start_time),
    )
    same = and_(*(a[name] == p[name] for name in SLOT), a.submit_time == p.attempt)
    query = (
        select(p.id, p.kind, p.model_id, p.mean, actual.label("actual"))
        .select_from(predictions.outerjoin(attempts, same))
        .where(p.cluster_id == cluster_id)
        .where(p.kind.in_([PredictionKind.DURATION.value, PredictionKind.START.value]))
    )
    if made_since is not None:
        query = query.where(p.made_at >= made_since)
    return query.cte("truth")
