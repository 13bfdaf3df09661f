"""Which job an id means, what the history says of it, and why it waits."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path

import pytest
from support.history import attempt, batch
from support.queue import StandInSlurm, row

from gsched.app.job import find_live
from gsched.app.show import show_job
from gsched.app.waiting import WhyLine
from gsched.app.why import explain_job
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.records import JobDetail, SlurmConfig
from gsched_cli.output import local_time
from gsched_cli.show_rows import fact_rows
from gsched_sql import History

# -- one job --------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A history in which array 7 has ended tasks and job 8 has three ended components."""
    found = Settings(state_dir=tmp_path)
    History.create(found.database_url)
    with History.open(found.database_url) as history:
        tasks = [attempt(7, 1000, array_task=task) for task in range(5)]
        parts = [attempt(8, 1000, het_offset=part) for part in range(3)]
        history.ingest(batch(*tasks, *parts), source_key=None)
    return found


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    """A Slurm that still knows task 3 of array 7 and component 1 of job 8."""
    made = StandInSlurm(
        row(703, job_id=7, array_task=3),
        row(704, job_id=7, array_task=4),
        row(801, job_id=8, het_offset=1),
    )
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def past(settings: Settings, job: str) -> list[str]:
    return [found["job"] for found in show_job(settings, job).document["history"]]


def test_the_history_shown_is_that_of_the_task_or_component_alone(settings, slurm):
    assert past(settings, "7_3") == ["7_3"]
    assert past(settings, "8+1") == ["8+1"]
    assert past(settings, "7_2") == ["7_2"]  # no longer in the queue


def test_a_job_found_by_slurms_own_number_has_its_history(settings, slurm):
    assert past(settings, "703") == ["7_3"]
    assert past(settings, "801") == ["8+1"]


def test_an_array_that_waits_whole_has_the_history_of_what_was_asked_for(settings, slurm):
    slurm.rows = (row(7, is_unsplit_array=True, array_tasks="0-9"),)
    assert past(settings, "7") == ["7_4", "7_3", "7_2", "7_1", "7_0"]
    assert past(settings, "7_3") == ["7_3"]


def test_a_job_of_several_parts_is_asked_for_one_of_them(settings, slurm):
    with pytest.raises(UsageError, match=r"job 7 has 2 parts \(7_3, 7_4"):
        find_live(settings, "7")
    assert find_live(settings, "7_9") is None


def test_the_queue_is_read_once_for_one_answer(settings, slurm):
    for job in ("7_3", "703"):
        slurm.readings = 0
        live = find_live(settings, job)
        assert live is not None
        assert (live.row.raw_id, live.text.name, live.line.name) == (703, "name 703", "name 703")
        assert slurm.readings == 1


def test_the_moment_that_slurm_expects_is_no_text(settings, slurm):
    slurm.rows = (row(9, start_time=1_800_000_000),)
    line = WhyLine("Slurm expects", "reckons with time limits", at=1_800_000_000)
    assert line in explain_job(settings, "9").lines


def test_a_name_that_looks_like_a_moment_stays_a_name(settings, slurm):
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="@RUNNING"),)
    answer = explain_job(settings, "9")
    assert answer.lines == (WhyLine("", "9 does not wait: it is @RUNNING"),)
    assert answer.verdict == "running"


def test_an_array_is_explained_as_a_whole(settings, slurm):
    slurm.rows = (
        row(7, is_unsplit_array=True, array_tasks="4-9%2", reason="JobArrayTaskLimit"),
        row(702, job_id=7, array_task=2, reason="Resources"),
        row(703, job_id=7, array_task=3, state=JobState.RUNNING, state_text="RUNNING"),
    )
    answer = explain_job(settings, "7")
    assert answer.lines[0].words == (
        '7 "name 7" has 8 tasks that slurmctld knows: 7 PENDING, 1 RUNNING'
    )
    words = [line.words for line in answer.lines]
    assert words[1].startswith("6: its array runs as many tasks at once")
    assert words[2] == "1: waits for free resources"
    assert words[3] == '7_2 "name 702" waits for free resources'
    assert [part["num_tasks"] for part in answer.document()["parts"]] == [6, 1, 1]


def test_one_component_that_can_never_start_dooms_a_het_job(settings, slurm):
    slurm.rows = (
        row(8, job_id=8, het_offset=0),
        row(9, job_id=8, het_offset=1, num_gpus=99),
    )
    answer = explain_job(settings, "8")
    assert answer.verdict == "never"
    assert "2 components that start together" in answer.lines[0].words
    assert any(x.words.startswith("8+1 can never start: it asks for 99 GPUs") for x in answer.lines)


