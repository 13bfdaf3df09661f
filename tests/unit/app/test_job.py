"""Which job an id means, what the history says of it, and why it waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.history import attempt, batch
from support.queue import StandInSlurm, row

from gsched.app.job import find_live
from gsched.app.show import show_document
from gsched.app.waiting import WhyLine
from gsched.app.why import explain_job
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.job import JobState
from gsched.slurm.records import SlurmConfig
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
    return [found["job"] for found in show_document(settings, job)["history"]]


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
        return row(raw_id, end_time=end_time, **state, **facts)

    slurm.rows = (
        row(9),
        runs(1, 3000),
        runs(2, 2000),
        runs(3, 1000, num_gpus=0),
        runs(4, 500, partitions=("other",)),
    )
    found = explain_job(settings, "9").document()["next_to_end"]
    assert found == {"job": "2", "end_time": 2000}


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
