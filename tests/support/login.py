"""A login node on which somebody waits for gsched's answer: a status file, or a socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gsched.app.answers import Answer, await_answer
from gsched.app.submitted import Submitted
from gsched.app.wiring import now
from gsched.config.settings import Settings

SUBMITTED = 61
"""When the job was submitted."""

DURATION = {
    "mean": 2520.0,
    "quantiles": [[0.1, 1500.0], [0.5, 2400.0], [0.9, 4200.0]],
    "source": "similar-name",
    "similar_jobs": 31,
}


class Login:
    """A login node: Slurm's commands and, when a test writes one, a status file."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(state_dir=folder)
        self.pauses: list[float] = []
        self.clock = 0.0
        self.on_pause: Callable[[], None] = lambda: None

    def publish(self, jobs: dict[str, Any], **head: Any) -> None:
        whole = {
            "version": 1,
            "cluster": "alpha",
            "policy": "qssf",
            "as_of": now(),
            "interval_s": 30.0,
            "private": False,
        } | head
        path = self.settings.status_file
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({**whole, "jobs": jobs}))
        fresh.replace(path)

    def wait(
        self, wait_s: float = 60.0, job: str = "7", cluster: str | None = None, **facts: Any
    ) -> Answer:
        return await_answer(self.settings, self.submitted(job, cluster), wait_s, **facts)

    def submitted(self, job: str = "7", cluster: str | None = None) -> Submitted:
        return Submitted(job, cluster, "alice", SUBMITTED, SUBMITTED)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock += seconds
        self.on_pause()


def told(**jobs: Any) -> dict[str, Any]:
    head = {"cluster": "alpha", "as_of": now(), "interval_s": 30.0, "private": True}
    return {**head, "jobs": {"7": {"submit_time": 5}} | jobs}
