"""The replay of logs: what is known when, and that a look into the future would be noticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import forecast_naive
from support.forecast_leaks import changed_from, seers
from support.forecast_log import ReplayLog
from support.forecast_order import SUBMISSION
from support.forecast_replay import Forecaster, Told, as_known, judged_rows, replay
from support.forecast_scores import WEEK_S
from support.forecast_state import Known, Situations
from support.known_world import ORIGIN, one_server, true_quantiles, world

from gsched.forecast.calibration import PastForecast
from gsched.forecast.outlook import Interval

LOG = one_server(400, seed=5)
ROWS = np.arange(100, 400)
LONGEST = 150 + int((LOG.end - LOG.start)[150:].argmax())
SWITCH = float(LOG.start[LONGEST] * 0.3 + LOG.end[LONGEST] * 0.7)
"""While a job runs behind which others have queued up."""

TYPICAL_S = 1_000.0


def by_queue(known: Known) -> Told:
    """An honest guess: so many run times as jobs stand ahead."""
    wait_s = TYPICAL_S * len(known.ahead())
    return Told(_around(known.now + wait_s), forecast_naive.starts(known))


def of_truth(known: Known) -> Told:
    return Told(_around(float(known.log.start[known.row])), {})


def of_running_ends(known: Known) -> Told:
    running = known.running()
    free_at = known.log.end[running].max() if len(running) else known.now
    return Told(_around(float(free_at) + TYPICAL_S * len(known.ahead())), {})


def of_later_submissions(known: Known) -> Told:
    """What comes after the job delays nobody here, but knowing it is a leak all the same."""
    return Told(_around(float(known.log.submit[known.row + 1 :].max(initial=known.now))), {})


class Corrected:
    """The honest guess, moved by the mean error of its earlier ones: of those that had started
    by then, or (the leak) of all.
    """

    def __init__(self, waits_for_truth: bool) -> None:
        self._waits_for_truth = waits_for_truth
        self._told: list[tuple[int, float]] = []

    def __call__(self, known: Known) -> Told:
        start = known.log.start
        guess = by_queue(known).raw.median
        errors = [
            start[row] - told
            for row, told in self._told
            if start[row] < known.now or not self._waits_for_truth
        ]
        self._told.append((known.row, guess))
        return Told(_around(guess + (float(np.mean(errors)) if errors else 0.0)), {})


@pytest.mark.parametrize("honest", [lambda: by_queue, lambda: Corrected(waits_for_truth=True)])
def test_nobody_is_accused_who_knows_the_past_alone(honest: Callable[[], Forecaster]) -> None:
    assert seers(LOG, SWITCH, lambda log: replay(log, ROWS, honest())).tolist() == []


@pytest.mark.parametrize(
    "leaky",
    [
        lambda: of_truth,
        lambda: of_running_ends,
        lambda: of_later_submissions,
        lambda: Corrected(waits_for_truth=False),
    ],
)
def test_a_planted_look_into_the_future_is_caught(leaky: Callable[[], Forecaster]) -> None:
    assert len(seers(LOG, SWITCH, lambda log: replay(log, ROWS, leaky()))) > 0


def test_the_other_future_has_the_same_past() -> None:
    other = changed_from(LOG, SWITCH)
    for column in ("start", "end"):
        mine, its = getattr(LOG, column), getattr(other, column)
        assert np.array_equal(mine[mine < SWITCH], its[mine < SWITCH])
        assert (its[mine >= SWITCH] > mine[mine >= SWITCH]).all()


def small() -> ReplayLog:
    """Jobs 0 to 4 (the last two come in one second) on a machine with one unit."""
    submit = np.array([0.0, 10, 20, 30, 30])
    start = np.array([0.0, 30, 40, 50, 60])
    return world(ORIGIN + submit, ORIGIN + start, ORIGIN + start + 10, np.zeros(5, dtype=int))


def test_what_happens_in_the_second_of_a_submission_is_not_known_yet() -> None:
    known = Known(small(), 3, SUBMISSION)
    assert known.waiting().tolist() == [1, 2, 3]  # 1 starts in this second
    assert known.ahead().tolist() == [1, 2]
    assert known.running().tolist() == []
    assert Known(small(), 4, SUBMISSION).ahead().tolist() == [1, 2, 3]


def test_a_start_teaches_from_the_second_after_it() -> None:
    log = small()
    rows = np.array([1, 2, 3, 4])
    told: list[int] = []

    def forecaster(known: Known) -> Told:
        told.append(known.row)
        return by_queue(known)

    judged = replay(log, rows, forecaster)
    assert told == rows.tolist()
    assert judged.start.tolist() == log.start[rows].tolist()
    now = Known(log, 4, SUBMISSION)
    past = [(_forecast_of(log, row), row) for row in (0, 1, 2)]
    assert [one.start for one in as_known(past, now)] == [ORIGIN, None, None]


def test_situations_hold_what_is_known_and_the_truth_only_of_what_has_ended() -> None:
    log = one_server(60, seed=2)
    known = Known(log, 50, SUBMISSION)
    quantiles_s = true_quantiles(log)
    situation = Situations(log, quantiles_s, LEVELS).of(known)
    now = known.now
    assert [job.job_id for job in situation.waiting][-1] == "50"
    assert {int(job.job_id) for job in situation.running} == {
        row for row in range(51) if log.start[row] < now <= log.end[row]
    }
    truths = {
        a.submitted_at: a.quantiles_s[0] for a in situation.arrivals if len(set(a.quantiles_s)) == 1
    }
    ended = np.flatnonzero(log.end < now)
    assert truths == {
        float(log.submit[row]): float(log.end[row] - log.start[row]) for row in ended.tolist()
    }
    assert len(situation.arrivals) == 50


def test_the_naive_estimates_are_what_they_are_said_to_be() -> None:
    submit = ORIGIN + np.array([0.0, 0, 0, 100, 200, 300])
    start = ORIGIN + np.array([1.0, 11, 21, 5_000, 6_000, 7_000])
    log = world(submit, start, start + 4_000, np.array([0, 1, 2, 0, 1, 2]))
    told = forecast_naive.starts(Known(log, 5, SUBMISSION))
    now = ORIGIN + 300
    assert told["queue-length"] == now + 2 * 86_400 / 3  # two ahead, three starts in the last day
    assert told["site-wait"] == now + 11
    assert told["user-wait"] == now + 21  # the user's own one start
    assert all(np.isnan(list(forecast_naive.starts(Known(log, 0, SUBMISSION)).values())))


def test_so_many_submissions_of_each_week_are_judged_after_the_first_fifth() -> None:
    submit = ORIGIN + np.arange(0, 10 * WEEK_S, 3_600.0)
    log = world(submit, submit, submit + 60, np.zeros(len(submit), dtype=int))
    rows = judged_rows(log, a_week=20)
    assert rows.min() >= len(log) // 5
    assert np.array_equal(rows, judged_rows(log, a_week=20))
    weeks = (log.submit[rows] - log.submit[len(log) // 5]) // WEEK_S
    assert np.bincount(weeks.astype(int)).tolist() == [20] * 8
    assert len(judged_rows(log, a_week=20, least=400)) == 400


LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def _around(expected: float) -> Interval:
    return Interval(expected, expected - 300, expected + 300)


def _forecast_of(log: ReplayLog, row: int) -> PastForecast:
    return PastForecast(float(log.submit[row]), _around(float(log.submit[row])), None)
