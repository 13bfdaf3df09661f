"""The job that somebody names on the command line."""

from __future__ import annotations

import re

from gsched.errors import DataError, UsageError
from gsched.model.jobid import JobId, parse_job_id


def named_job(text: str) -> JobId:
    """`text` as a job id. Raises UsageError when it is none."""
    try:
        return parse_job_id(text)
    except DataError as e:
        raise UsageError(e.message, e.hint) from e


_BETWEEN_IDS = re.compile(r",(?![^\[]*\])")  # not the commas of 7_[1,3]


def named_jobs(text: str) -> list[JobId]:
    """The job ids in `text`, commas between. Raises UsageError when one is none."""
    return [named_job(word) for word in split_ids(text)]


def split_ids(text: str) -> list[str]:
    """The words of a list of job ids, empty ones too."""
    return _BETWEEN_IDS.split(text)
