"""What users asked of gsched, as the history keeps it."""

from __future__ import annotations

from typing import Any

from gsched.app.named_job import named_job
from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.model.user_request import wants_document


def captured_requests(settings: Settings, job: str, cluster: str) -> list[dict[str, Any]]:
    """The requests made for `job`, the newest (the one that counts) first; times epoch seconds.

    A task of an array has its array's requests too. Raises ConfigError without a history
    database, UsageError for text that is no job id.
    """
    wanted = named_job(job)
    with open_history(settings) as history:
        found = history.requests(cluster, wanted)
        if wanted.array_task is not None:
            found += [
                r
                for r in history.requests(cluster, named_job(str(wanted.job_id)))
                if r.key.array_task is None
            ]
    found.sort(key=lambda request: -request.first_seen)
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
