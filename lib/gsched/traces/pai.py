"""Alibaba PAI: the cluster trace of 2020, whose jobs are spread over several tables.

Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters", NSDI 2022, repository alibaba/clusterdata, cluster-trace-gpu-v2020. The tables come
without a header (it lies beside them as ``.header``); one that has a header is read by it.

- ``pai_job_table``: job_name, inst_id, user, status, start_time (of *submission*), end_time.
- ``pai_task_table``: job_name, task_name, inst_num, status, start_time, end_time, plan_cpu (percent
  of a CPU), plan_mem (GiB), plan_gpu (percent of a GPU), gpu_type; each instance has the plan.
- ``pai_group_tag_table``: inst_id, user, gpu_type_spec, group, workload.

A job is a row of the job table. **Read tasks and tags first, in the same import**: their rows are
no jobs (they count as skipped) and are remembered for the job table. A job's tasks give its CPUs,
memory and GPUs (plan × instances, summed; `num_gpus` counts GPUs had wholly or in part, their
shares are the TRES ``gres/gpu_milli``), the types of its GPUs, and its start, the first of theirs.
Its tag gives its name: the group, which recurs where a job is repeated. The job table alone gives
jobs without resources and starts; tasks and tags alone give none, as they tell no submission.

Times are seconds moved by a constant; as epoch seconds they have the true day of the week and time
of day in UTC+8. Status: Terminated → COMPLETED, Failed, Running, Waiting → PENDING. The cluster is
``pai``. inst_id, by which the tables of sensors refer to a job, stays in `extra`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, BinaryIO

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.traces.cells import check_order, given, is_missing
from gsched.traces.csv_rows import DELIMITERS, CsvRows, split_line
from gsched.traces.identity import job_id_of_text, texts_only
from gsched.traces.resources import shared_tres, whole
from gsched.traces.table import Table, TableFormat, empty, normalised, read_rows

NAME = "pai"

_SEEN = "PAI"
_GIB = 2**30
_DIGEST = re.compile(r"[0-9a-f]{8,}", re.ASCII)

Resources = tuple[int, int, tuple[tuple[str, int], ...], int, tuple[str, ...]]
"""CPU-thousandths, bytes, GPU-thousandths by type, instances, names of tasks."""


@dataclass
class _Aside:
    """What an import has read of tasks and tags so far, by the job they belong to.

    Jobs of equal resources share one tuple: a million jobs take some 200 MB.
    """

    tasks: dict[int, tuple[int | None, Resources]] = field(default_factory=dict)
    tags: dict[int, tuple[str | None, ...]] = field(default_factory=dict)
    shared: dict[Any, Any] = field(default_factory=dict)
    has_read_jobs: bool = False

    @classmethod
    def of(cls, options: ReadOptions) -> _Aside:
        found: _Aside = options.seen.setdefault(_SEEN, cls())
        return found


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of a job table; nothing, but remembered, of a task or tag table.

    Raises DataError for any other table, and for tasks or tags that come after the jobs.
    """
    rows = CsvRows(stream, f"{NAME}:{options.file_name}")
    line = rows.first_line()
    if not line:
        raise empty(options)
    delimiter, fields = _cut(line)
    table_format = _by_header(fields)
    names = tuple(fields)
    if table_format is None:
        table_format = _by_width(fields, options)
        names = (*table_format.needed, *table_format.known)
        rows.push_back(line)
    aside = _Aside.of(options)
    if table_format.is_aside and aside.has_read_jobs:
        raise DataError(
            f"{options.file_name}: tasks and tags must be read before the job table",
            "name pai_group_tag_table and pai_task_table before pai_job_table",
        )
    aside.has_read_jobs |= not table_format.is_aside
    yield from read_rows(rows, delimiter, names, options, table_format)


def order_of(file_name: str) -> int:
    """The place of a file, by its name, in the order in which the tables must be read."""
    name = PurePath(file_name).name.casefold()
    return next((i for i, word in enumerate(("tag", "task", "job")) if word in name), 3)


# -- which table ------------------------------------------------------------------------------


