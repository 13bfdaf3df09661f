"""Arrays of which sacct has one row, as their tasks were never split off. Pure.

Tasks that wait together have one row, ``44_[1,3-50]``; when they are cancelled before they start,
that row is all that is ever told of them. Each is a job, and an attempt of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.errors import DataError
from gsched.model.jobid import TaskSet, parse_job_id
from gsched.slurm.sacct_values import node_list
from gsched.slurm.states import parse_state

MOST_TASKS = 10_000
"""Arrays of more tasks that ended as a whole are kept as one attempt."""

Row = Sequence[str]


def ended_tasks(tasks: TaskSet | None) -> TaskSet | None:
    """The tasks of an array that ended before they were split off: each is an attempt.

    None for what is no such array, and for one of more than `MOST_TASKS`, which stays one attempt.
    """
    return tasks if tasks is not None and 0 < len(tasks) <= MOST_TASKS else None


def array_tasks(tasks: TaskSet) -> dict[str, str]:
    """`extra` of an array that ended as a whole and stays one attempt."""
    return {"array_tasks": str(TaskSet(tasks.ranges))}


def expanded(
    names: Sequence[str], rows: Sequence[Row]
) -> tuple[Sequence[Row], Sequence[int] | None]:
    """The rows with one for each task that ended with others, and where each of them stood.

    The places are None where nothing is expanded.
    """
    if "JobID" not in names:
        return rows, None
    of_id, of_state = names.index("JobID"), names.index("State")
    of_nodes = names.index("NodeList") if "NodeList" in names else None
    if not any("[" in row[of_id] for row in rows):
        return rows, None
    found: list[Row] = []
    places: list[int] = []
    for place, row in enumerate(rows):
        nodes = "" if of_nodes is None else row[of_nodes]
        ids = _task_ids(row[of_id], row[of_state], nodes) if "[" in row[of_id] else ()
        each: list[Row] = [[*row[:of_id], text, *row[of_id + 1 :]] for text in ids]
        found += each or [row]
        places += [place] * max(1, len(each))
    return found, places


def _task_ids(job_id: str, state: str, nodes: str) -> Sequence[str]:
    """The ids of the tasks of ``44_[1,3-50]``; none where it waits, has run, or is no such id."""
    try:
        job, is_ended = parse_job_id(job_id), parse_state(state)[0].is_terminal
    except (DataError, ValueError):
        return ()
    never_ran = is_ended and not job.step and node_list(nodes) is None
    tasks = ended_tasks(job.array_tasks) if never_ran else None
    return () if tasks is None else [f"{job.job_id}_{task}" for task in tasks]
