"""The ledger of tenants: what each was given and owed, interval by interval."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, delete, insert, select

from gsched.model.accounts import FairnessEntry
from gsched_sql.engine import reading, writing
from gsched_sql.names import cluster_id, intern
from gsched_sql.schema import clusters, tenants
from gsched_sql.schema import fairness_entries as table

_AMOUNTS = ("length_s", "received_gpu_s", "entitled_gpu_s", "demanded_gpu_s", "borrowed_gpu_s")


class SqlFairness:
    """The ledger in one database. Every call is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, entries: Sequence[FairnessEntry]) -> None:
        """Keep entries; one of the same cluster, tenant and begin replaces the earlier one.

        So the same entries again, after a crash say, change nothing.
        """
        if not entries:
            return
        with writing(self._engine) as conn:
            cluster_ids = intern(conn, clusters, [entry.cluster for entry in entries])
            tenant_ids = intern(conn, tenants, [entry.tenant for entry in entries])
            rows = {}
            for entry in entries:
                key = (cluster_ids[entry.cluster], tenant_ids[entry.tenant], entry.begin_time)
                rows[key] = {name: getattr(entry, name) for name in _AMOUNTS}
            c = table.c
            for cluster, tenant, begin in rows:
                mine = (c.cluster_id == cluster) & (c.tenant_id == tenant)
                conn.execute(delete(table).where(mine, c.begin_time == begin))
            keyed = [
                {"cluster_id": cluster, "tenant_id": tenant, "begin_time": begin, **amounts}
                for (cluster, tenant, begin), amounts in rows.items()
            ]
            conn.execute(insert(table), keyed)

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
