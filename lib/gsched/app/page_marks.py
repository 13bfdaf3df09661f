"""Where a list of past jobs goes on: the last job of a page as one word.

``1764442800.48211_3@bed``: the first submit time, the id and the cluster. It stays right when jobs
are added or pruned meanwhile.
"""

from __future__ import annotations

import re

from gsched.errors import UsageError
from gsched.model.job import JobKey

_MARK = re.compile(
    r"(?P<epoch>\d{1,18})\.(?P<job>\d{1,19})(?:_(?P<task>\d{1,18})|\+(?P<offset>\d{1,18}))?"
    r"@(?P<cluster>.+)",
    re.ASCII | re.DOTALL,
)


def page_mark(last: JobKey) -> str:
    """The word for --after that goes on behind this job."""
    return f"{last.epoch}.{last.slurm_id}@{last.cluster}"


def parse_page_mark(text: str) -> JobKey:
    """The job that `page_mark` has named. Raises UsageError for what is no such word."""
    match = _MARK.fullmatch(text)
    if match is None:
        raise UsageError(
            f"not a place in a list: {text[:80]!r}",
            "--after takes the word that the page before ends with",
        )
    task, offset = match["task"], match["offset"]
    return JobKey(
        match["cluster"],
        int(match["job"]),
        None if task is None else int(task),
        None if offset is None else int(offset),
        int(match["epoch"]),
    )
