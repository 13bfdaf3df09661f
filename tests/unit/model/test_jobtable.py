"""Jobs by column: what is copied from the table before is what would be computed."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, view

from gsched.model.job import Capability, Exclusion, JobKey, JobState, JobView, Wants
from gsched.model.jobtable import JobTable, waiting_since

BARRED = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)


@st.composite
def job_views(draw: st.DrawFn, first_id: int = 0) -> list[JobView]:
    return [
        replace(
            view(
                first_id + number,
                gpus=draw(st.integers(0, 4)),
                cpus=draw(st.integers(0, 9)),
                duration_s=draw(st.none() | st.floats(0, 1e6)),
                submit=T0 + draw(st.integers(0, 3)),
                state=draw(st.sampled_from([JobState.PENDING, JobState.RUNNING])),
                exclusions=draw(st.sampled_from([(), BARRED])),
                array_task=draw(st.none() | st.integers(0, 3)),
                time_limit_s=draw(st.none() | st.integers(1, 9)),
            ),
            eligible=draw(st.none() | st.integers(T0, T0 + 9)),
            tenant=draw(st.sampled_from(["lab", "team", "a"])),
            attained_gpu_s=draw(st.none() | st.floats(0, 1e6)),
            wants=Wants(deadline=draw(st.none() | st.integers(T0, T0 + 9))),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


def same(one: JobTable, other: JobTable) -> bool:
    """Equal in every column; of `tie` the order alone counts."""
    for f in fields(one):
        mine, theirs = getattr(one, f.name), getattr(other, f.name)
        if f.name == "tie":
            mine, theirs = np.argsort(mine), np.argsort(theirs)
        if isinstance(mine, np.ndarray):
            is_number = mine.dtype.kind == "f"
            if mine.dtype != theirs.dtype or not np.array_equal(mine, theirs, equal_nan=is_number):
                return False
        elif mine != theirs:
            return False
    return True


@given(job_views(), job_views(first_id=100), st.randoms(), st.data())
def test_what_stays_is_copied_and_what_came_is_computed(
    views: list[JobView], come: list[JobView], order: object, data: st.DataObject
) -> None:
    before = JobTable.from_views(views)
    stay = [v for v in views if data.draw(st.booleans())]
    changed = [replace(v, exclusions=BARRED) if data.draw(st.booleans()) else v for v in stay]
    now = [*changed, *come]
    order.shuffle(now)  # type: ignore[attr-defined]
    assert same(JobTable.from_views(now, before), JobTable.from_views(now))


@given(job_views(), st.data())
def test_a_part_of_a_table_is_the_table_of_the_part(
    views: list[JobView], data: st.DataObject
) -> None:
    table = JobTable.from_views(views)
    rows = data.draw(st.permutations(range(len(views))))[: data.draw(st.integers(0, 8))]
    part = table.take(np.array(rows, dtype=np.int64))
    assert same(part, JobTable.from_views([views[row] for row in rows]))


@given(job_views())
def test_predictions_filled_in_are_those_of_the_records(views: list[JobView]) -> None:
    bare = [replace(v, predictions=()) for v in views]
    table = JobTable.from_views(bare)
    assert same(table.with_predictions(views), JobTable.from_views(views))
    assert np.isnan(table.predicted_duration_s).all()


def test_a_table_of_the_same_records_is_the_same_table() -> None:
    views = [view(1), view(2)]
    before = JobTable.from_views(views)
    assert JobTable.from_views(list(views), before) is before
    assert JobTable.from_views(views[:1], before) is not before


def test_columns_cannot_be_written() -> None:
    table = JobTable.from_views([view(1, state=JobState.RUNNING)])
    for made in (table, table.take(np.array([0])), table.with_predictions([view(1)])):
        for name in ("reorderable", "num_gpus", "predicted_duration_s", "tie"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(made, name)[:] = 1


@given(st.lists(st.tuples(*[st.none() | st.integers(0, 2)] * 2, *[st.integers(0, 2)] * 3)))
def test_ties_go_by_first_submit_then_by_the_key(
    rows: list[tuple[int | None, int | None, int, int, int]],
) -> None:
    keys = [JobKey(f"c{e % 2}", j, t, None if t is not None else h, e) for t, h, j, e, _ in rows]
    views = [
        replace(view(), key=key, first_submit=s) for key, (*_, s) in zip(keys, rows, strict=True)
    ]
    table = JobTable.from_views(views)

    def place(row: int) -> tuple[object, ...]:
        key = keys[row]
        parts = (key.job_id, key.array_task, key.het_offset)
        numbers = tuple(-1 if part is None else part for part in parts)
        return (views[row].first_submit, key.cluster, *numbers, key.epoch)

    by_tie = sorted(range(len(rows)), key=lambda row: int(table.tie[row]))
    assert [place(row) for row in by_tie] == sorted(map(place, range(len(rows))))


@pytest.mark.parametrize(
    ("facts", "since"),
    [
        ({}, T0),
        ({"eligible": None}, None),  # held, or it depends on another job
        ({"eligible": T0 + 50}, T0 + 50),  # it depended on one until then
        ({"eligible": T0 - 50}, T0),
        ({"attempt": T0 + 500, "eligible": T0 + 510}, T0),  # requeued
        ({"attempt": T0 + 500, "eligible": None}, None),
        ({"state": JobState.RUNNING}, None),
    ],
)
def test_since_when_a_job_waits(facts: dict[str, object], since: int | None) -> None:
    assert waiting_since(replace(view(1), **facts)) == since  # type: ignore[arg-type]


def test_tenants_are_numbered_by_name_and_only_those_at_hand() -> None:
    views = [replace(view(n), tenant=name) for n, name in enumerate(["z", "a", "z", "m"])]
    table = JobTable.from_views(views)
    assert (table.tenants, table.tenant.tolist()) == (("a", "m", "z"), [2, 0, 2, 1])
    part = table.take(np.array([0, 3]))
    assert (part.tenants, part.tenant.tolist()) == (("m", "z"), [1, 0])


def test_who_holds_gpus_and_who_has_left_them() -> None:
    states = {
        1: JobState.RUNNING, 2: JobState.COMPLETING, 3: JobState.PENDING, 4: JobState.SUSPENDED,
        5: JobState.RUNNING, 6: JobState.COMPLETED,
    }  # fmt: skip
    views = [view(job_id, state=state) for job_id, state in states.items()]
    before = JobTable.from_views(views)
    assert [v.key.job_id for v in before.holders()] == [1, 2, 4, 5]
    requeued, cleaned = (
        replace(views[0], state=JobState.PENDING),
        view(5, state=JobState.COMPLETING),
    )
    now = JobTable.from_views([requeued, cleaned, view(7, state=JobState.RUNNING), *views[2:4]])
    assert [v.key.job_id for v in before.no_longer_holding(now)] == [1, 2]
    assert before.no_longer_holding(before) == ()
