"""What users asked of gsched, as the history keeps it."""

from __future__ import annotations

from typing import Any

from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.model.jobid import JobId
from gsched.model.user_request import wants_document


def captured_requests(settings: Settings, job: JobId, cluster: str) -> list[dict[str, Any]]:
    """The requests made for `job`, the newest (the one that counts) first; times epoch seconds.

    A task of an array has its array's requests too. Raises ConfigError without a history
    database.
    """
    with open_history(settings) as history:
        found = history.requests(cluster, job, with_whole_array=True)
    return [
        {
            "job": request.key.slurm_id,
            "user": request.user,
            "token": request.token,
            "wants": wants_document(request.wants),
            "unknown": request.unknown,
            "first_seen": request.first_seen,
        }
        for request in found
    ]
