"""Plans of all targets of a pool, against trying everything."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.policy.chronus_calendar import Calendar, Pieces
from gsched.policy.chronus_plan import Need, could_fit, plan_for, spend_more, with_newcomer
from gsched.policy.chronus_slots import Slots, by_slots
from gsched.policy.chronus_solver import Solver

T = 10_000
UNIT = 10
GPUS = 4
MOST_UNITS = 6


def need(number, gpus=1, units=1, due=MOST_UNITS, reward=100.0, held=0, **more):
    """A job of so many units of run time, due so many units from now."""
    return Need(
        name=f"j{number}",
        gpus=gpus,
        need_s=units * UNIT,
        begin=T,
        due=T + due * UNIT,
        reward=reward,
        pieces=more.pop("pieces", Pieces(least_s=UNIT)),
        tie=number,
        held_until=T + held * UNIT if held else 0,
        **more,
    )


@st.composite
def needs(draw, most=5):
    """A few jobs, each of which could be kept alone."""
    found = []
    for number in range(draw(st.integers(1, most))):
        units = draw(st.integers(1, 4))
        found.append(
            need(
                number,
                gpus=draw(st.sampled_from([1, 1, 2, 3, 4])),
                units=units,
                due=draw(st.integers(units, MOST_UNITS)),
                reward=draw(st.sampled_from([100.0, 80.0, 50.0])),
            )
        )
    return found


def can_all_be_kept(jobs) -> bool:
    """Whether there is any way, unit by unit."""
    jobs = tuple((n.gpus, n.need_s // UNIT, (n.due - T) // UNIT) for n in jobs)

    @cache
    def from_on(unit: int, rest: tuple[int, ...]) -> bool:
        if not any(rest):
            return True
        if any(r and unit + r > due for r, (_, _, due) in zip(rest, jobs, strict=True)):
            return False
        ways = [((), 0)]
        for left, (gpus, _, _) in zip(rest, jobs, strict=True):
            more = [((*w, 1), g + gpus) for w, g in ways if left and g + gpus <= GPUS]
            ways = [((*w, 0), g) for w, g in ways] + more
        return any(
            from_on(unit + 1, tuple(r - w for r, w in zip(rest, way, strict=True)))
            for way, _ in ways
        )

    return from_on(0, tuple(units for _, units, _ in jobs))


def best_reward(jobs) -> float:
    """The most that can be had, whoever is given up for it."""
    chosen = [[n for k, n in enumerate(jobs) if mask >> k & 1] for mask in range(2 ** len(jobs))]
    return max(sum(n.reward for n in some) for some in chosen if can_all_be_kept(some))


def held_by(plan, jobs):
    """Unit by unit the GPUs that a plan has jobs hold, until the last of its spans."""
    end = max((span[1] for spans in plan.spans.values() for span in spans), default=T)
    held = [0] * (-(-(end - T) // UNIT))
    for one in jobs:
        for start, stop in plan.spans[one.name]:
            for unit in range((start - T) // UNIT, -(-(stop - T) // UNIT)):
                held[unit] += one.gpus
    return held


def keeps(plan, one) -> bool:
    """Whether a job has in time all that it needs."""
    spans = plan.spans[one.name]
    return bool(spans) and spans[-1][1] <= one.due and seconds(spans) >= one.need_s


def seconds(spans):
    return sum(end - start for start, end in spans)


def solver(budget_s=5.0):
    return Solver(budget_s, UNIT)


@settings(max_examples=150, deadline=None)
@given(jobs=needs())
def test_all_are_kept_exactly_where_there_is_any_way(jobs):
    plan = plan_for(jobs, Calendar(T, GPUS), solver())
    assert (not plan.late) == can_all_be_kept(jobs)
    assert max(held_by(plan, jobs)) <= GPUS
    for one in jobs:
        assert seconds(plan.spans[one.name]) >= one.need_s
        assert keeps(plan, one) == (one.name not in plan.late)


@settings(max_examples=150, deadline=None)
@given(jobs=needs())
def test_where_not_all_can_be_kept_those_are_that_count_most(jobs):
    plan = plan_for(jobs, Calendar(T, GPUS), solver())
    kept = [one for one in jobs if one.name not in plan.late]
    assert sum(one.reward for one in kept) == best_reward(jobs)
    assert all(keeps(plan, one) for one in kept)


@settings(max_examples=150, deadline=None)
@given(jobs=needs(), newcomer=needs(1))
def test_a_newcomer_is_taken_in_exactly_where_nobody_is_put_out(jobs, newcomer):
    free = Calendar(T, GPUS)
    plan = plan_for(jobs, free, solver())
    new = replace(newcomer[0], name="new", tie=99)
    kept = [one for one in jobs if one.name not in plan.late]
    found = with_newcomer(jobs, plan, new, free, solver())
    if found is None:
        assert not can_all_be_kept([*kept, new]) or plan.late
        return
    assert can_all_be_kept([*kept, new])
    assert all(keeps(found, one) for one in [*kept, new])
    assert max(held_by(found, [*jobs, new])) <= GPUS


@settings(max_examples=100, deadline=None)
@given(jobs=needs())
def test_the_free_gpus_of_a_plan_are_those_that_it_leaves(jobs):
    plan = plan_for(jobs, Calendar(T, GPUS), solver())
    held = held_by(plan, jobs)
    for unit, gpus in enumerate(held):
        start = T + unit * UNIT
        assert plan.left.least(start, start + UNIT) == GPUS - gpus


@settings(max_examples=100, deadline=None)
@given(jobs=needs())
def test_what_is_not_enough_were_it_fluid_is_refused_without_a_search(jobs):
    last = max(one.due for one in jobs)
    if can_all_be_kept(jobs):
        assert all(could_fit(jobs, Calendar(T, GPUS), one.due) for one in jobs)
    if sum(one.gpu_s for one in jobs) > GPUS * (last - T):
        assert not could_fit(jobs, Calendar(T, GPUS), last)


@settings(max_examples=100, deadline=None)
@given(jobs=needs())
def test_of_jobs_of_one_gpu_the_slots_miss_no_plan(jobs):
    ones = [replace(one, gpus=1) for one in jobs]
    free = Calendar(T, 2)
    found = by_slots(ones, free, UNIT)
    wide = [replace(one, gpus=2) for one in jobs]  # as many GPUs, of which each job takes two
    assert (found is not None) == can_all_be_kept(wide)


def test_a_plan_is_as_late_as_can_be():
    plan = plan_for([need(1, units=2, due=6)], Calendar(T, GPUS))
    assert plan.spans["j1"] == ((T + 40, T + 60),)


def test_what_a_job_holds_anyway_comes_first():
    plan = plan_for([need(1, units=3, due=6, held=2)], Calendar(T, GPUS))
    assert plan.spans["j1"] == ((T, T + 20), (T + 50, T + 60))


def test_a_job_that_cannot_be_stopped_runs_on_to_its_end():
    whole = need(1, units=3, due=6, held=3, pieces=Pieces(whole=True))
    other = need(2, gpus=4, units=3, due=6)
    plan = plan_for([whole, other], Calendar(T, GPUS))
    assert plan.spans["j1"] == ((T, T + 30),)
    assert plan.spans["j2"] == ((T + 30, T + 60),)
    assert not plan.late


def test_the_last_plan_stands_where_no_other_is_found():
    free = Calendar(T, GPUS)
    free.take([(T + 20, T + 30)], GPUS)
    # New pieces would have to be longer than the room on either side; these are there already.
    last = ((T, T + 20), (T + 40, T + 50))
    one = need(1, gpus=4, units=3, due=5, pieces=Pieces(least_s=30))
    assert plan_for([one], free).late == {"j1"}
    plan = plan_for([replace(one, last=last)], free)
    assert (plan.way, plan.late, plan.spans["j1"]) == ("last-plan", frozenset(), last)


def test_a_last_plan_that_takes_more_than_there_is_now_does_not_stand():
    jobs = [need(k, gpus=4, units=3, due=3, last=((T, T + 30),)) for k in (1, 2)]
    plan = plan_for(jobs, Calendar(T, GPUS))
    assert plan.way == "overload"
    assert len(plan.late) == 1


def test_who_is_late_gets_what_is_left_as_early_as_can_be():
    free = Calendar(T, GPUS)
    jobs = [need(1, gpus=4, units=3, due=3), need(2, gpus=4, units=3, due=4, reward=50.0)]
    plan = plan_for(jobs, free)
    assert plan.late == {"j2"}
    assert plan.way == "overload"
    assert plan.spans["j2"] == ((T + 30, T + 60),)
    assert plan.gap > 0


def test_what_is_beyond_a_budget_comes_of_what_all_leave_and_at_no_two_places_at_once():
    free = Calendar(T, GPUS)
    jobs = [need(1, gpus=2, units=2, due=5), need(2, gpus=4, units=2, due=3)]
    plan = plan_for(jobs, free)
    assert plan.spans == {"j1": ((T + 30, T + 50),), "j2": ((T + 10, T + 30),)}
    spend_more(plan, jobs[0], UNIT)
    assert plan.spans["j1"] == ((T, T + 10), (T + 30, T + 50))
    spend_more(plan, jobs[0], UNIT)  # there is no more before it is due
    assert plan.spans["j1"] == ((T, T + 10), (T + 30, T + 60))
    assert plan.spans["j2"] == ((T + 10, T + 30),)
    assert [plan.left.least(T + k, T + k + 10) for k in range(0, 70, 10)] == [2, 0, 0, 2, 2, 2, 4]


def test_nobody_is_put_out_for_a_newcomer_that_counts_more():
    free = Calendar(T, GPUS)
    jobs = [need(1, gpus=4, units=4, due=4, reward=1.0)]
    plan = plan_for(jobs, free)
    assert with_newcomer(jobs, plan, need(2, gpus=1, units=1, due=2), free, solver()) is None


def test_no_newcomer_makes_a_late_one_later():
    free = Calendar(T, GPUS)
    jobs = [need(1, gpus=4, units=3, due=3), need(2, gpus=4, units=3, due=4)]
    plan = plan_for(jobs, free)
    (late,) = plan.late
    end = plan.spans[late][-1][1]
    assert with_newcomer(jobs, plan, need(3, gpus=4, units=1, due=4), free, solver()) is None
    new = need(3, gpus=4, units=1, due=7)
    found = with_newcomer(jobs, plan, new, free, solver())
    assert found is not None
    assert keeps(found, new)
    assert found.late == plan.late
    assert found.spans[late][-1][1] <= end


@settings(max_examples=300, deadline=None)
@given(jobs=needs(), newcomer=needs(1), more=st.integers(0, 6))
def test_the_next_plan_puts_nobody_out_for_who_was_taken_in(jobs, newcomer, more):
    free = Calendar(T, GPUS)
    jobs = [replace(one, need_s=one.need_s + UNIT) for one in jobs]  # more than was promised
    plan = plan_for(jobs, free, solver())
    new = replace(newcomer[0], name="new", tie=99, due=newcomer[0].due + more * UNIT)
    found = with_newcomer(jobs, plan, new, free, solver())
    if found is None:
        return
    standing = [replace(one, last=found.spans[one.name]) for one in (*jobs, new)]
    then = plan_for(standing, free, solver())
    assert then.late <= found.late
    for name in then.late:
        assert then.spans[name][-1][1] <= found.spans[name][-1][1]


def test_margins_are_given_up_before_somebody_is_late():
    free = Calendar(T, GPUS)
    jobs = [replace(need(n, gpus=4, units=3, due=4), margin_s=2 * UNIT) for n in (1, 2)]
    plan = plan_for(jobs, free)
    assert not plan.late
    assert plan.way != "overload"
    assert plan.spans == {"j1": ((T + 30, T + 60),), "j2": ((T, T + 30),)}
    without = plan_for([replace(job, margin_s=0) for job in jobs], free)
    assert len(without.late) == 1


def test_who_is_late_is_so_by_as_little_as_others_allow():
    """The widest counts least for its GPU-time, but has to wait for 10 s only."""
    free = Calendar(T, GPUS)
    jobs = [need(1, gpus=4, units=6, due=6), need(2, gpus=1, units=1, due=60)]
    first = plan_for(jobs, free)
    assert not first.late
    begun = [replace(jobs[0], need_s=7 * UNIT), jobs[1]]
    plan = plan_for(begun, free)
    assert plan.late == {"j1"}
    assert plan.spans["j1"] == ((T, T + 70),)


def test_slots_grow_and_have_the_gpus_that_are_free_all_through():
    free = Calendar(T, 4)
    free.take([(T + 5, T + 7)], 3)
    slots = Slots.of(free, T + 1000, 10)
    assert slots.bounds[:3] == (T, T + 10, T + 20)
    assert slots.bounds[-1] >= T + 1000
    assert slots.free[:2] == (1, 4)
    lengths = [b - a for a, b in zip(slots.bounds, slots.bounds[1:], strict=False)]
    assert lengths == sorted(lengths)
    assert lengths[16] == 20
    few = Slots.of(free, T + 1000, 10, most=20)
    assert len(few) <= 20


def test_the_solver_gives_up_in_time_and_says_so():
    jobs = [need(k, gpus=1 + k % 3, units=2 + k % 3, due=4 + k % 3) for k in range(12)]
    asked = solver(budget_s=1e-9)
    assert asked(jobs, Calendar(T, 9), True) is None
    assert asked.gave_up == 1
    assert asked(jobs, Calendar(T, 9), True) is None  # no time is left for another question
    assert asked.asked == 1


def test_the_solver_has_the_same_answer_to_the_same_question():
    jobs = [need(k, gpus=1 + k % 3, units=1 + k % 4, due=4 + k % 3) for k in range(9)]
    first = solver()(jobs, Calendar(T, 6), False)
    assert first
    assert solver()(jobs, Calendar(T, 6), False) == first


def test_going_on_after_a_break_is_in_the_solver_too():
    # 3 units of room in two parts; the break costs one: only who needs 2 fits.
    free = Calendar(T, 4)
    free.take([(T + 10, T + 20)], 4)
    pieces = Pieces(least_s=UNIT, resume_s=UNIT)
    fits = need(1, units=2, due=4, pieces=pieces)
    too_long = need(1, units=3, due=4, pieces=pieces)
    assert solver()([fits], free, True) is not None
    assert solver()([too_long], free, True) is None
