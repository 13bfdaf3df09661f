"""The ledger of tenants: what each was given and owed, hour by hour, and by which quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, delete, func, insert, select

from gsched.model.accounts import FairnessEntry, QuotaChange, SiteQuotas, WeightChange
from gsched.model.gpu_use import GpuUse
from gsched_sql import gpu_use_rows
from gsched_sql.engine import reading, writing
from gsched_sql.inserts import insert_rows
from gsched_sql.leaders import check_fence
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.prune import marks
from gsched_sql.schema import (
    clusters,
    fairness_quotas,
    fairness_weights,
    ingest_cursors,
    tenants,
)
from gsched_sql.schema import fairness_entries as table

_AMOUNTS = (
    "length_s",
    "received_gpu_s",
    "entitled_gpu_s",
    "demanded_gpu_s",
    "borrowed_gpu_s",
    "due_gpu_s",
)


class SqlFairness:
    """The ledger in one database. Every call is a transaction of its own.

    With a `fence` every writing call raises LostLeadershipError, and keeps nothing, once another
    daemon has taken over (see ``gsched_sql.leaders``).
    """

    def __init__(self, engine: Engine, fence: int | None = None) -> None:
        self._engine = engine
        self._fence = fence

    def keep(self, entries: Sequence[FairnessEntry]) -> None:
        """Keep entries; one of the same cluster, tenant and begin replaces the earlier one.

        So the same entries again, after a crash say, change nothing.
        """
        if not entries:
            return
        with writing(self._engine) as conn:
            cluster_ids = intern(conn, clusters, [entry.cluster for entry in entries])
            for number in cluster_ids.values():
                check_fence(conn, number, self._fence)
            rows = _rows(conn, cluster_ids, entries)
            c = table.c
            for row in rows:
                mine = (c.cluster_id == row["cluster_id"]) & (c.tenant_id == row["tenant_id"])
                conn.execute(delete(table).where(mine, c.begin_time == row["begin_time"]))
            conn.execute(insert(table), rows)

    def close(self, cluster: str, begin: int, entries: Sequence[FairnessEntry]) -> None:
        """Keep the entries of a cluster from `begin` on; whatever was kept of later goes.

        So hours that are closed again, after a crash say or because more has become known, are
        there once, and none is left that a clock has closed which was ahead. Whoever calls sees to
        it that all from `begin` on can be made again.
        """
        with writing(self._engine) as conn:
            numbers = intern(conn, clusters, [cluster])
            check_fence(conn, numbers[cluster], self._fence)
            c = table.c
            mine = (c.cluster_id == numbers[cluster]) & (c.begin_time >= begin)
            conn.execute(delete(table).where(mine))
            rows = _rows(conn, numbers, entries)
            if rows:
                insert_rows(conn, table, list(rows[0]), [tuple(row.values()) for row in rows])

    def closed_until(self, cluster: str) -> int | None:
        """When (epoch) the last entry of a cluster ends; None where there is none."""
        c = table.c
        with reading(self._engine) as conn:
            ends = select(c.begin_time + c.length_s).order_by(c.begin_time.desc()).limit(1)
            found = conn.execute(ends.where(c.cluster_id == cluster_id(conn, cluster))).scalar()
        return None if found is None else int(found)

    def closed_since(self, cluster: str) -> int | None:
        """When (epoch) the first entry of a cluster begins; None where there is none."""
        first = select(func.min(table.c.begin_time))
        with reading(self._engine) as conn:
            mine = table.c.cluster_id == cluster_id(conn, cluster)
            found = conn.execute(first.where(mine)).scalar()
        return None if found is None else int(found)

    def read(self, cluster: str, since: int, until: int) -> list[FairnessEntry]:
        """Entries whose time begins in [since, until), by begin and tenant."""
        c = table.c
        with reading(self._engine) as conn:
            query = (
                select(table, tenants.c.name.label("tenant"))
                .join(tenants, tenants.c.id == c.tenant_id)
                .where(c.cluster_id == cluster_id(conn, cluster))
                .where(c.begin_time >= since, c.begin_time < until)
            )
            found = [
                FairnessEntry(
                    cluster, row.tenant, row.begin_time, **{n: getattr(row, n) for n in _AMOUNTS}
                )
                for row in conn.execute(query)
            ]
        return sorted(found, key=lambda entry: (entry.begin_time, entry.tenant))

    def gpu_use(self, cluster: str, since: int, until: int) -> GpuUse:
        """Attempts that may have asked for GPUs in part of [since, until), by column."""
        with reading(self._engine) as conn:
            return gpu_use_rows.between(conn, cluster, since, until)

    def told_until(self, cluster: str) -> int | None:
        """Until when (epoch) slurmdbd has told all that ended; None: it is not what tells of it."""
        c, told, otherwise = ingest_cursors.c, None, 0
        with reading(self._engine) as conn:
            for row in conn.execute(select(c.source_key, c.cursor, c.updated_at)):
                if row.source_key == f"sacct:{cluster}" and row.cursor.isdecimal():
                    told = int(row.cursor)
                elif row.source_key.startswith(f"jobcomp:{cluster}:"):
                    otherwise = max(otherwise, row.updated_at or 0)
        return None if told is None or otherwise > told else told

    def first_epoch(self, cluster: str) -> int | None:
        """When (epoch) the first job of a cluster was submitted that is kept; None: there is none.

        Jobs that were pruned are not counted: hours before the mark cannot be closed any more.
        """
        with reading(self._engine) as conn:
            return gpu_use_rows.first_epoch(conn, cluster)

    def pruned_before(self, cluster: str) -> int | None:
        """Jobs of a cluster that ended before that time (epoch) are gone; None: none are."""
        with reading(self._engine) as conn:
            return marks(conn).get(cluster_id(conn, cluster) or 0)

    def first_asked_by_tasks(self, cluster: str, since: int) -> int | None:
        """The first submit time of tasks of arrays that have started since then; None: of none.

        Before a task starts, or ends without, the history knows nothing of it.
        """
        with reading(self._engine) as conn:
            return gpu_use_rows.first_asked_by_tasks(conn, cluster, since)

    def active_tenants(self, cluster: str, since: int) -> frozenset[str]:
        """Tenants with jobs that asked for GPUs and waited or ran at some time since then."""
        with reading(self._engine) as conn:
            return gpu_use_rows.active_tenants(conn, cluster, since)

    def note(self, cluster: str, at: int, site: SiteQuotas) -> bool:
        """Keep that these are the quotas and worths of GPUs from `at` (epoch) on.

        What has not changed is left as it stands: the same again changes nothing. Who is not named
        any more has no quota from then on, a type of GPUs is worth 1 again. What was noted of a
        later time stays: whether that clock was ahead or this one is behind, nobody can tell, and
        once its time has come the next call puts it right. Returns whether anything was written.
        """
        with writing(self._engine) as conn:
            number = intern(conn, clusters, [cluster])[cluster]
            check_fence(conn, number, self._fence)
            ids = intern(conn, tenants, site.gpus)
            wanted = {ids[name]: (gpus, site.source) for name, gpus in site.gpus.items()}
            of_quotas = _note(
                conn, fairness_quotas, fairness_quotas.c.tenant_id, number, at,
                wanted, (0.0, site.source),
            )  # fmt: skip
            worths = {name: (weight,) for name, weight in site.gpu_weights.items()}
            of_weights = _note(
                conn, fairness_weights, fairness_weights.c.gpu_type, number, at, worths, (1.0,)
            )
        return of_quotas or of_weights

    def quotas(self, cluster: str) -> list[QuotaChange]:
        """All that was noted of the quotas of a cluster, by time and tenant."""
        c = fairness_quotas.c
        with reading(self._engine) as conn:
            query = (
                select(tenants.c.name, c.since_time, c.num_gpus, c.source)
                .join(tenants, tenants.c.id == c.tenant_id)
                .where(c.cluster_id == cluster_id(conn, cluster))
            )
            found = [QuotaChange(*row) for row in conn.execute(query)]
        return sorted(found, key=lambda change: (change.since_time, change.tenant))

    def weights(self, cluster: str) -> list[WeightChange]:
        """All that was noted of what GPUs are worth, by time and type."""
        c = fairness_weights.c
        with reading(self._engine) as conn:
            query = select(c.gpu_type, c.since_time, c.weight)
            mine = c.cluster_id == cluster_id(conn, cluster)
            found = [WeightChange(*row) for row in conn.execute(query.where(mine))]
        return sorted(found, key=lambda change: (change.since_time, change.gpu_type))


def _rows(
    conn: Connection, cluster_ids: Mapping[str, int], entries: Sequence[FairnessEntry]
) -> list[dict[str, Any]]:
    """Of two entries of the same time and tenant the later in the list."""
    tenant_ids = intern(conn, tenants, [entry.tenant for entry in entries])
    rows = {}
    for entry in entries:
        key = (cluster_ids[entry.cluster], tenant_ids[entry.tenant], entry.begin_time)
        named = dict(zip(("cluster_id", "tenant_id", "begin_time"), key, strict=True))
        rows[key] = named | {name: getattr(entry, name) for name in _AMOUNTS}
    return list(rows.values())


def _note(
    conn: Connection,
    kept: Table,
    name: Column[Any],
    cluster: int,
    at: int,
    wanted: Mapping[Any, tuple[Any, ...]],
    gone: tuple[Any, ...],
) -> bool:
    """Rows of what differs from what stands at `at`, by the column `name`; whether there are any.

    `gone` is what holds of a name that stands and is not `wanted`.
    """
    mine, since = kept.c.cluster_id == cluster, kept.c.since_time
    values = [column for column in kept.c if not column.primary_key]
    standing: dict[Any, tuple[Any, ...]] = {}
    for row in conn.execute(select(name, *values).where(mine, since <= at).order_by(since)):
        standing[row[0]] = tuple(row[1:])
    changed = {key: told for key, told in wanted.items() if standing.get(key) != told}
    for key, found in standing.items():
        if key not in wanted and found[0] != gone[0]:
            changed[key] = gone
    for some in chunks(list(changed)):
        conn.execute(delete(kept).where(mine, since == at, name.in_(some)))
    columns = ["cluster_id", name.name, "since_time", *(column.name for column in values)]
    if changed:
        insert_rows(conn, kept, columns, [(cluster, key, at, *changed[key]) for key in changed])
    return bool(changed)
