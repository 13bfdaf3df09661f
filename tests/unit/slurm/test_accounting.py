"""Chunks of the accounting: how they follow each other, shrink, grow, and what is merged."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.history import attempt, batch

from gsched.errors import TryAgainError, UsageError
from gsched.model.history import Batch, Reject
from gsched.model.job import JobState
from gsched.slurm.accounting import (
    FIRST_CHUNK_S,
    LEAST_CHUNK_S,
    MOST_CHUNK_S,
    OVERLAP_S,
    check_filter,
    merged,
    read_chunks,
)
from gsched.slurm.parse_sacct import sacct_argv, with_names
from gsched.slurm.records import AccountingFilter

DAY_S = 86_400
BEGIN = 1_700_000_000


class Database:
    """slurmdbd that takes as long, and holds as many rows a day, as told."""

    def __init__(self, takes_s=5.0, rows_a_day=1000, most_s=float("inf")):
        self.takes_s, self.rows_a_day, self.most_s = takes_s, rows_a_day, most_s
        self.now = 0.0
        self.windows = []

    def __call__(self, begin, end):
        if end - begin > self.most_s:
            raise TryAgainError("too long")
        self.now += self.takes_s
        self.windows.append((begin, end))
        return Batch((), (), rows_in=(end - begin) * self.rows_a_day // DAY_S)

    def read(self, since, until, **options):
        return list(read_chunks(self, since, until, monotonic=lambda: self.now, **options))


def test_chunks_overlap_and_their_cursors_say_where_to_go_on():
    database = Database()
    chunks = database.read(BEGIN, BEGIN + 3 * DAY_S)
    assert database.windows == [
        (BEGIN, BEGIN + DAY_S),
        (BEGIN + DAY_S - OVERLAP_S, BEGIN + 2 * DAY_S),
        (BEGIN + 2 * DAY_S - OVERLAP_S, BEGIN + 3 * DAY_S),
    ]
    assert [int(chunk.cursor) for chunk in chunks] == [end for _, end in database.windows]


def test_quick_answers_make_chunks_grow_and_slow_ones_shrink():
    quick = Database(takes_s=0.1)
    quick.read(BEGIN, BEGIN + 1000 * DAY_S)
    lengths = [(end - begin) // DAY_S for begin, end in quick.windows]
    assert lengths[:6] == [1, 2, 4, 8, 16, 28]
    assert max(end - begin for begin, end in quick.windows) <= MOST_CHUNK_S + OVERLAP_S
    slow = Database(takes_s=30.0)
    slow.read(BEGIN, BEGIN + 3 * DAY_S)
    ends = [end for _, end in slow.windows]
    assert [b - a for a, b in pairwise(ends)][:3] == [43200, 21600, 10800]
    crowded = Database(takes_s=0.1, rows_a_day=1_000_000)
    crowded.read(BEGIN, BEGIN + 2 * DAY_S)
    assert len(crowded.windows) > 4


def test_a_chunk_without_an_answer_is_asked_for_by_halves():
    database = Database(most_s=DAY_S // 4)
    database.read(BEGIN, BEGIN + DAY_S)
    assert database.windows[0][0] == BEGIN
    assert database.windows[-1][1] == BEGIN + DAY_S
    hopeless = Database(most_s=LEAST_CHUNK_S - 1)
    with pytest.raises(TryAgainError, match="too long"):
        hopeless.read(BEGIN, BEGIN + DAY_S)


def test_nothing_is_asked_of_an_empty_time():
    assert Database().read(BEGIN, BEGIN) == []


@given(
    length_s=st.integers(1, 200 * DAY_S),
    takes_s=st.sampled_from([0.1, 5.0, 60.0]),
    rows_a_day=st.integers(0, 10_000_000),
    most_s=st.integers(LEAST_CHUNK_S + OVERLAP_S, FIRST_CHUNK_S),
)
def test_no_second_is_left_out(length_s, takes_s, rows_a_day, most_s):
    database = Database(takes_s, rows_a_day, most_s)
    database.read(BEGIN, BEGIN + length_s)
    covered = BEGIN
    for begin, end in database.windows:
        assert begin <= max(BEGIN, covered - OVERLAP_S)
        assert end > covered
        covered = end
    assert covered == BEGIN + length_s


def test_the_last_word_on_an_attempt_counts_and_doubles_do_not():
    running = attempt(1, BEGIN, state=JobState.RUNNING)
    done = replace(running, state=JobState.COMPLETED, end_time=BEGIN + 50)
    again = replace(done, submit_time=BEGIN + 60)
    odd = Reject("sacct", 3, "no", "raw|text")
    chunks = [
        replace(batch(running), rejects=(odd,), rows_in=2, cursor="10"),
        replace(batch(attempt(0, BEGIN - 5), again, done), rejects=(odd,), rows_in=5,
                rows_skipped=1, cursor="20"),
    ]  # fmt: skip
    whole = merged(chunks)
    assert [record.submit_time - BEGIN for record in whole.records] == [-5, 0, 60]
    assert whole.records[1].state is JobState.COMPLETED
    assert (whole.rejects, whole.rows_in, whole.rows_skipped, whole.cursor) == ((odd,), 5, 1, "20")


def test_the_command_of_a_filter():
    chosen = AccountingFilter(
        users=("root", "games"), accounts=("lab1",), partitions=("gpu",), states=("CD", "F"),
        job_ids=("7", "8_3"), names=("a b", "-x"),
    )  # fmt: skip
    argv = sacct_argv(0, 60, "|", chosen)
    assert {
        "--user=root,games", "--accounts=lab1", "--partition=gpu", "--state=CD,F", "--jobs=7,8_3",
        "--name=a b,-x",
    } <= set(argv)  # fmt: skip
    assert "-a" not in argv
    assert argv[argv.index("-S") + 1] == "1970-01-01T00:00:00"
    everything = sacct_argv(0, 60, "|")
    assert "-a" in everything
    assert not [word for word in everything if word.startswith(("--user", "--name", "--jobs"))]


def test_names_with_commas_are_looked_for_in_the_answer():
    chosen = AccountingFilter(names=("a,b", "c"))
    assert not [word for word in sacct_argv(0, 60, "|", chosen) if word.startswith("--name")]
    both = batch(*(attempt(n, BEGIN, name=name) for n, name in enumerate(["a,b", "a", "c"])))
    assert [r.name for r in with_names(both, chosen.names).records] == ["a,b", "c"]
    assert with_names(both, chosen.names).rows_in == 2
    assert with_names(both, ()) is both


@pytest.mark.parametrize(
    "chosen",
    [
        AccountingFilter(users=("no-such-user",)),
        AccountingFilter(job_ids=("7", "x")),
        AccountingFilter(job_ids=("7 -S now",)),
    ],
)
def test_what_sacct_could_not_take_is_said_before(chosen):
    with pytest.raises(UsageError):
        check_filter(chosen)


def test_a_job_of_which_only_the_end_is_known_waits_for_the_rest():
    """What slurmdbd shows between the end of a short job and the news of its start."""
    until = BEGIN + DAY_S
    half = replace(attempt(job_id=7), partition=None, time_limit_s=None, name="allocation")
    young = replace(half, submit_time=until - 5)
    old = replace(half, submit_time=until - OVERLAP_S - 1)
    whole = replace(attempt(job_id=8), partition="gpu", submit_time=until - 5)
    found = batch(young, old, whole)
    [chunk] = read_chunks(lambda _begin, _end: found, BEGIN, until)
    assert chunk.records == (old, whole)
    assert chunk.rows_skipped == found.rows_skipped + 1
    assert chunk.rows_in == len(chunk.records) + chunk.rows_skipped
