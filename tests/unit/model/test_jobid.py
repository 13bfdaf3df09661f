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
        ("7.0+1", JobId(7, step="0+1")),
        ("7.interactive", JobId(7, step="interactive")),
        ("7.TBD", JobId(7, step="TBD")),
        ("7_3.4294967294", JobId(7, array_task=3, step="4294967294")),
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
    tasks = parse_tasks("1-3999999:2,4000000%3")
    assert len(tasks) == 2000001
    assert tasks.throttle == 3
    assert len(tasks.ranges) == 2


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1-5", "1-5"),
        ("1-5:2", "1-5:2"),
        ("1-6:2", "1-5:2"),
        ("1-5:10", "1"),
        ("1-3%2", "1-3%2"),
        ("1-3%0", "1-3"),
        ("[1-5]", "1-5"),
        (" 1-3", "1-3"),
        ("1, 3", "1,3"),
        ("01-03", "1-3"),
        # each task once and in order, as Slurm reads them
        ("1,1", "1"),
        ("3,1", "1,3"),
        ("1-3,2-4", "1-4"),
        ("1-9:3,2%4", "1-2,4,7%4"),
        ("1-9:2,2-10:2", "1-10"),
    ],
)
def test_array_expressions_as_slurm_reads_them(text, printed):
    tasks = parse_tasks(text)
    assert str(tasks) == printed
    assert len(tasks) == len(list(tasks)) == len(set(tasks))


@pytest.mark.parametrize(
    "text",
    ["", ",", "5-1", "1-5:0", "1-", "-3", "1--3", "1-3%-1", "1-3%2%3", "a", "1-3:", "1:2", "0x3",
     "4000001", "0-4000001", "[1-3", "[[1]]", "0-4000000,0-4000000,0-4000000"],
)  # fmt: skip
def test_what_is_no_array_expression(text):
    with pytest.raises(DataError, match="array expression"):
        parse_tasks(text)


@pytest.mark.parametrize("text", ["0,2,4,6,8,10...", "0-3,7...%2", "1,..."])
def test_a_list_that_slurm_has_cut_says_so(text):
    for parse, whole in ((parse_tasks, text), (parse_job_id, f"21_[{text}]")):
        with pytest.raises(DataError, match="cut short by Slurm") as caught:
            parse(whole)
        assert "SLURM_BITSTR_LEN=0" in caught.value.hint


@pytest.mark.parametrize("text", ["1," * 50_000, "9" * 10**5, "1-2:" * 25_000, "7_[" * 30_000])
def test_long_texts_are_refused_in_a_short_message(text):
    for parse in (parse_tasks, parse_job_id):
        with pytest.raises(DataError) as caught:
            parse(text)
        assert len(caught.value.message) < 300


def test_tasks_in_order():
    assert list(parse_tasks("1,5,9-11,20-29:4")) == [1, 5, 9, 10, 11, 20, 24, 28]
    assert len(parse_tasks("20-29:4")) == 3


_ranges = st.builds(
    lambda first, steps, stride: TaskRange(first, first + steps * stride, stride if steps else 1),
    st.integers(0, 10**6),
    st.integers(0, 50),
    st.integers(1, 20),
)


def _rising(ranges: list[TaskRange]) -> tuple[TaskRange, ...]:
    kept: list[TaskRange] = []
    for part in sorted(ranges, key=lambda part: part.first):
        if not kept or part.first > kept[-1].last:
            kept.append(part)
    return tuple(kept)


_task_sets = st.builds(
    TaskSet,
    st.lists(_ranges, min_size=1, max_size=5).map(_rising),
    st.none() | st.integers(1, 1000),
)
_job_numbers = st.integers(1, 2**32 - 1)
_steps = st.sampled_from(["", "batch", "extern", "interactive", "TBD", "0", "17", "0+1"])


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


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 7)), min_size=1))
def test_any_list_of_ranges_means_its_tasks(parts):
    text = ",".join(f"{first}-{first + length}:{stride}" for first, length, stride in parts)
    meant = {task for first, length, stride in parts
             for task in range(first, first + length + 1, stride)}  # fmt: skip
    assert list(parse_tasks(text)) == sorted(meant)


@given(st.text(alphabet="0123456789_+[]-,:%.batch", max_size=30))
def test_any_text_gives_an_id_or_a_data_error(text):
    try:
        job = parse_job_id(text)
    except DataError:
        return
    assert parse_job_id(str(job)) == job


_any_tasks = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 7)), min_size=1, max_size=6
).map(lambda parts: parse_tasks(",".join(f"{a}-{a + length}:{s}" for a, length, s in parts)))


@given(_any_tasks, _any_tasks)
def test_tasks_of_two_expressions(one, other):
    common = one.common(other)
    assert list(common) == sorted(set(one) & set(other))
    assert len(common) == len(list(common))
    assert common == other.common(one)
    assert [task for task in range(100) if task in one] == list(one)


def test_no_range_is_expanded(monkeypatch):
    def expands(_):
        raise AssertionError

    monkeypatch.setattr(TaskRange, "__iter__", expands)
    wanted, array = parse_tasks("0-3999999,4000000"), parse_tasks("1-3999998:3,3999999")
    assert str(wanted.common(array)) == "1-3999997:3,3999999"
    assert 3_999_997 in array
    assert 3_999_998 not in array
    assert "1" not in array