def test_where_others_are_hidden_nothing_is_said_of_who_is_ahead(settings, slurm, monkeypatch):
    private = SlurmConfig({"ClusterName": "alpha", "PrivateData": "jobs,usage"})
    monkeypatch.setattr(slurm, "config", lambda: private)
    monkeypatch.setattr("gsched.app.waiting.own_name", lambda: "alice")
    slurm.rows = (row(9, priority=1), row(10, priority=5))
    document = explain_job(settings, "9").document()
    assert document["ahead"] is None
    assert any("hides other users' jobs" in line["words"] for line in document["lines"])
    monkeypatch.setattr("gsched.app.waiting.own_name", lambda: "root")  # whom Slurm hides nothing
    assert explain_job(settings, "9").document()["ahead"]["num_jobs"] == 1
    monkeypatch.setattr("gsched.app.waiting.own_name", lambda: "alice")
    slurm.rows += (row(11, priority=5, user="bob"),)  # an operator sees all
    assert explain_job(settings, "9").document()["ahead"]["num_jobs"] == 2


def test_a_held_job_is_behind_nobody(settings, slurm):
    slurm.rows = (row(9, priority=0, reason="JobHeldUser"), row(10, priority=5))
    answer = explain_job(settings, "9")
    assert (answer.verdict, answer.lines[0].words) == ("held", '9 "name 9" is held by its user')
    assert "ahead of it" not in {line.what for line in answer.lines}


def test_the_next_job_to_end_is_the_one_whose_limit_ends_it_first(settings, slurm):
    def runs(raw_id, end_time, **facts):
        state = {"state": JobState.RUNNING, "state_text": "RUNNING", "node_list": "n1"}
        return row(raw_id, end_time=end_time, **(state | facts))

    slurm.rows = (
        row(9),
        runs(1, 3000),
        runs(2, 2000),
        runs(3, 1000, num_gpus=0),
        runs(4, 500, node_list="n9"),  # no node of its partition
    )
    found = explain_job(settings, "9").document()["next_to_end"]
    assert found == {"job": "2", "end_time": 2000}
    slurm.rows += (runs(5, 400, partitions=("other",)),)  # of another one, on the same node
    found = explain_job(settings, "9").document()["next_to_end"]
    assert found == {"job": "5", "end_time": 400}


def test_a_job_that_has_left_the_queue_is_found_in_the_history(settings, slurm):
    answer = explain_job(settings, "7_2")
    assert answer.verdict == "ended"
    assert answer.lines[0].words == '7_2 "train" does not wait: it is COMPLETED, ran 1:40'
    with pytest.raises(UsageError, match=r"no job 12 \(any more\), or it is not yours"):
        explain_job(settings, "12")


def test_the_codes_and_the_words_of_a_block_stand_side_by_side(settings, slurm):
    slurm.rows = (row(9, num_gpus=99),)
    document = explain_job(settings, "9").document()
    assert document["verdict"] == "never"
    (block,) = document["blocks"]
    assert block["code"] == "gpus"
    assert block["params"] == {"partition": "gpu", "asked": 99, "total": 16, "nodes": 2}
    assert block["words"] in document["headline"]


def what(answer):
    return {line.what: line.words for line in answer.lines}


def test_who_ends_next_is_said_in_what_the_job_asks_for(settings, slurm):
    runs = row(1, state=JobState.RUNNING, end_time=3000, node_list="n1", num_gpus=4, num_cpus=6)
    slurm.rows = (row(9), row(10, num_gpus=0), row(11, num_gpus=0, priority=0), runs)
    assert "gives back 4 GPUs" in what(explain_job(settings, "9"))["next to end"]
    assert "gives back 6 CPUs" in what(explain_job(settings, "10"))["next to end"]
    held = explain_job(settings, "11")
    assert {"next to end", "ahead of it"} & set(what(held)) == set()
    assert (held.document()["next_to_end"], held.document()["ahead"]) == (None, None)


def failed(raw_id, monkeypatch, slurm, **facts):
    """A job that has failed with what Slurm shows of one that was never started: signal 1."""
    texts = {f.name: "" for f in fields(JobDetail) if f.type == "str"}
    numbers = {f.name: None for f in fields(JobDetail) if f.type == "int | None"}
    known = {"raw_id": raw_id, "restarts": 0, "node_gres": (), "exit_code": 0, "exit_signal": 1}
    detail = JobDetail(**(texts | numbers | known))
    monkeypatch.setattr(slurm, "job_detail", lambda _: detail)
    slurm.rows = (row(raw_id, state=JobState.FAILED, state_text="FAILED", end_time=2000, **facts),)


def test_a_job_that_never_ran_was_not_killed(settings, slurm, monkeypatch):
    failed(9, monkeypatch, slurm)
    assert what(explain_job(settings, "9"))["ended"] == "it never ran"
    assert show_job(settings, "9").document["slurm"]["exit_words"] is None
    failed(9, monkeypatch, slurm, node_list="n1", start_time=1500)
    assert what(explain_job(settings, "9"))["ended"] == "killed by SIGHUP"
    assert show_job(settings, "9").document["slurm"]["exit_words"] == "killed by SIGHUP"


def test_neither_was_one_that_has_left_the_queue(settings, slurm):
    facts = {"state": JobState.FAILED, "exit_signal": 1, "start_time": None, "node_list": None}
    with History.open(settings.database_url) as history:
        history.ingest(batch(attempt(20, 1000, **facts)), source_key=None)
    (line,) = explain_job(settings, "20").lines
    assert line.words == '20 "train" does not wait: it is FAILED, it never ran'


