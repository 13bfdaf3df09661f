"""The job that somebody names on the command line."""

from __future__ import annotations

from gsched.errors import DataError, UsageError
from gsched.model.jobid import JobId, parse_job_id


def named_job(text: str) -> JobId:
    """`text` as a job id. Raises UsageError when it is none."""
    try:
        return parse_job_id(text)
    except DataError as e:
        raise UsageError(e.message, e.hint) from e
