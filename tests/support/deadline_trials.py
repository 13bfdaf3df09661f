"""Trials of deadlines on a real Slurm: who arrives when, and what is done to the site meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from gsched.testbed.wait import wait_for
from support.deadline_site import START_S, STEP_S, TENANTS, DeadlineSite, Handed, Outcome, Wish
from support.lease_site import CHECKPOINTS_EVERY_S

KNOBS = {
    "lease_s": 16, "grace_s": 15, "resume_s": 15, "lead_s": 15, "relative_error": 0.15,
    "margin_s": 5,
}  # fmt: skip
"""Of the daemon in trials; leases of one hand-over, where those of a site are of twenty."""


def backlog(seed: int, number: int, run_s: tuple[float, float]) -> list[Wish]:
    """Best effort that is there from the beginning, more of it than there are GPUs."""
    draw = random.Random(f"backlog {seed}")
    return [
        made(f"best-{n}", TENANTS[n % len(TENANTS)], 0.0, draw.uniform(*run_s))
        for n in range(1, number + 1)
    ]


def targets(
    seed: int,
    number: int,
    run_s: tuple[float, float],
    within_s: float,
    slack: tuple[float, float],
) -> list[Wish]:
    """Trainings with deadlines that arrive one by one within so many seconds.

    A deadline is so many times as far away as the training is long; every third has soft ones
    instead, at once, 1.1, 1.2 and 1.5 times that, of rewards 100, 80, 50 and 20.
    """
    draw = random.Random(f"targets {seed}")
    arrivals = sorted(draw.uniform(0.0, within_s) for _ in range(number))
    found = []
    for n, at_s in enumerate(arrivals, 1):
        length_s = draw.uniform(*run_s)
        ahead_s = draw.uniform(*slack) * (START_S + length_s)
        soft = tuple((x * ahead_s, r) for x, r in zip(SOFT_AT, SOFT_REWARDS, strict=True))
        is_soft = n % 3 == 0
        tenant = TENANTS[n % len(TENANTS)]
        wish = made(f"target-{n}", tenant, at_s, length_s)
        asked = replace(wish, soft_s=soft) if is_soft else replace(wish, deadline_s=ahead_s)
        found.append(asked)
    return found


SOFT_AT = (1.0, 1.1, 1.2, 1.5)
SOFT_REWARDS = (100.0, 80.0, 50.0, 20.0)


def made(name: str, tenant: str, at_s: float, run_s: float) -> Wish:
    """Best effort of which the site knows how long it takes."""
    return Wish(name, tenant, at_s, run_s, START_S + run_s)


def arrive(
    site: DeadlineSite, wishes: Sequence[Wish], asks: bool = True, tells: bool = True
) -> None:
    """Hand the wishes in, each at its time from now on."""
    began = time.monotonic()
    for wish in sorted(wishes, key=lambda w: w.at_s):
        for _ in until(began + wish.at_s):
            site.tend()
        site.hand_in(wish, asks, tells)


def until(moment: float) -> Iterator[None]:
    """Once more and more, until `time.monotonic()` is there: arrivals have their own times."""
    while time.monotonic() < moment:
        yield
        time.sleep(min(0.2, max(0.0, moment - time.monotonic())))


def fill(site: DeadlineSite, wishes: Sequence[Wish], asks: bool = True) -> None:
    """Hand in the backlog, and wait until it trains on all GPUs."""
    arrive(site, wishes, asks)
    site.wait_for_steps(min(len(wishes), site.num_gpus))


def missing_steps(site: DeadlineSite) -> list[str]:
    """Trainings that ended and left out a step, in words."""
    found = []
    for name in site.handed:
        if site.has_ended(name):
            numbers = sorted({step.step for step in site.steps(name)})
            gaps = [b for a, b in pairwise([0, *numbers]) if b != a + 1]
            found += [f"{name}: something before step {gap}" for gap in gaps[:1]]
    return found


# -- a whole trial -----------------------------------------------------------------------------

IMPOSSIBLE = "impossible", 30.0
OFFERED = "offered", 30.0
OVERRUN = "overrun", 80.0
STRUCK = "struck", 40.0
OVERRUN_TOLD_S, OVERRUN_AHEAD_S = 25.0, 75.0
STRUCK_AHEAD_S = 120.0
UNLIKELY = 0.1
SAVED_STEPS = round(1.3 * CHECKPOINTS_EVERY_S / STEP_S)


def extras() -> list[Wish]:
    """The trainings of `with_targets` and `lose_nodes` beside those that are drawn."""
    found = [made(name, TENANTS[0], 0.0, run_s) for name, run_s in (IMPOSSIBLE, OFFERED, STRUCK)]
    name, run_s = OVERRUN
    over = Wish(name, TENANTS[1], 0.0, run_s, OVERRUN_TOLD_S, deadline_s=OVERRUN_AHEAD_S)
    return [*found, over]


@dataclass
class Course:
    """What was seen while targets stood.

    `refusal` is the impossible one's entry in the status file, `promised` has by moment and target
    what was promised, `outcomes` are those of all but the impossible one.
    """

    impossible: Handed
    refusal: dict[str, Any]
    promised: dict[str, dict[str, Any]]
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def with_targets(site: DeadlineSite, wishes: Sequence[Wish]) -> Course:
    """An impossible one comes, and again for the time that it was offered; then the targets, and
    one that overruns; the daemon is killed and slurmctld restarted while they stand.
    """
    named = {wish.name: wish for wish in extras()}
    impossible = site.hand_in(replace(named["impossible"], deadline_s=20.0))
    refusal = site.entry("impossible")
    ahead_s = earliest(refusal) - time.time()
    site.hand_in(replace(named["offered"], deadline_s=ahead_s))
    arrive(site, [*wishes, named["overrun"]])
    names = [*(wish.name for wish in wishes), "overrun", "offered"]
    course = Course(impossible, refusal, {"before": promised(site, names)})
    site.restart_daemon()
    wait_for_rounds(site)
    course.promised["daemon killed"] = promised(site, names)
    site.restart_slurmctld()
    wait_for_rounds(site)
    course.promised["slurmctld restarted"] = promised(site, names)
    course.outcomes = site.wait_for_targets(*names)
    return course


@dataclass
class Loss:
    """A target that loses its node while no other can be had: how it was planned before, when none
    could be had, and when one could again; and its outcome.
    """

    before: dict[str, Any]
    lost: dict[str, Any]
    again: dict[str, Any]
    outcome: Outcome


def lose_nodes(site: DeadlineSite) -> Loss:
    """A target trains; its node goes down, and all others drain. Later they are there again."""
    named = {wish.name: wish for wish in extras()}
    site.hand_in(replace(named["struck"], deadline_s=STRUCK_AHEAD_S))
    wait_for(lambda: len(site.steps("struck")) >= SAVED_STEPS, "a checkpoint", 180.0, 0.2)
    before, mine = site.target("struck"), site.node_of("struck")
    others = ",".join(node for node in site.bed.spec.node_names if node != mine)
    site.slurm("scontrol", "update", f"nodename={others}", "state=drain", "reason=trial")
    site.kill_node(mine)

    site.restart_daemon()  # one that goes on looks at the nodes once a minute

    def is_lost() -> dict[str, Any]:
        target = site.target("struck")
        is_told = "at-risk" in site.warnings("struck")
        return target if is_told and target.get("probability", 0.0) < UNLIKELY else {}

    lost = wait_for(is_lost, "the warning", 120.0, 0.2)
    site.slurm("scontrol", "update", f"nodename={others}", "state=resume")
    site.restart_daemon()

    def is_planned() -> dict[str, Any]:
        target = site.target("struck")
        return target if target.get("plan") else {}

    again = wait_for(is_planned, "it to be planned anew", 120.0, 0.2)
    outcomes = site.wait_for_targets("struck", beyond_s=120.0)
    return Loss(before, lost, again, outcomes["struck"])


def earliest(entry: Mapping[str, Any]) -> int:
    """Of a refused deadline, the time that was offered."""
    return int(next(o["earliest"] for o in entry["outcomes"] if o["want"] == "deadline"))


def promised(site: DeadlineSite, names: Sequence[str]) -> dict[str, Any]:
    """By name what each target that has not ended was promised."""
    return {name: target["promised"] for name in names if (target := site.target(name))}


def wait_for_rounds(site: DeadlineSite, number: int = 3) -> None:
    """Until the daemon has decided so many times more, by what Slurm answers."""
    seen: set[int] = set()

    def have_been() -> bool:
        told = site.gsched("daemon", "status", "--json")
        if told.returncode == 0:
            seen.add(int(json.loads(told.stdout)["last_round_as_of"] or 0))
        return len(seen) > number

    wait_for(have_been, f"{number} rounds", 120.0, 0.2)