def _cut(line: str) -> tuple[str, list[str]]:
    ways = [(delimiter, split_line(line, delimiter)) for delimiter in DELIMITERS]
    delimiter, fields = max(ways, key=lambda way: len(way[1]))
    return delimiter, [normalised(text) for text in fields]


def _by_header(fields: Sequence[str]) -> TableFormat | None:
    found = [f for f in _FORMATS if set(f.needed) <= set(fields)]
    return found[0] if found and len(set(fields)) == len(fields) else None


def _by_width(fields: Sequence[str], options: ReadOptions) -> TableFormat:
    """The table of a file without header: each has a number of fields of its own.

    Rows begin with the digest of a name. Tasks and jobs have numbers, or nothing, in the fields of
    their times; tags have none at all, which tells them from the machines.
    """
    has_times = all(map(_is_number, filter(None, fields[4:6])))
    for table_format in _FORMATS:
        width = len(table_format.needed) + len(table_format.known)
        is_likely = not any(map(_is_number, fields[2:])) if table_format is _TAGS else has_times
        if len(fields) == width and is_likely and _DIGEST.fullmatch(fields[0]):
            return table_format
    raise DataError(
        f"{options.file_name}: not one of PAI's tables of jobs, tasks and tags: "
        f"{len(fields)} fields, and no header that tells the table",
        "put the names of its columns before the first row; jobs need " + ", ".join(_JOBS.needed),
    )


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


# -- jobs -------------------------------------------------------------------------------------


def _convert_jobs(table: Table) -> dict[str, Cells]:
    reading = table.reading
    aside = _Aside.of(reading.options)
    job_ids, source_ids = texts_only(table.ids("job_name"))
    submits = given("start_time", _times(table, "start_time"))
    ends = _times(table, "end_time")
    check_order(submits, [None] * table.count, ends)
    tasks = list(map(aside.tasks.get, job_ids))
    instances = table.cells("inst_id")
    tags = [aside.tags.get(job_id_of_text(cell.strip())) for cell in instances]
    reading.note("times are seconds moved by a constant: day of week and hour are right in UTC+8")
    if not aside.tasks:
        reading.note("no task table was read before: the jobs have no GPUs, CPUs and start times")
    columns = {
        "cluster": Constant(reading.options.cluster or NAME),
        "source": Constant(NAME),
        "job_id": job_ids,
        "source_id": source_ids,
        **table.states("status"),
        "submit_time": submits,
        "start_time": list(map(_start, submits, ends, tasks)),
        "end_time": ends,
        "user": table.texts("user"),
        "name": [tag and tag[1] for tag in tags],
        "extra": table.extras({"inst_id": instances, **_told_aside(tasks, tags)}),
    }
    return columns | (_sizes(tasks, columns["start_time"]) if any(tasks) else {})


def _times(table: Table, name: str) -> list[int | None]:
    """Times; 0 stands for none."""
    return [time or None for time in table.reading.seconds.column(name, table.cells(name))]


def _start(submit: int, end: int | None, tasks: tuple[int | None, Resources] | None) -> int | None:
    """The first start of a job's tasks, if it fits to the job."""
    start = tasks and tasks[0]
    fits = start is not None and submit <= start and (end is None or start <= end)
    return start if fits else None


def _sizes(tasks: Sequence[tuple[int | None, Resources] | None], starts: Cells) -> dict[str, Cells]:
    tres = [() if task is None else shared_tres(*task[1][:3]) for task in tasks]
    gpus = [None if task is None else sum(n for _, n in task[1][2]) for task in tasks]
    started = AttemptColumns(len(tasks), {"start_time": starts}).column("start_time")
    return {
        "requested": tres,
        "allocated": [
            () if start is None else had for start, had in zip(started, tres, strict=True)
        ],
        "num_gpus": [None if milli is None else whole(milli) for milli in gpus],
        "num_cpus": [None if task is None else whole(task[1][0]) for task in tasks],
    }


