"""The pass over an order: against the rules written down once more, slowly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.formed import NOW, cluster, runs, waits
from support.jobs import T0

from gsched.model.job import JobState, LeaseState
from gsched.model.jobtable import JobTable
from gsched.policy.order_form import Discipline, Misfit, OrderForm, TenantTerm, TenantUse
from gsched.policy.pools import Pools
from gsched.policy.turns import Pass, Turns

TENANTS = ("a", "b", "c")


@st.composite
def states(draw):
    """Jobs of three tenants that wait or run in two partitions, some of a lease that is over."""
    views = []
    for number in range(draw(st.integers(0, 9))):
        one = waits(
            number,
            draw(st.integers(1, 5)),
            draw(st.sampled_from(TENANTS)),
            submit=T0 + draw(st.integers(0, 3)),
            partition=draw(st.sampled_from(["x", "y"])),
        )
        views.append(runs(one, lease_end=T0) if draw(st.booleans()) else one)
    held = {
        name: sum(sum(v.allocation.gpus) for v in views if v.allocation and name in v.partitions)
        for name in ("x", "y")
    }
    return cluster(views, **{name: gpus + draw(st.integers(0, 4)) for name, gpus in held.items()})


def by_the_rules(form, state, use, preempts):
    """Pool by pool: the next job is that of the least ratio, then the least key."""
    term, jobs = form.tenants, state.jobs
    a_gpu = 1.0 if term.use is TenantUse.ALLOCATED else form.discipline.lease_s
    found = {"begins": set(), "stays": set(), "leaves": set(), "orders": {}}
    for name in ("x", "y"):
        here = [r for r, v in enumerate(jobs.views) if v.partitions == (name,)]
        left = [r for r in here if preempts or jobs.pending[r]]
        spent = dict(enumerate(use))
        count = len(jobs.tenants)
        at_hand = sorted(spent[t] * count for t in {int(jobs.tenant[r]) for r in here})
        in_band = math.ceil(term.band * len(at_hand))
        cut = at_hand[in_band - 1] if in_band else -1.0
        node = next(n for n in state.nodes if n.name == name)
        quota = node.num_gpus - node.gpus_used
        quota += sum(int(jobs.num_gpus[r]) for r in left if jobs.running[r])
        blocked, order = set(), []
        while left:
            row = min(
                left,
                key=lambda r: (
                    max(cut, spent[int(jobs.tenant[r])] * count),
                    form.constant[r],
                    jobs.first_submit[r],
                    jobs.keys[r].job_id,
                ),
            )
            left.remove(row)
            order.append(row)
            gpus, is_running = int(jobs.num_gpus[row]), bool(jobs.running[row])
            takes = not preempts or (
                gpus <= quota and (is_running or jobs.tenant[row] not in blocked)
            )
            if takes:
                quota -= gpus
                spent[int(jobs.tenant[row])] += gpus * a_gpu
            elif not is_running and form.discipline.misfit is not Misfit.SKIP:
                is_whole = form.discipline.misfit is Misfit.BLOCK
                blocked |= set(range(count)) if is_whole else {int(jobs.tenant[row])}
            kind = ("stays" if takes else "leaves") if is_running else ("begins" if takes else "")
            if preempts and kind:
                found[kind].add(row)
        found["orders"][name] = order
    return found


def passed(form, state, use, preempts):
    jobs, pools = state.jobs, Pools.of(state)
    rows = form.order_at(NOW, jobs, jobs.select(jobs.pending | (jobs.running & preempts)), use)
    return Pass(form, jobs, rows.tolist(), jobs.pending.tolist(), use).turns(pools)


@settings(max_examples=300)
@given(
    states(),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.sampled_from([*TenantUse]),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([Misfit.BLOCK, Misfit.BLOCK_TENANT, Misfit.SKIP]),
    st.booleans(),
    st.lists(st.integers(0, 6).map(float), min_size=3, max_size=3),
)
def test_a_pass_is_what_the_rules_say(state, band, kind, lease_s, misfit, preempts, uses):
    jobs = state.jobs
    use = np.array(uses[: len(jobs.tenants)])
    form = OrderForm.static(
        jobs.num_gpus.astype(float),
        Discipline(preempts, misfit, lease_s),
        TenantTerm(np.ones(len(jobs.tenants)), kind, band=band),
    )
    expected = by_the_rules(form, state, use, preempts)
    turns = passed(form, state, use, preempts)
    assert set(turns.begins) == expected["begins"]
    assert set(turns.stays) == expected["stays"]
    assert {row for row, _ in turns.leaves} == expected["leaves"]
    for name, order in expected["orders"].items():
        assert [r for r in turns.ordered if jobs.views[r].partitions == (name,)] == order
    for row, beneficiary in turns.leaves:
        assert beneficiary in turns.begins
        assert jobs.views[row].partitions == jobs.views[beneficiary].partitions


def freeing(view, beneficiary):
    """Told to give way for a job of this number."""
    lease = replace(view.lease, state=LeaseState.SIGNALLED, beneficiary=str(beneficiary))
    return replace(view, lease=lease)


@settings(max_examples=300)
@given(states(), st.sampled_from([0.0, 2.0]), st.dictionaries(st.integers(0, 9), st.integers(0, 9)))
def test_what_is_under_way_goes_on_and_all_that_is_chosen_fits(state, lease_s, told):
    views = [
        freeing(v, told[v.key.job_id]) if v.lease and v.key.job_id in told else v
        for v in state.jobs.views
    ]
    state = replace(state, jobs=JobTable.from_views(views))
    jobs = state.jobs
    tenants = TenantTerm(np.ones(len(jobs.tenants)))
    form = OrderForm.static(
        jobs.num_gpus.astype(float), Discipline(True, Misfit.SKIP, lease_s), tenants
    )
    turns = passed(form, state, np.zeros(len(jobs.tenants)), preempts=True)
    assert sorted(turns.ordered) == list(range(len(jobs)))
    row_of = {v.key.job_id: row for row, v in enumerate(views)}
    leaving = [row for row, _ in turns.leaves]
    assert len(set(leaving)) == len(leaving)
    assert sorted([*turns.stays, *leaving]) == jobs.select(jobs.running).tolist()
    for node in state.nodes:
        here = [row for row, v in enumerate(views) if v.partitions == (node.name,)]
        chosen = set(turns.begins + turns.stays).intersection(here)
        assert sum(int(jobs.num_gpus[row]) for row in chosen) <= node.num_gpus
        pairs = {
            (row, row_of.get(int(views[row].lease.beneficiary), -1))
            for row in here
            if views[row].lease and views[row].lease.beneficiary
        }
        pairs = {(row, whom) for row, whom in pairs if whom in here and jobs.pending[whom]}
        whom = {whom for _, whom in pairs}
        if sum(int(jobs.num_gpus[row]) for row in whom) <= node.num_gpus:
            assert pairs <= set(turns.leaves)
            assert whom == set([row for row in turns.ordered if row in here][: len(whom)])


def plain(state, misfit=Misfit.SKIP):
    """A pass by the number of GPUs, largest first, that preempts."""
    jobs = state.jobs
    form = OrderForm.static(-jobs.num_gpus.astype(float), Discipline(True, misfit))
    return passed(form, state, np.zeros(len(jobs.tenants)), preempts=True)


def test_the_last_leave_for_the_first_that_lack_room():
    jobs = [
        waits(1, 8), waits(2, 4),
        runs(waits(3, 3), lease_end=T0), runs(waits(4, 3), lease_end=T0),
        runs(waits(5, 2), lease_end=T0), runs(waits(6, 1), lease_end=T0),
    ]  # fmt: skip
    # 9 held and 4 free: 8 and 4 of them go to the first two, 1 is left, for the last
    turns = plain(cluster(jobs, gpu=13))
    assert (turns.begins, turns.stays) == ([0, 1], [5])
    assert turns.leaves == [(4, 0), (3, 0), (2, 1)]


def test_another_does_not_give_way_while_one_is_about_to():
    jobs = [waits(1, 4), runs(waits(2, 4), lease_end=T0), runs(waits(3, 4), lease_end=T0)]
    assert plain(cluster(jobs, gpu=8)).leaves == [(2, 0)]
    jobs[1] = freeing(jobs[1], 1)
    turns = plain(cluster(jobs, gpu=8))
    assert (turns.begins, turns.stays, turns.leaves) == ([0], [2], [(1, 0)])
    jobs[0] = runs(jobs[0], node="gpu")  # it has its GPUs: nobody has to give way any more
    turns = plain(cluster(jobs, gpu=12))
    assert (turns.stays, turns.leaves) == ([0, 1, 2], [])


def test_where_too_little_is_freed_others_give_way_too():
    jobs = [
        waits(1, 4),
        freeing(runs(waits(2, 1), lease_end=T0), 1),
        runs(waits(3, 3), lease_end=T0), runs(waits(4, 3), lease_end=T0),
    ]  # fmt: skip
    assert plain(cluster(jobs, gpu=7)).leaves == [(1, 0), (3, 0)]


def test_who_is_larger_than_the_cluster_by_now_holds_nobody_back():
    jobs = [waits(1, 9), freeing(runs(waits(2, 4), lease_end=T0), 1)]
    turns = plain(cluster(jobs, gpu=8))
    assert (turns.begins, turns.stays, turns.leaves) == ([], [1], [])


def test_of_two_that_do_not_fit_together_any_more_one_stays_chosen():
    jobs = [
        waits(1, 5), waits(2, 5),
        freeing(runs(waits(3, 4), lease_end=T0), 1), freeing(runs(waits(4, 4), lease_end=T0), 2),
    ]  # fmt: skip
    turns = plain(cluster(jobs, gpu=8))
    assert (turns.begins, turns.stays, turns.leaves) == ([0], [], [(2, 0), (3, 0)])


def test_the_tenant_for_which_gpus_are_being_freed_is_charged_for_them():
    jobs = [
        waits(1, 2, "a"), waits(2, 2, "a"), waits(3, 2, "b"),
        freeing(runs(waits(4, 2, "c"), lease_end=T0), 1), runs(waits(5, 2, "c"), lease_end=T0),
    ]  # fmt: skip
    state = cluster(jobs, gpu=4)
    discipline = Discipline(True, Misfit.SKIP, 900.0)
    form = OrderForm.static(np.arange(5.0), discipline, TenantTerm(np.ones(3)))
    turns = passed(form, state, np.array([0.0, 0.0, 1.0]), preempts=True)
    assert turns.begins == [0, 2]
    assert turns.leaves == [(3, 0), (4, 2)]


def test_with_block_nobody_passes_the_first_that_does_not_fit_and_nobody_leaves_for_it():
    jobs = [waits(1, 9), waits(2, 2), runs(waits(3, 3), lease_end=T0), waits(4, 1)]
    assert plain(cluster(jobs, gpu=8), Misfit.BLOCK) == Turns([0, 2, 1, 3], [], [2], [])
    assert plain(cluster(jobs, gpu=8), Misfit.SKIP) == Turns([0, 2, 1, 3], [1, 3], [2], [])


def test_with_block_tenant_only_jobs_of_its_tenant_wait_behind_it():
    running = runs(waits(4, 3, "a"), lease_end=T0)
    views = [waits(1, 9, "a"), waits(2, 2, "b"), waits(3, 1, "a"), running]
    assert plain(cluster(views, gpu=8), Misfit.BLOCK_TENANT) == Turns([0, 3, 1, 2], [1], [3], [])
    assert plain(cluster(views, gpu=8), Misfit.SKIP) == Turns([0, 3, 1, 2], [1, 2], [3], [])


def test_a_job_that_is_being_cleaned_up_has_left_its_gpus_already():
    going = replace(runs(waits(3, 6)), state=JobState.COMPLETING)
    state = cluster([waits(1, 6), going], gpu=8)
    assert plain(state).begins == [0]
    assert Pools.of(state).free_gpus[0] == 8
