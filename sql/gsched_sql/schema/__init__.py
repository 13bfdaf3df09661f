"""The tables of the job history, portable to SQLite, PostgreSQL and MariaDB.

Times are UTC epoch seconds, durations seconds, memory bytes. `array_task` and `het_offset` hold
-1 (NO_PART of ``gsched.model.merge``) where a job has none, because NULLs would defeat the unique
keys. (cluster, job_id, array_task, het_offset) is a *slot*: the place in Slurm that one id names.
Slots are used again after an id wraps around; (slot, epoch) is a logical job, (slot, submit_time)
an attempt.

Long tables hold numbers; texts that come again (names, partitions, node lists) are rows of small
tables, each text once.

A change here needs a new revision in ``migrations/versions`` and in REVISION.
"""

from gsched_sql.schema.base import SLOT, metadata
from gsched_sql.schema.cluster import node_events, sample_blocks, series
from gsched_sql.schema.daemon import (
    actions,
    audit_events,
    daemon_spans,
    fits,
    ingest_cursors,
    leaders,
    policy_memory,
    prediction_quantiles,
    predictions,
    rejects,
    requests,
    rounds,
    standings,
)
from gsched_sql.schema.fairness import (
    fairness_entries,
    fairness_quotas,
    fairness_weights,
    lease_events,
    leases,
)
from gsched_sql.schema.jobs import (
    attempts,
    clusters,
    conflicts,
    derivations,
    job_names,
    jobs,
    name_groups,
    node_list_members,
    node_lists,
    nodes,
    partitions,
    prune_marks,
    qos,
    steps,
    tenants,
    tres_counts,
    tres_lists,
    usage_days,
    users,
)
from gsched_sql.schema.power import (
    node_orders,
    node_pools,
    pool_counts,
    power_jobs,
    power_memory,
    power_spans,
    wake_delays,
)
from gsched_sql.schema.targets import target_events, target_runs, targets

__all__ = [
    "REVISION",
    "SLOT",
    "actions",
    "attempts",
    "audit_events",
    "clusters",
    "conflicts",
    "daemon_spans",
    "derivations",
    "fairness_entries",
    "fairness_quotas",
    "fairness_weights",
    "fits",
    "ingest_cursors",
    "job_names",
    "jobs",
    "leaders",
    "lease_events",
    "leases",
    "metadata",
    "name_groups",
    "node_events",
    "node_list_members",
    "node_lists",
    "node_orders",
    "node_pools",
    "nodes",
    "partitions",
    "policy_memory",
    "pool_counts",
    "power_jobs",
    "power_memory",
    "power_spans",
    "prediction_quantiles",
    "predictions",
    "prune_marks",
    "qos",
    "rejects",
    "requests",
    "rounds",
    "sample_blocks",
    "series",
    "standings",
    "steps",
    "target_events",
    "target_runs",
    "targets",
    "tenants",
    "tres_counts",
    "tres_lists",
    "usage_days",
    "users",
    "wake_delays",
]

REVISION = "0008"
"""The alembic revision that these tables are."""