def _told_aside(
    tasks: Sequence[tuple[int | None, Resources] | None],
    tags: Sequence[tuple[str | None, ...] | None],
) -> dict[str, list[str]]:
    """Columns of the other tables that have no place of their own."""
    return {
        "task_name": ["" if task is None else ",".join(task[1][4]) for task in tasks],
        "inst_num": ["" if task is None else str(task[1][3]) for task in tasks],
        "gpu_type_spec": [(tag and tag[0]) or "" for tag in tags],
        "workload": [(tag and tag[2]) or "" for tag in tags],
    }


# -- tasks and tags ---------------------------------------------------------------------------


def _convert_tasks(table: Table) -> dict[str, Cells]:
    reading = table.reading
    numbers = reading.numbers
    plans = ("plan_cpu", "plan_mem", "plan_gpu")
    cpus, memory, gpus = (numbers.column(name, table.cells(name)) for name in plans)
    instances = reading.counts.column("inst_num", table.cells("inst_num"))
    return {
        "job": list(map(job_id_of_text, table.ids("job_name"))),
        "start": _times(table, "start_time"),
        "resources": [
            _resources(*row)
            for row in zip(
                cpus,
                memory,
                gpus,
                given("inst_num", instances),
                table.cells("gpu_type"),
                table.cells("task_name"),
                strict=True,
            )
        ],
    }


def _resources(
    cpu: float | None, gib: float | None, gpu: float | None, count: int, kind: str, task: str
) -> Resources:
    """What all instances of a task have together; a plan that is missing is none."""
    if min(cpu or 0, gib or 0, gpu or 0) < 0:
        raise DataError("a plan is negative")
    cpu_milli, gpu_milli = round((cpu or 0) * 10) * count, round((gpu or 0) * 10) * count
    mem_bytes = round((gib or 0) * _GIB) * count
    if max(cpu_milli, gpu_milli, mem_bytes >> 20) >= 2**37:
        raise DataError("a plan is too large")
    kinds = (("" if is_missing(kind) else kind.strip(), gpu_milli),) if gpu_milli else ()
    return cpu_milli, mem_bytes, kinds, count, (task.strip(),)


def _keep_tasks(rows: AttemptColumns, options: ReadOptions) -> dict[str, Cells]:
    aside = _Aside.of(options)
    told = zip(*map(rows.column, ("job", "start", "resources")), strict=True)
    for job, start, resources in told:
        known = aside.tasks.get(job)
        if known is not None:
            start = min(filter(None, (known[0], start)), default=None)
            resources = _sum(known[1], resources)
        aside.tasks[job] = (start, aside.shared.setdefault(resources, resources))
    return {}


def _sum(a: Resources, b: Resources) -> Resources:
    kinds = dict(a[2])
    for kind, milli in b[2]:
        kinds[kind] = kinds.get(kind, 0) + milli
    return a[0] + b[0], a[1] + b[1], tuple(sorted(kinds.items())), a[3] + b[3], a[4] + b[4]


def _convert_tags(table: Table) -> dict[str, Cells]:
    names = ("gpu_type_spec", "group", "workload")
    texts = (table.reading.texts.column(name, table.cells(name)) for name in names)
    return {
        "job": list(map(job_id_of_text, table.ids("inst_id"))),
        "tag": list(zip(*texts, strict=True)),
    }


def _keep_tags(rows: AttemptColumns, options: ReadOptions) -> dict[str, Cells]:
    aside = _Aside.of(options)
    for job, tag in zip(rows.column("job"), rows.column("tag"), strict=True):
        aside.tags[job] = aside.shared.setdefault(tag, tag)
    return {}


_JOBS = TableFormat(
    NAME,
    needed=("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    known=(),
    convert=_convert_jobs,
    words={"terminated": JobState.COMPLETED, "waiting": JobState.PENDING},
)
_TASKS = TableFormat(
    NAME,
    needed=("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu"),
    known=("plan_mem", "plan_gpu", "gpu_type"),
    convert=_convert_tasks,
    finish=_keep_tasks,
    is_aside=True,
)
_TAGS = TableFormat(
    NAME,
    needed=("inst_id", "user", "gpu_type_spec", "group", "workload"),
    known=(),
    convert=_convert_tags,
    finish=_keep_tags,
    is_aside=True,
)
_FORMATS = (_TASKS, _JOBS, _TAGS)
