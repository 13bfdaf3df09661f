"""What each of the baselines does with a few jobs, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.formed import NOW, cluster, runs, waits
from support.jobs import T0

from gsched.errors import ConfigError
from gsched.model.decision import Reason
from gsched.model.job import Capability
from gsched.policy.order_form import Discipline, Misfit
from gsched.policy.registry import POLICIES, check, load


def decided(policy, views, memory=None, **gpus):
    return policy.decide(cluster(views, **(gpus or {"gpu": 8})), memory or {}, NOW)


def order_of(policy, views, memory=None, **gpus):
    order = decided(policy, views, memory, **gpus).order
    return [key.job_id for key in sorted(order, key=lambda k: order[k].position)]


def reason(policy, views, job_id):
    reasons = decided(policy, views).reasons
    return next(r for key, r in reasons.items() if key.job_id == job_id)


def test_sjf_goes_by_the_duration_whatever_the_gpus():
    jobs = [waits(1, 1, duration_s=50), waits(2, 8, duration_s=20), waits(3, 2, duration_s=90)]
    assert order_of(load("sjf"), jobs) == [2, 1, 3]
    assert reason(load("sjf"), jobs, 2) == Reason("sjf.duration", {"duration_s": 20.0})


def test_srtf_counts_what_has_run_as_done():
    half_done = waits(1, 4, duration_s=100, attained_gpu_s=4 * 70.0)
    jobs = [waits(2, 1, duration_s=40), half_done, waits(3, 1, duration_s=20)]
    assert order_of(load("srtf"), jobs) == [3, 1, 2]
    params = {"remaining_s": 30.0, "duration_s": 100.0}
    assert reason(load("srtf"), jobs, 1) == Reason("srtf.remaining-time", params)


def test_edf_puts_best_effort_last_and_preempts_unless_told_not_to():
    jobs = [waits(1, submit=T0 - 9), waits(2, deadline=T0 + 90), waits(3, deadline=T0 + 80)]
    assert order_of(load("edf"), jobs) == [3, 2, 1]
    assert reason(load("edf"), jobs, 2) == Reason("edf.deadline", {"deadline": T0 + 90})
    assert reason(load("edf"), jobs, 1) == Reason("edf.no-deadline", {"first_submit": T0 - 9})
    assert load("edf").requires == {Capability.REORDER, Capability.PREEMPT}
    tame = load("edf", preempt=0)
    assert tame.requires == {Capability.REORDER}
    check(tame, {Capability.REORDER})
    state = cluster(jobs)
    assert tame.order_form(state.jobs).discipline.misfit is Misfit.BLOCK
    assert not tame.order_form(state.jobs).discipline.preempts
    busy = [runs(waits(4, 8), lease_end=T0), *jobs]
    assert decided(tame, busy).actions == ()
    assert decided(load("edf"), busy).actions != ()


def test_tiresias_has_two_queues_by_gpu_time_received():
    jobs = [
        waits(1, 8, attained_gpu_s=100.0, submit=T0),
        waits(2, 1, attained_gpu_s=99.9, submit=T0 + 5),
        waits(3, 1, submit=T0 + 6),
        waits(4, 1, attained_gpu_s=5000.0, submit=T0 - 6),
    ]
    policy = load("tiresias", threshold_gpu_s=100)
    assert order_of(policy, jobs) == [2, 3, 4, 1]
    params = {"queue": 2, "attained_gpu_s": 100.0, "first_submit": T0}
    assert reason(policy, jobs, 1) == Reason("tiresias.queue", params)
    assert order_of(load("tiresias"), jobs) == [4, 1, 2, 3]


def test_tiresias_l_goes_by_gpu_time_received():
    jobs = [waits(1, 8, attained_gpu_s=80.0), waits(2, 1, attained_gpu_s=79.0), waits(3, 4)]
    assert order_of(load("tiresias-l"), jobs) == [3, 2, 1]
    assert reason(load("tiresias-l"), jobs, 1) == Reason(
        "tiresias-l.service", {"attained_gpu_s": 80.0}
    )


def test_themis_goes_by_the_finish_time_ratio():
    jobs = [
        waits(1, 1, duration_s=1000),  # (1000 + 1000) / 1000
        waits(2, 1, duration_s=100, submit=NOW - 50),  # (50 + 100) / 100
        waits(3, 2, duration_s=1000, attained_gpu_s=2 * 500.0),  # (1000 + 500) / 1000
        waits(4, 1, duration_s=10, submit=NOW - 40),  # (40 + 10) / 10
    ]
    assert order_of(load("themis"), jobs) == [4, 1, 3, 2]
    params = {"finish_time_ratio": 1.5, "duration_s": 1000.0}
    assert reason(load("themis"), jobs, 3) == Reason("themis.finish-time-ratio", params)


def test_themis_takes_no_job_to_be_shorter_than_a_second():
    jobs = [
        waits(1, duration_s=0.25, submit=NOW - 2),  # 1 + 2 / 1, not 1 + 2 / 0.25
        waits(2, duration_s=1, submit=NOW - 4),  # 1 + 4 / 1
    ]
    assert order_of(load("themis"), jobs) == [2, 1]


def test_optimus_goes_by_remaining_gpu_time():
    jobs = [
        waits(1, 8, duration_s=10),
        waits(2, 1, duration_s=60),
        waits(3, 2, duration_s=100, attained_gpu_s=2 * 80.0),
    ]
    assert order_of(load("optimus"), jobs) == [3, 2, 1]
    told = reason(load("optimus"), jobs, 3)
    assert (told.code, told.params["remaining_gpu_time_s"]) == ("optimus.remaining-gpu-time", 40.0)


def test_yarn_cs_fills_the_tenant_with_the_fewest_gpus():
    jobs = [
        runs(waits(1, 3, "a")),
        runs(waits(2, 1, "b")),
        waits(3, 1, "a", submit=T0 + 1),
        waits(4, 4, "b", submit=T0 + 2),
        waits(5, 1, "b", submit=T0 + 3),
        waits(6, 1, "c", submit=T0 + 4),
    ]
    # c holds 0; then b (1) before c (1) by submission; then c has none left, a (3) before b (5)
    assert order_of(load("yarn-cs"), jobs) == [6, 4, 3, 5]
    params = {"tenant": "b", "tenant_gpus": 1.0, "first_submit": T0 + 2}
    assert reason(load("yarn-cs"), jobs, 4) == Reason("yarn-cs.tenant-gpus", params)


def test_fair_tree_serves_who_has_received_least_in_the_order_of_submission():
    jobs = [
        waits(1, 1, "a", submit=T0),
        waits(2, 1, "b", submit=T0 + 2),
        waits(3, 1, "b", submit=T0 + 1),
    ]
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 10.0, "b": 9.0, "z": 0.5}}
    assert order_of(load("fair-tree"), jobs, memory) == [3, 2, 1]
    even = {**memory, "received_gpu_s": {"a": 9.0, "b": 9.0}}
    assert order_of(load("fair-tree"), jobs, even) == [1, 3, 2]


def test_fair_tree_halves_what_was_received_with_every_half_life():
    # b has received 7 GPU-s since then, a nothing: its 10 have become 5, or nearly 10
    jobs = [runs(waits(9, 1, "b"), start=NOW - 7), waits(1, 1, "a"), waits(2, 1, "b")]
    memory = {"version": 1, "as_of": NOW - 3600, "received_gpu_s": {"a": 10.0}}
    assert order_of(load("fair-tree", half_life_s=3600), jobs, memory) == [1, 2]
    assert order_of(load("fair-tree"), jobs, memory) == [2, 1]


def test_gandiva_fair_takes_the_jobs_of_a_tenant_by_their_own_gpu_time():
    jobs = [
        waits(1, 4, attained_gpu_s=4 * 50.0),
        waits(2, 1, attained_gpu_s=150.0, submit=T0 + 1),
        waits(3, 1, attained_gpu_s=300.0, submit=T0 - 1),
    ]
    assert order_of(load("gandiva-fair"), jobs) == [2, 1, 3]


def test_gandiva_fair_charges_a_lease_at_once():
    jobs = [waits(n, 2, "a", submit=T0 + n) for n in (1, 2, 3)] + [waits(9, 1, "b", submit=NOW)]
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 0.0, "b": 1000.0}}
    # the first of a is charged 2 × 900 GPU-s: more than b has
    assert order_of(load("gandiva-fair"), jobs, memory) == [1, 9, 2, 3]
    assert order_of(load("gandiva-fair", lease_s=0), jobs, memory) == [1, 2, 3, 9]


def test_allox_prefers_short_jobs_of_the_least_served():
    jobs = [
        waits(1, 1, "a", duration_s=50),
        waits(2, 1, "b", duration_s=40),
        waits(3, 1, "c", duration_s=10),
        waits(4, 1, "d", duration_s=1),
    ]
    received = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": received}
    assert order_of(load("allox", band=0.5), jobs, memory) == [2, 1, 3, 4]
    assert order_of(load("allox", band=1), jobs, memory) == [4, 3, 2, 1]
    assert order_of(load("allox", band=0), jobs, memory) == [1, 2, 3, 4]


def test_multifactor_adds_age_fair_share_and_size():
    knobs = {
        "age_points": 100, "max_age_s": 1000, "fair_share_points": 64, "gpu_points": 10,
        "half_life_s": 3600,
    }  # fmt: skip
    policy = load("multifactor", **knobs)
    jobs = [
        waits(1, 1, "a", submit=NOW - 5000),  # 100 + 10 + 64 / 2 ** 1.5
        waits(2, 3, "b", submit=NOW - 500),  # 50 + 30 + 64 / 2 ** 0.5
        waits(3, 1, "b", submit=NOW - 900),  # 90 + 10 + 64 / 2 ** 0.5
    ]
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 75.0, "b": 25.0}}
    assert order_of(policy, jobs, memory) == [3, 1, 2]
    decision = decided(policy, jobs, memory)
    points = {k.job_id: r.params["points"] for k, r in decision.reasons.items()}
    assert points == pytest.approx(
        {1: 110 + 64 / 2**1.5, 2: 80 + 64 / 2**0.5, 3: 100 + 64 / 2**0.5}
    )
    form = policy.order_form(cluster(jobs).jobs)
    assert form.discipline.misfit is Misfit.BACKFILL
    assert not form.is_static


def test_multifactor_without_fair_share_points_has_no_fair_share():
    policy = load("multifactor", fair_share_points=0)
    jobs = [waits(1, 1, "a", submit=T0), waits(2, 1, "b", submit=T0 + 1)]
    memory = {"version": 1, "as_of": NOW, "received_gpu_s": {"a": 1e9, "b": 0.0}}
    assert order_of(load("multifactor"), jobs, memory) == [2, 1]
    assert order_of(policy, jobs, memory) == [1, 2]
    params = reason(policy, jobs, 1).params
    assert (params["tenant"], params["fair_share_points"]) == ("a", 0.0)
    assert policy.order_form(cluster(jobs).jobs).tenants is None


def test_yarn_cs_has_each_tenant_block_its_own_jobs_only():
    form = load("yarn-cs").order_form(cluster([waits(1)]).jobs)
    assert form.discipline == Discipline(misfit=Misfit.BLOCK_TENANT)


@pytest.mark.parametrize("name", ["sjf", "srtf", "themis", "allox"])
def test_an_oracle_is_refused_where_there_is_none(name):
    with pytest.raises(ConfigError, match=f"{name} needs .*oracle") as caught:
        check(load(name), set(Capability) - {Capability.ORACLE})
    assert "gsched sim" in caught.value.hint
    check(load(name), set(Capability))


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_nobody_can_predict_has_the_median_place_in_the_form(name):
    known = [waits(n, 1, duration_s=float(10 * n)) for n in (1, 2, 3)]
    unknown = replace(waits(9, 1), first_submit=T0)
    form = load(name).order_form(cluster([*known, unknown]).jobs)
    if form is None:
        assert name in ("chronus", "unisched")  # those that decide without
        return
    assert form.constant[3] == form.constant[1]
