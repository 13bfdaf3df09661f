"""What `why` says of a waiting job: parts of arrays, who is ahead, what is free, which nodes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.queue import StandInSlurm, node, partition, row

from gsched.app.job import find_live
from gsched.app.why import Why, explain_job
from gsched.app.wiring import now
from gsched.config.settings import HeartbeatSettings, Settings
from gsched.model.cluster import ReservationView
from gsched.model.job import JobState
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import PriorityRow, SlurmConfig


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    made = StandInSlurm()
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def what(answer: Why) -> dict[str, str]:
    return {line.what: line.words for line in answer.lines}


def test_a_task_that_waits_with_others_is_named_alone(settings, slurm):
    slurm.rows = (row(17, is_unsplit_array=True, array_tasks="0-10:2%3"),)
    live = find_live(settings, "17_2")
    assert live is not None
    assert not live.row.is_unsplit_array
    assert (live.row.slurm_id, live.line.slurm_id) == ("17_2", "17_2")
    assert explain_job(settings, "17_2").lines[0].words.startswith('17_2 "name 17"')
    some = find_live(settings, "17_[1-4]")
    assert some is not None
    assert some.line.slurm_id == "17_[2,4%3]"
    whole = find_live(settings, "17")
    assert whole is not None
    assert whole.line.slurm_id == "17_[0-10:2%3]"


def test_a_task_that_the_array_does_not_have_is_none(settings, slurm):
    slurm.rows = (row(17, is_unsplit_array=True, array_tasks="0-10:2"),)
    assert find_live(settings, "17_3") is None
    assert find_live(settings, "17_12") is None
    assert find_live(settings, "17_[1,3]") is None


def test_jobs_that_cannot_start_are_not_ahead(settings, slurm):
    slurm.rows = (
        row(9, priority=1),
        row(10, priority=5, reason="Resources"),
        row(11, priority=5, reason="DependencyNeverSatisfied"),
        row(12, priority=5, reason="PartitionTimeLimit"),
        row(13, priority=5, reason="job_requeued_in_held_state"),
        row(14, priority=5, reason="PartitionTimeLimit", partitions=("gpu", "other")),
    )
    assert explain_job(settings, "9").document()["ahead"]["num_jobs"] == 2  # 10 and 14


@pytest.mark.parametrize(("total", "sign"), [(1001, "="), (1002, "≈")])
def test_a_priority_whose_parts_are_rounded_is_no_equation(
    settings, slurm, monkeypatch, total, sign
):
    slurm.rows = (row(9),)
    known = PriorityRow(9, total, 0, 0, {"age": 1, "partition": 1000}, is_manual=False)
    monkeypatch.setattr(slurm, "priorities", lambda: {9: known})
    assert what(explain_job(settings, "9"))["priority"] == f"{total} {sign} age +1, partition +1000"


def test_that_any_one_of_the_dependencies_is_enough_is_said_before_them(settings, slurm):
    slurm.rows = (row(9, dependency="afterok:10?afterok:11"), row(10), row(11))
    told = [x.words for x in explain_job(settings, "9").lines if x.what == "depends on"]
    assert told[0] == "any one of these:"
    assert len(told) == 3


def test_a_least_time_that_fits_needs_no_shorter_limit(settings, slurm, monkeypatch):
    slurm.rows = (row(9, reason="PartitionTimeLimit", time_limit_s=7200),)
    monkeypatch.setattr(slurm, "partitions", lambda: (partition(max_time_s=3600),))
    assert explain_job(settings, "9").verdict == "never"
    monkeypatch.setattr(slurm, "node_demand", lambda _: NodeDemand(1, 0, 1800))
    answer = explain_job(settings, "9")
    assert answer.verdict == "waiting"
    assert what(answer)["what to do"].startswith("its --time-min fits")


def test_what_is_free_and_what_is_short(settings, slurm, monkeypatch):
    memory = {"ClusterName": "alpha", "SelectTypeParameters": "CR_CORE_MEMORY"}
    monkeypatch.setattr(slurm, "config", lambda: SlurmConfig(memory))
    slurm.rows = (row(9, num_gpus=8, num_cpus=20, mem_bytes=2**38, gpus_per_node=8),)
    asks = "8 GPUs, 20 CPUs, 256 GiB of memory on at least 1 node; free in gpu now: "

    def free(*nodes):
        monkeypatch.setattr(slurm, "nodes", lambda: nodes)
        words = what(explain_job(settings, "9"))["asks for"]
        assert words.startswith(asks)
        return words.removeprefix(asks)

    two = (node("n1"), node("n2"))
    assert free(*two) == "16 GPUs, 128 CPUs, 1 TiB of memory"
    full = [replace(n, mem_used_bytes=n.mem_bytes - 2**30) for n in two]
    assert free(*full) == "16 GPUs, 128 CPUs, 2 GiB of memory; too little memory"
    busy = [replace(n, gpus_used=4) for n in two]
    assert free(*busy).endswith("; but no node with enough of all of it at once")
    apart = (replace(two[0], gpus_used=8), replace(two[1], cpus_used=64))
    assert free(*apart).startswith("8 GPUs, 64 CPUs, 1 TiB of memory; but no node")
    assert free(*two[:1], replace(two[1], state="down")).startswith("8 GPUs")


def test_nodes_of_a_job_that_are_named_least_and_most(settings, slurm):
    slurm.rows = (row(9, num_gpus=0, num_cpus=20, max_nodes=3), row(10, min_nodes=2, max_nodes=2))
    assert what(explain_job(settings, "9"))["asks for"].startswith("20 CPUs on 1 to 3 nodes;")
    assert "on at least 2 nodes;" in what(explain_job(settings, "10"))["asks for"]


def test_a_reservation_that_comes_too_soon_is_named(settings, slurm, monkeypatch):
    reason = "ReqNodeNotAvail,_May_be_reserved_for_other_job"
    slurm.rows = (row(9, reason=reason, time_limit_s=3600),)
    soon = ReservationView("maint", ("n2",), now() + 1800, now() + 5400)
    monkeypatch.setattr(slurm, "reservations", lambda: (soon,))
    answer = explain_job(settings, "9")
    assert "n2 is reserved (maint) from 20" in answer.lines[0].words
    assert what(answer)["what to do"].startswith("a --time below ")
    slurm.rows = (row(9, reason=reason, time_limit_s=600),)  # would have ended before
    answer = explain_job(settings, "9")
    assert "maint" not in answer.lines[0].words
    assert what(answer)["what to do"] == "it starts by itself when they can be had again"


def test_a_job_whose_nodes_wake_from_sleep_is_told_so(settings, slurm, monkeypatch):
    has_nodes = {
        "state": JobState.RUNNING, "state_text": "CONFIGURING", "reason": "", "start_time": 1003,
        "node_list": "n[1-2]",
    }  # fmt: skip
    slurm.rows = (row(9, **has_nodes),)
    assert explain_job(settings, "9").lines[0].words == "9 does not wait: it is CONFIGURING"
    asleep = replace(node("n2"), flags=("powering_up",))
    monkeypatch.setattr(slurm, "nodes", lambda: (node("n1"), asleep, replace(asleep, name="n3")))
    conf = {"ClusterName": "alpha", "ResumeTimeout": "600 sec"}
    monkeypatch.setattr(slurm, "config", lambda: SlurmConfig(conf))
    answer = explain_job(settings, "9")
    words = "9 has its nodes, and waits for n2 to wake from sleep: it is CONFIGURING"
    assert answer.lines[0].words == words
    assert what(answer)["begins"].startswith("once it is up; ")
    assert "within 10:00 (ResumeTimeout)" in what(answer)["begins"]
    assert "started" not in what(answer)
    assert what(answer)["has them since"] == "waited 3 s"


def test_a_running_job_whose_place_for_heartbeats_another_has_taken_is_told_so(
    tmp_path, slurm, monkeypatch
):
    monkeypatch.setattr("gsched.app.told_progress.user_number", lambda _: os.getuid() + 1)
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="RUNNING", start_time=1003),)
    settings = Settings(state_dir=tmp_path, heartbeat=HeartbeatSettings(str(tmp_path / "beats")))
    (tmp_path / "beats").mkdir()
    assert "progress" not in what(explain_job(settings, "9"))  # there is no heartbeat, as may be
    place = tmp_path / "beats" / str(os.getuid() + 1)
    place.mkdir()
    words = f"what the job tells of it is not believed: {place} belongs to another user"
    assert what(explain_job(settings, "9"))["progress"] == words
