"""The order of a queue as a log's own starts show it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.forecast_log import ReplayLog
from support.forecast_order import (
    FAIR_SHARE,
    HALF_LIFE_S,
    QSSF,
    SUBMISSION,
    agreement,
    order_values,
    used,
)
from support.known_world import ORIGIN, one_server, world


def served_in_turn() -> ReplayLog:
    """Jobs of 100 s, one at a time: user 0 submits 60 at once, user 1 one every 300 s later on.
    Who has used less comes first, so each of user 1 is the next to start.
    """
    many = [(0.0 + n / 100, 0) for n in range(60)]
    few = [(2_050.0 + 300 * n, 1) for n in range(10)]
    waiting, start, now = sorted(many + few), {}, 0.0
    while waiting:
        here = [job for job in waiting if job[0] <= now]
        if not here:
            now = waiting[0][0]
            continue
        chosen = max(here, key=lambda job: (job[1], -job[0]))
        waiting.remove(chosen)
        start[chosen], now = now, now + 100
    jobs = sorted(many + few)
    submit = ORIGIN + np.array([job[0] for job in jobs])
    started = ORIGIN + np.array([start[job] for job in jobs])
    return world(submit, started, started + 100, np.array([job[1] for job in jobs]))


def test_a_cluster_that_serves_who_used_least_is_recognised() -> None:
    log = served_in_turn()
    found = agreement(log, len(log) - 1)
    assert found.order == FAIR_SHARE
    assert found.shares[FAIR_SHARE] == 1.0
    assert found.shares[SUBMISSION] < 1.0


def test_a_cluster_that_serves_in_turn_is_recognised() -> None:
    log = one_server(400, seed=8)
    found = agreement(log, 300)
    assert found.order == SUBMISSION
    assert found.shares[SUBMISSION] == 1.0


def test_a_simulated_cluster_has_the_order_by_which_it_was_simulated() -> None:
    assert agreement(replace(one_server(50, seed=8), starts="simulated"), 30).order == QSSF


def test_use_counts_half_after_a_half_life_and_what_is_not_over_counts_so_far() -> None:
    submit = ORIGIN + np.zeros(3)
    start = ORIGIN + np.array([0.0, 0.0, HALF_LIFE_S])
    log = world(submit, start, start + np.array([10, 10 * HALF_LIFE_S, 50]), np.array([0, 1, 2]))
    use = used(log, 3, ORIGIN + HALF_LIFE_S)
    assert abs(use[0] - 5) < 1e-3
    assert abs(use[1] - HALF_LIFE_S / np.log(2) / 2) < 1
    assert use[2] == 0


def test_what_comes_later_moves_nobody_in_the_queue() -> None:
    log = served_in_turn()
    at = float(log.submit[65])
    before = order_values(log, FAIR_SHARE, 66, at)
    log.start[log.start >= at] += 1_000
    log.end[log.end >= at] += 5_000
    assert np.array_equal(before, order_values(log, FAIR_SHARE, 66, at))
