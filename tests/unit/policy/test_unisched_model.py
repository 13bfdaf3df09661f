"""The choice of a round is the best one that there is: beside all choices, tried one by one."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gsched.model.cluster import NodeView
from gsched.policy import unisched_model
from gsched.policy.unisched_cells import ACROSS, FURTHER, Ground, Kind, cells_of
from gsched.policy.unisched_model import Group, Stay, TooLargeError, solve

GPUS = 4
BUDGET_S = 10.0


def grounds_of(rooms, switches=None):
    """Nodes of four GPUs with so much room."""
    return [
        Ground(
            NodeView(
                f"n{number}", "mixed", (), 64, 0, (("", GPUS),), ("gpu",),
                topology=switches[number] if switches else "",
            ),
            number,
            room,
        )
        for number, room in enumerate(rooms)
    ]  # fmt: skip


def kind(gpus, least=1, most=1):
    return Kind("gpu", frozenset(), gpus, least, most)


def groups_of(waiting, grounds):
    """One a job, but of those that are alike one for all; rows count from 100."""
    alike = {}
    for number, (own, value) in enumerate(waiting):
        alike.setdefault((own, value), []).append(100 + number)
    found = []
    for (own, value), rows in alike.items():
        if cells := cells_of(own, grounds):
            found.append(Group(tuple(rows), own.gpus, value, cells))
    return found


def ways_to_put(own, grounds):
    """All (GPUs by node, percent of the value) of one job, by the rules in words: as few nodes as
    can be or, up to 16 GPUs, as many as it may have; whole nodes and the rest, else equal shares.
    """
    fewest = max(own.least_nodes, -(-own.gpus // GPUS))
    most = max(fewest, min(own.most_nodes, len(grounds), own.gpus))
    known = len({g.view.topology for g in grounds}) > 1
    for nodes in range(fewest, most + 1):
        if own.least_nodes == 1 and own.gpus > GPUS and nodes == fewest:
            shares = [GPUS] * (own.gpus // GPUS) + ([own.gpus % GPUS] if own.gpus % GPUS else [])
        else:
            shares = [-(-own.gpus // nodes)] * nodes
        for chosen in combinations(grounds, nodes):
            for last in range(nodes):  # which one has the rest
                rest_first = [*shares[:-1]]
                rest_first.insert(last, shares[-1])
                held = {g.view.name: gpus for g, gpus in zip(chosen, rest_first, strict=True)}
                is_across = known and len({g.view.topology for g in chosen}) > 1
                yield held, 100 - FURTHER * (nodes - fewest) - ACROSS * is_across


def best_by_trial(stays, waiting, grounds):
    """The greatest sum, times 100."""
    room = {g.view.name: g.room for g in grounds}
    options = [[({}, 0), (stay.parts, 100 * stay.value)] for stay in stays]
    for own, value in waiting:
        ways = [(held, part * value) for held, part in ways_to_put(own, grounds)]
        options.append([({}, 0), *ways])
    best = 0
    for choice in product(*options):
        used = dict.fromkeys(room, 0)
        for held, _ in choice:
            for name, gpus in held.items():
                used[name] += gpus
        if all(used[name] <= room[name] for name in room):
            best = max(best, sum(points for _, points in choice))
    return best


def sum_of(choice, stays, waiting, grounds):
    """What a choice counts, times 100, if it can be carried out; fails where it cannot."""
    used = dict.fromkeys([g.view.name for g in grounds], 0)
    total = 0
    for stay in stays:
        if stay.row in choice.stays:
            total += 100 * stay.value
            for name, gpus in stay.parts.items():
                used[name] += gpus
    for row, held in choice.starts.items():
        own, value = waiting[row - 100]
        assert sum(held.values()) == own.gpus
        assert min(held.values()) > 0
        for name, gpus in held.items():
            used[name] += gpus
        switches = {g.view.topology for g in grounds if g.view.name in held}
        known = len({g.view.topology for g in grounds}) > 1
        fewest = max(own.least_nodes, -(-own.gpus // GPUS))
        total += value * (
            100 - FURTHER * (len(held) - fewest) - ACROSS * (known and len(switches) > 1)
        )
    assert all(used[g.view.name] <= g.room for g in grounds)
    return total


@st.composite
def cases(draw):
    """Up to three nodes, three running jobs and four waiting ones of few kinds and values."""
    size = draw(st.integers(1, 3))
    switches = draw(st.lists(st.sampled_from(["s0", "s1"]), min_size=size, max_size=size))
    stays, held = [], [0] * size
    for row in range(draw(st.integers(0, 3))):
        node = draw(st.integers(0, size - 1))
        gpus = draw(st.integers(1, 3))
        if held[node] + gpus > GPUS:
            continue
        held[node] += gpus
        stays.append(Stay(row, draw(st.sampled_from([1, 5, 8, 30])), {f"n{node}": gpus}))
    rooms = [draw(st.integers(own, GPUS)) for own in held]
    kinds = st.sampled_from(
        [kind(1), kind(2), kind(3), kind(4), kind(6), kind(8), kind(2, 2, 2), kind(3, 2, 2),
         kind(4, 2, 2), kind(4, 1, 2), kind(6, 2, 3), kind(3, 3, 3)]
    )  # fmt: skip
    waiting = draw(st.lists(st.tuples(kinds, st.sampled_from([1, 4, 9, 31])), max_size=4))
    return stays, waiting, grounds_of(rooms, switches)


@settings(max_examples=150, deadline=None)
@given(case=cases())
@example(case=([], [(kind(2, 2, 2), 5), (kind(2, 2, 2), 5)], grounds_of([4, 0])))
@example(case=([], [(kind(2, 2, 2), 5), (kind(2, 2, 2), 5)], grounds_of([4, 1])))
@example(case=([], [(kind(2, 2, 2), 5), (kind(2, 2, 2), 5)], grounds_of([2, 2])))
@example(case=([], [(kind(3, 2, 2), 5)], grounds_of([2, 2])))
@example(case=([], [(kind(6), 5), (kind(2), 4), (kind(2), 4)], grounds_of([4, 4])))
@example(case=([], [(kind(8), 5)], grounds_of([4, 4, 4], ["s0", "s1", "s1"])))
def test_the_choice_is_the_best_of_all(case):
    stays, waiting, grounds = case
    found = solve(stays, groups_of(waiting, grounds), grounds, BUDGET_S)
    assert found is not None
    assert found.way == "optimal"
    total = sum_of(found, stays, waiting, grounds)
    assert total == best_by_trial(stays, waiting, grounds)
    assert abs(found.value - total / 100) <= 1


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_the_same_question_has_the_same_answer(case):
    stays, waiting, grounds = case
    groups = groups_of(waiting, grounds)
    assert solve(stays, groups, grounds, 0.2) == solve(stays, groups, grounds, 0.2)


def test_nodes_of_one_switch_go_before_others():
    grounds = grounds_of([4, 4, 4], ["s0", "s1", "s1"])
    found = solve([], groups_of([(kind(8), 5)], grounds), grounds, BUDGET_S)
    assert found.starts == {100: {"n1": 4, "n2": 4}}


def test_of_a_job_up_to_16_gpus_all_numbers_of_nodes_are_tried():
    grounds = grounds_of([2, 2])
    narrow = solve([], groups_of([(kind(4, 1, 1), 5)], grounds), grounds, BUDGET_S)
    wide = solve([], groups_of([(kind(4, 1, 2), 5)], grounds), grounds, BUDGET_S)
    assert narrow.starts == {}
    assert wide.starts == {100: {"n0": 2, "n1": 2}}


def test_a_wider_one_gets_whole_nodes_alone():
    grounds = grounds_of([4] * 4 + [3] * 2)
    assert [c.shares for c in cells_of(kind(20, 1, 9), grounds)] == [((4, 5),)]
    assert len(cells_of(kind(16, 1, 9), grounds)) > 1


def test_a_model_that_would_be_too_large_is_not_asked(monkeypatch):
    monkeypatch.setattr(unisched_model, "MOST_VARIABLES", 2)
    grounds = grounds_of([4, 4])
    with pytest.raises(TooLargeError):
        solve([], groups_of([(kind(1), 5)], grounds), grounds, BUDGET_S)


def test_a_job_with_more_nodes_than_gpus_has_no_cell():
    assert cells_of(kind(1, 2, 2), grounds_of([4, 4])) == ()


def test_a_model_that_the_solver_does_not_take_is_told_apart_from_one_without_an_answer():
    grounds = grounds_of([4, 4])
    waiting = [(kind(1), 2**61 // 100 + number) for number in range(20)]
    with pytest.raises(unisched_model.InvalidModelError):
        solve([], groups_of(waiting, grounds), grounds, BUDGET_S)
