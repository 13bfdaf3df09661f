"""Fits of the run-time model: every one is recorded, also those that were not put in use."""

from __future__ import annotations

import json

from sqlalchemy import Engine, insert, select, update

from gsched.model.fit import Fit, FitOutcome
from gsched_sql import schema
from gsched_sql.engine import reading, writing
from gsched_sql.names import cluster_id, intern
from gsched_sql.schema import fits

_ADOPTING = FitOutcome.ADOPTING.value


class SqlFits:
    """The fits of one cluster. Every call is a transaction of its own."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine = engine
        self._cluster = cluster

    def record(self, fit: Fit) -> int:
        """Keep a fit; returns its row, for `settle`."""
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [self._cluster])[self._cluster]
            row = {
                "cluster_id": cluster,
                "model_id": fit.model_id,
                "fitted_at": fit.fitted_at,
                "took_s": fit.took_s,
                "started_by": fit.started_by,
                "as_of": fit.as_of,
                "data_from": fit.data_from,
                "data_until": fit.data_until,
                "num_jobs": fit.num_jobs,
                "features": json.dumps(fit.features),
                "details": json.dumps(dict(fit.details), allow_nan=False),
                "outcome": fit.outcome.value,
                "why": fit.why,
            }
            made = conn.execute(insert(fits).values(row)).inserted_primary_key
        return int(made[0]) if made else 0

    def settle(self, row: int, outcome: FitOutcome, why: str) -> None:
        """Say what became of the fit in `row`."""
        with writing(self._engine) as conn:
            settled = {"outcome": outcome.value, "why": why}
            conn.execute(update(fits).where(fits.c.id == row).values(settled))

    def settle_interrupted(self, in_use: str) -> None:
        """Settle fits whose process was killed while their model was put in use: that of the model
        `in_use` was adopted, all others were not. Nobody may be putting one in use now.
        """
        c = fits.c
        with writing(self._engine) as conn:
            open_fits = (c.cluster_id == cluster_id(conn, self._cluster)) & (c.outcome == _ADOPTING)
            why = "its process was killed"
            for outcome, which in (
                (FitOutcome.ADOPTED, c.model_id == in_use),
                (FitOutcome.INTERRUPTED, c.model_id != in_use),
            ):
                settled = {"outcome": outcome.value, "why": why}
                conn.execute(update(fits).where(open_fits, which).values(settled))

    def newest(self, limit: int) -> list[Fit]:
        """The last fits, newest first."""
        c = fits.c
        with reading(self._engine) as conn:
            query = select(fits).where(c.cluster_id == cluster_id(conn, self._cluster))
            rows = conn.execute(query.order_by(c.id.desc()).limit(limit)).all()
        return [
            Fit(
                cluster=self._cluster,
                model_id=row.model_id,
                fitted_at=row.fitted_at,
                took_s=row.took_s,
                started_by=row.started_by,
                as_of=row.as_of,
                data_from=row.data_from,
                data_until=row.data_until,
                num_jobs=row.num_jobs,
                features=tuple(json.loads(row.features)),
                details=json.loads(row.details),
                outcome=FitOutcome(row.outcome),
                why=row.why,
            )
            for row in rows
        ]
