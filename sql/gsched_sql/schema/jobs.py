"""Jobs, their attempts, and the texts that these refer to."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
)

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import SLOT, names, row_id, slot, table

clusters = names("clusters", "Clusters, and traces imported as clusters.")
users = names("users", "User names.")
tenants = names("tenants", "Tenants: Slurm accounts, virtual clusters of traces.")
partitions = names("partitions", "Partitions, or the list that a pending job names.")
qos = names("qos", "Qualities of service.")
name_groups = names(
    "name_groups", "Job names without what differs from run to run: numbers, dates, hashes."
)
job_names = names(
    "job_names",
    "Job names.",
    Column(
        "group_id",
        RowId,
        ForeignKey("name_groups.id"),
        nullable=False,
        index=True,
        doc="the group of like names",
    ),
)
nodes = names("nodes", "Node names.")
node_lists = names("node_lists", "Lists of nodes as Slurm writes them.")
node_list_members = table(
    "node_list_members",
    "The nodes of each list.",
    Column("node_list_id", RowId, ForeignKey("node_lists.id"), doc="the list"),
    Column("node_id", RowId, ForeignKey("nodes.id"), index=True, doc="a node of it"),
    PrimaryKeyConstraint("node_list_id", "node_id"),
)
tres_lists = names(
    "tres_lists",
    "Lists of trackable resources: name=count,… sorted by name, memory in bytes; %, comma and = in "
    "a name are percent-encoded.",
)
tres_counts = table(
    "tres_counts",
    "The resources of each list.",
    Column("tres_list_id", RowId, ForeignKey("tres_lists.id"), doc="the list"),
    Column("position", Integer, doc="place in the list, from 0"),
    Column("name", KeptText, nullable=False, doc="Slurm's name: cpu, mem, gres/gpu:a100"),
    Column("count", BigInteger, nullable=False, doc="how many; memory in bytes"),
    PrimaryKeyConstraint("tres_list_id", "position"),
)


def _facts() -> tuple[Column[Any], ...]:
    """What both an attempt and the logical job made of attempts say."""
    return (
        Column("user_id", RowId, ForeignKey("users.id"), doc="user"),
        Column("tenant_id", RowId, ForeignKey("tenants.id"), doc="account"),
        Column("partition_id", RowId, ForeignKey("partitions.id"), doc="partition"),
        Column("qos_id", RowId, ForeignKey("qos.id"), doc="QOS"),
        Column("name_id", RowId, ForeignKey("job_names.id"), doc="job name"),
        Column("state", String(32), nullable=False, doc="base state, UNKNOWN for others"),
        Column("state_text", KeptText, doc="as Slurm wrote it; NULL: the same as state"),
        Column("start_time", BigInteger, doc="epoch; NULL: did not start"),
        Column("end_time", BigInteger, doc="epoch; NULL: has not ended, as far as known"),
        Column("time_limit_s", BigInteger, doc="seconds; 2147483647: unlimited"),
        Column("num_nodes", BigInteger, doc="nodes"),
        Column("num_cpus", BigInteger, doc="CPUs"),
        Column("num_gpus", BigInteger, doc="GPUs of all types"),
        Column("phase", String(16), doc="pretrain, eval, sft, debug, other; NULL: unclassified"),
    )


jobs = table(
    "jobs",
    "Logical jobs: all attempts of one submission; derived from `attempts` at every write.",
    row_id(),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time"),
    *_facts(),
    Column("num_attempts", Integer, nullable=False, doc="attempts"),
    Column("queueing_s", BigInteger, doc="first submit to last start, less earlier runs"),
    Column("duration_s", BigInteger, doc="run time of the last attempt"),
    Column("gpu_time_s", BigInteger, doc="GPU-seconds of all attempts"),
    Column("cpu_time_s", BigInteger, doc="CPU-seconds allocated to all attempts"),
    UniqueConstraint(*SLOT, "epoch", name="uq_jobs_key"),
    Index("ix_jobs_end_time", "cluster_id", "end_time"),
    Index("ix_jobs_epoch", "epoch"),
    Index("ix_jobs_user", "user_id", "epoch"),
    Index("ix_jobs_user_end", "user_id", "end_time"),
)

attempts = table(
    "attempts",
    "One run, or wait, of a job: Slurm gives each a new submit time.",
    row_id(),
    Column("logical_job", RowId, ForeignKey("jobs.id"), nullable=False, index=True, doc="the job"),
    *slot(),
    Column("submit_time", BigInteger, nullable=False, doc="epoch"),
    *_facts(),
    Column(
        "source",
        String(64),
        nullable=False,
        doc="who told its state: sacct, jobcomp, squeue, a format",
    ),
    Column("source_id", KeptText, doc="id in a source whose ids are no numbers"),
    Column("eligible_time", BigInteger, doc="epoch"),
    Column("node_list_id", RowId, ForeignKey("node_lists.id"), doc="where it ran"),
    Column("requested_id", RowId, ForeignKey("tres_lists.id"), doc="resources asked for"),
    Column("allocated_id", RowId, ForeignKey("tres_lists.id"), doc="resources given"),
    Column("exit_code", BigInteger, doc="exit code"),
    Column("exit_signal", BigInteger, doc="signal that ended it"),
    Column("restarts", BigInteger, doc="Slurm's restart count when it was seen"),
    Column("start_assumed", BigInteger, doc="1: no start was told, submit stands for it"),
    Column("extra", KeptText, doc="JSON: columns of the source that have no place here"),
    Column("claim", BigInteger, nullable=False, doc="strength of what was told, see merge"),
    Column("claims", KeptText, doc="JSON: fields with a weaker claim; NULL: none"),
    UniqueConstraint(*SLOT, "submit_time", name="uq_attempts_key"),
)

conflicts = table(
    "conflicts",
    "What equally good sources told otherwise than what is kept.",
    Column("attempt_id", RowId, ForeignKey("attempts.id", ondelete="CASCADE"), doc="attempt"),
    Column("field", String(32), doc="column"),
    Column("value_digest", String(64), doc="SHA-256 key of value"),
    Column("value", KeptText, nullable=False, doc="JSON: the value not kept"),
    Column("claim", BigInteger, nullable=False, doc="its strength, that of the kept one"),
    PrimaryKeyConstraint("attempt_id", "field", "value_digest"),
)

steps = table(
    "steps",
    "Job steps, where the site keeps them.",
    Column("attempt_id", RowId, ForeignKey("attempts.id", ondelete="CASCADE"), doc="attempt"),
    Column("step", String(32), doc="batch, extern, interactive, or a number (het: 0+1)"),
    Column("name", KeptText, doc="step name"),
    Column("state", String(32), nullable=False, doc="base state"),
    Column("start_time", BigInteger, doc="epoch"),
    Column("end_time", BigInteger, doc="epoch"),
    Column("exit_code", BigInteger, doc="exit code"),
    Column("exit_signal", BigInteger, doc="signal that ended it"),
    Column("num_nodes", BigInteger, doc="nodes"),
    Column("num_cpus", BigInteger, doc="CPUs"),
    Column("num_tasks", BigInteger, doc="tasks"),
    Column("cpu_time_s", Double, doc="CPU-seconds used (user and system)"),
    Column("max_rss_bytes", BigInteger, doc="largest resident set of one task"),
    Column("rss_bytes", BigInteger, doc="sum of all tasks' largest resident sets"),
    Column("gpu_utilization_pct", Double, doc="mean GPU utilisation, where Slurm gathers it"),
    Column("gpu_mem_bytes", BigInteger, doc="largest GPU memory of one task, where gathered"),
    PrimaryKeyConstraint("attempt_id", "step"),
)

usage_days = table(
    "usage_days",
    "What pruned jobs leave: sums by day of their end. Ids are 0 where not known.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), doc="cluster"),
    Column("day", BigInteger, doc="epoch of the UTC midnight before the end"),
    Column("user_id", RowId, doc="user"),
    Column("tenant_id", RowId, doc="account"),
    Column("partition_id", RowId, doc="partition"),
    Column("state", String(32), doc="last state"),
    Column("phase", String(16), doc="phase, empty: unclassified"),
    Column("num_gpus", BigInteger, doc="GPUs of each job, -1: not known"),
    Column("jobs", BigInteger, nullable=False, doc="logical jobs"),
    Column("attempts", BigInteger, nullable=False, doc="their attempts"),
    Column("gpu_time_jobs", BigInteger, nullable=False, doc="jobs whose GPU-time is known"),
    Column("gpu_time_s", BigInteger, nullable=False, doc="their GPU-seconds"),
    Column("cpu_time_jobs", BigInteger, nullable=False, doc="jobs whose CPU-time is known"),
    Column("cpu_time_s", BigInteger, nullable=False, doc="their CPU-seconds"),
    Column("duration_jobs", BigInteger, nullable=False, doc="jobs whose run time is known"),
    Column("duration_s", BigInteger, nullable=False, doc="their run seconds"),
    Column("queueing_jobs", BigInteger, nullable=False, doc="jobs whose queueing is known"),
    Column("queueing_s", BigInteger, nullable=False, doc="their queueing seconds"),
    PrimaryKeyConstraint(
        "cluster_id", "day", "user_id", "tenant_id", "partition_id", "state", "phase", "num_gpus"
    ),
)

prune_marks = table(
    "prune_marks",
    "Up to when jobs have been pruned: what ended before is not taken in again.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), primary_key=True, doc="cluster"),
    Column("ended_before", BigInteger, nullable=False, doc="epoch"),
)

derivations = table(
    "derivations",
    "By which rules derived columns were filled, to see when they are out of date.",
    Column("name", String(64), primary_key=True, doc="what was derived: phase, name_groups"),
    Column("digest", String(64), nullable=False, doc="SHA-256 of the rules"),
)
