"""Real trainings under every interruption: the end is that of the undisturbed run, bit for bit.

All jobs run at the same time on one testbed; see `support.trials` for what happens to each.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.trial_training import TOTAL
from support.trials import TRIALS, Outcome, Trial, play, table, undisturbed

pytestmark = pytest.mark.slurm

SAID = {"preemption", "time limit"}
"""Causes at which a job always comes to say how much of its grace it has used. At others Slurm also
tells srun, where ProctrackType is proctrack/linuxproc, which then kills the ranks."""


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[dict[str, Outcome], dict[str, list[str]]]]:
    """What became of all trials, by name, and what undisturbed runs come to, by case."""
    with ThreadPoolExecutor(1) as beside, play() as trials:
        expected = beside.submit(undisturbed)
        outcomes = {trial.name: trials.outcome(trial) for trial in TRIALS}
        print(table(outcomes.values()))
        yield outcomes, expected.result()


@pytest.mark.parametrize("trial", TRIALS, ids=[trial.name for trial in TRIALS])
def test_it_ends_as_if_nobody_had_interrupted_it(
    told: tuple[dict[str, Outcome], dict[str, list[str]]], trial: Trial
) -> None:
    outcomes, expected = told
    outcome = outcomes[trial.name]
    assert outcome.state == "COMPLETED", outcome.words
    assert outcome.hashes == expected[trial.case], outcome.words
    for steps in outcome.ranks:
        assert steps.starts == 1 + trial.slow, outcome.words
        assert sorted(set(steps.done)) == list(range(1, TOTAL + 1))
        assert steps.repeated <= trial.repeats, outcome.words
    if trial.cause in SAID:
        assert outcome.grace_used_s is not None, outcome.words
        assert outcome.grace_used_s < outcome.grace_s
