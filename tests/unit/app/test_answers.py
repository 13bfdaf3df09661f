"""Waiting for gsched's answer: where it is looked for, when waiting is given up, what is said."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue import StandInSlurm

from gsched.app import answers
from gsched.app.answers import Answer, await_answer
from gsched.app.wiring import now
from gsched.config.settings import DaemonSettings, Settings
from gsched.errors import TryAgainError, UnavailableError
from gsched.model.job import Wants

DEADLINE = 1_800_000_000
NOTHING_PREDICTED = "no prediction: nothing is known of jobs like this one"
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

    def wait(self, wait_s: float = 60.0, job: str = "7", **facts: Any) -> Answer:
        return await_answer(self.settings, job, wait_s, **facts)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock += seconds
        self.on_pause()


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    made = Login(tmp_path)
    monkeypatch.setattr(answers, "slurm_client", lambda _: StandInSlurm())
    monkeypatch.setattr(time, "sleep", made.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: made.clock)
    return made


@pytest.fixture
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def no_answer(login: Login, wait_s: float = 60.0, **facts: Any) -> str:
    with pytest.raises(TryAgainError) as caught:
        login.wait(wait_s, **facts)
    assert caught.value.exit_code == 75
    return caught.value.message


# -- when there is one ---------------------------------------------------------------------------


def test_an_answer_that_is_there_already(login: Login) -> None:
    login.publish({"7": {"submit_time": 5, "accepted": True, "duration_s": DURATION}})
    found = login.wait()
    assert found.accepted
    assert found.lines == (
        "predicted run 0:42:00 (80 %: 0:25:00–1:10:00, from 31 similar jobs of this user)",
    )
    assert (found.document["job"], found.document["policy"]) == ("7", "qssf")
    assert login.pauses == []


def test_an_answer_that_comes_while_waiting(login: Login) -> None:
    login.publish({})
    login.on_pause = lambda: (
        login.publish({"7": {"submit_time": 5}}) if len(login.pauses) == 5 else None
    )
    assert login.wait().accepted
    assert login.pauses == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_the_first_part_stands_for_an_array_or_a_heterogeneous_job(login: Login) -> None:
    login.publish(
        {"70_1": {"submit_time": 1}, "7_3": {"submit_time": 3}, "8+0": {"submit_time": 8}}
    )
    assert login.wait(job="7").document["submit_time"] == 3
    assert login.wait(job="8").document["submit_time"] == 8


def outcome(want: str, what: str, reason: str, **facts: Any) -> dict[str, Any]:
    return {"want": want, "outcome": what, "reason": reason, **facts}


@pytest.mark.usefixtures("utc")
def test_what_became_of_each_thing_is_said(login: Login) -> None:
    told = [
        outcome("deadline", "refused", "policy x cannot keep it", earliest=DEADLINE + 3600),
        outcome("soft_deadlines", "accepted", "planned by policy x", finish_time=DEADLINE,
                probability=0.93),
        outcome("phases", "unused", "policy x does not use it"),
        outcome("shareable", "unused", "policy x does not use it"),
    ]  # fmt: skip
    request = {"token": "gs1{…}", "first_seen": 1, "wants": {"deadline": DEADLINE}}
    job = {"submit_time": 5, "accepted": False, "request": request, "outcomes": told}
    login.publish({"7": job})
    found = login.wait(asked=Wants(deadline=DEADLINE))
    assert not found.accepted
    assert found.lines == (
        "--gs-deadline 2027-01-15T08:00+00:00 refused: policy x cannot keep it; "
        "earliest 2027-01-15T09:00+00:00",
        "--gs-soft-deadline accepted: planned by policy x, should end 2027-01-15T08:00+00:00 "
        "(probability 0.93)",
        "--gs-phase not used: policy x does not use it",
        "--gs-shareable not used: policy x does not use it",
        NOTHING_PREDICTED,
    )


def test_a_request_that_did_not_arrive_is_no_success(login: Login) -> None:
    login.publish({"7": {"submit_time": 5, "accepted": True}})
    found = login.wait(asked=Wants(deadline=DEADLINE))
    assert not found.accepted
    assert "the request did not arrive" in found.lines[0]
    login.publish({"7": {"submit_time": 5, "accepted": False, "request_problem": "too long"}})
    found = login.wait(asked=Wants(deadline=DEADLINE))
    assert not found.accepted
    assert found.lines[0] == "the request in the job's comment is ignored: too long"


def test_that_the_job_is_left_alone_is_said_once(login: Login) -> None:
    excluded = {"code": "cron", "detail": "a scrontab job"}
    login.publish({"7": {"submit_time": 5, "excluded": excluded}})
    assert login.wait().lines == ("not moved: a scrontab job", NOTHING_PREDICTED)
    told = [outcome("none", "accepted", "gsched keeps away from this job")]
    login.publish({"7": {"submit_time": 5, "excluded": excluded, "outcomes": told}})
    lines = login.wait().lines
    assert lines == ("--gs-none accepted: gsched keeps away from this job", NOTHING_PREDICTED)


def test_a_job_that_runs(login: Login) -> None:
    login.publish({"7": {"submit_time": 5, "state": "RUNNING"}})
    assert login.wait().lines == ("the job runs already",)


# -- when there is none --------------------------------------------------------------------------


def test_a_daemon_that_has_not_seen_the_job_is_waited_for(login: Login) -> None:
    login.publish({})
    said = no_answer(login, 10.0)
    assert said.startswith("no answer within 10 s: the daemon has not seen the job")
    assert "it looks every 30 s" in said
    assert sum(login.pauses) == pytest.approx(10.0)


def test_without_a_daemon_nothing_is_waited_for_but_a_grace(login: Login) -> None:
    said = no_answer(login)
    assert (
        said == f"no answer: no gsched daemon has answered here (no {login.settings.status_file})"
    )
    assert sum(login.pauses) == pytest.approx(answers.GRACE_S)
    login.pauses.clear()
    no_answer(login, 1.0)
    assert sum(login.pauses) == pytest.approx(1.0)


def test_a_daemon_that_comes_within_the_grace_is_waited_for(login: Login) -> None:
    def start() -> None:
        if len(login.pauses) == 3:
            login.publish({})
        if login.clock > 20:
            login.publish({"7": {"submit_time": 5}})

    login.on_pause = start
    assert login.wait().accepted
    assert login.clock > 20


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ({"cluster": "beta"}, "the daemon that answers is of cluster beta, not alpha"),
        ({"version": 99}, "is damaged, or of another version of gsched"),
        ({"as_of": 1}, "the gsched daemon has been silent for"),
        ({"private": True}, "this cluster hides users' jobs (PrivateData), and daemon.query_addr"),
    ],
)
def test_a_status_file_that_can_never_answer(
    login: Login, head: dict[str, Any], reason: str
) -> None:
    login.publish({} if head.get("private") else {"7": {"submit_time": 5}}, **head)
    assert reason in no_answer(login)
    assert sum(login.pauses) == pytest.approx(answers.GRACE_S)


def test_a_status_file_cut_short(login: Login) -> None:
    login.settings.status_file.write_text('{"version": 1, "jobs": {"7"')
    assert "is damaged" in no_answer(login)


def test_a_status_file_that_may_not_be_read(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    login.publish({"7": {"submit_time": 5}})
    path = login.settings.status_file
    real_open = Path.open

    def refuse(self: Path, *args: Any, **facts: Any) -> Any:  # root may read everything
        if self == path:
            raise PermissionError(13, os.strerror(13))
        return real_open(self, *args, **facts)

    monkeypatch.setattr(Path, "open", refuse)
    assert no_answer(login) == f"no answer: cannot read {path}: Permission denied"


def test_a_job_on_another_cluster_is_not_waited_for(login: Login) -> None:
    login.publish({"7": {"submit_time": 5}})
    assert login.wait(cluster="alpha").accepted
    said = no_answer(login, cluster="beta")
    assert said == "no answer: the job is on cluster beta, and this host's daemon on alpha"
    assert login.pauses == []


def test_slurm_that_does_not_answer_is_no_traceback(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Settings) -> StandInSlurm:
        raise UnavailableError("slurmctld is away", "wait")

    monkeypatch.setattr(answers, "slurm_client", away)
    assert no_answer(login) == "no answer: slurmctld is away"


def test_a_socket_that_nobody_answers_leaves_the_file(login: Login) -> None:
    daemon = DaemonSettings(query_address="127.0.0.1:1", query_user="no-such-user")
    login.settings = replace(login.settings, daemon=daemon)
    assert "daemon.query_user is no-such-user" in no_answer(login)
    login.settings = replace(login.settings, daemon=replace(daemon, query_user=""))
    login.publish({"7": {"submit_time": 5}})
    assert login.wait().accepted
    login.publish({"7": {"submit_time": 5}}, cluster="beta")
    said = no_answer(login)
    assert "munge" in said or "no daemon answers at 127.0.0.1:1" in said
    assert "is of cluster beta" in said
