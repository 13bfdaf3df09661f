"""Orders and reasons by column against plain dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import snapshot, view

from gsched.model.decision import QUEUES, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.jobtable import JobTable
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable

JOBS = snapshot([view(i) for i in range(6)]).jobs
OTHER = JobKey("c", 99)

ranks = st.builds(
    Rank,
    queue=st.sampled_from(QUEUES),
    position=st.integers(1, 9),
    of=st.integers(1, 9),
    key=st.floats(allow_nan=False),
    level=st.floats(-1, 1),
)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
params = st.dictionaries(
    st.sampled_from("abc"), values | st.lists(values, max_size=3) | st.just({"x": [1]}), max_size=3
)
reasons = st.builds(Reason, code=st.sampled_from(["x", "y"]), params=params)


@given(st.dictionaries(st.sampled_from(JOBS.keys), ranks))
def test_an_order_by_column_reads_as_the_plain_one(order: dict[JobKey, Rank]) -> None:
    table = RankTable.of(order, JOBS)
    assert_reads_as(table, order)
    assert RankTable.of(table, JOBS) is table
    for rank in table.values():
        assert {type(rank.position), type(rank.of)} == {int}
        assert {type(rank.key), type(rank.level)} == {float}


@given(st.dictionaries(st.sampled_from(JOBS.keys), reasons))
def test_reasons_by_column_read_as_the_plain_ones(plain: dict[JobKey, Reason]) -> None:
    table = ReasonTable.of(plain, JOBS)
    assert_reads_as(table, plain)
    assert ReasonTable.of(table, JOBS) is table
    assert table.has.tolist() == [key in plain for key in JOBS.keys]


def assert_reads_as(table: Mapping[JobKey, Any], plain: Mapping[JobKey, Any]) -> None:
    assert table == plain
    assert plain == table
    assert len(table) == len(plain)
    assert set(table) == set(plain)
    for key in JOBS.keys:
        assert (key in table) == (key in plain)
        assert table.get(key) == plain.get(key)
    assert OTHER not in table
    with pytest.raises(KeyError):
        table[OTHER]


def test_numbers_of_reasons_are_json() -> None:
    rows = np.array([1, 2])
    columns = {
        "f": np.array([0.5, 2.0]),
        "i": np.array([1, 2]),
        "s": np.array(["a", "b"], dtype=np.object_),
    }
    table = ReasonTable(JOBS, (ReasonGroup("x", rows, columns),))
    assert json.dumps(dict(table[JOBS.keys[2]].params)) == '{"f": 2.0, "i": 2, "s": "b"}'


def test_the_last_group_counts() -> None:
    groups = (ReasonGroup("x", np.array([0, 1, 2]), {}), ReasonGroup("y", np.array([1]), {}))
    table = ReasonTable(JOBS, groups)
    assert [table[key].code for key in JOBS.keys[:3]] == ["x", "y", "x"]
    assert len(table) == 3


def columns(**facts: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "rows": [0, 1],
        "queue": [0, 1],
        "position": [1, 1],
        "out_of": [1, 1],
        "key": [1.0, 2.0],
        "level": [0.0, 0.5],
    }
    return {name: np.array(column) for name, column in (given | facts).items()}


def test_good_columns_are_taken() -> None:
    assert len(RankTable(JOBS, **columns())) == 2
    assert len(RankTable(JOBS, **columns(key=[1, 2]))) == 2  # whole numbers are numbers


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"rows": [0]}, "not of one length"),
        ({"rows": [0, 6]}, "row is outside"),
        ({"rows": [0, -1]}, "row is outside"),
        ({"rows": [1, 1]}, "ranked twice"),
        ({"rows": [0.0, 1.0]}, "rows"),
        ({"queue": [0, 2]}, "queue is outside"),
        ({"level": ["a", "b"]}, "level"),
        ({"level": [1j, 0]}, "level"),
        ({"key": [[1.0], [2.0]]}, "key"),
    ],
)
def test_columns_that_do_not_fit_are_refused(facts: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        RankTable(JOBS, **columns(**facts))


def test_reasons_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ReasonTable(JOBS, (ReasonGroup("x", np.array([0, 1]), {"a": np.array([1])}),))
    with pytest.raises(ValueError, match="row is outside"):
        ReasonTable(JOBS, (ReasonGroup("x", np.array([6]), {}),))


def test_a_job_that_is_not_in_the_table_is_no_key_of_an_order() -> None:
    with pytest.raises(KeyError):
        RankTable.of({OTHER: Rank("gpu", 1, 1, 0.0, 0.0)}, JOBS)
    with pytest.raises(KeyError):
        ReasonTable.of({OTHER: Reason("x")}, JOBS)


def test_positions_are_counted_anew_by_queue() -> None:
    given = columns(rows=[3, 2, 1], queue=[0, 1, 0], position=[7] * 3, out_of=[9] * 3, key=[1] * 3)
    numbered = RankTable(JOBS, **(given | {"level": np.zeros(3)})).renumbered()
    assert numbered.position.tolist() == [1, 1, 2]
    assert numbered.out_of.tolist() == [2, 1, 2]


def test_nothing_is_ranked() -> None:
    empty = JobTable.from_views([])
    assert RankTable.of({}, empty) == {}
    assert ReasonTable.of({}, empty) == {}
