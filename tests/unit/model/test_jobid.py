"""Job ids in all of Slurm's spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.jobid import JobId, TaskRange, TaskSet, parse_job_id, parse_tasks


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("7", JobId(7)),
        (" 7 ", JobId(7)),
        ("7_3", JobId(7, array_task=3)),
        ("7_0", JobId(7, array_task=0)),
        ("7+1", JobId(7, het_offset=1)),
        ("7+0", JobId(7, het_offset=0)),
        ("7.batch", JobId(7, step="batch")),
        ("7_3.extern", JobId(7, array_task=3, step="extern")),
        ("7+1.0", JobId(7, het_offset=1, step="0")),
        ("7.0+1", JobId(7, step="0")),
        ("7_[1-5%2]", JobId(7, array_tasks=TaskSet((TaskRange(1, 5),), 2))),
        ("7_[0-8:4,9]", JobId(7, array_tasks=TaskSet((TaskRange(0, 8, 4), TaskRange(9, 9))))),
    ],
)
def test_spellings(text, job):
    assert parse_job_id(text) == job


@pytest.mark.parametrize(
    "text",
    ["", "0", "x", "7_", "7+", "-7", "7_3+1", "7;8", "7 8", "99999999999", "7_[]", "7_[5-1]",
     "7_[1-5:0]", "7_[1,...]", "7_[1-5%]", "7_[1-5%x]", "7.nosuch", "٧", "7_[1,]"],
)  # fmt: skip
def test_what_is_no_job_id(text):
    with pytest.raises(DataError):
        parse_job_id(text)


def test_the_largest_id():
    assert parse_job_id("4294967295") == JobId(2**32 - 1)
    with pytest.raises(DataError):
        parse_job_id("4294967296")


def test_tasks_are_counted_without_being_expanded():
    tasks = parse_tasks("0-4000000000,7%3")
    assert len(tasks) == 4000000002
    assert tasks.throttle == 3


def test_tasks_in_order():
    assert list(parse_tasks("1,5,9-11,20-29:4")) == [1, 5, 9, 10, 11, 20, 24, 28]
    assert len(parse_tasks("20-29:4")) == 3


_ranges = st.builds(
    lambda first, steps, stride: TaskRange(first, first + steps * stride, stride if steps else 1),
    st.integers(0, 10**6),
    st.integers(0, 50),
    st.integers(1, 20),
)
_task_sets = st.builds(
    TaskSet, st.lists(_ranges, min_size=1, max_size=5).map(tuple), st.none() | st.integers(0, 1000)
)
_job_numbers = st.integers(1, 2**32 - 1)
_steps = st.sampled_from(["", "batch", "extern", "0", "17"])


@given(
    st.one_of(
        st.builds(JobId, _job_numbers, step=_steps),
        st.builds(JobId, _job_numbers, array_task=st.integers(0, 4000000), step=_steps),
        st.builds(JobId, _job_numbers, array_tasks=_task_sets),
        st.builds(JobId, _job_numbers, het_offset=st.integers(0, 127), step=_steps),
    )
)
def test_ids_come_back(job):
    assert parse_job_id(str(job)) == job


@given(st.text(alphabet="0123456789_+[]-,:%.batch", max_size=30))
def test_any_text_gives_an_id_or_a_data_error(text):
    try:
        job = parse_job_id(text)
    except DataError:
        return
    assert parse_job_id(str(job)) == job
