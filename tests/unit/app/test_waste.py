from __future__ import annotations

import pytest

from gsched.app.efficiency import efficiency
from gsched.app.waste import findings, wasted
from gsched.model.job import JobState
from gsched.slurm.parse_usage import StepUsage, UsageRecord

HOUR = 3600


def step(name="batch", elapsed_s=HOUR, cpu_s=None, mem=None, gpu=None):
    return StepUsage(name, "COMPLETED", elapsed_s, 1, cpu_s, mem, mem, gpu)


def record(**facts):
    defaults = {
        "raw_id": 7, "job_id": 7, "array_task": None, "het_offset": None, "user": "ann",
        "account": "a", "partition": "gpu", "qos": "q", "name": "x", "state": JobState.COMPLETED,
        "state_text": "COMPLETED", "exit_code": 0, "exit_signal": 0, "submit_time": 0,
        "eligible_time": 0, "start_time": 0, "end_time": HOUR, "elapsed_s": HOUR,
        "time_limit_s": HOUR, "num_nodes": 1, "num_cpus": 8, "num_gpus": 2, "gpu_types": (),
        "mem_bytes": 64 * 2**30, "cpu_s": None, "node_list": "n1", "steps": (),
    }  # fmt: skip
    return UsageRecord(**(defaults | facts))


def found(*records):
    return findings(efficiency(records, 0))


def codes(*records):
    return [w.code for w in found(*records)]


def test_a_job_that_used_what_it_had_wasted_nothing():
    busy = step(cpu_s=7.9 * HOUR, mem=60 * 2**30, gpu=95.0)
    assert codes(record(cpu_s=7.9 * HOUR, steps=(busy,))) == []


def test_what_is_not_measured_is_not_judged():
    assert codes(record()) == []
    assert codes(record(num_gpus=None, mem_bytes=None)) == []


def test_a_failed_job():
    (waste,) = found(record(state=JobState.TIMEOUT))
    assert (waste.code, waste.gpu_time_s, waste.cpu_time_s) == ("failed", 2 * HOUR, 8 * HOUR)
    assert waste.words == (
        "it ended in TIMEOUT after 1:00:00, 2 GPU-hours: lost, unless it saved its work"
    )
    assert codes(record(state=JobState.FAILED, elapsed_s=0)) == []


def test_a_cancelled_job_is_told_and_not_counted():
    (waste,) = found(record(state=JobState.CANCELLED))
    assert (waste.code, waste.gpu_time_s, waste.cpu_time_s) == ("cancelled", None, None)


def test_a_requeued_job():
    first = record(state=JobState.NODE_FAIL, state_text="PENDING", elapsed_s=1800)
    (waste,) = found(first, record(submit_time=9))
    assert (waste.code, waste.gpu_time_s, waste.cpu_time_s) == ("requeued", HOUR, 4 * HOUR)
    assert "1 earlier attempt (1 NODE_FAIL)" in waste.words
    assert codes(first, record(submit_time=9, start_time=None, state=JobState.PENDING)) == [
        "requeued"
    ]


@pytest.mark.parametrize(
    ("steps", "idle_s"),
    [
        ((step("extern"), step("0", 600)), HOUR - 600),
        ((step("extern"), step("interactive"), step("0", 600), step("1", 900)), HOUR - 1500),
        ((step("extern"),), HOUR),
        ((step("extern"), step("batch")), None),
        ((step("0", HOUR - 599),), None),  # too short a gap
        ((step("0", None),), None),  # nobody has told how long it ran
        ((), None),  # the accounting has no steps at all
    ],
)
def test_an_allocation_without_work(steps, idle_s):
    wastes = [w for w in found(record(steps=steps)) if w.code == "idle-allocation"]
    if idle_s is None:
        assert wastes == []
    else:
        (waste,) = wastes
        assert waste.gpu_time_s == pytest.approx(2 * idle_s)
        assert waste.cpu_time_s == pytest.approx(8 * idle_s)


def test_idle_gpus():
    (waste,) = found(record(steps=(step(gpu=25.0),)))
    assert (waste.code, waste.gpu_time_s) == ("gpu", pytest.approx(1.5 * HOUR))
    assert waste.words == "its GPUs were 25 % utilised: 1.5 of 2 GPU-hours idle"
    assert codes(record(steps=(step(gpu=50.0),))) == []
    assert codes(record(elapsed_s=599, steps=(step(gpu=1.0),))) == []


def test_idle_cpus():
    (waste,) = found(record(num_gpus=0, cpu_s=2 * HOUR))
    assert (waste.code, waste.cpu_time_s) == ("cpu", pytest.approx(6 * HOUR))
    assert waste.words == "it used 25 % of 8 CPUs: 3 CPUs would do"
    assert codes(record(num_gpus=0, cpu_s=4 * HOUR)) == []
    assert codes(record(cpu_s=2 * HOUR)) == []  # with GPUs few CPUs may be right
    (waste,) = found(record(cpu_s=60))
    assert "it seems to have done nothing" in waste.words
    assert waste.gpu_time_s == 2 * HOUR


def test_memory():
    (waste,) = found(record(steps=(step(mem=8 * 2**30),)))
    assert waste.words == "it used 8 GiB of 64 GiB of memory: 10 GiB would do"
    assert codes(record(steps=(step(mem=16 * 2**30),))) == []
    assert codes(record(mem_bytes=2**29, steps=(step(mem=2**20),))) == []


def test_the_time_limit():
    (waste,) = found(record(time_limit_s=24 * HOUR))
    assert waste.code == "time-limit"
    assert "it needed 1:00:00 of the time limit 1-00:00:00" in waste.words
    assert codes(record(time_limit_s=4 * HOUR)) == []
    assert "time-limit" not in codes(record(time_limit_s=24 * HOUR, state=JobState.FAILED))


def test_what_overlaps_is_counted_once():
    first = record(state=JobState.REQUEUED, elapsed_s=1800)
    last = record(submit_time=9, state=JobState.FAILED, steps=(step(gpu=10.0),))
    wastes = found(first, last)
    assert [w.code for w in wastes] == ["failed", "requeued", "gpu"]
    assert wasted(wastes) == (HOUR + 2 * HOUR, 4 * HOUR + 8 * HOUR)
    assert wasted(()) == (0, 0)