def test_of_a_job_that_the_queue_does_not_show_nothing_is_claimed(settings, slurm):
    facts = {"state": JobState.PENDING, "state_text": "PENDING", "start_time": None}
    with History.open(settings.database_url) as history:
        history.ingest(batch(attempt(20, 1000, end_time=None, **facts)), source_key=None)
    answer = explain_job(settings, "20")
    assert answer.verdict == "unknown"
    assert "knows it as PENDING" in answer.lines[0].words
    assert "hidden (PrivateData), or has ended since" in answer.lines[0].words


def test_no_limit_is_null_in_json_and_unlimited_in_the_table(settings, slurm):
    slurm.rows = (row(9, time_limit_s=UNLIMITED_S), row(10))
    with History.open(settings.database_url) as history:
        history.ingest(batch(attempt(20, 1000, time_limit_s=UNLIMITED_S)), source_key=None)
    live, past, limited = (show_job(settings, job) for job in ("9", "20", "10"))
    assert live.document["slurm"]["time_limit_s"] is None
    assert past.document["history"][0]["time_limit_s"] is None
    assert dict(fact_rows(live))["slurm time limit"] == "UNLIMITED"
    assert dict(fact_rows(past))["time limit"] == "UNLIMITED"
    assert dict(fact_rows(limited))["slurm time limit"] == "1:00"


def test_show_tells_of_a_request_in_words(settings, slurm, monkeypatch):
    wants = {
        "deadline": 1_798_106_400,
        "soft_deadlines": [[1_798_110_000, 2.5]],
        "phases": ["gpu", "cpu"],
        "shareable": True,
    }
    answer = {
        "submit_time": 1000,
        "state": "PENDING",
        "rank": {"queue": "gpu", "position": 1, "of": 2},
        "reason": {"code": "qssf.no-prediction", "params": {}},
        "duration_s": {"mean": 40.0, "quantiles": [[0.1, 1.0]], "source": "all", "similar_jobs": 3},
        "accepted": False,
        "request": {"token": "gs1{d}", "first_seen": 1_798_000_000, "unknown": 1, "wants": wants},
        "outcomes": [
            {"want": "deadline", "outcome": "refused", "reason": "no", "earliest": 1_798_106_401}
        ],
        "news": 7,
    }
    document = {"version": 1, "cluster": "alpha", "as_of": 1, "interval_s": 30}
    settings.status_file.write_text(json.dumps(document | {"jobs": {"9": answer}}))
    slurm.rows = (row(9),)
    rows = dict(fact_rows(show_job(settings, "9")))
    assert rows["gsched rank"] == "1 of 2 in gpu"
    assert rows["gsched reason"] == "no prediction: keeps the median place"
    assert rows["gsched predicts"] == "0:40 (from all 3 past jobs)"
    assert rows["asked deadline"] == local_time(1_798_106_400)
    assert rows["asked soft deadlines"] == f"{local_time(1_798_110_000)} (reward 2.5)"
    assert (rows["asked phases"], rows["asked shareable"]) == ("gpu,cpu", "yes")
    assert rows["asked first seen"] == local_time(1_798_000_000)
    assert rows["asked unknown here"] == "1 item"
    assert rows["gsched news"] == "7"  # of a later version: shown as it is
    told = rows["gsched answers"]
    assert told.startswith(f"--gs-deadline {local_time(1_798_106_400)[:16]}")
    assert f" refused: no; earliest {local_time(1_798_106_401 + 59)[:16]}" in told  # not sooner
    assert not any(
        "{" in text or "17981" in text for text in map(str, rows.values()) if text != "gs1{d}"
    )


def test_the_end_that_slurm_shows_of_a_job_without_a_limit_is_none(settings, slurm):
    runs = {"state": JobState.RUNNING, "state_text": "RUNNING", "node_list": "n1"}
    slurm.rows = (row(9), row(1, end_time=3000, time_limit_s=UNLIMITED_S, **runs))
    assert explain_job(settings, "9").document()["next_to_end"] is None
    assert "UNLIMITED" in what(explain_job(settings, "1"))["ends"]
    slurm.rows = (row(9), row(1, end_time=3000, **runs))
    assert explain_job(settings, "9").document()["next_to_end"] == {"job": "1", "end_time": 3000}
    assert what(explain_job(settings, "1"))["ends"] == "at the latest: its time limit"
    limit = {"start_time": 1000, "time_limit_s": 2000}
    slurm.rows = (row(9), row(1, end_time=3000, **limit, **runs))
    assert what(explain_job(settings, "1"))["ends"] == "at the latest: its time limit"
    slurm.rows = (row(9), row(1, end_time=1300, **limit, **runs))
    assert "preempts" in what(explain_job(settings, "1"))["ends"]


def test_of_a_job_that_the_daemon_has_not_seen_why_says_so(settings, slurm):
    document = {"version": 1, "cluster": "alpha", "as_of": int(time.time()), "interval_s": 30}
    settings.status_file.write_text(json.dumps(document | {"acting": True, "jobs": {}}))
    slurm.rows = (row(9, submit_time=int(time.time())),)
    assert "has not seen this job yet" in what(explain_job(settings, "9"))["order"]
