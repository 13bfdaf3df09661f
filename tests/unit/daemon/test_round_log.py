"""What the log says of rounds: what was not carried out, once for as long as it lasts."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from support.rounds import JOBS, backend_with, runner_for

from gsched.daemon.round_log import RoundLog
from gsched.engine.round import RoundResult
from gsched.engine.validate import Problem
from gsched.model.job import JobKey

KEY, OTHER = JobKey("c", 7), JobKey("c", 8)
SHORT = "a lease of 24 s is shorter than 20 hand-overs of 181 s"


@pytest.fixture
def quiet() -> RoundResult:
    """A round after which nothing was left to write."""
    runner = runner_for(backend_with(JOBS), JOBS)
    runner.run(True)
    return replace(runner.run(True), problems=(), changes=(), recovered=0)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "gsched.daemon")
    return caplog


def warnings(told: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in told.records if r.levelno == logging.WARNING]
    told.clear()
    return found


def test_a_problem_that_comes_each_round_is_told_once(
    quiet: RoundResult, told: pytest.LogCaptureFixture
) -> None:
    log = RoundLog()
    for round_number in range(3):
        what = f"Grant ltgf/grant/7/{1000 + round_number}: {SHORT}"
        log(replace(quiet, problems=(Problem(KEY, what),)))
        expected = [f"job 7: Grant ltgf/grant/7/1000: {SHORT}"] if not round_number else []
        assert warnings(told) == expected
    log(quiet)
    log(replace(quiet, problems=(Problem(KEY, f"Grant a: {SHORT}"),)))  # it is there again
    assert len(warnings(told)) == 1


def test_other_numbers_are_the_same_and_another_job_is_not(
    quiet: RoundResult, told: pytest.LogCaptureFixture
) -> None:
    log = RoundLog()
    log(replace(quiet, problems=(Problem(KEY, "Revoke r1: the lease runs for another 90 s"),)))
    assert len(warnings(told)) == 1
    log(
        replace(
            quiet,
            problems=(
                Problem(KEY, "Revoke r2: the lease runs for another 60 s"),
                Problem(OTHER, "Revoke r3: the lease runs for another 60 s"),
                Problem(KEY, "Revoke r2: the job does not run"),
                Problem(None, "its memory is no finite JSON"),
            ),
        )
    )
    policy = quiet.info.policy
    assert warnings(told) == [
        "job 8: Revoke r3: the lease runs for another 60 s",
        "job 7: Revoke r2: the job does not run",
        f"policy {policy}: its memory is no finite JSON",
    ]


def test_a_quiet_round_is_not_told(quiet: RoundResult, told: pytest.LogCaptureFixture) -> None:
    RoundLog()(quiet)
    assert told.messages == []
    RoundLog()(replace(quiet, recovered=1))
    assert told.messages[0].startswith("round: jobs ")
