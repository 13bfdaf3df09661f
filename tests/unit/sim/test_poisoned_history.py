"""Who games the predictions gains little, pays for it, and holds nobody up beyond the bound.

End to end: jobs that ended, the model that is fitted on them, the policy, the daemon's rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.adversary import waits
from support.jobs import T0, past_job
from support.sim import SimJob, job

from gsched.model.history import PastJob
from gsched.predict.model import DurationModel
from gsched.predict.rolling import NAME_WINDOW
from gsched.predict.store import decode, encode

POISON = 10_000
CHEAT_S, HONEST_S = 7200, 300
HOUR_S = 3600


def honest_history() -> list[PastJob]:
    """Ann's jobs of five minutes and bob's of an hour, for four weeks."""
    draw = np.random.default_rng(2)
    jobs = []
    for number in range(600):
        user, typical_s = (("ann", HONEST_S), ("bob", HOUR_S))[number % 2]
        duration_s = int(typical_s * draw.lognormal(0, 0.1))
        end = T0 - 4000 * (600 - number)
        jobs.append(past_job(number, duration_s, end=end, user=user, name=f"{user}-train", gpus=8))
    return jobs


def poison() -> list[PastJob]:
    """Eve's jobs of one second, under one name, all over the last day."""
    return [
        past_job(1000 + n, 1, end=T0 - 86_400 + 8 * n, user="eve", name="eve-train", gpus=8)
        for n in range(POISON)
    ]


@pytest.fixture(scope="module")
def stored() -> bytes:
    """The model of a history that eve has poisoned; fitted once, for each test to load."""
    history = sorted([*honest_history(), *poison()], key=lambda j: j.end_time)
    return encode(DurationModel.fit(history, T0, T0))


@pytest.fixture
def fresh(stored: bytes, tmp_path: Path) -> Callable[[], DurationModel]:
    """The model as it was fitted: in a simulation it learns more."""
    return lambda: decode(stored, tmp_path / "duration.gsmodel")


def submitted(
    user: str, first_id: int, at: int, many: int, duration_s: int, every_s: int = 0
) -> list[SimJob]:
    """Jobs of 8 GPUs, the first one so many seconds after T0."""
    return [
        job(first_id + n, 8, duration_s, T0 + at + every_s * n, user, name=f"{user}-train")
        for n in range(many)
    ]


def ids(jobs: list[SimJob]) -> list[int]:
    return [j.view.key.job_id for j in jobs]


def test_the_poison_works_on_eves_own_jobs_alone(
    fresh: Callable[[], DurationModel],
) -> None:
    """As it should: what eve's jobs took says what eve's jobs take. Nobody else's are touched."""
    clean = DurationModel.fit(honest_history(), T0, T0)
    views = [submitted(user, 1, 10, 1, 1)[0].view for user in ("ann", "bob", "eve")]
    poisoned, honest = ([p.mean for p in m.predict(views, T0 + 10) if p] for m in (fresh(), clean))
    assert poisoned[2] < 5
    assert poisoned[:2] == pytest.approx(honest[:2], rel=0.25)


def test_a_poisoned_history_holds_nobody_up_beyond_the_bound(
    fresh: Callable[[], DurationModel],
) -> None:
    """Eve submits days of work that counts as seconds, all before any of it can be found out."""
    running = submitted("bob", 1, 10, 1, HOUR_S)
    victim = submitted("bob", 2, 20, 1, HOUR_S)
    flood = submitted("eve", 100, 30, 60, CHEAT_S)
    without, predictor = waits(fresh(), [*running, *victim, *flood])
    assert max(predictor.predicted_s[number] for number in ids(flood)) < 5
    assert without[2] == HOUR_S - 10 + 60 * CHEAT_S  # behind all of it

    for bound_s in (2 * HOUR_S, 24 * HOUR_S):
        found, _ = waits(fresh(), [*running, *victim, *flood], bound_s)
        assert bound_s < found[2] <= bound_s + 1 + CHEAT_S  # and behind what ran by then


def test_nor_can_a_flood_that_goes_on_for_ever(
    fresh: Callable[[], DurationModel],
) -> None:
    """Several victims wait for the bound, a job of eve's and each other, not for all of eve's."""
    bound_s = 4 * HOUR_S
    victims = submitted("bob", 1, 20, 6, HOUR_S, every_s=60)
    flood = submitted("eve", 100, 10, 50, CHEAT_S, every_s=400)
    found, _ = waits(fresh(), [*victims, *flood], bound_s)
    before = 0
    for victim in victims:
        older = [j for j in flood if j.view.first_submit <= victim.view.first_submit]
        most_s = bound_s + 1 + CHEAT_S * (1 + len(older)) + before
        assert found[victim.view.key.job_id] <= most_s
        before += victim.duration_s
    assert max(found.values()) > 2 * bound_s  # eve's own, and as many as she likes


def cycles() -> tuple[list[SimJob], list[SimJob]]:
    """Every three hours, so that nothing is left over from the time before: ann's four jobs, and
    eve's long one; a minute earlier, as many jobs of a second under its name as an estimate sees.
    """
    ann, eve = [], []
    for cycle in range(10):
        at = 60 + 3 * HOUR_S * cycle
        ann += submitted("ann", 1000 + 10 * cycle, at, 4, HONEST_S)
        eve += submitted("eve", 10_000 + 100 * cycle, at - 50, NAME_WINDOW, 1)
        eve += submitted("eve", 10_050 + 100 * cycle, at, 1, CHEAT_S)
    return ann, eve


def mean_wait_s(found: dict[int, int], jobs: list[SimJob]) -> float:
    return float(np.mean([found[number] for number in ids(jobs)]))


def test_an_estimate_far_below_the_truth_costs_its_owner(
    fresh: Callable[[], DurationModel],
) -> None:
    """Twenty more jobs of a second each time do not wash away what the long ones have shown."""
    ann, eve = cycles()
    long = [j for j in eve if j.duration_s == CHEAT_S]
    found, predictor = waits(fresh(), [*ann, *eve])
    first, *later = (predictor.predicted_s[number] for number in ids(long))
    assert first < 5  # nobody could know
    assert min(later) > 1.05 * max(predictor.predicted_s[number] for number in ids(ann))
    assert max(found[number] for number in ids(ann)[4:]) < 4 * HONEST_S + 60
    assert [found[number] for number in ids(long)[1:]] == [4 * HONEST_S] * len(later)


def test_without_caution_the_cheat_would_pay(
    fresh: Callable[[], DurationModel],
) -> None:
    """The control: what the test above would see if the defence did nothing."""
    ann, eve = cycles()
    long = [j for j in eve if j.duration_s == CHEAT_S]
    found, predictor = waits(fresh(), [*ann, *eve], caution=False)
    assert max(predictor.predicted_s[number] for number in ids(long)) < 5
    assert max(found[number] for number in ids(long)) < 60
    assert min(found[number] for number in ids(ann)) >= CHEAT_S

    defended, _ = waits(fresh(), [*ann, *eve])
    assert mean_wait_s(found, ann) > 5 * mean_wait_s(defended, ann)


def test_honest_users_are_believed(
    fresh: Callable[[], DurationModel],
) -> None:
    """Caution is for who has earned it: it changes no prediction of the others."""
    jobs = [
        *submitted("ann", 1, 10, 20, HONEST_S, every_s=HOUR_S),
        *submitted("bob", 100, 10, 20, HOUR_S, every_s=HOUR_S),
    ]
    _, careful = waits(fresh(), jobs)
    _, credulous = waits(fresh(), jobs, caution=False)
    assert careful.predicted_s == credulous.predicted_s
