"""`gsched deadlines`: what was asked for, promised and kept, from the database."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gsched.app import past_targets
from gsched.config.deadlines import DeadlineSettings
from gsched.config.loader import load
from gsched.config.settings import Settings
from gsched.errors import PermissionDeniedError
from gsched.explain.deadline_reasons import REFUSED, refusal_codes
from gsched.model.decision import Alternative
from gsched.model.job import JobKey
from gsched.model.target_records import Promise, Risk, TargetRecord, TargetState
from gsched.model.targets import Steps
from gsched.policy.chronus import Chronus
from gsched.policy.unisched import UniSched
from gsched_cli.commands.deadlines import _words, deadlines
from gsched_cli.deadline_columns import COLUMNS
from gsched_sql import History

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-deadlines.7"
T0 = 1_796_634_000  # 2026-12-07T09:00 UTC
HOUR = 3600
ROOM = {"num_gpus": 64, "pool_gpus": 16}


def at(second: int) -> str:
    return f"{datetime.fromtimestamp(T0 + second, UTC):%Y-%m-%dT%H:%M:%S+00:00}"


WINDOW = ("--since", at(0), "--until", at(1000))


def request(job_id: int, second: int, state: TargetState, **facts) -> TargetRecord:
    """Somebody asks for an end within four hours; what is not refused was promised at once."""
    asked_time = T0 + second
    promise = None
    if state is not TargetState.REFUSED:
        promise = Promise(asked_time + 1, asked_time + 2 * HOUR, 0.934, 8.0 * HOUR)
    key = JobKey("lab", job_id, epoch=asked_time)
    steps = Steps((asked_time + 3 * HOUR, asked_time + 4 * HOUR), (100.0, 50.0))
    told = {"user": "alice", "num_gpus": 4, "since": asked_time + 5, "promise": promise} | facts
    return TargetRecord(key=key, asked_time=asked_time, steps=steps, state=state, **told)


REQUESTS = (
    request(41, 100, TargetState.KEPT, end_time=T0 + HOUR, reward=100.0),
    request(42, 200, TargetState.MISSED, end_time=T0 + 9 * HOUR, reward=1.0, warned=Risk.LATE,
            warned_time=T0 + 4 * HOUR),
    request(43, 300, TargetState.REFUSED, user="bob", why="chronus.refused-too-wide", params=ROOM,
            earliest=T0 + 8 * HOUR,
            alternatives=(Alternative("later", T0 + 8 * HOUR, 4, 0.95),)),
    request(44, 400, TargetState.STANDING, finish_time=T0 + 2 * HOUR, probability=0.9),
    request(45, 1000, TargetState.KEPT),
)  # fmt: skip


@pytest.fixture
def cluster(gsched, environment, stand_in):
    """Four requests of cluster lab within the time asked for, and one after it."""
    stand_in("scontrol").answers("ClusterName = lab\n")
    assert gsched("db", "init").returncode == 0
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        history.targets().keep("lab", [(record, ()) for record in REQUESTS])


def rows(answer, *names):
    assert answer.returncode == 0, answer.stderr
    found = [line.split("|") for line in answer.stdout.splitlines()]
    assert found[0] == list(names)
    return found[1:]


def test_a_row_for_each_request_the_newest_first(gsched, cluster):
    names = ("jobid", "state", "asked", "first", "deadline", "promised_end", "probability", "why")
    found = rows(gsched("deadlines", *WINDOW, "-P", "-o", ",".join(names)), *names)
    assert [line[:2] for line in found] == [
        ["44", "standing"], ["43", "refused"], ["42", "missed"], ["41", "kept"],
    ]  # fmt: skip
    asked = T0 + 400
    assert found[0][2:] == [
        str(asked), str(asked + 3 * HOUR), str(asked + 4 * HOUR), str(asked + 2 * HOUR), "0.934",
        "",
    ]  # fmt: skip
    words = "it asks for 64 GPUs, and 16 GPUs of its partition can be promised"
    assert found[1][5:] == ["", "", words]


def test_the_sums_say_what_came_of_promises(gsched, cluster):
    answer = gsched("deadlines", *WINDOW)
    assert answer.stderr == (
        "gsched: 1 of 3 promises kept (1 missed, 1 standing); 1 of 4 requests refused\n"
    )
    assert "0.93" in answer.stdout
    assert "2026-12-07T13:06:40+00:00" in answer.stdout


def test_all_are_counted_though_few_are_shown(gsched, cluster):
    answer = gsched("deadlines", *WINDOW, "--limit", "1", "-P", "-o", "jobid")
    assert rows(answer, "jobid") == [["44"]]
    assert "1 of 3 promises kept" in answer.stderr
    assert "there are more: --limit 2 shows more" in answer.stderr


def test_of_one_user(gsched, cluster):
    answer = gsched("deadlines", *WINDOW, "-u", "bob", "-P", "-o", "jobid,user")
    assert rows(answer, "jobid", "user") == [["43", "bob"]]
    assert "0 of 0 promises kept; 1 of 1 requests refused" in answer.stderr
    nobody = gsched("deadlines", *WINDOW, "--user", "nobody-at-all", "-P", "-o", "jobid")
    assert rows(nobody, "jobid") == []
    assert nobody.stderr == "gsched: no deadline was asked for in this time\n"


def test_a_document_with_the_keys_that_the_manual_names(gsched, cluster):
    document = json.loads(gsched("deadlines", *WINDOW, "--json").stdout)
    manual = re.sub(r"\s+", " ", inspect.cleandoc(deadlines.help))
    assert ", ".join(document) in manual
    assert "counts: " + ", ".join(document["counts"]) in manual
    assert "targets[]: " + ", ".join(document["targets"][0]) in manual
    standing, refused, missed, kept = document["targets"]
    assert kept["promised"] == {
        "time": T0 + 101, "finish_time": T0 + 100 + 2 * HOUR, "probability": 0.934,
        "budget_gpu_s": 28800.0,
    }  # fmt: skip
    assert (kept["end_time"], kept["reward"], kept["warned"]) == (T0 + HOUR, 100.0, None)
    assert (missed["warned"], missed["warned_time"]) == ("late", T0 + 4 * HOUR)
    assert (refused["promised"], refused["earliest"]) == (None, T0 + 8 * HOUR)
    assert refused["alternatives"] == [
        {"kind": "later", "finish_time": T0 + 8 * HOUR, "num_gpus": 4, "probability": 0.95}
    ]
    assert standing["deadlines"] == [
        {"time": T0 + 400 + 3 * HOUR, "reward": 100.0},
        {"time": T0 + 400 + 4 * HOUR, "reward": 50.0},
    ]
    assert document["is_whole"] is True


def test_more_than_can_be_looked_at_is_said(cluster, environment, monkeypatch):
    monkeypatch.setattr(past_targets, "MOST", 2)
    settings = Settings(state_dir=Path(environment["GSCHED_STATE_DIR"]))
    found = past_targets.past_targets(settings, T0, T0 + 1000)
    assert [record.key.job_id for record in found.records] == [44, 43]
    assert _words(found, 50)[-1] == "older ones are left out: only 2 are looked at"


def test_what_cannot_be_asked_together(gsched, cluster):
    assert gsched("deadlines", "--me", "-u", "bob").returncode == 2
    backwards = gsched("deadlines", "--since", at(10), "--until", at(10))
    assert backwards.returncode == 2
    assert "no time between" in backwards.stderr


def test_without_a_database_it_says_so(gsched, stand_in):
    stand_in("scontrol").answers("ClusterName = lab\n")
    answer = gsched("deadlines")
    assert answer.returncode == 78
    assert answer.stdout == ""


def test_who_may_not_read_the_history_is_told_what_they_can_do(monkeypatch, tmp_path):
    def refuse(settings):
        raise PermissionDeniedError("history.db belongs to root", "run as root")

    monkeypatch.setattr(past_targets, "open_history", refuse)
    with pytest.raises(PermissionDeniedError) as caught:
        past_targets.past_targets(Settings(state_dir=tmp_path), T0, T0 + 1000)
    assert (caught.value.message, caught.value.exit_code) == ("history.db belongs to root", 77)
    assert "`gsched queue --plan`" in caught.value.hint
    assert "`gsched why JOB`" in caught.value.hint


def test_every_column_has_a_cell_and_a_plain_value_for_every_state():
    for state in TargetState:
        for column in COLUMNS:
            one = request(1, 0, state)
            assert isinstance(column.cell(one), str)
            json.dumps(column.raw(one))


# -- the page ------------------------------------------------------------------------------------


@pytest.fixture
def page():
    return PAGE.read_text().replace("\\-", "-")


def test_the_page_names_every_setting_and_every_knob(page):
    named = {key.name for key in fields(DeadlineSettings)} | {knob.name for knob in UniSched.knobs}
    assert {name for name in named if not re.search(rf"\b{name}\b", page)} == set()
    quantile = next(knob.default for knob in Chronus.knobs if knob.name == "quantile")
    assert f"\n.IR quantile ,\n{quantile:g})" in page


def test_the_page_tells_of_every_kind_of_refusal(page):
    told = page.partition("Why a deadline may be refused:")[2].partition(".SS")[0]
    codes = {code.removeprefix(REFUSED).replace("-", " ") for code in refusal_codes()}
    assert {code for code in codes if code not in told} == set()


def test_the_page_s_example_is_a_configuration_that_loads(page, tmp_path):
    example = page.partition('[daemon]\npolicy = "chronus"')[2].partition(".fi")[0]
    path = tmp_path / "gsched.toml"
    path.write_text(f'[daemon]\npolicy = "chronus"{example}')
    assert tomllib.loads(path.read_text())["deadlines"]["max_horizon_s"] == 14 * 86400
    settings = load({"GSCHED_CONFIG": str(path)})
    assert settings.daemon.leases
    assert settings.deadlines.mail_command[0] == "/usr/bin/mail"
