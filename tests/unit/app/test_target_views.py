"""What `submit`, `queue`, `why` and `show` make of a deadline that was promised or refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.login import Login
from support.queue import StandInSlurm, node, row

from gsched.app.job import LiveJob
from gsched.app.pool_plan import pool_plans
from gsched.app.queue import view_queue
from gsched.app.show import show_job
from gsched.app.target_calendar import TargetCalendar, target_calendar
from gsched.app.why import explain_job
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.explain.start_words import clock
from gsched.explain.words import moment
from gsched.model.job import JobState, Wants
from gsched.slurm import wire
from gsched.slurm.records import FreeText, SlurmConfig
from gsched_cli.plan_chart import plan_chart
from gsched_cli.queue_columns import COLUMNS
from gsched_cli.show_rows import fact_rows

HOUR = 3600
COLUMN = {column.name: column for column in COLUMNS}


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


def target(at: int, **facts: Any) -> dict[str, Any]:
    """A promise to end within four hours, by four GPUs for the last two of them."""
    return {
        "state": "on-target",
        "deadlines": [[at + 4 * HOUR, 100.0]],
        "finish_time": at + 3 * HOUR,
        "probability": 0.93,
        "promised": {"finish_time": at + 3 * HOUR, "probability": 0.95, "time": at - 60},
        "budget_gpu_s": 8.0 * HOUR,
        "num_gpus": 4,
        "plan": [[at + HOUR, at + 3 * HOUR, 4]],
        **facts,
    }


def accepted(at: int, **facts: Any) -> dict[str, Any]:
    """The daemon's entry of a job with a promise."""
    promise = target(at, **facts)
    told = {name: promise[name] for name in ("finish_time", "probability")}
    outcome = {"want": "deadline", "outcome": "accepted", "reason": "by chronus", **told}
    return {"submit_time": 1000, "accepted": True, "target": promise, **asked(at, outcome)}


def refused(at: int) -> dict[str, Any]:
    """The daemon's entry of a job whose deadline it has refused, with two ways out."""
    params = {"num_gpus": 8, "pool_gpus": 4}
    outcome = {
        "want": "deadline", "outcome": "refused", "reason": "policy chronus cannot keep it",
        "earliest": at + 6 * HOUR, "why": {"code": "chronus.refused-too-wide", "params": params},
        "alternatives": [
            {"kind": "later", "finish_time": at + 6 * HOUR, "num_gpus": 2, "probability": 0.95},
            {"kind": "fewer-gpus", "finish_time": at + 4 * HOUR, "num_gpus": 1,
             "probability": 0.9},
        ],
    }  # fmt: skip
    return {"submit_time": 1000, "accepted": False, **asked(at, outcome)}


def asked(at: int, outcome: dict[str, Any]) -> dict[str, Any]:
    wants = {"deadline": at + 4 * HOUR}
    request = {"token": "gs1{d}", "first_seen": at - 60, "unknown": 0, "wants": wants}
    return {"request": request, "outcomes": [outcome]}


def publish(settings: Settings, entry: dict[str, Any], **head: Any) -> None:
    whole = {"version": 1, "cluster": "alpha", "policy": "chronus", "as_of": now(),
             "interval_s": 30, "acting": True, "jobs": {"9": entry}}  # fmt: skip
    settings.status_file.write_text(json.dumps({**whole, **head}))


def lines(settings: Settings) -> dict[str, str]:
    return {line.what: line.words for line in explain_job(settings, "9").lines}


