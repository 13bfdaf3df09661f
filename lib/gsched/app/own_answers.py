"""The daemon's answer for the caller, over the query socket where its public file has none."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gsched.app.aside import begin
from gsched.app.daemon_note import status_of
from gsched.app.queue_filter import own_name
from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.daemon.query_client import QueryClient
from gsched.errors import GschedError

TIMEOUT_S = 2.0
"""So long a view of the queue waits for it."""
_ASK_S = 1.8  # so that what was begun has ended by then


def status_for(
    settings: Settings, cluster: str, users: Collection[str]
) -> tuple[dict[str, Any] | None, str]:
    """The daemon's document for this cluster, or None and why there is none.

    Where the public file is not there, or tells of nobody's jobs (PrivateData), the daemon is asked
    for the caller's own jobs. `users` are those whose jobs are looked at: only when they are all
    the caller's the document is whole, else it goes on calling itself private.
    """
    status, why_none = status_of(settings.status_file, cluster)
    if settings.daemon.query_address and (status is None or status.get("private")):
        own = _own_jobs(settings)
        if own is not None and own.get("cluster") == cluster:
            return {**own, "private": not set(users) <= {own_name()}}, ""
    return status, why_none


def _own_jobs(settings: Settings) -> dict[str, Any] | None:
    """None for whatever keeps the daemon from answering soon: a view of Slurm's queue lives on."""
    try:
        return begin(lambda: _ask(settings)).result(timeout=TIMEOUT_S)
    except (GschedError, TimeoutError):
        return None


def _ask(settings: Settings) -> dict[str, Any] | None:
    until = time.monotonic() + _ASK_S
    hurried = replace(settings, slurm=replace(settings.slurm, command_timeout_s=_ASK_S))
    config = slurm_client(hurried, lambda _: None, asks_again=False).config()
    client = QueryClient.for_site(settings.daemon, config)
    return client.ask(own=True, timeout_s=until - time.monotonic()) if client else None
