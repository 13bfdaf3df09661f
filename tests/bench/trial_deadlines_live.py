"""Deadlines on a real Slurm: trainings that have to end by a time, behind a long queue of others.

The same trainings arrive on two private clusters: one plain, with Slurm's backfill and fair share;
one whose daemon decides by chronus and leases. Leases last one hand-over at least, not twenty, so
that a test can wait for them. ``tests/bench/bench_deadlines_live.py`` has more of each and a
control.

It takes four to five minutes, and is called by hand, by
``pytest tests/bench/trial_deadlines_live.py``: under a load of 13 and more one of the four
trainings was refused once, where the trial wants all promised. slurmctld is restarted at a moment
at which no job begins, see ``DeadlineSite.restart_slurmctld``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from support.deadline_site import DeadlineSite, Outcome, deadline_site
from support.deadline_trials import (
    KNOBS,
    Course,
    Loss,
    arrive,
    backlog,
    earliest,
    extras,
    fill,
    lose_nodes,
    missing_steps,
    targets,
    with_targets,
)

from gsched.errors import EXIT_REFUSED
from gsched.model.target_records import TargetState
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

SEED = 1
NODES, GPUS_EACH = 2, 2
BACKLOG = backlog(SEED, 24, run_s=(25.0, 35.0))
TARGETS = targets(SEED, 4, run_s=(25.0, 35.0), within_s=15.0, slack=(2.9, 3.4))
NAMES = [wish.name for wish in TARGETS]


@dataclass(frozen=True)
class Trial:
    """What became of both clusters."""

    plain: dict[str, Outcome]
    site: DeadlineSite
    course: Course
    loss: Loss


def on_plain_slurm() -> dict[str, Outcome]:
    """The same arrivals without gsched."""
    with deadline_site(NODES, GPUS_EACH) as site:
        fill(site, BACKLOG, asks=False)
        arrive(site, TARGETS, asks=False)
        return site.wait_for_targets()


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    """The whole of it, both clusters side by side."""
    with ThreadPoolExecutor(1) as beside, deadline_site(NODES, GPUS_EACH) as site:
        plain = beside.submit(on_plain_slurm)
        site.know([*BACKLOG, *TARGETS, *extras()])
        site.lease_by("chronus", **KNOBS)
        site.begin(hand_overs=1)
        fill(site, BACKLOG)
        course = with_targets(site, TARGETS)
        loss = lose_nodes(site)
        for name, outcome in [*course.outcomes.items(), ("struck", loss.outcome)]:
            print(name, outcome.row())
        found = plain.result()
        for name, outcome in found.items():
            print("plain Slurm:", name, outcome.row())
        yield Trial(found, site, course, loss)


def test_plain_slurm_misses_most_and_gsched_keeps_what_it_promised(trial: Trial) -> None:
    answers = {name: trial.site.handed[name].code for name in NAMES}
    assert answers == dict.fromkeys(NAMES, 0)
    kept = {name: trial.course.outcomes[name].kept for name in NAMES}
    assert kept == dict.fromkeys(NAMES, True)
    assert sum(outcome.kept for outcome in trial.plain.values()) < len(NAMES) / 2


def test_an_impossible_deadline_is_refused_and_what_is_offered_instead_is_kept(
    trial: Trial,
) -> None:
    course, offered = trial.course, trial.site.handed["offered"]
    assert course.impossible.code == EXIT_REFUSED
    assert "refused" in course.impossible.words
    assert course.refusal["reason"]["code"].startswith("chronus.refused-")
    assert earliest(course.refusal) > course.impossible.deadlines[-1]
    assert abs(offered.deadlines[-1] - earliest(course.refusal)) <= 1
    assert offered.code == 0, offered.words
    assert course.outcomes["offered"].kept


def test_promises_stand_when_the_daemon_or_slurmctld_starts_again(trial: Trial) -> None:
    before = trial.course.promised["before"]
    assert before.keys() >= {*NAMES, "offered"} - {
        name for name, outcome in trial.course.outcomes.items() if outcome.ended.state == ""
    }
    for moment in ("daemon killed", "slurmctld restarted"):
        after = trial.course.promised[moment]
        assert after == {name: before[name] for name in after}, moment
        ended = before.keys() - after.keys()
        assert all(trial.course.outcomes[name].kept for name in ended), (moment, ended)
    assert len(trial.course.promised["slurmctld restarted"]) >= 2


def test_who_overruns_is_warned_and_costs_no_other_its_deadline(trial: Trial) -> None:
    assert trial.site.handed["overrun"].code == 0
    assert not trial.course.outcomes["overrun"].kept
    assert trial.site.warnings("overrun")[0] == "at-risk"
    others = {name: o.kept for name, o in trial.course.outcomes.items() if name != "overrun"}
    assert others == dict.fromkeys([*NAMES, "offered"], True)


def test_the_loss_of_nodes_is_told_and_planned_around(trial: Trial) -> None:
    loss = trial.loss
    assert loss.before["state"] == "on-target"
    assert loss.lost["state"] == "at-risk"
    assert not loss.lost.get("plan")
    assert loss.again["plan"]
    assert loss.lost["promised"] == loss.again["promised"] == loss.before["promised"]
    assert loss.outcome.ended.state == "COMPLETED"
    starts = trial.site.starts("struck")
    assert len(starts) > 1
    assert starts[-1][0].step > 1  # it went on from its checkpoint


def test_the_database_tells_what_was_kept(trial: Trial) -> None:
    def states() -> dict[str, TargetState]:
        return {name: found[-1].state for name, found in trial.site.records().items()}

    wait_for(lambda: TargetState.STANDING not in states().values(), "the last outcome")
    told = states()
    assert told.pop("struck") is (
        TargetState.KEPT if trial.loss.outcome.kept else TargetState.MISSED
    )
    kept = dict.fromkeys([*NAMES, "offered"], TargetState.KEPT)
    assert told == {
        **kept, "impossible": TargetState.REFUSED, "overrun": TargetState.MISSED
    }  # fmt: skip


def test_no_training_left_a_step_out(trial: Trial) -> None:
    assert missing_steps(trial.site) == []
