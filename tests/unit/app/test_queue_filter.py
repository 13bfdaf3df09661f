"""The filters of squeue(1), one by one."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest
from support.queue import row

from gsched.app.queue import chosen
from gsched.app.queue_filter import QueueFilter, own_name
from gsched.app.queued_job import QueuedJob
from gsched.errors import UsageError
from gsched.model.job import JobState
from gsched.model.jobid import TaskRange
from gsched.slurm.records import FreeText

RUNNING = {"state": JobState.RUNNING, "state_text": "RUNNING"}


def takes(wanted: QueueFilter, name: str = "", raw_id: int = 7, **facts: Any) -> bool:
    return wanted.test()(row(raw_id, **facts), name)


@pytest.mark.parametrize(
    ("field", "fact", "value"),
    [
        ("users", "user", "news"),
        ("accounts", "tenant", "lab2"),
        ("qos", "qos", "high"),
        ("reservations", "reservation", "course"),
    ],
)
def test_words_of_one_filter_are_alternatives(field, fact, value):
    wanted = QueueFilter(**{field: ("other", f"more, {value}")})
    assert takes(wanted, **{fact: value})
    assert not takes(wanted, **{fact: f"{value}x"})
    assert not takes(wanted, **{fact: ""})


def test_filters_of_different_kinds_all_hold():
    wanted = QueueFilter(users=("alice",), partitions=("gpu",))
    assert takes(wanted)
    assert not takes(wanted, user="bob")
    assert not takes(wanted, partitions=("cpu",))


def test_a_job_may_wait_for_several_partitions():
    assert takes(QueueFilter(partitions=("b",)), partitions=("a", "b"))
    assert not takes(QueueFilter(partitions=("c",)), partitions=("a", "b"))


def test_users_by_number_as_squeue_takes_them():
    assert takes(QueueFilter(users=("0",)), user="root")
    assert takes(QueueFilter(users=("4294967000",)), user="4294967000")
    assert own_name() == pwd.getpwuid(os.getuid()).pw_name


def test_names_are_whole_and_may_hold_commas():
    assert takes(QueueFilter(names=("a,b",)), name="a,b")
    assert takes(QueueFilter(names=("a,b",)), name="b")
    assert not takes(QueueFilter(names=("a",)), name="ab")


@pytest.mark.parametrize(
    ("states", "facts", "taken"),
    [
        ((), {}, True),
        ((), {"state": JobState.COMPLETED, "state_text": "COMPLETED"}, False),
        ((), {"state": JobState.UNKNOWN, "state_text": "NEW"}, True),
        (("pd",), {}, True),
        (("PENDING,R",), RUNNING, True),
        (("r",), {}, False),
        (("CF",), {"state": JobState.RUNNING, "state_text": "CONFIGURING"}, True),
        (("CF",), RUNNING, False),
        (("R",), {"state": JobState.RUNNING, "state_text": "CONFIGURING"}, True),
        (("all",), {"state": JobState.COMPLETED, "state_text": "COMPLETED"}, True),
        (("ALL",), {"state": JobState.UNKNOWN, "state_text": "NEW"}, True),
    ],
)
def test_states_in_long_and_short_spelling(states, facts, taken):
    assert takes(QueueFilter(states=states), **facts) is taken


def test_a_state_that_is_none_is_refused():
    with pytest.raises(UsageError, match="no such state: 'RUNING'"):
        QueueFilter(states=("runing",)).test()


def test_pending_and_running_only():
    assert takes(QueueFilter(pending_only=True))
    assert not takes(QueueFilter(pending_only=True), **RUNNING)
    assert takes(QueueFilter(running_only=True), **RUNNING)
    assert takes(QueueFilter(running_only=True), state=JobState.COMPLETING)
    assert not takes(QueueFilter(running_only=True))


def test_since_is_about_the_submission():
    assert takes(QueueFilter(submitted_since=1000), submit_time=1000)
    assert not takes(QueueFilter(submitted_since=1001), submit_time=1000)


@pytest.mark.parametrize(
    ("node_list", "taken"),
    [("gn[01-02]", True), ("gn02", True), ("gn03", False), ("", False), ("gn[", True)],
)
def test_nodes_that_a_job_holds(node_list, taken):
    assert takes(QueueFilter(node_lists=("gn[02,07]",)), node_list=node_list) is taken


def test_a_host_list_that_is_none_is_refused():
    with pytest.raises(UsageError):
        QueueFilter(node_lists=("gn[1",)).test()


TASK = {"job_id": 7, "array_task": 3}
UNSPLIT = {"job_id": 7, "is_unsplit_array": True, "array_tasks": "1-9:4%1"}


@pytest.mark.parametrize(
    ("ids", "raw_id", "facts", "taken"),
    [
        ("7", 7, {}, True),
        ("8,7", 7, {}, True),
        ("8", 7, {}, False),
        ("7", 12, TASK, True),  # the array means its tasks
        ("12", 12, TASK, True),  # Slurm's own number of a task
        ("7_3", 12, TASK, True),
        ("7_4", 12, TASK, False),
        ("7_[1,3]", 12, TASK, True),
        ("6,7_[1,2],8", 12, TASK, False),
        ("7_5", 7, UNSPLIT, True),
        ("7_4", 7, UNSPLIT, False),
        ("7", 7, UNSPLIT, True),
        ("7+1", 8, {"job_id": 7, "het_offset": 1}, True),
        ("7+0", 8, {"job_id": 7, "het_offset": 1}, False),
    ],
)
def test_job_ids_in_every_spelling(ids, raw_id, facts, taken):
    assert takes(QueueFilter(job_ids=(ids,)), raw_id=raw_id, **facts) is taken


def test_an_id_that_is_none_is_refused():
    with pytest.raises(UsageError, match="not a job id: 'x'"):
        QueueFilter(job_ids=("7,x",)).test()


def test_ended_jobs_are_read_only_when_states_are_named():
    assert not QueueFilter().wants_ended
    assert QueueFilter(states=("F",)).wants_ended


def test_a_range_of_a_whole_array_is_not_expanded(monkeypatch):
    def expands(_):
        raise AssertionError

    monkeypatch.setattr(TaskRange, "__iter__", expands)
    wanted = QueueFilter(job_ids=("7_[0-3999999]",))
    assert takes(wanted, is_unsplit_array=True, array_tasks="0-3999999")
    assert takes(wanted, array_task=3_999_999)
    assert not takes(wanted, array_task=4_000_000)


@pytest.mark.parametrize(
    "field",
    ["users", "accounts", "partitions", "qos", "reservations", "names", "job_ids", "licences",
     "node_lists", "states"],
)  # fmt: skip
def test_a_filter_without_a_word_takes_nothing(field):
    assert not takes(QueueFilter(**{field: ("",)}), reservation="", node_list="n1")
    assert takes(QueueFilter(**{field: ()}))


def test_upper_and_lower_case_as_with_squeue():
    for taken in (QueueFilter(accounts=("LAB1",)), QueueFilter(qos=("Normal",))):
        assert takes(taken)
    assert takes(QueueFilter(names=("TRAIN",)), name="Train")
    for refused in (QueueFilter(users=("ALICE",)), QueueFilter(partitions=("GPU",))):
        assert not takes(refused)


def test_licences_by_name():
    wanted = QueueFilter(licences=("matlab",))
    assert takes(wanted, licences="ansys:1,matlab:2")
    assert not takes(wanted, licences="matlab2")
    assert not takes(wanted)


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ("7_4", ["7_4"]),
        ("7_[1-5],8", ["7_[2,4%2]"]),
        ("7_2,7_4,7_6", ["7_[2,4,6%2]"]),
        ("7_4,7", ["7_[0-10:2%2]"]),
        ("7_3", []),
    ],
)
def test_of_an_array_the_tasks_that_are_named(ids, shown):
    array = row(7, is_unsplit_array=True, array_tasks="0-10:2%2")
    jobs = [QueuedJob(array, FreeText("", ""), {}, 0)]
    wanted = QueueFilter(job_ids=(ids,))
    found = chosen(jobs, wanted.test(), wanted.named_jobs())
    assert [job.slurm_id for job in found] == shown
