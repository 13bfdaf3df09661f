"""Attempts and GPUs as `gsched show` prints them."""

from __future__ import annotations

from typing import Any

import pytest
from support.gpus import GIB, gpu

from gsched_cli.attempt_rows import (
    IDLE_S,
    MAX_NODES,
    gpu_rows,
    log_rows,
    told_attempt_rows,
)
from gsched_cli.output import local_time

AT = 10_000


def attempt(**facts: Any) -> dict[str, Any]:
    """A first attempt that began 100 s ago and runs, unless `facts` differ."""
    usual = {
        "restart": 0, "heard_time": 9950, "started_time": 9900, "host": "gn01",
        "nodes": "gn[01-02]", "checkpoints": None, "log": None, "num_steps": 0,
        "num_ended_steps": 0, "signals": [], "ended_time": None, "exit_code": None,
        "signal": None, "is_running": True,
    }  # fmt: skip
    return usual | facts


def cells(**facts: Any) -> tuple[str, ...]:
    (row,) = told_attempt_rows([attempt(**facts)], AT)
    return row


def test_an_attempt_that_runs():
    began = local_time(9900)
    assert cells() == ("1", began, "1:40", "gn[01-02]", "-", "-", "runs")


def test_an_attempt_that_was_stopped():
    signals = [["USR1", 9910], ["TERM", 9930]]
    row = cells(
        restart=4, num_steps=2, signals=signals, ended_time=9935, signal="TERM", is_running=False
    )
    assert (row[0], *row[2:]) == (
        "5", "0:35", "gn[01-02]", "2", "USR1 after 0:10, TERM after 0:30", "signal TERM",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "lasted", "words"),
    [
        ({"is_running": False, "ended_time": 9960, "exit_code": 0}, "1:00", "exit code 0"),
        ({"is_running": False, "ended_time": 9960}, "1:00", "ended"),
        ({"is_running": False}, "-", "not told"),
        ({"is_running": False, "ended_time": 9000, "exit_code": 3}, "0:00", "exit code 3"),
        ({"started_time": None, "signals": [["USR1", 9]]}, "-", "runs"),
    ],
    ids=str,
)
def test_how_it_ended(facts, lasted, words):
    row = cells(**facts)
    assert (row[2], row[6]) == (lasted, words)


def test_an_output_of_its_own_is_named():
    rows = log_rows([attempt(), attempt(restart=1, log="/home/u/out.attempt-2")])
    assert list(rows) == [("attempt 2 output", "/home/u/out.attempt-2")]


def told(index: int = 0, node: str = "gn01", **facts: Any) -> dict[str, Any]:
    """A GPU of a job that runs."""
    usual = {
        "node": node, "mean_utilisation": 0.25, "max_memory_used_bytes": 30 * GIB,
        "busy_time": AT, "restart": 0, "started_time": 9000, "written_time": AT - 5,
        "is_running": True,
    }  # fmt: skip
    return gpu(index) | usual | facts


def words(*gpus: dict[str, Any]) -> list[str]:
    ((label, text),) = gpu_rows(gpus, AT)
    assert label == "GPUs on gn01"
    return text.split("; ")


def test_one_gpu_has_all_its_figures():
    assert words(told()) == [
        "1 × NVIDIA A100", "50 % in use, on average 25 %", "at most 30 GiB of 80 GiB a GPU",
        "200 W of 400 W",
    ]  # fmt: skip


def test_what_is_not_told_is_not_said():
    unknown = dict.fromkeys(
        ("utilisation", "mean_utilisation", "max_memory_used_bytes", "memory_total_bytes",
         "power_w", "power_limit_w", "busy_time")
    )  # fmt: skip
    assert words(told(**unknown)) == ["1 × NVIDIA A100"]
    assert "200 W" in words(told(power_limit_w=None))


def test_gpus_of_a_job_that_does_not_run_say_since_when():
    (first, *_) = words(told(is_running=False, utilisation=0.0, busy_time=None))
    assert first == f"1 × NVIDIA A100, last told at {local_time(AT - 5)}"


def test_idle_gpus_are_named():
    since = AT - IDLE_S
    idle = {"utilisation": 0.0, "busy_time": None, "started_time": since - 60}
    found = words(told(0), told(3, **idle), told(2, utilisation=0.0, busy_time=since))
    assert found[1] == "17 % in use (0.0 % to 50 %), on average 25 %"
    assert found[-1] == "GPU 2,3 idle for 5:00 at least"
    for busy in ({"busy_time": since + 1}, {"is_running": False}, {"utilisation": 0.1}):
        assert not any("idle" in word for word in words(told(0), told(2, **idle | busy)))


def test_of_many_nodes_some_have_a_line():
    gpus = [told(index, f"gn{node}") for node in range(MAX_NODES + 3) for index in range(2)]
    rows = list(gpu_rows(gpus, AT))
    assert len(rows) == MAX_NODES + 1
    assert rows[-1] == ("GPUs", "on 3 more nodes: see --json")
    assert list(gpu_rows([], AT)) == []
