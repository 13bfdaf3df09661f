"""A login node for the tests of what gsched answers to a submission."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.login import Login
from support.queue import StandInSlurm

from gsched.app import answer_places
from gsched.config.settings import DaemonSettings
from gsched.daemon.query_client import QueryClient

Ask = Callable[[float], dict[str, Any]]


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    made = Login(tmp_path)
    monkeypatch.setattr(answer_places, "slurm_client", lambda _: StandInSlurm())
    monkeypatch.setattr(time, "sleep", made.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: made.clock)
    return made


@pytest.fixture
def asked(login: Login, monkeypatch: pytest.MonkeyPatch) -> Callable[[Ask], list[float]]:
    """Let the daemon's socket answer so; gives the time-outs of the questions."""
    login.settings = replace(login.settings, daemon=DaemonSettings(query_address="127.0.0.1:1"))

    def answering(answer: Ask) -> list[float]:
        timeouts_s: list[float] = []

        def ask(_: QueryClient, *jobs: str, timeout_s: float) -> dict[str, Any]:
            assert jobs == ("7",)
            timeouts_s.append(timeout_s)
            return answer(timeout_s)

        monkeypatch.setattr(QueryClient, "ask", ask)
        return timeouts_s

    return answering
