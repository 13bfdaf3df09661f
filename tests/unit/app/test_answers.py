"""Waiting for gsched's answer: where it is looked for, when waiting is given up, what is said."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.login import DURATION, SUBMITTED, Login, told
from support.queue import StandInSlurm

from gsched.app import answer_places, answers
from gsched.app.submitted import CLOCKS_S
from gsched.config.settings import DaemonSettings, Settings
from gsched.errors import (
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.job import Wants

DEADLINE = 1_800_000_000
NOTHING_PREDICTED = "no prediction: nothing is known of jobs like this one"


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
        "predicted run 40:00 (80 %: 25:00–1:10:00, from 31 similar jobs of this user)",
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
    request = {"token": "gs1{…}", "first_seen": 1, "unknown": 0, "wants": {"deadline": DEADLINE}}
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


def test_what_is_not_decided_yet_is_waited_for(login: Login) -> None:
    runs = outcome("deadline", "open", "its profile runs are not over yet")
    request = {"token": "gs1{…}", "first_seen": 1, "unknown": 0, "wants": {"deadline": DEADLINE}}
    job = {"submit_time": 5, "accepted": True, "request": request, "outcomes": [runs]}
    login.publish({"7": job})
    words = no_answer(login, 30.0, asked=Wants(deadline=DEADLINE))
    assert words == "no answer within 30 s: its profile runs are not over yet"
    planned = outcome("deadline", "accepted", "planned by policy x", finish_time=DEADLINE)
    before = len(login.pauses)
    login.on_pause = lambda: (
        login.publish({"7": job | {"outcomes": [planned]}})
        if len(login.pauses) == before + 3
        else None
    )
    assert login.wait(asked=Wants(deadline=DEADLINE)).accepted
    assert len(login.pauses) == before + 3


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
    ],
)
def test_a_file_that_does_not_answer_now_may_do_so_later(
    login: Login, head: dict[str, Any], reason: str
) -> None:
    login.publish({"7": {"submit_time": 5}}, **head)
    said = no_answer(login)
    assert said.startswith("no answer within 60 s: ")
    assert reason in said
    assert sum(login.pauses) == pytest.approx(60.0)
    login.clock = 0.0
    login.on_pause = lambda: (
        login.publish({"7": {"submit_time": 5}}) if login.clock > 10 * answers.GRACE_S else None
    )
    assert login.wait().accepted


def test_where_no_place_tells_of_the_job_nothing_is_waited_for(login: Login) -> None:
    login.publish({}, private=True)
    said = no_answer(login)
    assert "this cluster hides users' jobs (PrivateData), and daemon.query_address names" in said
    assert sum(login.pauses) == pytest.approx(answers.GRACE_S)


def test_the_answer_about_another_job_of_the_same_id_is_none(login: Login) -> None:
    login.publish({"7": {"submit_time": SUBMITTED + CLOCKS_S + 1}})
    assert "another job of that id, submitted 1970-" in no_answer(login, 5.0)
    login.publish({"7": {"submit_time": SUBMITTED - CLOCKS_S - 1}})
    assert "another job of that id" in no_answer(login, 5.0)


def test_that_it_comes_later_is_said_where_it_does(login: Login) -> None:
    def hint() -> str:
        with pytest.raises(TryAgainError) as caught:
            login.wait(5.0)
        return caught.value.hint

    login.publish({})
    assert hint() == "`gsched show 7` has it later, while the job waits"
    login.publish({}, as_of=1)
    assert hint() == ""


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
    said = f"no answer within 60 s: cannot read {path}: Permission denied"
    assert no_answer(login) == said


def test_a_job_on_another_cluster_is_not_waited_for(login: Login) -> None:
    login.publish({"7": {"submit_time": 5}})
    assert login.wait(cluster="alpha").accepted
    said = no_answer(login, cluster="beta")
    assert said == "no answer: the job is on cluster beta, and this host's daemon on alpha"
    assert login.pauses == []


def test_slurm_that_does_not_answer_is_asked_until_the_time_is_over(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_s: list[float] = []

    def away(settings: Settings) -> StandInSlurm:
        limits_s.append(settings.slurm.command_timeout_s)
        login.clock += 1.0
        if len(limits_s) == 4:
            return StandInSlurm()
        raise UnavailableError("slurmctld is away", "wait")

    monkeypatch.setattr(answer_places, "slurm_client", away)
    login.publish({"7": {"submit_time": 5}})
    assert login.wait(11.0).accepted
    assert limits_s == [11.0, 8.0, 5.0, 2.0]  # no question may take more than what is left
    limits_s.clear()
    login.clock = 0.0
    assert no_answer(login, 2.0) == "no answer: slurmctld is away"
    assert login.clock <= 3.0


# -- the query socket ----------------------------------------------------------------------------


Ask = Callable[[float], dict[str, Any]]


@pytest.mark.parametrize(
    "failure",
    [
        UnavailableError("no daemon answers at 127.0.0.1:1: Connection refused"),
        UnavailableError("the daemon gave no answer: the other side hung up"),
        PermissionDeniedError("what listens there is not gsched's daemon: user 9 answered"),
        DataError("the answer is not to this question"),
        TryAgainError("the daemon is busy: this user asks too often"),
    ],
)
@pytest.mark.parametrize("private", [None, True])
def test_a_socket_that_fails_for_a_while_is_asked_again(
    login: Login, asked: Any, failure: GschedError, private: bool | None
) -> None:
    if private:
        login.publish({}, private=True)

    def answer(_: float) -> dict[str, Any]:
        if login.clock < 10 * answers.GRACE_S:
            raise failure
        return told()

    asked(answer)
    assert login.wait().accepted
    login.clock = 0.0
    said = no_answer(login, 20.0)
    assert said.startswith("no answer within 20 s: ")
    assert failure.message in said


def test_a_socket_that_hangs_holds_back_no_file(login: Login, asked: Any) -> None:
    is_over = threading.Event()

    def hang(_: float) -> dict[str, Any]:
        is_over.wait(60)
        return told()

    asked(hang)
    login.on_pause = lambda: (
        login.publish({"7": {"submit_time": 5}}) if len(login.pauses) == 2 else None
    )
    assert login.wait().accepted
    is_over.set()


def test_a_file_system_that_hangs_holds_back_no_socket(
    login: Login, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    real_stat = Path.stat

    def hang(self: Path, **facts: Any) -> Any:
        if self == login.settings.status_file:
            is_over.wait(60)
        return real_stat(self, **facts)

    monkeypatch.setattr(Path, "stat", hang)
    asked(lambda _: told())
    assert login.wait().accepted
    is_over.set()


def test_no_question_may_take_more_than_what_is_left(login: Login, asked: Any) -> None:
    def silent(timeout_s: float) -> dict[str, Any]:
        login.clock += timeout_s
        raise UnavailableError("time-out")

    timeouts_s = asked(silent)
    no_answer(login, 7.0)
    assert login.clock == pytest.approx(7.0, abs=1.0)
    assert timeouts_s[0] == answer_places._ASK_S
    assert timeouts_s[1] < 2.0


def test_a_wrong_query_user_leaves_the_file(login: Login) -> None:
    daemon = DaemonSettings(query_address="127.0.0.1:1", query_user="no-such-user")
    login.settings = replace(login.settings, daemon=daemon)
    assert "daemon.query_user is no-such-user" in no_answer(login)
    login.publish({"7": {"submit_time": 5}})
    assert login.wait().accepted
