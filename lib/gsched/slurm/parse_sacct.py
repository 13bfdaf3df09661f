"""Output of sacct(1) → attempts of jobs. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from gsched.model.history import Batch, Reject
from gsched.slurm.accounting import EVERY_JOB
from gsched.slurm.fields import parse_time, split_records
from gsched.slurm.records import AccountingFilter
from gsched.slurm.sacct_rows import SOURCE, RowReader
from gsched.slurm.sacct_values import STEP_FIELDS

FIELDS = (
    "JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "QOS", "JobName", "State",
    "Submit", "Eligible", "Start", "End", "Timelimit", "NNodes", "NCPUS", "ReqTRES", "AllocTRES",
    "ExitCode", "NodeList",
)  # fmt: skip
_STATES = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"


def fields_of(keeps_steps: bool) -> tuple[str, ...]:
    """What sacct is asked for, by line."""
    return FIELDS + STEP_FIELDS if keeps_steps else FIELDS


def sacct_argv(
    since: int,
    until: int,
    separator: str,
    chosen: AccountingFilter = EVERY_JOB,
    *,
    keeps_steps: bool = False,
) -> list[str]:
    """The sacct command for the jobs of a window (epoch), with all their attempts.

    ``-D`` gives the attempts before a requeue, ``-X`` leaves the steps out. The states are named
    because sacct else leaves out what was cancelled before it became eligible. Of other users' jobs
    an ordinary user sees what PrivateData lets through.
    """
    return [
        *_asked(since, until, chosen, keeps_steps), "-n", "-p", "--noconvert",
        f"--delimiter={separator}", "-o", ",".join(fields_of(keeps_steps)),
    ]  # fmt: skip


def sacct_json_argv(
    since: int,
    until: int,
    chosen: AccountingFilter = EVERY_JOB,
    *,
    keeps_steps: bool = False,
) -> list[str]:
    """The same as JSON, of which the fields cannot be chosen."""
    return [*_asked(since, until, chosen, keeps_steps), "--json"]


def _asked(since: int, until: int, chosen: AccountingFilter, keeps_steps: bool) -> list[str]:
    without_steps = () if keeps_steps else ("-X",)
    span = ("-S", _utc(since), "-E", _utc(until))
    return ["sacct", "--local", "-D", *without_steps, *span, *_chosen(chosen)]


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


def parse_sacct(
    text: str, separator: str, *, counts_gpus: bool, keeps_steps: bool = False
) -> Batch:
    """The attempts in the output of `sacct_argv`, and with `keeps_steps` their steps.

    `counts_gpus`: the cluster accounts for gres/gpu, so that a job without it has none; else
    `num_gpus` is None. Steps, and arrays that wait as a whole, are skipped and counted; an array
    that ended as a whole counts as its tasks. A row that cannot be understood is a reject.
    """
    names = fields_of(keeps_steps)
    rows: list[list[str]] = []
    places: list[int] = []
    rejects: list[Reject] = []
    for number, fields in enumerate(split_records(text, separator, len(names)), 1):
        if len(fields) == len(names):
            rows.append(fields)
            places.append(number)
        else:
            reason = f"row has {len(fields)} fields instead of {len(names)}"
            rejects.append(Reject(SOURCE, number, reason, "|".join(fields)))
    reader = RowReader(names, parse_time, counts_gpus, keeps_steps=keeps_steps)
    understood = reader.read(rows)
    for place, reason in understood.bad:
        rejects.append(Reject(SOURCE, places[place], reason, "|".join(rows[place])))
    return Batch(
        records=tuple(understood.attempts.records()),
        rejects=tuple(sorted(rejects, key=lambda reject: reject.line)),
        rows_in=understood.attempts.count + len(rejects) + understood.skipped,
        rows_skipped=understood.skipped,
        steps=understood.steps,
    )
