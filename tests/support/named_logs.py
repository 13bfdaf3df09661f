"""Real logs by name, as past jobs, and what each of them tells: names, waits, limits, cores.

All are under ``../shared/traces`` (SOURCES.md there says where they are from). CPU clusters count
in cores, Philly and ITP in GPUs. Parameters are chosen on the logs of TUNING alone; the others
judge.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gsched.app.evaluation.inputs import read_past_jobs, submit_order
from gsched.app.trace_formats import TraceOptions
from gsched.model.history import PastJob
from gsched.model.job import JobState
from support.shared import SHARED

TRACES = SHARED / "traces"


@dataclass(frozen=True, slots=True)
class NamedLog:
    """One log.

    `cores` are the machine's processors as the log's header tells them (None: it does not; see
    `busiest`), `unit` what its jobs compete for. `has_names`: job names or executables;
    `has_users`: users, not only accounts; `has_waits`: submission and start are told apart;
    `has_limits`: requested times. `judges`: nothing is chosen by it.
    """

    name: str
    files: tuple[Path, ...]
    read: Callable[[NamedLog], list[PastJob]]
    unit: str
    cores: int | None
    has_names: bool
    has_users: bool
    has_waits: bool
    has_limits: bool
    judges: bool


def load(name: str) -> list[PastJob]:
    """The jobs of a log that ran and ended, by submission; "" and None for what it does not tell.

    Where it tells no user, the account (virtual cluster) stands for one.
    """
    log = LOGS[name]
    jobs = log.read(log)
    return sorted(jobs, key=submit_order)


def busiest(jobs: list[PastJob]) -> int:
    """The most GPUs (or CPUs, of jobs without GPUs) in use at one time: the machine has them."""
    steps: dict[int, int] = {}
    for job in jobs:
        units = job.num_gpus or job.num_cpus or 1
        steps[job.start_time] = steps.get(job.start_time, 0) + units
        steps[job.end_time] = steps.get(job.end_time, 0) - units
    held = most = 0
    for time in sorted(steps):
        held += steps[time]
        most = max(most, held)
    return most


def _archive(log: NamedLog) -> list[PastJob]:
    """Standard workload format. CERIT's has the executable 1 in every row, which is no name."""
    jobs = read_past_jobs([str(f) for f in log.files], TraceOptions("swf", log.name)).jobs
    return jobs if log.has_names else [replace(job, name="") for job in jobs]


def _philly(log: NamedLog) -> list[PastJob]:
    return read_past_jobs([str(f) for f in log.files], TraceOptions("philly", log.name)).jobs


def _itp(log: NamedLog) -> list[PastJob]:
    """Each cluster is an account (read apart, for their files do not tell)."""
    jobs = []
    for file in log.files:
        cluster = file.name.partition(".")[0]
        jobs += [
            _in_account(job, cluster)
            for job in read_past_jobs([str(file)], TraceOptions("itp", log.name)).jobs
        ]
    return jobs


def _in_account(job: PastJob, account: str) -> PastJob:
    return replace(job, user=account, tenant=account, partition=account)


def _pozidriv(log: NamedLog) -> list[PastJob]:
    fields = TRACES / "sacct" / "FIELDS.txt"
    options = TraceOptions("sacct", None, fields=fields, gpus="counted")
    return read_past_jobs([str(f) for f in log.files], options).jobs


def _iu_mason(log: NamedLog) -> list[PastJob]:
    """Pseudonymised PBS records; an element of an array is ``518474[3]``."""
    with gzip.open(log.files[0], "rt", newline="") as file:
        return [
            PastJob(
                cluster=log.name,
                job_id=int(row["job_id"].partition("[")[0]),
                array_task=_array_task(row["job_id"]),
                submit_time=int(row["submit"]),
                start_time=int(row["start"]),
                end_time=int(row["end"]),
                user=row["user"],
                tenant=row["group"],
                partition=row["queue"],
                name=row["job_name"],
                num_gpus=0,
                num_cpus=int(row["slots"]),
                num_nodes=int(row["nodes"]),
                time_limit_s=int(row["walltime_req_s"]),
                state=JobState.COMPLETED if row["exit_status"] == "0" else JobState.FAILED,
            )
            for row in csv.DictReader(file)
            if int(row["end"]) >= int(row["start"])
        ]


