"""Starving jobs in points: above the others' sums whatever their factors are, seldom written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.slurm_bench import SCALE, Bench

from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import SiteFactorScale, movable_points, scale_for
from gsched.engine.ports import Plan
from gsched.engine.starvation import POLICY_TOP, STARVING, STARVING_FROM
from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobKey
from gsched.slurm.records import SlurmConfig

WEIGHTS = {"age": 300, "fairshare": 300, "jobsize": 100, "qos": 200, "assoc": 100}
"""Their sum is what SCALE moves jobs by: the default of a site with these weights."""


@dataclass(frozen=True)
class Job:
    """One waiting job: its other points, its partitions, what stands, and what is decided."""

    points: Mapping[str, int]
    partitions: tuple[str, ...] = ("a",)
    stands: int = 0
    level: float | None = None
    waiting_since: int | None = None  # of a starving job


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    since = draw(st.none() | st.integers(0, 5))
    levels = st.floats(-POLICY_TOP, POLICY_TOP)
    lifted = st.just(STARVING_FROM + (5 - (since or 0)) / 100)
    level = draw(lifted if since is not None else st.none() | levels)
    stands = [0, 0, -1000, 900] + [1000, 1500, 2000] * (level is not None)
    return Job(
        {name: draw(st.sampled_from([0, most // 3, most])) for name, most in WEIGHTS.items()},
        draw(st.sampled_from([("a",), ("b",), ("a", "b")])),
        draw(st.sampled_from(stands)),
        level,
        since,
    )


class Line:
    """The jobs on a bench; `plan` decides what they say and carries it out."""

    def __init__(self, waiting: Sequence[Job], scale: SiteFactorScale = SCALE) -> None:
        self.jobs = dict(enumerate(waiting, start=1))
        self.bench = Bench(*self.jobs)
        self.bench.backend.scale = scale
        client = self.bench.client
        for number, job in self.jobs.items():
            client.rows[number] = replace(client.rows[number], partitions=job.partitions)
            client.others[number] = sum(job.points.values())
            client.factors[number] = job.stands
            if job.stands:
                self.bench.stands(number, 0, job.stands)

    def plan(self) -> Plan:
        state = self.bench.snapshot()
        ranks: dict[JobKey, Rank] = {}
        reasons: dict[JobKey, Reason] = {}
        for number, job in self.jobs.items():
            if job.level is not None:
                starves = job.waiting_since is not None
                key = self.bench.key(number)
                ranks[key] = Rank("gpu", 1, 9, float(job.waiting_since or 0), job.level)
                reasons[key] = Reason(STARVING if starves else "x")
        plan = self.bench.backend.plan(Decision(ranks, (), reasons, {}), state, "r1")
        for change in plan.changes:
            self.bench.client.factors[change.key.job_id] = change.after
            self.bench.stands(change.key.job_id, 0, change.after)
        return plan

    def total(self, number: int) -> int:
        client = self.bench.client
        return client.others[number] + client.factors[number]

    def meets(self, a: int, b: int) -> bool:
        return not set(self.jobs[a].partitions).isdisjoint(self.jobs[b].partitions)


def test_the_scale_of_these_tests_is_the_one_of_such_a_site() -> None:
    weights = {f"PriorityWeight{name}": str(value) for name, value in WEIGHTS.items()}
    config = SlurmConfig({**weights, "PriorityWeightPartition": "1000000"})
    assert movable_points(config) == SCALE.max_shift
    assert scale_for(config, DaemonSettings()).max_shift == SCALE.max_shift


@given(st.lists(jobs(), max_size=8))
def test_a_starving_job_comes_above_all_that_do_not_whatever_their_other_factors_are(
    waiting: list[Job],
) -> None:
    line = Line(waiting)
    plan = line.plan()
    assert plan.reasons == {}  # the range is always enough
    starving = [n for n, job in line.jobs.items() if job.waiting_since is not None]
    for s in starving:
        assert line.bench.client.factors[s] <= 2 * SCALE.max_shift
        for other in line.jobs.keys() - set(starving):
            if line.meets(s, other):
                assert line.total(s) > line.total(other)
        for less in starving:
            if line.meets(s, less) and line.jobs[s].waiting_since < line.jobs[less].waiting_since:  # type: ignore[operator]
                at_the_end = line.bench.client.factors[s] == 2 * SCALE.max_shift
                assert line.total(s) > line.total(less) or at_the_end
    assert line.plan().changes == ()


LARGEST = {"jobsize": 100, "qos": 200, "fairshare": 300}
NONE = dict.fromkeys(WEIGHTS, 0)


def starving(level: float = 0.92, since: int = 0, stands: int = 0) -> Job:
    return Job(NONE, stands=stands, level=level, waiting_since=since)


def test_its_level_is_enough_where_nothing_stands_against_it() -> None:
    line = Line([starving(), Job(NONE, level=0.5), Job(LARGEST, ("b",), level=0.9)])
    line.plan()
    assert line.bench.client.factors[1] == 920


def test_it_is_lifted_by_as_much_as_it_needs_and_a_margin() -> None:
    line = Line([starving(), Job(LARGEST, level=0.9)])
    line.plan()
    assert line.bench.client.factors == {1: 1530, 2: 900}  # 1500 + 1, 20 more, in tens


def test_an_unranked_job_and_one_that_is_left_alone_stand_against_it_too() -> None:
    line = Line([starving(), Job(LARGEST)])
    line.bench.client.others[2] += 500
    line.bench.exclude(2, "interactive")
    line.plan()
    assert line.total(1) > 1100


def test_what_it_has_stands_while_that_is_enough() -> None:
    """An age that grows by a point a round costs a write every other ten rounds, not each."""
    line = Line([starving(), Job(LARGEST, level=0.9)])
    line.plan()
    writes = 0
    for _ in range(200):
        line.bench.client.others[2] += 1
        writes += len(line.plan().changes)
        assert line.total(1) > line.total(2)
    assert 1 <= writes <= 10
    del line.bench.client.rows[2], line.bench.client.factors[2], line.jobs[2]
    assert line.plan().changes == ()  # nor is it lowered


def test_of_those_that_starve_the_longest_waiter_comes_first() -> None:
    rich = Job(LARGEST, level=0.91, waiting_since=50)
    line = Line([starving(since=10), starving(since=20), rich])
    line.plan()
    assert line.total(1) > line.total(2) > line.total(3)


@pytest.mark.parametrize("code", ["manual-priority", "foreign-site-factor"])
def test_an_operators_word_is_not_outbid(code: str) -> None:
    line = Line([starving(), Job(NONE)])
    line.bench.exclude(2, code)
    if code == "foreign-site-factor":
        line.bench.client.factors[2] = 1_000_000
    line.plan()
    assert line.bench.client.factors[1] == (930 if code == "foreign-site-factor" else 920)


def test_where_the_range_is_too_short_it_is_told_and_the_job_goes_as_far_as_it_can() -> None:
    narrow = SiteFactorScale(max_shift=100, quantum=10, dead_band=20)
    line = Line([starving(), Job(LARGEST, level=0.9), starving(since=5)], narrow)
    plan = line.plan()
    assert line.bench.client.factors == {1: 200, 2: 90, 3: 200}
    told = Reason(STARVING, {"out_of_reach": True})
    assert plan.reasons == {line.bench.key(1): told, line.bench.key(3): told}
    assert line.plan().reasons == plan.reasons


def test_without_a_bound_a_level_at_the_top_is_no_reason_to_lift() -> None:
    line = Line([Job(NONE, level=1.0), Job(LARGEST, level=0.9)])
    line.plan()
    assert line.bench.client.factors == {1: 1000, 2: 900}
