"""Output of sacct(1) → attempts of jobs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.history import AttemptRecord, Batch, Reject, Tres
from gsched.model.jobid import parse_job_id
from gsched.model.units import (
    UNSET,
    count_gres,
    parse_count,
    parse_tres,
    tres_gres,
)
from gsched.slurm.accounting import EVERY_JOB
from gsched.slurm.fields import parse_time, split_records, time_limit
from gsched.slurm.records import AccountingFilter
from gsched.slurm.states import parse_state

FIELDS = (
    "JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "QOS", "JobName", "State",
    "Submit", "Eligible", "Start", "End", "Timelimit", "NNodes", "NCPUS", "ReqTRES", "AllocTRES",
    "ExitCode", "NodeList",
)  # fmt: skip
_STATES = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"


def sacct_argv(
    since: int, until: int, separator: str, chosen: AccountingFilter = EVERY_JOB
) -> list[str]:
    """The sacct command for the jobs of a window (epoch), with all their attempts.

    ``-D`` gives the attempts before a requeue, ``-X`` leaves the steps out. The states are named
    because sacct else leaves out what was cancelled before it became eligible. Of other users' jobs
    an ordinary user sees what PrivateData lets through.
    """
    return [
        "sacct", "--local", "-D", "-X", "-n", "-p", "--noconvert",
        f"--delimiter={separator}", "-S", _utc(since), "-E", _utc(until),
        *_chosen(chosen), "-o", ",".join(FIELDS),
    ]  # fmt: skip


def _chosen(chosen: AccountingFilter) -> list[str]:
    options = [f"--user={','.join(chosen.users)}"] if chosen.users else ["-a"]
    options += [f"--state={','.join(chosen.states) or _STATES}"]
    for name, words in (
        ("accounts", chosen.accounts),
        ("partition", chosen.partitions),
        ("jobs", chosen.job_ids),
        # sacct takes names apart at commas: those that have one are looked for in its answer
        ("name", () if any("," in name for name in chosen.names) else chosen.names),
    ):
        if words:
            options.append(f"--{name}={','.join(words)}")
    return options


def with_names(batch: Batch, names: Collection[str]) -> Batch:
    """`batch` without the jobs of other names; all of it where no name is asked for."""
    if not names:
        return batch
    records = tuple(record for record in batch.records if record.name in names)
    rows_in = batch.rows_in - len(batch.records) + len(records)
    return replace(batch, records=records, rows_in=rows_in)


def _utc(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_sacct(text: str, separator: str, *, counts_gpus: bool) -> Batch:
    """The attempts in the output of `sacct_argv`.

    `counts_gpus`: the cluster accounts for gres/gpu, so that a job without it has none; else
    `num_gpus` is None. Steps and arrays that still wait as a whole are skipped and counted; a row
    that cannot be understood is a reject.
    """
    records: list[AttemptRecord] = []
    rejects: list[Reject] = []
    rows_in = skipped = 0
    for fields in split_records(text, separator, len(FIELDS)):
        rows_in += 1
        try:
            if len(fields) != len(FIELDS):
                raise DataError(f"row has {len(fields)} fields instead of {len(FIELDS)}")
            record = _attempt(dict(zip(FIELDS, fields, strict=True)), counts_gpus)
        except (DataError, ValueError) as error:
            rejects.append(Reject("sacct", rows_in, str(error), "|".join(fields)))
            continue
        if record is None:
            skipped += 1
        else:
            records.append(record)
    return Batch(tuple(records), tuple(rejects), rows_in, skipped)


def _attempt(row: Mapping[str, str], counts_gpus: bool) -> AttemptRecord | None:
    job = parse_job_id(row["JobID"])
    if job.step or job.array_tasks is not None:
        return None
    submit_time = parse_time(row["Submit"])
    if submit_time is None:
        raise DataError("no submit time")
    requested, allocated = parse_tres(row["ReqTRES"]), parse_tres(row["AllocTRES"])
    state = parse_state(row["State"])[0]
    node_list = None if row["NodeList"] == "None assigned" else row["NodeList"] or None
    never_started = state.is_terminal and node_list is None
    num_gpus, _ = count_gres(tres_gres(allocated or requested), "gpu")
    code, signal = parse_exit_code(row["ExitCode"])
    return AttemptRecord(
        cluster=row["Cluster"],
        job_id=job.job_id,
        array_task=job.array_task,
        het_offset=job.het_offset,
        submit_time=submit_time,
        state=state,
        state_text=row["State"],
        source="sacct",
        user=row["User"] or None,
        tenant=row["Account"] or None,
        partition=row["Partition"] or None,
        qos=row["QOS"] or None,
        name=row["JobName"],
        eligible_time=parse_time(row["Eligible"]),
        start_time=None if never_started else parse_time(row["Start"]),
        end_time=parse_time(row["End"]),
        time_limit_s=time_limit(row["Timelimit"]),
        num_nodes=_count(row["NNodes"]),
        # 24.11 on counts no CPUs for a job that never started, 22.05 those that it asked for
        num_cpus=requested.get("cpu") if row["NCPUS"] == "0" else _count(row["NCPUS"]),
        num_gpus=num_gpus if counts_gpus else None,
        requested=tres_tuple(requested),
        allocated=tres_tuple(allocated),
        node_list=node_list,
        exit_code=code,
        exit_signal=signal,
    )


def _count(text: str) -> int | None:
    return None if text in UNSET else parse_count(text)


def tres_tuple(tres: Mapping[str, int]) -> tuple[Tres, ...]:
    """TRES counts as the history keeps them, in the order of the source."""
    return tuple(Tres(name, count) for name, count in tres.items())
