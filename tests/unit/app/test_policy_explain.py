"""`gsched policy explain`: the choice about one job, and what would have changed it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.queue import StandInSlurm, row

from gsched.app.policy_explain import explain_choice
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.explain.choice_words import choice_lines
from gsched.explain.deadline_reasons import refusal_reason, tells_hold
from gsched.explain.policy_reasons import policy_reason

NINE = 1_796_634_000  # 2026-12-07T09:00 UTC
SPOT = {"remaining_s": 7200.0, "source": "history", "num_gpus": 4}
WAITS = {
    **SPOT, "is_chosen": False, "points": 8.0, "needed_points": 20.0, "fits_gpus": 2,
    "chance_time": NINE,
}  # fmt: skip


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    made = StandInSlurm(row(9))
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def publish(settings: Settings, **entry: Any) -> None:
    whole = {"version": 1, "cluster": "alpha", "policy": "unisched", "as_of": now(),
             "interval_s": 30, "acting": True,
             "jobs": {"9": {"submit_time": 1000, **entry}}}  # fmt: skip
    settings.status_file.write_text(json.dumps(whole))


def test_of_a_job_that_waits_three_changes_are_told(
    slurm: StandInSlurm, settings: Settings
) -> None:
    publish(settings, reason={"code": "unisched.spot", "params": WAITS})
    answer = explain_choice(settings, "9")
    assert dict(answer.lines) == {
        "choice": "waits",
        "because": "4 GPUs, 2:00:00 left, by past jobs like it: short and narrow jobs first, with "
        "what no target needs",
        "points": "a lease counts 8 points for it now",
        "more points": "it would need about 20 points, 2.5 times as many: so much shorter a run, "
        "for one",
        "fewer GPUs": "with 2 GPUs it would have started, on one node",
        "earlier lease": "by 2026-12-07T09:00:00+00:00 enough leases end for it to fit, if it is "
        "chosen then",
    }
    assert answer.document()["reason"]["params"]["needed_points"] == 20.0


def test_of_one_that_was_chosen_it_is_told_where() -> None:
    params = {**SPOT, "is_chosen": True, "points": 8.0, "where": "n1 n2"}
    found = dict(choice_lines("unisched.spot", params))
    assert found["choice"] == "gets GPUs now, on n1 n2"
    assert set(found) == {"choice", "because", "points"}


def test_of_one_that_could_not_start_no_change_is_told() -> None:
    found = dict(choice_lines("unisched.spot", {**SPOT, "is_chosen": False, "points": 8.0}))
    assert found["choice"] == "waits"
    assert set(found) == {"choice", "because", "points"}


@pytest.mark.parametrize(
    ("params", "what", "words"),
    [
        ({"needed_points": 0.0}, "more points",
         "would not help now: nobody's GPUs can be had before leases end"),
        ({"needed_points": 5.0}, "more points",
         "it would need about 5 points: other jobs that are worth more a GPU, or a target, have "
         "them"),
        ({"fits_gpus": 0}, "fewer GPUs",
         "would not help now: it could start on no single node with fewer"),
        ({"chance_time": 0}, "earlier lease", "no leases are known to end so that it would fit"),
        ({"points": "\x1b[2J"}, "points", "a lease counts ? points for it now"),
        ({"fits_gpus": "x"}, "fewer GPUs",
         "would not help now: it could start on no single node with fewer"),
    ],
)  # fmt: skip
def test_what_would_not_help_is_said(params: dict[str, Any], what: str, words: str) -> None:
    assert dict(choice_lines("unisched.spot", WAITS | params))[what] == words


def test_other_policies_tell_their_reason_alone(slurm: StandInSlurm, settings: Settings) -> None:
    publish(settings, reason={"code": "chronus.spot", "params": SPOT})
    ((what, words),) = explain_choice(settings, "9").lines
    assert what == "because"
    assert words == policy_reason("unisched.spot", SPOT)


def test_without_a_daemon_that_is_what_is_told(slurm: StandInSlurm, settings: Settings) -> None:
    ((what, words),) = explain_choice(settings, "9").lines
    assert what == "choice"
    assert words


def test_a_job_that_slurm_does_not_have(slurm: StandInSlurm, settings: Settings) -> None:
    with pytest.raises(UsageError, match="Slurm has no job 8"):
        explain_choice(settings, "8")


def test_the_codes_of_chronus_have_the_same_words_for_unisched() -> None:
    params = {"num_gpus": 8, "pool_gpus": 4}
    assert refusal_reason("unisched.refused-too-wide", params) == refusal_reason(
        "chronus.refused-too-wide", params
    )
    assert tells_hold("unisched.risk-held")
    assert not tells_hold("unisched.target")
    assert not tells_hold(None)
