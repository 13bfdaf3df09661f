"""Run times drawn from quantiles: what they must be like, whatever is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from gsched.forecast.sampling import (
    OVERDUE_S,
    RunTimes,
    name_hashes,
    stratified,
    uniform,
)

LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
NO_LIMIT = np.array([np.inf])
MANY = 20_000


def times(*quantiles_s: float, limit_s: float = np.inf) -> RunTimes:
    return RunTimes(LEVELS, np.array([quantiles_s]), np.array([limit_s]))


def chances(many: int = MANY) -> np.ndarray:
    return ((np.arange(many) + 0.5) / many)[np.newaxis]


LOG_NORMAL = tuple(
    float(np.exp(6.0 + 1.2 * z)) for z in (-2.0537, -1.2816, -0.6745, 0.0, 0.6745, 1.2816, 2.0537)
)


class TestChances:
    def test_a_name_has_its_own_numbers_whoever_else_is_there(self) -> None:
        alone = stratified(name_hashes(["b"], 7), 16)
        among = stratified(name_hashes(["a", "b", "c"], 7), 16)
        assert alone[0].tolist() == among[1].tolist()
        assert alone[0].tolist() != among[0].tolist()
        assert alone[0].tolist() != stratified(name_hashes(["b"], 8), 16)[0].tolist()

    def test_each_part_of_the_range_is_met_once(self) -> None:
        drawn = stratified(name_hashes([f"job {n}" for n in range(50)], 0), 32)
        assert (np.sort((drawn * 32).astype(int), axis=1) == np.arange(32)).all()

    def test_names_have_nothing_to_do_with_each_other(self) -> None:
        drawn = stratified(name_hashes([str(n) for n in range(400)], 0), 64)
        together = np.corrcoef(drawn) - np.eye(400)
        assert abs(together.mean()) < 0.002
        assert together.std() == pytest.approx(1 / np.sqrt(63), rel=0.1)
        assert kstest(drawn[:, 0], "uniform").pvalue > 0.01

    def test_plain_numbers_are_uniform(self) -> None:
        assert kstest(uniform(np.arange(MANY, dtype=np.uint64)), "uniform").pvalue > 0.01


class TestDraw:
    def test_the_quantiles_come_out_as_they_went_in(self) -> None:
        drawn = times(3, 10, 70, 300, 301, 5_000, 9_000).draw(np.array([LEVELS]))
        assert drawn[0] == pytest.approx([3, 10, 70, 300, 301, 5_000, 9_000])

    def test_a_log_normal_distribution_comes_out_as_itself(self) -> None:
        drawn = np.log(times(*LOG_NORMAL).draw(chances())[0])
        assert kstest((drawn - 6.0) / 1.2, "norm").pvalue > 0.9

    def test_what_is_certain_is_drawn_exactly(self) -> None:
        assert times(*(50.0,) * 7).draw(chances())[0] == pytest.approx(50.0)
        one = RunTimes((0.5,), np.array([[50.0]]), NO_LIMIT)
        assert one.draw(chances())[0] == pytest.approx(50.0)

    def test_nobody_runs_beyond_the_limit(self) -> None:
        drawn = times(*LOG_NORMAL, limit_s=700.0).draw(chances())[0]
        assert drawn.max() == 700.0
        assert np.mean(drawn == 700.0) == pytest.approx(
            np.mean(times(*LOG_NORMAL).draw(chances())[0] >= 700.0)
        )

    def test_rows_are_drawn_on_their_own(self) -> None:
        both = RunTimes(LEVELS, np.array([[50.0] * 7, [9.0] * 7]), np.array([np.inf, 5.0]))
        assert both.draw(np.full((2, 3), 0.5))[:, 0] == pytest.approx([50.0, 5.0])
        assert both.of(np.array([1, 1, 0])).draw(np.full((3, 1), 0.5))[:, 0] == pytest.approx(
            [5.0, 5.0, 50.0]
        )


class TestRemaining:
    @pytest.mark.parametrize("elapsed_s", [0.0, 5.0, 400.0, 3_000.0])
    def test_it_is_the_distribution_of_those_who_have_come_so_far(self, elapsed_s: float) -> None:
        """Against the blunt way: draw many whole runs, and keep those that are longer."""
        made = times(*LOG_NORMAL)
        whole = made.draw(chances(400_000))[0]
        expected = whole[whole > elapsed_s] - elapsed_s
        drawn = made.draw_remaining(chances(), np.array([elapsed_s]))[0]
        for level in (0.1, 0.5, 0.9):
            assert np.quantile(drawn, level) == pytest.approx(
                np.quantile(expected, level), rel=0.02, abs=1.0
            )

    def test_what_is_certain_is_certain_to_the_end(self) -> None:
        drawn = times(*(50.0,) * 7).draw_remaining(chances(), np.array([20.0]))
        assert drawn[0] == pytest.approx(30.0)

    def test_who_has_outlived_every_guess_may_last_as_long_again(self) -> None:
        drawn = times(*(50.0,) * 7).draw_remaining(chances(), np.array([600.0]))[0]
        assert np.median(drawn) == pytest.approx(600.0, rel=0.01)
        assert np.quantile(drawn, 2 / 3) == pytest.approx(1_200.0, rel=0.01)

    def test_the_limit_ends_it_all_the_same(self) -> None:
        drawn = times(*(50.0,) * 7, limit_s=700.0).draw_remaining(chances(), np.array([600.0]))
        assert drawn.max() == 100.0

    def test_a_job_at_its_limit_ends_soon(self) -> None:
        made = times(*LOG_NORMAL, limit_s=700.0)
        assert (made.draw_remaining(chances(), np.array([700.0])) == OVERDUE_S).all()

    def test_between_equal_quantiles_nothing_is_lost(self) -> None:
        """Flat stretches: many runs of one length, as jobs that reach a limit of their own make."""
        made = times(10, 10, 10, 60, 60, 60, 200)
        for elapsed_s in (0.0, 10.0, 30.0, 60.0, 100.0):
            drawn = made.draw_remaining(chances(), np.array([elapsed_s]))[0]
            assert np.isfinite(drawn).all()
            assert (drawn >= 1.0).all()
        assert made.draw_remaining(chances(), np.array([30.0]))[0].min() < 30.0
