"""What formats share that tell a job's arrival and run time, but not when it started or ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add

from gsched.model.job import JobState
from gsched.model.trace import Cells, Constant
from gsched.traces.cells import Remembered, given
from gsched.traces.identity import cluster_of_file, numbers_or_texts, texts_only
from gsched.traces.table import Reading, Table

STATELESS: Mapping[str, Cells] = {
    "state": Constant(JobState.COMPLETED),
    "state_text": Constant(""),
}
"""Of a format without states whose jobs have all ended: the empty text says that none was told."""


def add_run(submits: Sequence[int], durations: Sequence[int]) -> dict[str, Cells]:
    """The times of jobs that ran `durations` seconds from their submission."""
    ends = list(map(add, submits, durations))
    return {
        "submit_time": submits,
        "start_time": submits,
        "start_assumed": Constant(1),
        "end_time": ends,
    }


def say_start_is_submit(reading: Reading) -> None:
    """How jobs without start times are stored."""
    reading.note("the file has no start times: jobs are taken to start when they are submitted")


def say_stateless(reading: Reading) -> None:
    """How jobs without states are stored."""
    reading.note("the file has no states: its jobs are stored as COMPLETED")


def say_relative(reading: Reading) -> None:
    """How times are stored that a file counts from its own beginning."""
    reading.note("times count from the beginning of the trace: they are stored from epoch 0")


def say_named_after_file(reading: Reading, cluster: str) -> None:
    """That the same jobs are others under another name of their file."""
    if reading.options.cluster is None:
        reading.note(
            f"cluster {cluster} is named after the file (its folder): read from standard input or "
            f"under another name, it needs --cluster {cluster} to be the same jobs"
        )


def disagreeing(table: Table, derived: Mapping[str, Sequence[int | None]]) -> dict[str, list[str]]:
    """Columns that follow from others, where they say something else; they go into `extra`.

    `derived` has, by name of a column, what follows for each row. Half a second is no difference.
    """
    kept = {}
    for name, expected in derived.items():
        if name not in table:
            continue
        cells = table.cells(name)
        told = table.reading.numbers.column(name, cells)
        differs = [
            t is not None and (e is None or abs(t - e) > 0.5)
            for t, e in zip(told, expected, strict=True)
        ]
        if any(differs):
            kept[name] = [c if d else "" for c, d in zip(cells, differs, strict=True)]
            table.reading.note(f"{name} does not follow from the other columns everywhere: extra")
    return kept


def workload(
    table: Table,
    format_name: str,
    seconds: Remembered[int | None],
    *,
    submit: str = "submit_time",
    has_text_ids: bool = False,
) -> dict[str, Cells]:
    """The jobs of a table with job_id, num_gpu, duration and perhaps user and model_name.

    `submit` names the column of the arrivals; they and the durations are parsed by `seconds`.
    A model's name recurs as a job's name does, and is taken for it.
    """
    submits = given(submit, seconds.column(submit, table.cells(submit)))
    durations = given("duration", seconds.column("duration", table.cells("duration")))
    say_relative(table.reading)
    say_start_is_submit(table.reading)
    say_stateless(table.reading)
    return {
        **identity(table, format_name, has_text_ids=has_text_ids),
        **add_run(submits, durations),
        **STATELESS,
    }


def identity(
    table: Table,
    format_name: str,
    kept: Mapping[str, Sequence[str]] | None = None,
    *,
    has_text_ids: bool = False,
) -> dict[str, Cells]:
    """Who the jobs of such a table are, how many GPUs they have, and what else it says.

    `kept` are known columns that belong into `extra` all the same.
    """
    reading = table.reading
    ids = table.ids("job_id")
    job_ids, source_ids = texts_only(ids) if has_text_ids else numbers_or_texts(ids)
    cluster = cluster_of_file(reading.options, format_name)
    say_named_after_file(reading, cluster)
    return {
        "cluster": Constant(cluster),
        "source": Constant(format_name),
        "job_id": job_ids,
        "source_id": source_ids,
        "num_gpus": given("num_gpu", reading.counts.column("num_gpu", table.cells("num_gpu"))),
        "name": table.texts("model_name"),
        "user": table.texts("user"),
        "extra": table.extras(kept),
    }
