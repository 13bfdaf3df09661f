"""The ledger that is kept up as things happen tells what a replay of the whole history tells."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fairness_books import END_S, Past, books, pasts

from gsched.errors import DataError
from gsched.fairness.ledger import Ledger
from gsched.fairness.metric import metric_account
from gsched.fairness.rule import rule_account


def kept_up(past: Past, put_away_at: int) -> Ledger:
    """Told of one thing after the other; once it is put away as JSON and taken up again."""
    events = [(since, 0, tenant, gpus, 0) for tenant, since, gpus in past.quotas]
    for job, (_, _, tries) in enumerate(past.jobs):
        for begin, start, end, gpus in tries:
            events += [(begin, 2, job, gpus, 0), (start, 3, job, gpus, end), (end, 1, job, 0, 0)]
    ledger = Ledger(0.0)
    was_put_away = False
    for time_s, kind, number, gpus, _ in sorted(events):
        if time_s >= put_away_at and not was_put_away:
            ledger = Ledger.from_document(json.loads(json.dumps(ledger.document())))
            was_put_away = True
        if kind == 0:
            ledger.set_quota(time_s, f"t{number}", gpus)
            continue
        tenant, weight, _ = past.jobs[number]
        if kind in (1, 2):
            ledger.asks(time_s, str(number), f"t{tenant}", gpus, weight)
        if kind in (1, 3):
            ledger.holds(time_s, str(number), gpus)
    ledger.pass_to(END_S)
    return ledger


def is_plain(past: Past) -> bool:
    """No attempt that ends as it starts: told of in order, it would hold its GPUs for ever."""
    return all(start < end for _, _, tries in past.jobs for _, start, end, _ in tries)


@given(past=pasts().filter(is_plain), put_away_at=st.integers(0, END_S))
def test_replay_is_incremental(past: Past, put_away_at: int) -> None:
    ledger, of = kept_up(past, put_away_at), books(past)
    metric, rule = metric_account(of, 0, END_S), rule_account(of, 0, END_S)
    for tenant, name in enumerate(of.tenants):
        sums = ledger.tenants.get(name)
        told = (sums.received, sums.entitled, sums.due) if sums else (0.0, 0.0, 0.0)
        found = metric.tenant_received, metric.tenant_entitled, rule.due
        np.testing.assert_allclose(told, [column[tenant] for column in found], atol=1e-9)
    for job in range(len(past.jobs)):
        sums = ledger.jobs.get(str(job))
        told = (sums.received, sums.entitled) if sums else (0.0, 0.0)
        found = metric.job_received[job], metric.job_entitled[job]
        np.testing.assert_allclose(told, found, atol=1e-9)


def test_a_clock_that_goes_back_is_refused_and_changes_nothing() -> None:
    ledger = Ledger(100.0)
    ledger.set_quota(100, "lab", 4)
    before = ledger.document()
    with pytest.raises(DataError, match="at 100 s and was told of 99 s"):
        ledger.asks(99, "7", "lab", 2)
    assert ledger.document() == before


def test_a_job_that_is_forgotten_leaves_its_tenant_what_it_had() -> None:
    ledger = Ledger(0.0)
    ledger.set_quota(0, "lab", 1)
    ledger.asks(0, "7", "lab", 2)
    ledger.holds(10, "7", 2)
    ledger.asks(30, "7", "lab", 0)
    ledger.holds(30, "7", 0)
    gone = ledger.forget("7")
    assert (gone.received, gone.entitled) == (40.0, 30.0)
    ledger.pass_to(50)
    lab = ledger.tenants["lab"]
    assert (lab.received, lab.entitled, lab.due) == (40.0, 30.0, 50.0)
    assert ledger.jobs == {}


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"version": 2, "as_of_s": 0, "tenants": {}, "jobs": {}},
        {"version": 1, "as_of_s": "x", "tenants": {}, "jobs": {}},
        {"version": 1, "as_of_s": 0, "tenants": [], "jobs": {}},
        {"version": 1, "as_of_s": 0, "tenants": {"a": {"b": 1}}, "jobs": {}},
    ],
)
def test_what_is_no_ledger_is_told_so(told) -> None:
    with pytest.raises(DataError, match="no ledger"):
        Ledger.from_document(told)
