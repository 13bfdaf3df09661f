"""Groups of past jobs: in which order they are told."""

from __future__ import annotations

from gsched.model.job import JobState
from gsched.model.usage_groups import Sums, arranged


def order(by, sums):
    told = {key: {JobState.COMPLETED: some} for key, some in sums.items()}
    return [group.key for group in arranged(told, by, None, {}).groups]


def test_most_gpu_time_first_then_most_jobs_then_by_name():
    few, many = Sums(jobs=1, gpu_time_s=50), Sums(jobs=9, gpu_time_s=50)
    sums = {"b": few, "a": few, None: few, "most": Sums(jobs=1, gpu_time_s=60), "many": many}
    assert order("user", sums) == ["most", "many", "a", "b", None]


def test_numbers_and_days_rise_and_what_is_not_known_is_last():
    one = Sums(jobs=1)
    assert order("gpus", {8: one, None: Sums(jobs=99, gpu_time_s=99), 16: one, 0: one}) == [
        0,
        8,
        16,
        None,
    ]