def minute(epoch: float) -> str:
    return moment(-(-epoch // 60) * 60, "minutes")


# -- submit --gs-wait ----------------------------------------------------------------------------


def test_submit_hears_how_the_promise_is_to_be_kept(login: Login) -> None:
    at = now()
    login.publish({"7": accepted(at) | {"submit_time": 5}}, policy="chronus")
    found = login.wait(asked=Wants(deadline=at + 4 * HOUR))
    assert found.accepted
    promise, plan = found.lines[:2]
    assert promise.startswith(f"--gs-deadline {moment(at + 4 * HOUR, 'minutes')}: on target with ")
    assert "probability 0.93: should end by " in promise
    assert plan.startswith("plan: 4 GPUs ")


def test_submit_hears_that_no_end_can_be_planned_any_more(login: Login) -> None:
    at = now()
    lost = accepted(at, plan=[], state="at-risk", probability=0.0) | {"submit_time": 5}
    del lost["target"]["finish_time"], lost["outcomes"][0]["finish_time"]
    login.publish({"7": lost}, policy="chronus")
    lines = login.wait(asked=Wants(deadline=at + 4 * HOUR)).lines
    assert lines[0].endswith(": at risk: no end can be planned")
    assert lines[1] == "plan: no time is held for it"


def test_submit_hears_why_it_is_refused_and_what_would_be_taken(login: Login) -> None:
    at = now()
    login.publish({"7": refused(at) | {"submit_time": 5}}, policy="chronus")
    found = login.wait(asked=Wants(deadline=at + 4 * HOUR))
    assert not found.accepted
    assert found.lines[:2] == (
        f"--gs-deadline {moment(at + 4 * HOUR, 'minutes')} refused: it asks for 8 GPUs, and 4 GPUs "
        f"of its partition can be promised; earliest {minute(at + 6 * HOUR)}",
        f"would be taken: --gs-deadline {minute(at + 4 * HOUR)} with 1 GPU, if each does as much "
        "as now (probability 0.90)",
    )
    assert found.lines[2].startswith("no prediction")


def test_the_same_refusal_of_both_kinds_of_deadlines_is_told_once(login: Login) -> None:
    at, entry = now(), refused(now())
    entry["outcomes"].append(entry["outcomes"][0] | {"want": "soft_deadlines"})
    login.publish({"7": entry | {"submit_time": 5}}, policy="chronus")
    told = login.wait(asked=Wants(deadline=at + 4 * HOUR)).lines
    assert [line.partition(" ")[0] for line in told] == [
        "--gs-deadline", "would", "--gs-soft-deadline", "no",
    ]  # fmt: skip


# -- why and show --------------------------------------------------------------------------------


def test_a_waiting_target_is_explained(settings: Settings, slurm: StandInSlurm) -> None:
    left = {"mean_s": 7200.0, "safe_s": 9000.0, "quantile": 0.95, "source": "history"}
    publish(settings, accepted(now(), remaining=left))
    told = lines(settings)
    assert told["target"].startswith("on target with probability 0.93: should end by ")
    assert told["plan"].startswith("4 GPUs ")
    assert told["estimate"] == "2:00:00 left, 2:30:00 with 95 % certainty (by past jobs like it)"
    assert told["was promised"].endswith("with probability 0.95, within 8.0 GPU-h")
    assert "risk" not in told
    shown = dict(fact_rows(show_job(settings, "9")))
    assert shown["target"] == told["target"]
    assert shown["target plan"] == told["plan"]
    assert shown["target was promised"] == told["was promised"]
    assert "target risk" not in shown
    assert not any(name.startswith("gsched target") for name in shown)


def test_a_running_target_at_risk_says_why(settings: Settings, slurm: StandInSlurm) -> None:
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="RUNNING", start_time=2000),)
    warned = {"level": "at-risk", "time": 5}
    entry = accepted(now(), state="at-risk", probability=0.4, warned=warned)
    publish(settings, entry | {"rank": {"queue": "gpu", "position": 1, "of": 1}})
    told = lines(settings)
    assert told["target"].startswith("at risk with probability 0.40")
    assert told["risk"] == "it may need longer than its plan has for it"
    shown = dict(fact_rows(show_job(settings, "9")))
    assert shown["target risk"] == told["risk"]
    assert shown["target warned"] == "at-risk at 1970-01-01T00:00:05+00:00"
    assert "gsched rank" not in shown  # it was about its waiting


def test_a_refused_job_is_told_why_and_what_would_be_taken(
    settings: Settings, slurm: StandInSlurm
) -> None:
    at = now()
    publish(settings, refused(at))
    told = lines(settings)
    assert told["deadline"].startswith("refused: it asks for 8 GPUs, and 4 GPUs of its partition")
    assert told["earliest"].startswith(f"{minute(at + 6 * HOUR)} could be promised")
    assert " with 1 instead of 2 GPUs, " in told["would be taken"]
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="RUNNING", start_time=2000),)
    assert lines(settings)["deadline"] == told["deadline"]


def test_a_deadline_that_is_not_answered_yet_says_why(
    settings: Settings, slurm: StandInSlurm
) -> None:
    at = now()
    why = "its profile runs are not over yet"
    outcome = {"want": "deadline", "outcome": "open", "reason": why}
    publish(settings, {"submit_time": 1000, **asked(at, outcome)})
    assert lines(settings)["deadline"] == f"not answered yet: {why}"
    answers = dict(fact_rows(show_job(settings, "9")))["gsched answers"]
    assert answers.endswith(f" not answered yet: {why}")
    (job,) = view_queue(settings, [row(9)], {}, "alpha").jobs
    assert (job.target_state, job.deadline) == ("open", at + 4 * HOUR)


