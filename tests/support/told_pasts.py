"""Random histories of tenants, as squeue and slurmdbd tell them to the job history by and by."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from gsched.model.accounts import SiteQuotas
from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import UNLIMITED_S, JobState
from gsched_sql import History
from support.fairness_books import END_S, Past, pasts
from support.history import CLUSTER, attempt, pending, running

UNIT_S = 900
BASE = 360_000
"""A time unit of `Past` in seconds, and when (epoch) its time begins: a full hour."""

SITE = SiteQuotas({}, 0.0, "equal")


def told_pasts() -> st.SearchStrategy[Past]:
    """Those whose jobs all have weight 1, as jobs of the history have."""
    return pasts().map(
        lambda past: replace(past, jobs=tuple((who, 1, tries) for who, _, tries in past.jobs))
    )


def epoch(moment: int) -> int:
    """A time of a past as one of the history."""
    return BASE + UNIT_S * moment


def records(past: Past, as_of: int = END_S + 1, *, arrays: bool = False) -> list[AttemptRecord]:
    """What is told at a time, by squeue of what waits and runs and by sacct of what has ended.

    `arrays`: each other job is a task of an array, which nobody tells of before it has started.
    """
    found = []
    for job, (tenant, _, tries) in enumerate(past.jobs):
        is_task = arrays and job % 2 == 0
        for number, (begin, start, end, gpus) in enumerate(tries):
            facts = {
                "tenant": f"t{tenant}",
                "array_task": 1 if is_task else None,
                "num_gpus": gpus,
                "restarts": number,
                "time_limit_s": UNLIMITED_S,
                "eligible_time": epoch(begin),
                "allocated": (Tres("gres/gpu", gpus),),
            }
            key = job + 1, epoch(begin)
            if begin > as_of or (is_task and min(start, end) > as_of):
                continue
            if end <= as_of:
                found.append(_ended(key, facts, start, end, number + 1 == len(tries)))
            elif start <= as_of:
                found.append(running(*key, **facts | {"start_time": epoch(start)}))
            else:
                found.append(pending(*key, **facts | {"allocated": ()}))
    return found


def _ended(key, facts, start: int, end: int, is_last: bool) -> AttemptRecord:
    state = JobState.COMPLETED if is_last else JobState.REQUEUED
    times = {"start_time": epoch(start), "end_time": epoch(end)}
    if start == end:  # cancelled before it had started
        times["start_time"] = None
        state = JobState.CANCELLED if is_last else state
        facts = facts | {"node_list": None, "num_nodes": 0, "allocated": ()}
    return attempt(*key, **facts | times | {"state": state})


def note_quotas(history: History, past: Past, since: int = -1, until: int = END_S) -> None:
    """What a daemon notes of the changes in (since, until]; at first those of nobody."""
    for at in sorted({0, *(moment for _, moment, _ in past.quotas)}):
        if since < at <= until:
            now = {f"t{tenant}": 0.0 for tenant in range(past.tenants)}
            for tenant, moment, gpus in sorted(past.quotas, key=lambda change: change[1]):
                if moment <= at:
                    now[f"t{tenant}"] = float(gpus)
            history.fairness().note(CLUSTER, epoch(at), replace(SITE, gpus=now, source="shares"))


@contextmanager
def empty_history(template: Path) -> Iterator[History]:
    """A history of its own for each example that hypothesis makes."""
    with TemporaryDirectory() as folder:
        path = shutil.copy(template, Path(folder) / "history.db")
        with History.open(f"sqlite:///{path}") as history:
            yield history
