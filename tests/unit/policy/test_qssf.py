from __future__ import annotations

import math

import pytest
from support.jobs import T0, snapshot, view

from gsched.model.decision import Reason
from gsched.model.job import Capability, Exclusion, JobState
from gsched.policy.fewest_gpus import FewestGpus
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf


def order_of(decision, queue="gpu"):
    ranks = [(r.position, key.job_id) for key, r in decision.order.items() if r.queue == queue]
    return [job_id for _, job_id in sorted(ranks)]


JOBS = [
    view(1, gpus=8, duration_s=10.0),  # 80 GPU-s
    view(2, gpus=1, duration_s=100.0),  # 100
    view(3, gpus=2, duration_s=30.0),  # 60
    view(4, gpus=0, cpus=64, duration_s=1.0),  # 64 CPU-s
    view(5, gpus=0, cpus=1, duration_s=50.0),  # 50 CPU-s
    view(6, gpus=1),
]


def test_least_predicted_gpu_time_goes_first_cpu_jobs_apart():
    decision = Qssf().decide(snapshot(JOBS), {}, T0)
    assert order_of(decision) == [3, 1, 2]
    assert order_of(decision, "cpu") == [5, 4]
    assert decision.memory == {"version": 1, "reference": {"gpu": 80.0, "cpu": 57.0}}
    assert decision.actions == ()
    assert decision.next_wakeup is None


def test_static_key_is_gpu_seconds_and_nan_without_prediction():
    keys = Qssf().static_key(snapshot(JOBS).jobs).tolist()
    assert keys[:5] == [80.0, 100.0, 60.0, 64.0, 50.0]
    assert math.isnan(keys[5])


def test_reasons_carry_the_numbers():
    reasons = {k.job_id: r for k, r in Qssf().decide(snapshot(JOBS), {}, T0).reasons.items()}
    assert reasons[1] == Reason(
        "qssf.predicted-gpu-time",
        {
            "num_gpus": 8,
            "duration_s": 10.0,
            "gpu_time_s": 80.0,
            "source": "test",
            "similar_jobs": 3,
        },
    )
    assert reasons[4] == Reason(
        "qssf.predicted-cpu-time",
        {
            "num_cpus": 64,
            "duration_s": 1.0,
            "cpu_time_s": 64.0,
            "source": "test",
            "similar_jobs": 3,
        },
    )


def test_a_job_without_prediction_has_no_rank_but_a_reason():
    decision = Qssf().decide(snapshot(JOBS), {}, T0)
    unknown = next(k for k in decision.reasons if k.job_id == 6)
    assert unknown not in decision.order
    assert decision.reasons[unknown] == Reason("qssf.no-prediction")
    assert {r.of for r in decision.order.values()} == {3, 2}


@pytest.mark.parametrize("mean", [math.inf, -5.0])
def test_a_nonsense_prediction_counts_as_none(mean):
    decision = Qssf().decide(snapshot([view(1, duration_s=mean)]), {}, T0)
    assert decision.order == {}
    assert [r.code for r in decision.reasons.values()] == ["qssf.last-order-stands"]


def test_running_and_excluded_jobs_are_left_out():
    views = [
        view(1, duration_s=5.0, state=JobState.RUNNING),
        view(2, duration_s=5.0, exclusions=(Exclusion(Capability.REORDER, "opt-out", ""),)),
    ]
    decision = Qssf().decide(snapshot(views), {}, T0)
    assert decision.order == {}
    assert decision.reasons == {}


def test_the_span_is_a_knob():
    views = [view(1, duration_s=10.0), view(2, duration_s=40.0), view(3, duration_s=160.0)]
    levels = [r.level for r in Qssf(span_octaves=4).decide(snapshot(views), {}, T0).order.values()]
    assert levels == pytest.approx([0.5, 0.0, -0.5])


def test_a_jobs_level_does_not_change_when_others_come_and_go():
    first = Qssf().decide(snapshot(JOBS), {}, T0)
    later = [JOBS[0], *(view(i, gpus=4, duration_s=i * 1.0) for i in range(10, 60))]
    second = Qssf().decide(snapshot(later), first.memory, T0 + 600)
    key = JOBS[0].key
    assert second.order[key].position != first.order[key].position
    assert second.order[key].level == first.order[key].level


def test_fewest_gpus_ignores_predictions():
    decision = FewestGpus().decide(snapshot(JOBS), {}, T0)
    assert order_of(decision) == [2, 6, 3, 1]
    assert order_of(decision, "cpu") == [5, 4]
    codes = {k.job_id: r for k, r in decision.reasons.items()}
    assert codes[1] == Reason("fewest-gpus.size", {"num_gpus": 8})
    assert codes[4] == Reason("fewest-gpus.size", {"num_cpus": 64})


def test_fifo_goes_by_first_submission_also_after_a_requeue():
    views = [view(1, submit=T0 + 20), view(2, submit=T0 + 10), view(3, submit=T0)]
    decision = Fifo().decide(snapshot(views), {}, T0 + 30)
    assert order_of(decision) == [3, 2, 1]
    levels = {k.job_id: r.level for k, r in decision.order.items()}
    assert levels == pytest.approx({3: 2 / 3, 2: 0.0, 1: -2 / 3})
    assert decision.reasons[views[2].key] == Reason("fifo.first-submit", {"first_submit": T0})
