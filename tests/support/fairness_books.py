"""Random histories of tenants, and both accounts of them second by second, in exact numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from gsched.fairness.books import Books, Quotas, Stretches

END_S = 24
"""Histories lie between 0 and here."""


@dataclass(frozen=True)
class Past:
    """Jobs as (tenant, weight, attempts), an attempt as (asks from, holds from, to, GPUs).

    Quotas as (tenant, since, GPUs). Between its attempts a job asks for nothing.
    """

    tenants: int
    jobs: tuple[tuple[int, int, tuple[tuple[int, int, int, int], ...]], ...]
    quotas: tuple[tuple[int, int, int], ...]


@st.composite
def attempts(draw) -> tuple[tuple[int, int, int, int], ...]:
    """One after the other, as after requeues."""
    cuts = sorted(draw(st.sets(st.integers(0, END_S), min_size=2, max_size=6)))
    found = []
    for begin, end in zip(cuts[::2], cuts[1::2], strict=False):
        found.append((begin, draw(st.integers(begin, end)), end, draw(st.integers(1, 8))))
    return tuple(found)


@st.composite
def pasts(draw) -> Past:
    """A few tenants with a few jobs, whose quotas change now and then."""
    tenants = draw(st.integers(1, 3))
    some = st.integers(0, tenants - 1)
    jobs = draw(st.lists(st.tuples(some, st.integers(1, 3), attempts()), max_size=6))
    changes = draw(
        st.lists(
            st.tuples(some, st.integers(0, END_S), st.integers(0, 8)),
            max_size=5,
            unique_by=lambda change: change[:2],
        )
    )
    return Past(tenants, tuple(jobs), tuple(changes))


def books(past: Past, shuffle: np.random.Generator | None = None) -> Books:
    """The same by column; the rows of what is told in any order."""
    asked = [
        (job, begin, end, gpus)
        for job, (_, _, tries) in enumerate(past.jobs)
        for begin, _, end, gpus in tries
    ]
    held = [
        (job, start, end, gpus)
        for job, (_, _, tries) in enumerate(past.jobs)
        for _, start, end, gpus in tries
    ]
    return Books(
        tenants=tuple(f"t{number}" for number in range(past.tenants)),
        tenant=np.array([tenant for tenant, _, _ in past.jobs], dtype=np.int64),
        weight=np.array([weight for _, weight, _ in past.jobs], dtype=np.float64),
        asked=_stretches(asked, shuffle),
        held=_stretches(held, shuffle),
        quotas=_quotas(list(past.quotas), shuffle),
    )


def _stretches(rows: list[tuple[int, int, int, int]], shuffle) -> Stretches:
    if shuffle is not None:
        shuffle.shuffle(rows)
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return Stretches(table[:, 0].astype(np.int64), *table[:, 1:].T.copy())


def _quotas(rows: list[tuple[int, int, int]], shuffle) -> Quotas:
    if shuffle is not None:
        shuffle.shuffle(rows)
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Quotas(table[:, 0].astype(np.int64), table[:, 1].copy(), table[:, 2].copy())


@dataclass
class Plain:
    """GPU-seconds of a window by tenant and by job."""

    received: list[Fraction]
    entitled: list[Fraction]
    due: list[Fraction]
    demanded: list[Fraction]
    borrowed: list[Fraction]
    job_received: list[Fraction]
    job_entitled: list[Fraction]


def second_by_second(past: Past, begin_s: int, end_s: int) -> Plain:
    """The definitions, once more."""
    found = Plain(*([Fraction(0)] * n for n in (*[past.tenants] * 5, *[len(past.jobs)] * 2)))
    for second in range(begin_s, end_s):
        for tenant in range(past.tenants):
            known = [(since, gpus) for who, since, gpus in past.quotas if who == tenant]
            quota = max(((s, g) for s, g in known if s <= second), default=(0, 0))[1]
            found.due[tenant] += quota
            active = {}
            held = 0
            for job, (who, weight, tries) in enumerate(past.jobs):
                for begin, start, end, gpus in tries:
                    if who == tenant and begin <= second < end:
                        active[job] = (weight, gpus)
                        if start <= second:
                            held += gpus
                            found.job_received[job] += gpus
            found.received[tenant] += held
            found.borrowed[tenant] += max(0, held - quota)
            found.demanded[tenant] += sum(gpus for _, gpus in active.values())
            found.entitled[tenant] += min(quota, sum(gpus for _, gpus in active.values()))
            weights = sum(weight for weight, _ in active.values())
            for job, (weight, gpus) in active.items():
                found.job_entitled[job] += min(Fraction(gpus), Fraction(quota * weight, weights))
    return found
