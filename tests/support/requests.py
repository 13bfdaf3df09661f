"""Requests of users, kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.model.job import JobKey
from gsched.model.user_request import UserRequest


class MemoryRequests:
    """Implements ``gsched.engine.ports.RequestStore``; `rows` holds all, oldest first."""

    def __init__(self) -> None:
        self.rows: list[UserRequest] = []

    def latest(self, keys: Sequence[JobKey]) -> Mapping[JobKey, UserRequest]:
        wanted = set(keys)
        return {row.key: row for row in self.rows if row.key in wanted}

    def capture(self, requests: Sequence[UserRequest]) -> None:
        known = self.latest([r.key for r in requests])
        self.rows += [r for r in requests if r.key not in known or known[r.key].token != r.token]
