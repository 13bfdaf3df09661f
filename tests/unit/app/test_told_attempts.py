"""Which attempts and GPUs are a job's own, and that files which lie are said and harm nothing."""

from __future__ import annotations

import json
import os
import pwd
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue import row

from gsched.app.told_attempts import MAX_NODES, told_attempts
from gsched.app.told_progress import CLOCK_SKEW_S
from gsched.config.settings import HeartbeatSettings, Settings
from gsched.model.job import JobKey, JobState
from gsched.model.past import HistoryJob
from gsched.telemetry.attempts import AttemptLog
from gsched.telemetry.gpu_file import GpuReading, GpuRecord, GpuUse
from gsched.telemetry.gpu_sampler import GpuFile
from gsched.telemetry.own_folder import OwnFolder

ME = pwd.getpwuid(os.getuid()).pw_name
NOW = time.time()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(heartbeat=HeartbeatSettings(str(tmp_path)))


def running(**facts: Any) -> Any:
    usual: dict[str, Any] = {
        "state": JobState.RUNNING, "submit_time": int(NOW) - 500, "start_time": int(NOW) - 400,
        "user": ME, "node_list": "gn[01-02]",
    }  # fmt: skip
    return row(7, **(usual | facts))


def past(**facts: Any) -> HistoryJob:
    usual: dict[str, Any] = dict.fromkeys(HistoryJob.__dataclass_fields__)
    usual |= {
        "key": JobKey("c", 7, epoch=int(NOW) - 500), "user": ME, "state": JobState.COMPLETED,
        "state_text": "COMPLETED", "end_time": int(time.time()), "attempts": (),
    }  # fmt: skip
    return HistoryJob(**(usual | facts))


def attempt(folder: Path, restart: int = 0, nodes: str = "gn[01-02]") -> AttemptLog:
    log = AttemptLog.of_job(
        {
            "GSCHED_HEARTBEAT_DIR": str(folder),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_RESTART_COUNT": str(restart),
            "SLURM_JOB_NODELIST": nodes,
        }
    )
    assert log is not None
    log.begin()
    return log


def sampled(folder: Path, node: str, **facts: Any) -> Path:
    gpus = [GpuUse(GpuReading(0, f"GPU-{node}", "A100", 0.5), 0.5, None, NOW)]
    record = GpuRecord(0, "7", 0, node, 15.0, NOW - 60, NOW, gpus)
    own = OwnFolder(folder, os.getuid())
    GpuFile(own, f"7.gpu.{node}").write(replace(record, **facts))
    return own.path / f"7.gpu.{node}"


def test_attempts_and_gpus_of_a_job_that_runs(settings, tmp_path):
    attempt(tmp_path).end(signal="TERM")
    attempt(tmp_path, restart=1)
    for node in ("gn01", "gn02", "gn03"):
        sampled(tmp_path, node, restart=1)
    attempts, gpus, doubt = told_attempts(settings, running(restarts=1))
    assert doubt == ""
    assert [(a["restart"], a["signal"], a["is_running"]) for a in attempts] == [
        (0, "TERM", False), (1, None, True),
    ]  # fmt: skip
    assert [(g["node"], g["is_running"]) for g in gpus] == [("gn01", True), ("gn02", True)]


def test_steps_are_told_as_numbers_of_them(settings, tmp_path):
    attempt(tmp_path)
    with (tmp_path / str(os.getuid()) / "7.attempts").open("a") as file:
        for event, step in (("step", 0), ("step", 1), ("step_end", 0), ("step_end", 0)):
            fields = {"event": event, "by": "hook", "restart": 0, "time": NOW, "step": step}
            file.write(json.dumps(fields | {"host": "", "nodes": ""}) + "\n")
    (only,), _, doubt = told_attempts(settings, running())
    assert doubt == ""
    told = json.loads(json.dumps(only))
    assert (told["num_steps"], told["num_ended_steps"]) == (2, 1)
    assert not {"steps", "ended_steps"} & told.keys()