def _array_task(job_id: str) -> int | None:
    task = job_id.partition("[")[2].rstrip("]")
    return int(task) if task else None


def _eagle(log: NamedLog) -> list[PastJob]:
    """Times are in milliseconds; rows of one id are tasks of an array, numbered as they come."""
    rows = json.loads(log.files[0].read_text())
    of_id = Counter(row["job_id"] for row in rows)
    tasks = {job_id: itertools.count() for job_id, number in of_id.items() if number > 1}
    return [
        PastJob(
            cluster=log.name,
            job_id=row["job_id"],
            submit_time=row["submit_time"] // 1000,
            start_time=row["start_time"] // 1000,
            end_time=row["end_time"] // 1000,
            user=row["user"],
            tenant=row["account"],
            partition=row["partition"],
            name=row["name"],
            num_gpus=row["gpus_req"],
            num_cpus=row["processors_req"],
            num_nodes=row["nodes_req"],
            time_limit_s=int(row["wallclock_req"]),
            state=JobState(row["state"]),
            array_task=next(tasks[row["job_id"]]) if row["job_id"] in tasks else None,
        )
        for row in rows
    ]


def _logs() -> Iterator[NamedLog]:
    named = TRACES / "named"
    full = {"has_names": True, "has_users": True, "has_waits": True, "has_limits": True}
    no_names = {**full, "has_names": False}
    no_waits = {**full, "has_waits": False}  # Atlas tells a limit of five jobs in six
    untold = {**no_waits, "has_limits": False}
    neither = {**untold, "has_names": False, "has_users": False}
    yield NamedLog(
        "iu-mason-2017",
        (named / "iu-mason-2017/mason_jobs.csv.gz",),
        _iu_mason,
        unit="core",
        cores=None,
        judges=True,
        **full,
    )
    for name, file, cores, told in (
        ("llnl-atlas-2006", "LLNL-Atlas-2006-2.1-cln.swf.gz", 9216, no_waits),
        ("nasa-ipsc-1993", "NASA-iPSC-1993-3.1-cln.swf.zip", 128, untold),
        ("kth-sp2-1996", "KTH-SP2.swf.gz", 100, no_names),
        ("cea-curie-sample", "CEA-Curie_sample.swf.gz", 93_312, no_names),
        ("cerit-wagap-2013", "wagap-2013.swf.gz", None, no_names),
    ):
        path = named / name / file
        yield NamedLog(name, (path,), _archive, unit="core", cores=cores, judges=True, **told)
    yield NamedLog(
        "nrel-eagle-sample",
        (named / "nrel-eagle-sample/sample_eagle_data.json",),
        _eagle,
        unit="core",
        cores=None,
        judges=False,
        **full,
    )
    yield NamedLog(
        "pozidriv",
        (TRACES / "sacct/pozidriv.log.gz",),
        _pozidriv,
        unit="core",
        cores=None,
        judges=False,
        **full,
    )
    philly = (TRACES / "philly/philly.csv.gz",)
    yield NamedLog("philly", philly, _philly, unit="GPU", cores=None, judges=False, **neither)
    itp = tuple(sorted((TRACES / "itp").glob("cluster*.csv.gz")))
    yield NamedLog("itp", itp, _itp, unit="GPU", cores=None, judges=False, **neither)


LOGS = {log.name: log for log in _logs()}
TUNING = tuple(name for name, log in LOGS.items() if not log.judges)
JUDGING = tuple(name for name, log in LOGS.items() if log.judges)
