"""Names within a checkpoint folder: what is made is read back, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.ckpt import layout

STEPS = st.integers(0, layout.MAX_STEP)
RUNS = st.from_regex(r"[0-9a-f]{12}", fullmatch=True)


@given(STEPS)
def test_a_step_is_read_back(step):
    assert layout.parse_step_name(layout.step_name(step)) == step
    assert layout.parse_latest(layout.encode_latest(step)) == step


@given(STEPS, STEPS)
def test_names_sort_as_steps_do(one, other):
    assert (layout.step_name(one) < layout.step_name(other)) == (one < other)


@given(STEPS, RUNS)
def test_a_partial_is_read_back(step, run):
    name = layout.partial_name(step, run)
    assert layout.parse_partial_name(name) == (step, run)
    assert layout.parse_step_name(name) is None


@given(RUNS, st.integers(1, 999_999_999))
def test_a_flush_is_read_back(run, number):
    assert layout.parse_flush_name(layout.flush_name(run, number)) == (run, number)


@given(st.integers(0, layout.MAX_WORLD_SIZE - 1), st.integers(1, layout.MAX_WORLD_SIZE))
def test_a_rank_file_is_read_back(rank, world_size):
    if rank < world_size:
        name = layout.rank_file_name(rank, world_size)
        assert layout.parse_rank_file_name(name) == (rank, world_size)
    else:
        with pytest.raises(ValueError, match="rank"):
            layout.rank_file_name(rank, world_size)


@given(st.integers(0, layout.MAX_WORLD_SIZE - 1))
def test_a_mark_is_read_back(rank):
    assert layout.parse_mark_name(layout.mark_name(rank)) == rank
    assert layout.parse_mark_name(layout.ended_name(rank)) is None


def test_names_as_they_are_documented():
    assert layout.step_name(18240) == "step-000000018240"
    assert layout.rank_file_name(1, 2) == "rank-00001-of-00002.safetensors"
    assert layout.mark_name(1) == "rank-00001.json"
    assert layout.partial_name(7, "0123456789ab") == ".partial-step-000000000007-0123456789ab"
    assert layout.flush_name("0123456789ab", 3) == ".flush-0123456789ab-3"
    assert layout.encode_latest(7) == b"step-000000000007\n"


@pytest.mark.parametrize(
    "name",
    [
        *("", "latest", "step-7", "step-0000000000007", "step-00000000000a", "step-٠٠٠٠٠٠٠٠٠٠٠٧"),
        *(
            "step-000000000007\n",
            "../step-000000000007",
            "step-000000000007/",
            " step-000000000007",
        ),
    ],
)
def test_other_names_are_no_steps(name):
    assert layout.parse_step_name(name) is None
    assert layout.parse_partial_name("." + name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("rank-00002-of-00002.safetensors", "rank-00001-of-00002", "rank-1-of-2.safetensors"),
        *("rank-00001-of-00002.safetensors\n", "x/rank-00001-of-00002.safetensors"),
    ],
)
def test_other_names_are_no_ranks_files(name):
    assert layout.parse_rank_file_name(name) is None


@pytest.mark.parametrize("data", [b"", b"\xff\n", b"step-1\n", b"step-000000000007\n\n"])
def test_a_pointer_that_says_nothing(data):
    assert layout.parse_latest(data) is None


@pytest.mark.parametrize("step", [-1, layout.MAX_STEP + 1])
def test_steps_out_of_range_have_no_name(step):
    with pytest.raises(ValueError, match="step"):
        layout.step_name(step)


def test_runs_are_tokens():
    assert layout.is_run(layout.new_run())
    assert layout.new_run() != layout.new_run()
    assert not layout.is_run("0123456789AB")
