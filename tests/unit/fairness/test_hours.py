"""The hours of the ledger against their definition, told second by second."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.fairness_books import END_S, Past, books, pasts, second_by_second

from gsched.fairness.hours import interval_sums
from gsched.fairness.rule import faded_owed, faded_received, rule_account

edges = st.sets(st.integers(0, END_S), min_size=2).map(sorted)


@given(past=pasts(), cuts=edges)
def test_they_are_what_the_definitions_say(past: Past, cuts: list[int]) -> None:
    told = interval_sums(books(past), np.array(cuts, dtype=float))
    for number, (begin, end) in enumerate(pairwise(cuts)):
        plain = second_by_second(past, begin, end)
        for name in ("received", "entitled", "demanded", "borrowed", "due"):
            found = getattr(told, name)[:, number].tolist()
            assert found == [float(amount) for amount in getattr(plain, name)], name


@given(past=pasts(), cuts=edges)
def test_what_is_due_is_had_or_lent(past: Past, cuts: list[int]) -> None:
    told = interval_sums(books(past), np.array(cuts, dtype=float))
    assert (told.due == told.lent + told.received - told.borrowed).all()
    assert (told.lent >= 0).all()
    assert (told.entitled <= np.minimum(told.demanded, told.due)).all()
    whole = rule_account(books(past), cuts[0], cuts[-1])
    assert told.received.sum(axis=1).tolist() == whole.received.tolist()
    assert told.due.sum(axis=1).tolist() == whole.due.tolist()


@given(past=pasts(), cuts=edges)
def test_an_hour_knows_nothing_of_its_neighbours(past: Past, cuts: list[int]) -> None:
    """Closed alone it has the very same figures, to the bit."""
    of = books(past)
    told = interval_sums(of, np.array(cuts, dtype=float))
    for number, two in enumerate(pairwise(cuts)):
        alone = interval_sums(of, np.array(two, dtype=float))
        for name in told.__dataclass_fields__:
            assert getattr(told, name)[:, number].tobytes() == getattr(alone, name).tobytes()


@given(past=pasts(), at=st.integers(0, END_S), half_life_s=st.sampled_from([1.0, 7.0, np.inf]))
def test_what_was_received_fades_by_and_by(past: Past, at: int, half_life_s: float) -> None:
    received = faded_received(books(past), at, half_life_s)
    plain = [0.0] * past.tenants
    for second in range(at):
        one = second_by_second(past, second, second + 1)
        if np.isinf(half_life_s):
            fade = 1.0
        else:  # the mean over the second
            rate = np.log(2.0) / half_life_s
            fade = (np.exp(-rate * (at - second - 1)) - np.exp(-rate * (at - second))) / rate
        plain = [p + fade * float(r) for p, r in zip(plain, one.received, strict=True)]
    np.testing.assert_allclose(received, plain, atol=1e-9)


def test_what_is_owed_is_the_quotas_part_of_all_that_was_received() -> None:
    owed = faded_owed(np.array([60.0, 20.0, 0.0]), np.array([2.0, 1.0, 1.0]))
    assert owed.tolist() == [-20.0, 0.0, 20.0]
    assert faded_owed(np.array([5.0]), np.array([0.0])).tolist() == [0.0]


@given(past=pasts(), at=st.integers(0, END_S))
def test_the_quotas_in_force_at_a_time(past: Past, at: int) -> None:
    plain = second_by_second(past, at, at + 1)
    assert books(past).quotas.at(at, past.tenants).tolist() == [float(due) for due in plain.due]
