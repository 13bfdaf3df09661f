"""An order by column is checked as the same order rank by rank."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.engine.validate import validate
from gsched.model.decision import QUEUES, Decision, Rank, Reason
from gsched.model.job import Capability, Exclusion, JobKey, JobState
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable

BARRED = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)
STATE = snapshot(
    [view(i) for i in range(4)]
    + [view(4, exclusions=BARRED), view(5, state=JobState.RUNNING), view(6), view(7)]
)
ANYTHING = frozenset(Capability)

numbers = st.floats() | st.sampled_from([1.0, -1.0, math.nextafter(1.0, 2.0), math.nan, math.inf])
ranks = st.builds(
    Rank,
    queue=st.sampled_from(QUEUES),
    position=st.integers(-1, 3),
    of=st.integers(0, 3),
    key=numbers,
    level=numbers,
)
texts = st.sampled_from(["a", "long" * 300, "b"])
reasons = st.builds(
    Reason,
    code=st.sampled_from(["x", "y", "two\nlines", ""]),
    params=st.fixed_dictionaries({"p": numbers, "t": texts}) | st.just({}),
)
keys = st.sampled_from(STATE.jobs.keys)


def is_sound(key: JobKey, rank: Rank, why: Reason | None) -> bool:
    """The rules, once more and plainly."""
    job = STATE.jobs.view(key)
    return (
        job.state is JobState.PENDING
        and not job.exclusions
        and math.isfinite(rank.key)
        and -1.0 <= rank.level <= 1.0
        and 1 <= rank.position <= rank.of
        and why is not None
        and is_told(why)
    )


def is_told(why: Reason) -> bool:
    number, text = why.params.get("p", 0.0), why.params.get("t", "")
    assert isinstance(number, float)
    assert isinstance(text, str)
    return why.code in ("x", "y") and math.isfinite(number) and len(text) < 1000


@given(st.dictionaries(keys, ranks), st.dictionaries(keys, reasons))
def test_columns_and_single_ranks_are_checked_alike(
    order: dict[JobKey, Rank], why: dict[JobKey, Reason]
) -> None:
    plain = Decision(order, (), why, {})
    columns = replace(
        plain, order=RankTable.of(order, STATE.jobs), reasons=ReasonTable.of(why, STATE.jobs)
    )
    kept, problems = validate(plain, STATE, ANYTHING, T0)
    assert kept.order == {k: r for k, r in order.items() if is_sound(k, r, why.get(k))}
    none = order.keys() - kept.order.keys()  # of a job whose rank is none, nothing is decided
    assert kept.reasons == {k: r for k, r in why.items() if is_told(r) and k not in none}
    dropped = (order.keys() - kept.order.keys()) | (why.keys() - kept.reasons.keys())
    assert {p.key for p in problems} == dropped
    same, same_problems = validate(columns, STATE, ANYTHING, T0)
    assert (same.order, same.reasons) == (kept.order, kept.reasons)
    assert set(same_problems) == set(problems)
    again, none_left = validate(kept, STATE, ANYTHING, T0)
    assert (again, none_left) == (kept, ())


@given(st.lists(numbers, min_size=4, max_size=4), st.lists(numbers, min_size=4, max_size=4))
def test_numbers_in_columns_of_reasons_must_be_finite(
    levels: list[float], numbers_told: list[float]
) -> None:
    rows = np.arange(4)
    one = np.ones(4, dtype=np.int64)
    order = RankTable(STATE.jobs, rows, one - 1, one, one, np.zeros(4), np.array(levels))
    group = ReasonGroup("x", rows, {"p": np.array(numbers_told), "n": one})
    told = ReasonTable(STATE.jobs, (group,))
    kept, problems = validate(Decision(order, (), told, {}), STATE, ANYTHING, T0)
    fits = [
        -1 <= level <= 1 and math.isfinite(p) for level, p in zip(levels, numbers_told, strict=True)
    ]
    assert [key in kept.order for key in STATE.jobs.keys[:4]] == fits
    assert len(problems) == fits.count(False)
    assert all(math.isfinite(r.params["p"]) for r in kept.reasons.values())  # type: ignore[arg-type]
