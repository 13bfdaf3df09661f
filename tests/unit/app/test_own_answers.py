"""What a view of the queue is told over the query socket, where the public file tells nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue import StandInSlurm, row

from gsched.app import own_answers
from gsched.app.daemon_note import NO_DAEMON
from gsched.app.queue import QueueView, view_queue
from gsched.app.queue_filter import own_name
from gsched.app.wiring import now
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.query_client import QueryClient
from gsched.errors import TryAgainError, UnavailableError

FOR_ROOT = "; as their owner (sudo -u USER), with daemon.query_address set, you see theirs"
PRIVATE = "no predictions: this cluster hides users' jobs from each other (PrivateData)"
RANKED = {"submit_time": 1000, "rank": {"queue": "gpu", "position": 1, "of": 2}}


class Host:
    """A login node; its public file, if any, tells of nobody's jobs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        daemon = DaemonSettings(query_address="127.0.0.1:1")
        self.settings = replace(Settings(state_dir=folder), daemon=daemon)
        self.asked: list[float] = []
        self.answer: Callable[[], dict[str, Any]] = lambda: self.document({"7": RANKED})
        monkeypatch.setattr(own_answers, "slurm_client", lambda *_, **__: StandInSlurm())

        def ask(_: QueryClient, *jobs: str, own: bool, timeout_s: float) -> dict[str, Any]:
            assert (jobs, own) == ((), True)
            self.asked.append(timeout_s)
            return self.answer()

        monkeypatch.setattr(QueryClient, "ask", ask)

    def document(self, jobs: dict[str, Any], **head: Any) -> dict[str, Any]:
        usual = {"version": 1, "cluster": "alpha", "policy": "qssf", "as_of": now(),
                 "interval_s": 30.0, "acting": True, "private": True}  # fmt: skip
        return {**usual, **head, "jobs": jobs}

    def publish(self, jobs: dict[str, Any], **head: Any) -> None:
        self.settings.status_file.write_text(json.dumps(self.document(jobs, **head)))

    def view(self, *users: str) -> QueueView:
        rows = [row(7 + n, user=user) for n, user in enumerate(users or (own_name(),))]
        return view_queue(self.settings, rows, {}, "alpha")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


@pytest.mark.parametrize("has_file", [False, True])
def test_the_caller_is_told_of_their_own_jobs(host: Host, has_file: bool) -> None:
    if has_file:
        host.publish({})
    view = host.view()
    assert (view.jobs[0].rank_text, view.note, view.policy) == ("1/2", "", "qssf")
    assert host.asked[0] <= own_answers.TIMEOUT_S


def test_that_others_jobs_are_not_told_of_is_said(host: Host) -> None:
    view = host.view(own_name(), "bob")
    assert [job.rank_text for job in view.jobs] == ["1/2", "-"]
    assert view.note.startswith("predictions of your own jobs alone")


def test_where_the_file_tells_all_nobody_is_asked(host: Host) -> None:
    host.publish({"7": RANKED}, private=False)
    assert host.view().jobs[0].rank_text == "1/2"
    assert host.asked == []


def test_without_an_address_nobody_is_asked(host: Host) -> None:
    host.settings = replace(host.settings, daemon=DaemonSettings())
    assert (host.view().note, host.asked) == (NO_DAEMON, [])


@pytest.mark.parametrize("error", [UnavailableError("away"), TryAgainError("busy")])
def test_a_socket_that_does_not_answer_leaves_the_note(host: Host, error: Exception) -> None:
    def fail() -> dict[str, Any]:
        raise error

    host.answer = fail
    assert host.view().note == NO_DAEMON
    host.publish({})
    assert host.view().note == PRIVATE + FOR_ROOT
    assert len(host.asked) == 2


def test_only_root_is_told_how_to_see_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.publish({})
    assert host.view("nobody").note.endswith(FOR_ROOT)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert FOR_ROOT not in host.view("nobody").note


def test_the_socket_of_another_clusters_daemon_is_none(host: Host) -> None:
    host.answer = lambda: host.document({"7": RANKED}, cluster="beta")
    view = host.view()
    assert (view.note, view.jobs[0].rank) == (NO_DAEMON, None)
