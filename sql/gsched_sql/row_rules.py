"""Which rows of each table a reader on a server may see: what Slurm's PrivateData would leave.

A rule is an SQL condition. {me} stands for the row of `users` of whoever asks, {my_digest} for its
key there, {schema} for what stands before a table's name. A reader sees jobs of his own with all
that belongs to them, and of the tables of texts what his own jobs name: no other user's name,
account or job name.

The conditions lead from `jobs` to what belongs to them by the indexes that there are.
"""
# ruff: noqa: S608 - nothing from outside is in these texts

from __future__ import annotations

from collections.abc import Mapping

_ALL = "1 = 1"
_NONE = "1 = 0"
_JOB = ("cluster_id", "job_id", "array_task", "het_offset", "epoch")
_OF_OWN_JOB = (
    f"({', '.join(_JOB)}) IN "
    f"(SELECT {', '.join(f'j.{name}' for name in _JOB)} FROM {{schema}}jobs j "
    "WHERE j.user_id = {me})"
)


def _own_jobs(column: str) -> str:
    return f"(SELECT j.{column} FROM {{schema}}jobs j WHERE j.user_id = {{me}})"


def _own_attempts(column: str) -> str:
    return (
        f"(SELECT a.{column} FROM {{schema}}jobs j "
        "JOIN {schema}attempts a ON a.logical_job = j.id "
        "WHERE j.user_id = {me} AND a.user_id = {me})"
    )


def _own_usage(column: str) -> str:
    return f"(SELECT d.{column} FROM {{schema}}usage_days d WHERE d.user_id = {{me}})"


def _of_own_jobs(table: str, column: str) -> str:
    same = " AND ".join(f"x.{name} = j.{name}" for name in _JOB)
    return (
        f"(SELECT x.{column} FROM {{schema}}jobs j JOIN {{schema}}{table} x ON {same} "
        "WHERE j.user_id = {me})"
    )


_OWN_TARGETS = "(SELECT t.id FROM {schema}targets t WHERE t.user_id = {me})"

_OF_OWN_ATTEMPT = (
    "(cluster_id, job_id, array_task, het_offset, submit_time) IN "
    "(SELECT a.cluster_id, a.job_id, a.array_task, a.het_offset, a.submit_time "
    "FROM {schema}jobs j JOIN {schema}attempts a ON a.logical_job = j.id "
    "WHERE j.user_id = {me} AND a.user_id = {me})"
)


def _in_any(column: str, *lists: str) -> str:
    return " OR ".join(f"{column} IN {some}" for some in lists)


_RULES: Mapping[str, str] = {
    "alembic_version": _ALL,
    "clusters": _ALL,
    "derivations": _ALL,
    "node_events": _ALL,  # sinfo tells them to everybody
    "nodes": _ALL,
    "prune_marks": _ALL,
    "rounds": _ALL,  # counts, as the daemon's public status has them
    "daemon_spans": _ALL,
    "fits": _ALL,  # counts and scores, of no job
    "leaders": _ALL,  # leader.json tells them to everybody
    "node_pools": _ALL,  # nodes and their states are sinfo's to everybody
    "node_orders": _ALL,
    "power_spans": _ALL,
    "pool_counts": _ALL,
    "power_jobs": (  # of all tasks of an array: they are one user's
        "(cluster_id, job_id) IN "
        "(SELECT j.cluster_id, j.job_id FROM {schema}jobs j WHERE j.user_id = {me})"
    ),
    "wake_delays": _OF_OWN_ATTEMPT,
    "users": "name_digest = {my_digest}",
    "jobs": "user_id = {me}",
    "attempts": "user_id = {me}",
    "conflicts": f"attempt_id IN {_own_attempts('id')}",
    "steps": f"attempt_id IN {_own_attempts('id')}",
    "usage_days": "user_id = {me}",
    "name_groups": (
        "id IN (SELECT n.group_id FROM {schema}job_names n "
        f"WHERE n.id IN {_own_attempts('name_id')})"
    ),
    "node_lists": f"id IN {_own_attempts('node_list_id')}",
    "node_list_members": f"node_list_id IN {_own_attempts('node_list_id')}",
    "tres_lists": _in_any("id", _own_attempts("allocated_id"), _own_attempts("requested_id")),
    "tres_counts": _in_any(
        "tres_list_id", _own_attempts("allocated_id"), _own_attempts("requested_id")
    ),
    "predictions": _OF_OWN_JOB,
    "prediction_quantiles": f"prediction_id IN {_of_own_jobs('predictions', 'id')}",
    "actions": _OF_OWN_JOB,
    "audit_events": f"change_id IN {_of_own_jobs('actions', 'change_id')}",
    "standings": _OF_OWN_JOB,
    "requests": "user_id = {me}",
    "leases": _OF_OWN_JOB,
    "lease_events": f"lease_row IN {_of_own_jobs('leases', 'id')}",
    "targets": "user_id = {me}",
    "target_runs": f"target_row IN {_OWN_TARGETS}",
    "target_events": f"target_row IN {_OWN_TARGETS}",
    "fairness_entries": _in_any("tenant_id", _own_jobs("tenant_id"), _own_usage("tenant_id")),
    "fairness_quotas": _in_any("tenant_id", _own_jobs("tenant_id"), _own_usage("tenant_id")),
    "fairness_weights": _ALL,  # worths of types of GPUs, of no job
    "ingest_cursors": _NONE,
    "policy_memory": _NONE,
    "power_memory": _NONE,
    "rejects": _NONE,  # rows of anybody, as they came
    "sample_blocks": _NONE,  # they are of nodes, whoever used them
    "series": _NONE,
}

_TEXTS = {
    "tenants": "tenant_id",
    "partitions": "partition_id",
    "qos": "qos_id",
    "job_names": "name_id",
}
_IN_USAGE = ("tenant_id", "partition_id")


def rules(engine: str) -> Mapping[str, str]:
    """Table → condition, for ``postgresql`` or ``mariadb``. Every table has one: a test compares.

    PostgreSQL looks a row up and then asks the lists one by one: what is in the short list of own
    jobs is in no need of the long one of attempts. MariaDB gathers all rows of a view: by way of
    the index where the rule is a single list, or else by reading the whole table.
    """
    found = dict(_RULES)
    for table, column in _TEXTS.items():
        lists = [_own_attempts(column)]
        if engine == "postgresql":
            lists.insert(0, _own_jobs(column))
        if column in _IN_USAGE:
            lists.append(_own_usage(column))
        found[table] = _in_any("id", *lists)
    if engine == "mariadb":
        found["attempts"] += f" AND logical_job IN {_own_jobs('id')}"
    return found
