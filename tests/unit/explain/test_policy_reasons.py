"""Reasons of policies in words."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.explain.policy_reasons import caution_words, policy_reason, prediction_words
from gsched.explain.words import moment


@pytest.mark.parametrize(
    ("code", "params", "words"),
    [
        (
            "starving",
            {"waiting_since": 1_750_000_000, "bound_s": 604_800},
            "waits for longer than starvation_bound_s (7-00:00:00): before all jobs that do not",
        ),
        (
            "starving",  # a status file is what somebody has written
            {"bound_s": "soon"},
            "waits for longer than starvation_bound_s (?): before all jobs that do not",
        ),
        (
            "starving",
            {"bound_s": 60, "out_of_reach": True},
            "waits for longer than starvation_bound_s (1:00): moved up as far as max_shift allows, "
            "yet other factors keep a job that has not before it",
        ),
        (
            "qssf.last-order-stands",
            {},
            "nothing can be predicted for now: the last order stands",
        ),
        (
            "scope.several-policies",
            {"policies": "qssf, fifo"},
            "in partitions of several policies (qssf, fifo): median place",
        ),
        ("qssf.no-prediction", {}, "no prediction: keeps the median place"),
        ("fifo.first-submit", {"first_submit": 17}, f"first submitted {moment(17)}"),
        ("fifo.first-submit", {"first_submit": 1e300}, "first submitted ?"),
        ("fewest-gpus.size", {"num_gpus": 2}, "asks for 2 GPUs"),
        ("fewest-gpus.size", {"num_cpus": 64}, "asks for 64 CPUs"),
        ("sjf.duration", {"duration_s": 3661.0}, "runs for 1:01:01"),
        (
            "srtf.remaining-time",
            {"remaining_s": -60.0, "duration_s": 3600.0},
            "−1:00 left of 1:00:00 of run time",
        ),
        ("edf.deadline", {"deadline": 17}, f"deadline {moment(17)}"),
        ("edf.no-deadline", {"first_submit": 17}, "no deadline: after all jobs that have one"),
        (
            "multifactor.points",
            {"points": 123.4, "tenant": "lab", "fair_share_points": 2.25},
            "123 points, 2.2 of them for the fair share of account lab",
        ),
        (
            "fair-tree.tenant-gpu-time",
            {"tenant": "lab", "tenant_gpu_s": 5400.0, "first_submit": 17},
            "account lab has received 1.5 GPU-h (older use counts less)",
        ),
        ("yarn-cs.tenant-gpus", {"tenant": "lab", "tenant_gpus": 3.0}, "account lab holds 3 GPUs"),
        (
            "tiresias.queue",
            {"queue": 2, "attained_gpu_s": 18000.0},
            "in queue 2, having received 5.0 GPU-h",
        ),
        ("tiresias-l.service", {"attained_gpu_s": 360.0}, "has received 0.1 GPU-h"),
        (
            "themis.finish-time-ratio",
            {"finish_time_ratio": 2.5, "duration_s": 60.0},
            "takes 2.5 times as long as alone (1:00)",
        ),
        (
            "gandiva-fair.tenant-gpu-time",
            {"tenant": "lab", "tenant_gpu_s": 7200.0, "attained_gpu_s": 3600.0},
            "account lab has received 2.0 GPU-h (older use counts less), this job 1.0 GPU-h",
        ),
        (
            "ltgf.quota",
            {
                "tenant": "lab2",
                "owed_gpu_s": 41 * 3600.0,
                "quota": 0.125,
                "attained_gpu_s": 3600.0,
                "entitled_gpu_s": 7200.0,
            },
            "account lab2 is owed 41.0 GPU-h (its quota is 12.5% of the GPUs); this job has "
            "received 1.0 GPU-h of the 2.0 GPU-h that were its share",
        ),
        (  # whoever has written the file
            "ltgf.quota",
            {"tenant": "lab2", "owed_gpu_s": "much", "entitled_gpu_s": None},
            "account lab2 is owed ? GPU-h; this job has received ? of the ? that were its share",
        ),
        (
            "allox.duration",
            {"tenant": "lab", "tenant_gpu_s": 7200.0, "duration_s": 60.0},
            "runs for 1:00; account lab has received 2.0 GPU-h",
        ),
        (
            "optimus.remaining-gpu-time",
            {"remaining_gpu_time_s": 1234.5},
            "1234 GPU-s left of what is predicted",
        ),
        (  # whoever has written the file
            "srtf.remaining-time",
            {"remaining_s": "soon", "duration_s": float("nan")},
            "? left of ? of run time",
        ),
        ("site.own", {"rank": 2, "share": 0.25}, "site.own (rank 2, share 0.2)"),
        ("clear", {"because": "opted-out"}, "taken back: opted-out"),
    ],
)
def test_a_reason_in_words(code: str, params: dict[str, Any], words: str) -> None:
    assert policy_reason(code, params) == words


PREDICTED = {"num_gpus": 4, "source": "similar-name", "similar_jobs": 31}


@pytest.mark.parametrize(
    ("gpu_time_s", "duration_s", "amount", "span"),
    [
        (40.0, 10.0, "40 GPU-s", "0:10"),
        (359.4, 89.9, "359 GPU-s", "1:30"),
        (360.0, 90.0, "0.1 GPU-h", "1:30"),
        (10080.0, 2520.0, "2.8 GPU-h", "42:00"),
        (35999.0, 8999.75, "10.0 GPU-h", "2:30:00"),
        (4_000_000.0, 1e6, "1,111 GPU-h", "11-13:46:40"),
        ("much", None, "? GPU-s", "?"),
        (float("nan"), True, "? GPU-s", "?"),
    ],
)
def test_predicted_gpu_time_in_a_fitting_unit(
    gpu_time_s: Any, duration_s: Any, amount: str, span: str
) -> None:
    params = PREDICTED | {"gpu_time_s": gpu_time_s, "duration_s": duration_s}
    words = f"{amount} predicted: 4 × {span} (from 31 similar jobs of this user)"
    assert policy_reason("qssf.predicted-gpu-time", params) == words


def test_people_are_shown_the_median_and_its_interval() -> None:
    duration = {"mean": 3000.0, "source": "all", "similar_jobs": 3}
    assert prediction_words(duration) == "50:00 (from all 3 past jobs)"
    duration["quantiles"] = [[0.02, 5.0], [0.1, 60.0], [0.5, 600.0], [0.9, 6000.0], [0.98, 1e5]]
    assert prediction_words(duration) == "10:00 (80 %: 1:00–1:40:00, from all 3 past jobs)"


def test_what_caution_adds_is_said() -> None:
    assert caution_words({"mean": 5.0}) == caution_words({"mean": 5.0, "caution": 1.0}) == ""
    words = "orders reckon with 1.8 times that: recent jobs of this user outran theirs"
    assert caution_words({"mean": 5.0, "caution": 1.8}) == words