def test_jobs_without_deadlines_are_told_nothing_of_them(
    settings: Settings, slurm: StandInSlurm
) -> None:
    publish(settings, {"submit_time": 1000})
    assert {"deadline", "target", "plan"}.isdisjoint(lines(settings))
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="RUNNING", start_time=2000),)
    outcome = {"want": "checkpoint", "outcome": "accepted", "reason": "the job's own script"}
    request = {"token": "gs1{c}", "first_seen": 5, "unknown": 0, "wants": {"checkpoint": True}}
    lease = {"state": "granted", "since": 1, "end_time": 2}
    entry = {"submit_time": 1000, "outcomes": [outcome], "request": request, "lease": lease}
    publish(settings, entry)
    (part,) = explain_job(settings, "9").parts
    assert isinstance(part, LiveJob)
    assert part.line.answer == {"lease": lease}


# -- the queue -----------------------------------------------------------------------------------


def calendar(settings: Settings, jobs: dict[str, Any], *rows: Any, **head: Any) -> TargetCalendar:
    publish(settings, {}, jobs=jobs, **head)
    return TargetCalendar.of(view_queue(settings, rows, {}, "alpha"))


def test_the_calendar_has_the_nearest_deadline_first(settings: Settings) -> None:
    at = now()
    late = accepted(at, deadlines=[[at + 8 * HOUR, 100.0]])
    found = calendar(
        settings,
        {"1": late, "2": accepted(at), "3": refused(at), "4": {"submit_time": 1000}},
        *(row(number) for number in (1, 2, 3, 4)),
        targets={"num_standing": 2},
    )
    assert [job.slurm_id for job in found.targets] == ["2", "1"]
    assert [job.slurm_id for job in found.refused] == ["3"]
    assert found.end == at + 8 * HOUR
    document = found.document()
    json.dumps(document)
    assert [each["job"] for each in document["targets"]] == ["2", "1"]
    assert document["targets"][0]["plan"] == [
        {"start_time": at + HOUR, "end_time": at + 3 * HOUR, "num_gpus": 4}
    ]
    assert document["targets"][0]["deadlines"] == [{"time": at + 4 * HOUR, "reward": 100.0}]
    assert document["refused"] == [{"job": "3", "user": "alice", "deadline_time": at + 4 * HOUR}]
    assert document["targets"][0]["finish_time"] == at + 3 * HOUR


def test_a_target_that_runs_stays_in_the_calendar_and_one_that_has_ended_does_not(
    settings: Settings,
) -> None:
    running = row(1, state=JobState.RUNNING, state_text="RUNNING", start_time=2000)
    ended = row(2, state=JobState.COMPLETED, state_text="COMPLETED", start_time=1, end_time=2)
    jobs = {"1": accepted(now()), "2": accepted(now())}
    found = calendar(settings, jobs, running, ended, targets={"num_standing": 1})
    assert [job.slurm_id for job in found.targets] == ["1"]