def test_no_name_of_a_node_leads_out_of_the_folder(settings, tmp_path):
    file = sampled(tmp_path, "gn01")
    file.with_name("7.gpu.a").mkdir()
    file.rename(file.with_name("x"))
    assert told_attempts(settings, running(node_list="a/../x")) == ([], [], "")


def test_of_a_very_large_job_only_so_many_nodes_are_asked(settings, tmp_path):
    for number in (MAX_NODES, MAX_NODES + 1):
        sampled(tmp_path, f"n{number}")
    _, gpus, _ = told_attempts(settings, running(node_list=f"n[1-{MAX_NODES + 1}]"))
    assert [g["node"] for g in gpus] == [f"n{MAX_NODES}"]


def test_without_slurms_word_the_last_attempts_nodes_are_asked(settings, tmp_path):
    for restart, node in enumerate(("gn01", "gn02")):
        attempt(tmp_path, restart, node).end(exit_code=0)
        sampled(tmp_path, node, restart=restart)
    _, gpus, _ = told_attempts(settings, past())
    assert [g["node"] for g in gpus] == ["gn02"]


def test_a_job_that_waits_again_runs_nowhere(settings, tmp_path):
    attempt(tmp_path)
    sampled(tmp_path, "gn01")
    waiting = running(state=JobState.PENDING, restarts=1, node_list="")
    attempts, gpus, _ = told_attempts(settings, waiting)
    assert [a["is_running"] for a in attempts] == [False]
    assert [(g["node"], g["is_running"]) for g in gpus] == [("gn01", False)]


def test_gpus_of_an_attempt_before_are_not_mixed_with_those_of_now(settings, tmp_path):
    sampled(tmp_path, "gn01", restart=1)
    sampled(tmp_path, "gn02", restart=0)
    assert [g["node"] for g in told_attempts(settings, running(restarts=1))[1]] == ["gn01"]


def test_a_job_of_the_history_is_known_by_its_own_word(settings, tmp_path):
    attempt(tmp_path).end(exit_code=0)
    sampled(tmp_path, "gn02")
    attempts, gpus, _ = told_attempts(settings, past())
    assert [(a["exit_code"], a["is_running"]) for a in attempts] == [(0, False)]
    assert [g["node"] for g in gpus] == ["gn02"]


@pytest.mark.parametrize(
    "job",
    [
        running(submit_time=int(NOW + CLOCK_SKEW_S) + 86_400),
        past(key=JobKey("c", 7, epoch=int(NOW + CLOCK_SKEW_S) + 86_400)),
        past(end_time=int(NOW - CLOCK_SKEW_S) - 1),
    ],
    ids=["queued", "submitted later", "ended before"],
)
def test_what_another_job_of_that_number_told_is_left_out(settings, tmp_path, job):
    attempt(tmp_path)
    sampled(tmp_path, "gn01")
    assert told_attempts(settings, job) == ([], [], "")


def test_a_later_attempt_than_slurm_knows_is_another_jobs(settings, tmp_path):
    attempt(tmp_path, restart=1)
    sampled(tmp_path, "gn01", restart=1)
    assert told_attempts(settings, running()) == ([], [], "")


def test_without_a_folder_or_an_owner_nothing_is_told(settings, tmp_path):
    attempt(tmp_path)
    assert told_attempts(Settings(), running()) == ([], [], "")
    assert told_attempts(settings, running(user="nobody-here")) == ([], [], "")


def test_what_lies_is_said_and_the_rest_is_shown(settings, tmp_path):
    attempt(tmp_path)
    place = tmp_path / str(os.getuid()) / "7.attempts"
    place.write_bytes(place.read_bytes() + b"party\n")
    sampled(tmp_path, "gn01").write_bytes(b"party")
    sampled(tmp_path, "gn02", job="8")
    attempts, gpus, doubt = told_attempts(settings, running())
    assert len(attempts) == 1
    assert gpus == []
    assert "1 line " in doubt
    assert "does not begin as one" in doubt
    place.unlink()
    place.symlink_to("/etc/shadow")
    _, _, doubt = told_attempts(settings, running())
    assert f"{place}: is a link" in doubt
