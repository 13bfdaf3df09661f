"""The point of it all: with gsched acting, jobs wait less, and only because it knows run times."""

from __future__ import annotations

import pytest
from support.five_arms import ARMS, BY_COUNT, GSCHED, ORACLE, PLAIN, SHUFFLED, Trial, run_trial

pytestmark = [pytest.mark.slurm, pytest.mark.long]

SEED = 1


@pytest.fixture(scope="module")
def trial(request: pytest.FixtureRequest) -> Trial:
    made = run_trial(SEED)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nseed {SEED}, {len(made.workload.queue)} jobs on 8 nodes × 8 GPUs")
        print(made.table())
    return made


def test_no_job_is_lost_held_or_cancelled(trial: Trial) -> None:
    assert trial.states == {arm: {"COMPLETED"} for arm in ARMS}


def test_the_start_order_follows_true_gpu_time(trial: Trial) -> None:
    assert trial.figures[GSCHED].order_correlation > 0.8
    assert abs(trial.figures[PLAIN].order_correlation) < 0.4


def test_the_mean_wait_is_near_the_oracles(trial: Trial) -> None:
    assert trial.figures[ORACLE].mean_s < 0.75 * trial.figures[PLAIN].mean_s
    assert trial.gain(GSCHED) > 0.8


def test_neither_job_size_nor_chance_explains_it(trial: Trial) -> None:
    assert trial.gain(BY_COUNT) < 0.6
    assert trial.gain(SHUFFLED) < max(0.3, trial.gain(BY_COUNT) + 0.2)
    assert trial.gain(SHUFFLED) < trial.gain(GSCHED) - 0.25
