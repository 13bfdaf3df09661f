"""Records are known again by their content, whatever the separator, and never mistaken."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.slurm.fields import new_separator
from gsched.slurm.line_cache import LineCache
from gsched.slurm.parse_priority import parse_priorities, priority_cache
from gsched.slurm.parse_queue import TEXT_FIELDS, parse_queue, queue_cache

Record = tuple[str, str, str]


class Counting:
    """A parser that remembers what it was given."""

    def __init__(self) -> None:
        self.parsed: list[Record] = []

    def __call__(self, fields: Sequence[str]) -> list[str]:
        if fields[0] == "bad":
            raise DataError("bad")
        self.parsed.append(tuple(fields))  # type: ignore[arg-type]
        return list(fields)


def printed(records: Sequence[Record], separator: str) -> str:
    return "".join("".join(f"{field}{separator}" for field in r) + "\n" for r in records)


def read(cache: LineCache[list[str]], records: Sequence[Record]) -> list[list[str]]:
    separator = new_separator()
    return cache.values(printed(records, separator), separator, 3)


def test_what_stood_there_before_is_the_same_object_under_another_separator() -> None:
    parse = Counting()
    cache = LineCache(parse)
    first = read(cache, [("1", "a", "x"), ("2", "b", "")])
    again = read(cache, [("2", "b", ""), ("3", "c", ""), ("1", "a", "x")])
    assert again[0] is first[1]
    assert again[2] is first[0]
    assert parse.parsed == [("1", "a", "x"), ("2", "b", ""), ("3", "c", "")]


def test_only_the_last_output_is_remembered() -> None:
    parse = Counting()
    cache = LineCache(parse)
    for records in ([("1", "a", "")], [], [("1", "a", "")]):
        read(cache, records)
    assert len(parse.parsed) == 2


def test_an_output_in_disorder_forgets_nothing() -> None:
    parse = Counting()
    cache = LineCache(parse)
    first = read(cache, [("1", "a", "")])
    with pytest.raises(DataError):
        read(cache, [("1", "a", ""), ("bad", "", "")])
    assert read(cache, [("1", "a", "")])[0] is first[0]


hostile = st.text(
    alphabet=st.sampled_from("\n\x00\x1f\x1e|ab1"), max_size=6
)  # separators hold 64 random bits, which no text can


@given(st.lists(st.lists(st.tuples(hostile, hostile, hostile), max_size=6), max_size=4))
def test_crafted_fields_fool_nobody(outputs: list[list[Record]]) -> None:
    """However fields of one output look like those of another: each is read as it is."""
    cache = LineCache(tuple)
    for records in outputs:
        separator = new_separator()
        assert cache.values(printed(records, separator), separator, 3) == records


def test_a_name_that_begins_with_a_line_end_is_cut_where_it_must_be() -> None:
    evil = [("1", "\n2", "x"), ("2", "\n", "\n")]
    cache = LineCache(tuple)
    for _ in range(2):
        separator = new_separator()
        assert cache.values(printed(evil, separator), separator, 3) == evil


@pytest.mark.parametrize("cut", range(2, 40))
def test_an_output_that_was_cut_short_is_an_error(cut: int) -> None:
    separator = new_separator()
    text = printed([("1", "a", "b"), ("2", "c", "d")], separator)[:-cut]
    with pytest.raises(DataError, match="cut short"):
        LineCache(list).values(text, separator, 3)


def test_what_is_no_output_of_slurms_is_an_error() -> None:
    with pytest.raises(DataError, match="cut short"):
        LineCache(list).values("slurm is being upgraded\n", new_separator(), 3)


def test_rows_of_squeue_and_sprio_are_kept(recorded, separator) -> None:  # type: ignore[no-untyped-def]
    queue, priorities = queue_cache(), priority_cache()
    first = parse_queue(recorded("squeue.txt"), separator, cache=queue)
    other = recorded("squeue.txt").replace(separator, "\x1fother\x1e")
    again = parse_queue(other, "\x1fother\x1e", cache=queue)
    assert all(a is b for a, b in zip(first.rows, again.rows, strict=True))
    points = parse_priorities(recorded("sprio.txt"), separator, priorities)
    shown = parse_priorities(recorded("sprio.txt"), separator, priorities)
    assert points == shown
    assert all(points[i] is shown[i] for i in points)


def test_a_listing_without_its_texts_is_no_listing_with_texts(recorded, separator) -> None:  # type: ignore[no-untyped-def]
    text = recorded("squeue.txt").split("\n")[0] + "\n"
    assert len(TEXT_FIELDS) == 2
    listing = parse_queue(text, separator, with_texts=True)
    assert listing.rows == ()
    assert len(listing.rejects) == 1


def test_sprio_says_on_stdout_that_it_found_none() -> None:
    said = "Unable to find jobs matching user/id(s) specified\n"
    assert parse_priorities(said, new_separator()) == {}
