"""What `gsched submit --gs-suggest` tells, how long it waits for it, and when it says nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from support.login import DURATION, Login, told
from support.queue import StandInSlurm

from gsched.app import answer_places, answers
from gsched.app.wiring import now
from gsched.config.settings import Settings, SubmitSettings
from gsched.daemon.query_client import NobodyListensError
from gsched.errors import UnavailableError
from gsched.explain.start_words import clock


@pytest.fixture
def fixed_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minute does not change under a test."""
    at = now()
    for module in (answers, answer_places):
        monkeypatch.setattr(module, "now", lambda: at)


SHORTER = {"kind": "time-limit", "option": "--time=3:00:00", "value": "10800"}
LIMIT = {"time_limit_s": 10800, "probability": 0.98, "asked_s": 172_800}


def forecast(in_s: float = 7200, *, sooner_s: float = 3600) -> dict[str, Any]:
    def span(seconds: float) -> dict[str, float]:
        return {"median": now() + seconds, "low": now() + seconds, "high": now() + 2 * seconds}

    start = span(in_s) | {"as_of": now(), "coverage": 0.8, "calibrated_on": 0}
    changes = {"as_of": now(), "tried": [SHORTER | {"start": span(in_s - sooner_s)}]}
    return {"start": start, "changes": changes, "limit_advice": LIMIT}


def suggest(login: Login, cluster: str | None = None) -> tuple[str, ...]:
    return answers.suggestions(login.settings, login.submitted(cluster=cluster))


def entry(**facts: Any) -> dict[str, Any]:
    whole = {"submit_time": 5, "state": "PENDING", "duration_s": DURATION, **facts}
    return {"7": {key: value for key, value in whole.items() if value is not None}}


def shown(seconds: float) -> str:
    return clock(now() + seconds, now())


PREDICTED = "predicted run 40:00 (80 %: 25:00–1:10:00, from 31 similar jobs of this user)"


@pytest.mark.usefixtures("fixed_now")
def test_the_expected_start_and_a_limit_that_would_help(login: Login) -> None:
    login.publish(entry(**forecast()))
    start = f"{shown(7200)} (80 %: {shown(7200)}–{shown(14400)})"
    assert suggest(login) == (
        f"{PREDICTED}; expected start {start}",
        f"your limit is 2-00:00:00; --time=3:00:00 would help: expected start {shown(3600)} "
        "(long enough with probability 0.98)",
    )
    assert login.pauses == []


def test_a_limit_that_would_not_help_is_not_advised(login: Login) -> None:
    login.publish(entry(**forecast(sooner_s=60)))
    assert len(suggest(login)) == 1


def test_a_forecast_is_waited_for_and_told_as_far_as_it_comes(login: Login) -> None:
    login.publish({})
    whole = forecast()

    def go_on() -> None:
        if len(login.pauses) == 1:
            login.publish(entry())
        if len(login.pauses) == 2:
            login.publish(entry(no_start="pending"))
        if len(login.pauses) == 3:
            login.publish(entry(start=whole["start"]))  # what would help is still being tried
        if len(login.pauses) == 4:
            login.publish(entry(**whole))

    login.on_pause = go_on
    assert len(suggest(login)) == 2
    assert login.pauses == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize("wait_s", [5.0, 2.0])
