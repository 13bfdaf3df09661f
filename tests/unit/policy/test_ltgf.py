"""Who comes next by long-term fairness, and what a tenant is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.formed import NOW, cluster, runs, waits
from support.jobs import T0

from gsched.explain.policy_reasons import policy_reason
from gsched.model.decision import Grant, Renew, Revoke
from gsched.policy.ltgf import MANY_LEASES, Ltgf

DAY_S = 86400
LEASE_S = 900.0


def decided(policy, views, memory=None, gpus=8):
    return policy.decide(cluster(views, gpu=gpus), memory or {}, NOW)


def order_of(policy, views, memory=None, gpus=8):
    order = decided(policy, views, memory, gpus).order
    return [key.job_id for key in sorted(order, key=lambda k: order[k].position)]


def params(policy, views, job_id, memory=None):
    reasons = decided(policy, views, memory).reasons
    return next(r.params for key, r in reasons.items() if key.job_id == job_id)


def memory_of(received=None, jobs=None):
    """Of jobs as (GPU-seconds entitled, GPUs from now on), by id; first submitted at T0."""
    known = {f"{job_id}@{T0}": [*pair, 0, 1] for job_id, pair in (jobs or {}).items()}
    return {"version": 1, "as_of": NOW, "received_gpu_s": received or {}, "entitled": known}


# -- phase 1: tenants -------------------------------------------------------------------------


def test_the_tenant_least_served_for_its_quota_is_next():
    jobs = [waits(1, 1, "a"), waits(2, 1, "b")]
    received = memory_of({"a": 300.0, "b": 200.0})
    assert order_of(Ltgf(), jobs, received) == [2, 1]
    assert order_of(Ltgf({"a": 2, "b": 1}), jobs, received) == [1, 2]


def test_who_has_no_quota_comes_last_once_it_has_had_anything():
    jobs = [waits(1, 1, "guest"), waits(2, 1, "a")]
    policy = Ltgf({"a": 1})
    assert order_of(policy, jobs, memory_of({"a": 1e7, "guest": 1.0})) == [2, 1]
    assert order_of(policy, jobs, memory_of({"a": 1e7})) == [1, 2]


def test_a_pick_is_charged_for_a_lease_at_once():
    # a has had less by less than a lease of its first job: then it is b's turn
    jobs = [waits(1, 2, "a"), waits(2, 2, "a", submit=T0 + 1), waits(3, 2, "b", submit=T0 + 2)]
    assert order_of(Ltgf(), jobs, memory_of({"a": 100.0, "b": 1000.0})) == [1, 3, 2]
    assert order_of(Ltgf(), jobs, memory_of({"a": 100.0, "b": 2000.0})) == [1, 2, 3]


def test_who_does_not_fit_is_passed_over_and_blocks_nobody():
    jobs = [waits(1, 9, "a"), waits(2, 8, "b")]
    decision = decided(Ltgf(), jobs, memory_of({"b": 5000.0}))
    assert [type(a) for a in decision.actions] == [Grant]
    assert decision.actions[0].key.job_id == 2


def test_a_lent_quota_comes_back_when_the_leases_end():
    # a has run on all GPUs while b asked for nothing
    lent = [runs(waits(n, 4, "a"), lease_end=NOW) for n in (1, 2)]
    back = [waits(3, 4, "b", submit=NOW), waits(4, 4, "b", submit=NOW)]
    received = memory_of({"a": 8 * 1000.0})
    actions = decided(Ltgf(), [*lent, *back], received).actions
    assert {a.key.job_id for a in actions if isinstance(a, Revoke)} == {1, 2}
    assert {a.key.job_id for a in actions if isinstance(a, Grant)} == {3, 4}
    running = [replace(v, lease=replace(v.lease, length_s=v.lease.length_s + 1)) for v in lent]
    assert decided(Ltgf(), [*running, *back], received).actions == ()


def test_where_nobody_else_waits_leases_are_renewed():
    alone = [runs(waits(1, 8, "a"), lease_end=NOW)]
    actions = decided(Ltgf(), alone, memory_of({"a": 1e9})).actions
    assert [(type(a), a.length_s) for a in actions] == [(Renew, LEASE_S)]


# -- phase 2: the jobs of a tenant ------------------------------------------------------------


def test_the_job_least_served_for_its_share_is_next():
    jobs = [
        waits(1, 1, attained_gpu_s=60.0),
        waits(2, 4, attained_gpu_s=100.0),  # more, and less of what was its
    ]
    shares = {1: (100.0, 1.0), 2: (400.0, 4.0)}
    assert order_of(Ltgf(), jobs, memory_of(jobs=shares)) == [2, 1]


def test_boosts_are_small_and_can_be_left_out():
    def pair(**boosted):
        return [
            waits(1, 1, attained_gpu_s=50.0, duration_s=5000.0),
            waits(2, 1, **{"attained_gpu_s": 55.0, "duration_s": 5000.0, **boosted}),
        ]

    memory = memory_of(jobs={1: (100.0, 1.0), 2: (100.0, 1.0)})
    assert order_of(Ltgf(), pair(), memory) == [1, 2]
    for boosted, knob in (
        ({"duration_s": LEASE_S}, "boost_short"),
        ({"deadline": T0 + DAY_S}, "boost_urgent"),
    ):
        assert order_of(Ltgf(), pair(**boosted), memory) == [2, 1]
        assert order_of(Ltgf(**{knob: 0.0}), pair(**boosted), memory) == [1, 2]
        assert order_of(Ltgf(), pair(**boosted, attained_gpu_s=65.0), memory) == [1, 2]
    assert order_of(Ltgf(), pair(deadline=T0 + DAY_S + 1), memory) == [1, 2]


def test_many_leases_are_a_boost_that_does_not_grow_for_ever():
    many_s = MANY_LEASES * LEASE_S
    form = Ltgf().order_form(cluster([waits(1)], gpu=8).jobs)
    for leases, boost in ((0.5, 0.025), (1, 0.05), (9, 0.05)):
        jobs = cluster([waits(1, 1, attained_gpu_s=leases * many_s)], gpu=8).jobs
        assert form.keys_at(NOW, jobs, None)[0] == pytest.approx(-boost)


# -- what is told -----------------------------------------------------------------------------


def test_a_tenant_reads_what_it_is_owed():
    jobs = [waits(1, 1, "lab1"), waits(2, 2, "lab2", attained_gpu_s=3600.0)]
    received = memory_of({"lab1": 90 * 3600.0, "lab2": 8 * 3600.0}, {2: (7200.0, 2.0)})
    policy = Ltgf({"lab1": 1, "lab2": 1})
    told = params(policy, jobs, 2, received)
    assert policy_reason("ltgf.quota", told) == (
        "account lab2 is owed 41.0 GPU-h (its quota is 50% of the GPUs); "
        "this job has received 1.0 GPU-h of the 2.0 GPU-h that were its share"
    )
    other = policy_reason("ltgf.quota", params(policy, jobs, 1, received))
    assert other.startswith("account lab1 has had 41.0 GPU-h of what others were owed (its quota")
    even = {**received, "received_gpu_s": {"lab1": 3600.0, "lab2": 3600.0}}
    assert "lab1 has received what it was owed" in policy_reason(
        "ltgf.quota", params(policy, jobs, 1, even)
    )


def test_what_is_owed_adds_up_to_nothing():
    jobs = [waits(n, 1, name) for n, name in enumerate("abc")]
    received = memory_of({"a": 5.0, "b": 700.0, "c": 30.0})
    policy = Ltgf({"a": 1, "b": 2, "c": 3})
    assert sum(params(policy, jobs, n, received)["owed_gpu_s"] for n in range(3)) == 0


def test_what_tenants_have_had_that_have_no_jobs_now_is_owed_too():
    jobs = [waits(1, 1, "lab2")]
    received = memory_of({"lab1": 80 * 3600.0, "lab2": 20 * 3600.0})
    policy = Ltgf({"lab1": 1, "lab2": 1})
    assert params(policy, jobs, 1, received)["owed_gpu_s"] == pytest.approx(30 * 3600)


@pytest.mark.parametrize(
    ("quotas", "problem"),
    [
        ({"a": -1.0}, "the quota of a is -1.0"),
        ({"a": float("nan"), "b": 1.0}, "the quota of a is nan"),
        ({"a": 0.0}, "no tenant has a quota above 0"),
    ],
)
def test_quotas_that_are_none_are_refused(quotas, problem):
    with pytest.raises(ValueError, match=problem):
        Ltgf(quotas)
