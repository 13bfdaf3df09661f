"""Forecasts of starts, which are kept as predictions, beside what became of their jobs."""

from __future__ import annotations

from sqlalchemy import Connection, and_, case, or_, select

from gsched.model.job import JobState, PredictionKind
from gsched.model.start_forecast import StartForecast
from gsched_sql.names import cluster_id
from gsched_sql.schema import SLOT, attempts, prediction_quantiles, predictions

_INTERVAL = 3  # low, median, high


def start_forecasts(
    conn: Connection, cluster: str, model_id: str, made_since: int, most: int
) -> list[StartForecast]:
    """The newest `most` forecasts by a model since a time, in the order in which they were made.

    Of an attempt that neither waits nor has run (it was cancelled) there is nothing to compare.
    """
    p, a, q = predictions.c, attempts.c, prediction_quantiles.c
    same = and_(*(a[name] == p[name] for name in SLOT), a.submit_time == p.attempt)
    # of a job that was cancelled while it waited Slurm tells its end for a start
    ran = or_(a.end_time.is_(None), a.end_time > a.start_time)
    newest = (
        select(
            *(p.id, p.as_of, case((ran, a.start_time)).label("start_time")),
            *(a.state, a.end_time),
        )
        .select_from(predictions.outerjoin(attempts, same))
        .where(p.cluster_id == cluster_id(conn, cluster), p.kind == PredictionKind.START.value)
        .where(p.model_id == model_id, p.as_of >= made_since)
        .order_by(p.as_of.desc(), p.id.desc())
        .limit(most)
        .subquery()
    )
    query = select(newest, q.value).join(prediction_quantiles, q.prediction_id == newest.c.id)
    rows = conn.execute(query.order_by(newest.c.as_of, newest.c.id, q.position)).all()
    found = []
    for first in range(0, len(rows) - _INTERVAL + 1, _INTERVAL):
        low, median, high = (row.value for row in rows[first : first + _INTERVAL])
        row = rows[first]
        waits = row.end_time is None and row.state in (None, JobState.PENDING.value)
        if row.start_time is not None or waits:
            found.append(StartForecast(row.as_of, median, low, high, row.start_time, waits))
    return found
