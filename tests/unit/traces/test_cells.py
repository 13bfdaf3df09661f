"""Cells of traces as values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.traces import cells
from gsched.traces.cells import Clock, Remembered

BERLIN = ZoneInfo("Europe/Berlin")


def epoch(*ymdhms: int) -> int:
    return int(datetime(*ymdhms, tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2017-10-09 07:01:55", epoch(2017, 10, 9, 7, 1, 55)),
        ("2017-10-09T07:01:55", epoch(2017, 10, 9, 7, 1, 55)),
        ("2023-03-01 00:18:22+08:00", epoch(2023, 2, 28, 16, 18, 22)),
        ("2023-03-01 00:18:22Z", epoch(2023, 3, 1, 0, 18, 22)),
        (" 2017-10-09 07:01:55.987 ", epoch(2017, 10, 9, 7, 1, 55)),
        ("2017-10-09", epoch(2017, 10, 9)),
        ("", None),
        ("None", None),
        ("NaT", None),
    ],
)
def test_times(cell: str, expected: int | None) -> None:
    clock = Clock(UTC)
    assert clock.time(cell) == expected
    assert clock.column("t", [cell, "2017-10-09 07:01:55", cell])[0] == expected


@pytest.mark.parametrize(
    "cell",
    ["soon", "2017-02-30 00:00:00", "2017-10-09 24:00:01", "2017-10-09 07:61:55", "1969-12-31",
     "9999-12-31 23:59:59", "0001-01-01 00:00:00", "2017-10-09 07:01:55+99:00", "１２"],
)  # fmt: skip
def test_what_is_no_time(cell: str) -> None:
    with pytest.raises(DataError, match="t: "):
        Clock(UTC).column("t", ["2017-10-09 07:01:55", cell])


def test_local_times_around_a_change_of_the_clock() -> None:
    texts = [
        "2024-03-31 01:59:59",
        "2024-03-31 03:00:00",
        "2024-10-27 02:30:00",
        "2024-10-27 03:00:00",
    ]
    expected = [epoch(2024, 3, 31, 0, 59, 59), epoch(2024, 3, 31, 1, 0, 0),
                epoch(2024, 10, 27, 0, 30, 0), epoch(2024, 10, 27, 2, 0, 0)]  # fmt: skip
    assert Clock(BERLIN).column("t", texts) == expected


def test_a_time_that_comes_twice_is_told_apart_by_its_row() -> None:
    """On 27 October 2024 Berlin's clocks go from 03:00 back to 02:00, at 01:00 UTC."""
    clock = Clock(BERLIN)
    one = epoch(2024, 10, 27, 1)
    ten, fifty = (clock.time(f"2024-10-27 02:{minute}:00") for minute in (10, 50))
    assert (ten, fifty) == (one - 3000, one - 600)
    assert (clock.other(ten), clock.other(one - 3601), clock.other(None)) == (one + 600, None, None)
    told: list[tuple[int, int | None, int | None, int | None]] = [
        (fifty, ten, one + 7000, None),  # submitted in the first pass: started in the second
        (one - 9000, fifty, ten, None),
        (one - 9000, ten, fifty, 2400),  # either pass: the first
        (one - 9000, ten, fifty, 6000),
        (one - 9000, ten, one + 3600, 3000),
        (one - 9000, ten, None, None),
        (one - 9000, one - 8000, one - 7000, 5),  # no time that comes twice, and wrong
    ]
    starts, ends = cells.settled(clock, *zip(*told, strict=True))  # type: ignore[arg-type]
    assert list(zip(starts, ends, strict=True)) == [
        (one + 600, one + 7000),
        (one - 600, one + 600),
        (one - 3000, one - 600),
        (one - 3000, one + 3000),
        (one + 600, one + 3600),
        (one - 3000, None),
        (one - 8000, one - 7000),
    ]
    assert not Clock(UTC).comes_twice


@given(st.datetimes(datetime(1971, 1, 1), datetime(2400, 1, 1)), st.sampled_from([UTC, BERLIN]))
def test_looked_up_times_are_those_of_datetime(when: datetime, zone: ZoneInfo) -> None:
    text = when.isoformat(" ", "seconds")
    expected = int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())
    assert Clock(zone).column("t", [text, text]) == [expected] * 2


@pytest.mark.parametrize(
    ("cell", "expected"), [("8", 8), ("8.0", 8), (" 8 ", 8), ("", None), ("NaN", None), ("1e1", 10)]
)
def test_counts(cell: str, expected: int | None) -> None:
    assert cells.count_of(cell) == expected


@pytest.mark.parametrize("cell", ["-1", "1.5", "1_0", "0x8", "inf", "1e400", "٣", "9" * 30, "1 2"])
def test_what_is_no_count(cell: str) -> None:
    with pytest.raises(DataError):
        cells.count_of(cell)


def test_units() -> None:
    assert cells.seconds_of(60)("14") == 840
    assert cells.seconds_of(0.001)("1534499") == 1534
    assert cells.seconds_of(0.001)("1534500") == 1535
    with pytest.raises(DataError, match="negative"):
        cells.seconds_of(1)("-0.1")
    for cell in (str(2**34), "999999999", "999999999.0"):
        with pytest.raises(DataError, match="too large"):
            cells.seconds_of(60)(cell)


def test_remembered_cells_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_MAX_REMEMBERED", 10)
    memory = Remembered(int)
    assert memory.column("n", [str(n) for n in range(100)]) == list(range(100))
    assert len(memory) <= 10


def test_states_are_the_formats_words_then_slurms() -> None:
    parse = cells.state_of({"terminated": JobState.COMPLETED})
    assert parse("Terminated") is JobState.COMPLETED
    assert parse("NODE_FAIL") is JobState.NODE_FAIL
    assert parse("CANCELLED by 1000") is JobState.CANCELLED
    assert parse("Vanished") is JobState.UNKNOWN
    assert parse("") is JobState.UNKNOWN


def test_order_of_times() -> None:
    cells.check_order([10, 10, 10], [10, None, 20], [10, None, None])
    for start, end in ((9, None), (20, 19), (None, 9)):
        with pytest.raises(DataError):
            cells.check_order([10], [start], [end])


def test_json_rows_are_sorted_and_leave_out_what_is_empty() -> None:
    rows = cells.json_rows({"b": ["1", "", ""], "a": ["ü", "x", ""]}, 3)
    assert rows == ['{"a":"ü","b":"1"}', '{"a":"x"}', None]
    assert json.loads(rows[0] or "") == {"a": "ü", "b": "1"}