def test_why_tells_whether_a_job_that_has_ended_has_met_its_deadline(
    settings: Settings, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Slurm alone: the daemon tells of such a job no more, and its database is not for users."""
    told = wire.append("", Wants(deadline=1_800_000_000))
    texts = {9: FreeText("train", told)}
    monkeypatch.setattr(slurm, "free_text", lambda _: texts)
    facts = {"state": JobState.COMPLETED, "state_text": "COMPLETED", "start_time": 1_799_990_000}
    slurm.rows = (row(9, **facts, end_time=1_799_999_400),)
    assert lines(settings)["deadline"].startswith("met: it ended 10:00 before the deadline, ")
    slurm.rows = (row(9, **facts, end_time=1_800_000_600),)
    assert lines(settings)["deadline"].startswith("missed by 10:00: it asked for an end by ")
    texts[9] = FreeText("train", "gs1{deadline=soon}")
    assert "deadline" not in lines(settings)


def test_the_planned_end_is_a_time_until_it_is_over(settings: Settings) -> None:
    at = now()
    cells = {}
    for left_s in (30, -30):
        found = calendar(settings, {"1": accepted(at, plan=[[at - 90, at + left_s, 4]])}, row(1))
        cells[left_s] = COLUMN["planned_end"].cell(found.targets[0])
    assert cells == {30: clock(at + 30, at), -30: "now"}


def test_a_policy_without_deadlines_is_named(settings: Settings) -> None:
    found = calendar(settings, {}, row(1), policy="qssf")
    assert found.note == "no deadlines are planned: policy qssf keeps none"
    assert calendar(settings, {}, row(1), targets={"num_standing": 0}).note == ""
    settings.status_file.unlink()
    found = TargetCalendar.of(view_queue(settings, [row(1)], {}, "alpha"))
    assert "no gsched daemon" in found.note


def test_a_document_that_somebody_else_has_written_breaks_nothing(settings: Settings) -> None:
    at = now()
    odd = accepted(at, plan=[[at + 0.5, at + 9.25, 1.5], [at + 90, at, 0]], plan_cut=2.5,
                   remaining={"safe_s": 5, "quantile": "x", "source": 7}, state="at-risk",
                   risk={"code": "chronus.target", "params": {"lost_gpus": []}})  # fmt: skip
    found = calendar(settings, {"1": odd}, row(1))
    assert [job.slurm_id for job in found.targets] == ["1"]
    json.dumps(found.document())
    assert plan_chart(found)
    assert pool_plans([node("n1")], (), found.targets, at)
    for column in COLUMNS:
        assert isinstance(column.cell(found.targets[0]), str)
    for strange in ([], "none", 5):
        assert calendar(settings, {"1": odd}, row(1), targets=strange).view.targets == {}


def test_a_target_for_which_nothing_can_be_planned_is_shown(settings: Settings) -> None:
    lost = accepted(now(), plan=[], state="at-risk", probability=0.0)
    del lost["target"]["finish_time"]
    found = calendar(settings, {"1": lost}, row(1))
    (job,) = found.targets
    assert (job.target_state, job.document()["target_finish_time"]) == ("at-risk", None)
    assert {name: found.document()["targets"][0][name] for name in ("finish_time", "plan")} == {
        "finish_time": None, "plan": [],
    }  # fmt: skip
    cells = {column.name: (column.cell(job), column.raw(job)) for column in COLUMNS}
    assert cells["target"] == ("at risk", "at-risk")
    assert cells["probability"] == cells["planned_end"] == ("-", None)
    assert plan_chart(found)


def test_others_promises_are_hidden_where_slurm_hides_their_jobs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private daemon tells of nobody; of what is left of pools others' jobs could be reckoned."""
    publish(settings, {}, jobs={}, private=True, targets={"num_standing": 1})
    hiding = StandInSlurm(row(1))
    monkeypatch.setattr("gsched.app.target_calendar.slurm_client", lambda _: hiding)
    view = view_queue(settings, [row(1)], {}, "alpha")
    assert target_calendar(settings, view).pools != ()
    monkeypatch.setattr(hiding, "config", lambda: SlurmConfig({"PrivateData": "jobs"}))
    found = target_calendar(settings, view)
    assert (found.targets, found.pools) == ((), ())
    assert "PrivateData" in found.note


def test_what_is_left_is_reckoned_with_jobs_that_are_not_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = now()
    publish(settings, {}, jobs={"1": accepted(at), "2": accepted(at)}, targets={"num_standing": 2})
    slurm = StandInSlurm(row(1), row(2))
    monkeypatch.setattr("gsched.app.target_calendar.slurm_client", lambda _: slurm)
    found = target_calendar(settings, view_queue(settings, [row(1)], {}, "alpha"))
    assert [job.slurm_id for job in found.targets] == ["1"]
    (pool,) = found.pools
    assert (pool.name, pool.num_gpus) == ("gpu", 16)
    assert [gpus for _, gpus in pool.free] == [16, 8, 16]
    assert found.document()["pools"][0]["free"][1] == {"start_time": at + HOUR, "num_gpus": 8}


def test_a_job_says_which_deadline_is_aimed_at_and_how_it_stands(settings: Settings) -> None:
    at = now()
    steps = [[at - 60, 100.0], [at + 600, 50.0], [at + 4 * HOUR, 20.0], [at + 9 * HOUR, 5.0]]
    soft = accepted(at, deadlines=steps)
    over = accepted(at, deadlines=[[at - 60, 100.0]], state="late")
    jobs = {"1": soft, "2": over, "3": refused(at), "4": {"submit_time": 1000}}
    publish(settings, {}, jobs=jobs)
    view = view_queue(settings, [row(n) for n in (1, 2, 3, 4)], {}, "alpha")
    found = {job.slurm_id: (job.deadline, job.target_state) for job in view.jobs}
    assert found == {
        "1": (at + 4 * HOUR, "on-target"), "2": (at - 60, "late"), "3": (at + 4 * HOUR, "refused"),
        "4": (None, None),
    }  # fmt: skip
    told = {job.slurm_id: job.document() for job in view.jobs}
    assert told["1"]["target_finish_time"] == at + 3 * HOUR
    assert told["1"]["target_probability"] == 0.93
    assert told["3"]["target_finish_time"] is told["3"]["target_probability"] is None


def test_soft_deadlines_of_a_refused_job_are_counted_too(settings: Settings) -> None:
    at, entry = now(), refused(now())
    entry["request"]["wants"] = {"deadline": at + 900, "soft_deadlines": [[at + 300, 1.0]]}
    publish(settings, {}, jobs={"1": entry})
    (job,) = view_queue(settings, [row(1)], {}, "alpha").jobs
    assert job.deadline == at + 300
