"""Answers of Slurm's commands that are none: never taken for an empty or a shorter queue."""

from __future__ import annotations

import os

import pytest

from gsched.errors import DataError
from gsched.slurm.fields import split_records
from gsched.slurm.parse_priority import parse_priorities
from gsched.slurm.parse_queue import parse_queue

SEPARATOR = "\x1ftest\x1e"
WHOLE = f"1{SEPARATOR}a{SEPARATOR}\n"


@pytest.mark.parametrize("read", [parse_queue, parse_priorities])
def test_random_bytes_are_no_empty_queue(read) -> None:  # type: ignore[no-untyped-def]
    text = os.urandom(2000).decode("utf-8", "replace")
    with pytest.raises(DataError):
        read(text, SEPARATOR)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_was_only_begun_is_no_end(cut: int) -> None:
    """Also where nothing but the beginning of its first field is there."""
    begun = f"234567890123{SEPARATOR}"[:cut]
    with pytest.raises(DataError):
        list(split_records(WHOLE + begun, SEPARATOR, 2))


@pytest.mark.parametrize(("text", "records"), [("", 0), (WHOLE, 1), (WHOLE * 2, 2)])
def test_whole_answers_are_read(text: str, records: int) -> None:
    assert len(list(split_records(text, SEPARATOR, 2))) == records