def test_what_does_not_come_in_time_is_told_where_it_is_told_later(
    login: Login, wait_s: float
) -> None:
    login.settings = replace(login.settings, submit=SubmitSettings(suggest_wait_s=wait_s))
    login.publish({})
    (said,) = suggest(login)
    assert said.startswith(f"no forecast within {wait_s:g} s: the daemon has not seen the job")
    assert said.endswith("it looks every 30 s; `gsched why 7` has it later")
    assert login.clock == pytest.approx(wait_s)
    login.publish(entry())
    late = f"no expected start within {wait_s:g} s; `gsched why 7` has it later"
    assert suggest(login) == (PREDICTED, late)
    assert login.clock == pytest.approx(2 * wait_s)
    login.publish(entry(no_start="pending"))
    assert suggest(login) == (PREDICTED, late)
    start = {"start": forecast()["start"]}
    login.publish(entry(**start))  # what was tried is not there yet
    (said,) = suggest(login)
    assert said.startswith(f"{PREDICTED}; expected start ")


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ({"no_start": "held"}, [f"{PREDICTED}; expected start not known: it is held"]),
        ({"no_start": "off"}, [PREDICTED]),
        ({"state": "RUNNING"}, [PREDICTED]),
        ({"state": "RUNNING", "duration_s": None}, ["the job runs already"]),
    ],
)
def test_what_is_known_at_once_is_not_waited_for(
    login: Login, facts: dict[str, Any], lines: list[str]
) -> None:
    login.publish(entry(**facts))
    assert (list(suggest(login)), login.pauses) == (lines, [])


def test_without_a_daemon_nothing_is_said_asked_or_waited_for(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(_: Settings) -> StandInSlurm:
        raise AssertionError("Slurm was asked")

    monkeypatch.setattr(answer_places, "slurm_client", asked)
    assert (suggest(login), login.pauses) == ((), [])


@pytest.mark.parametrize(
    "head", [{"cluster": "beta"}, {"version": 99}, {"as_of": 1}, {"private": True}]
)
def test_a_daemon_that_tells_nothing_of_this_job_says_nothing(
    login: Login, head: dict[str, Any]
) -> None:
    login.publish({} if "private" in head else entry(**forecast()), **head)
    assert suggest(login) == ()
    if "private" in head:  # no other place can have it
        assert login.pauses == []


def test_a_folder_that_may_not_be_entered_is_no_daemon(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:  # root may enter everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", denied)
    assert (suggest(login), login.pauses) == ((), [])


def test_of_a_job_on_another_cluster_nothing_is_said(login: Login) -> None:
    login.publish(entry(**forecast()))
    assert (suggest(login, "beta"), login.pauses) == ((), [])


def test_while_slurm_does_not_answer_nothing_is_said(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Settings) -> StandInSlurm:
        login.clock += 1.0
        raise UnavailableError("slurmctld is away")

    monkeypatch.setattr(answer_places, "slurm_client", away)
    login.publish(entry(**forecast()))
    assert suggest(login) == ()
    assert login.clock <= 6.0


def test_the_socket_is_asked_for_a_forecast_that_the_file_has_not(login: Login, asked: Any) -> None:
    login.publish(entry())
    questions = asked(lambda _: told(**entry(**forecast())))
    assert len(suggest(login)) == 2
    assert (len(questions), login.pauses) == (1, [0.1])


def test_where_nobody_listens_there_is_no_daemon(login: Login, asked: Any) -> None:
    def refused(_: object) -> dict[str, Any]:
        raise NobodyListensError("no daemon answers at login:6820: Connection refused")

    login.publish({})  # what a daemon that was killed has left
    questions = asked(refused)
    assert (suggest(login), len(questions), login.pauses) == ((), 1, [])


def test_an_accepted_job_gets_its_answer_and_its_forecast(login: Login) -> None:
    login.publish(entry(accepted=True))
    login.on_pause = lambda: login.publish(entry(accepted=True, **forecast()))
    found = login.wait(suggests=True)
    assert found.accepted
    assert [line.partition(" ")[0] for line in found.lines] == ["predicted", "your"]


def test_an_answer_is_kept_back_no_longer_than_a_suggestion_may_take(login: Login) -> None:
    login.publish(entry(accepted=True))
    found = login.wait(3600.0, suggests=True)
    assert found.lines == (
        PREDICTED,
        "no expected start within 5 s; `gsched why 7` has it later",
    )
    assert login.clock == pytest.approx(5.0)
    assert login.wait(2.0, suggests=True).accepted
    assert login.clock == pytest.approx(7.0)


def test_a_refusal_waits_for_no_forecast(login: Login) -> None:
    login.publish(entry(accepted=False, request_problem="too long"))
    assert not login.wait(suggests=True).accepted
    assert login.pauses == []
