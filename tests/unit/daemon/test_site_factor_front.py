"""Whom GPUs are being freed for is first by Slurm's own sum, or nobody gives way for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queue import node, partition
from support.slurm_bench import SCALE, Bench

from gsched.engine.ports import Plan
from gsched.engine.starvation import POLICY_TOP, STARVING, STARVING_FROM
from gsched.explain.policy_reasons import policy_reason
from gsched.model.decision import Action, Decision, Rank, Reason, Revoke
from gsched.model.job import JobKey


class Line:
    """Waiting jobs, by number: the points of other factors, and the level that the policy gives."""

    def __init__(self, *jobs: tuple[int, float | None], freed_for: Sequence[int] = (1,)) -> None:
        self.bench = Bench(*range(1, len(jobs) + 1))
        self.levels = {number: level for number, (_, level) in enumerate(jobs, 1)}
        self.bench.client.others = {number: points for number, (points, _) in enumerate(jobs, 1)}
        self.bench.backend.freed_for = lambda: [str(number) for number in freed_for]
        self.starving: set[int] = set()

    def partitions(self, tiers: Mapping[str, int], *nodes: tuple[int, tuple[str, ...]]) -> None:
        """A cluster of these partitions; of each node its GPUs and partitions."""
        views = [replace(node(f"n{i}", gpus), partitions=p) for i, (gpus, p) in enumerate(nodes)]
        known = [partition(name, (), tier=tier) for name, tier in tiers.items()]
        self.bench.client.nodes = lambda: tuple(views)  # type: ignore[method-assign]
        self.bench.client.partitions = lambda: tuple(known)  # type: ignore[method-assign]

    def change(self, number: int, **facts: Any) -> None:
        self.bench.client.rows[number] = replace(self.bench.client.rows[number], **facts)

    def plan(self, *actions: Action, carry_out: bool = True) -> Plan:
        state = self.bench.snapshot()
        ranks, reasons = {}, {}
        for number, level in self.levels.items():
            if level is not None:
                key = self.bench.key(number)
                starves = number in self.starving
                ranks[key] = Rank("gpu", 1, 9, 0.0, STARVING_FROM if starves else level)
                reasons[key] = Reason(STARVING if starves else "fifo.first-submit")
        plan = self.bench.backend.plan(Decision(ranks, actions, reasons, {}), state, "r1")
        for change in plan.changes if carry_out else ():
            self.bench.client.factors[change.key.job_id] = change.after
            self.bench.stands(change.key.job_id, 0, change.after)
        return plan

    def sum(self, number: int) -> int:
        return self.bench.client.priorities()[number].total

    @property
    def behind(self) -> set[int]:
        return {key.job_id for key in self.bench.backend.behind}


def test_fair_share_that_outweighs_the_rank_is_outbid() -> None:
    line = Line((0, 0.9), (900, 0.5), (0, -0.5))
    plan = line.plan()
    assert line.sum(1) > line.sum(2) > line.sum(3)
    assert line.behind == set()
    reasons = {key.job_id: reason for key, reason in plan.reasons.items()}
    assert list(reasons) == [1]
    assert policy_reason(reasons[1].code, reasons[1].params).endswith(
        "; GPUs are being freed for it, before all others"
    )
    assert line.plan().changes == ()  # and so it stays, without another write
    line.bench.backend.freed_for = frozenset
    assert [(c.key.job_id, c.after) for c in line.plan().changes] == [(1, 900)]


def test_who_is_first_anyway_is_left_as_it_is() -> None:
    line = Line((0, 0.9), (100, 0.5))
    plan = line.plan()
    assert {c.key.job_id: c.after for c in plan.changes} == {1: 900, 2: 500}
    assert (plan.reasons, line.behind) == ({}, set())


def test_the_range_may_not_reach() -> None:
    line = Line((0, 0.9), (2000, 0.5))
    line.plan()
    assert line.bench.client.factors[1] == SCALE.highest
    assert line.behind == {1}
    line.bench.client.others[2] = 1000
    line.plan()
    assert line.behind == set()


def test_jobs_of_other_partitions_do_not_count() -> None:
    line = Line((0, 0.9), (900, 0.5))
    line.bench.client.rows[2] = replace(line.bench.client.rows[2], partitions=("elsewhere",))
    line.plan()
    assert line.bench.client.factors[1] == 900
    assert line.behind == set()


SHARED = {"gpu": 1, "short": 1}


def test_a_job_of_another_partition_over_the_same_nodes_is_outbid() -> None:
    line = Line((0, 0.9), (900, 0.5))
    line.partitions(SHARED, (8, ("gpu", "short")))
    line.change(2, partitions=("short",))
    line.plan()
    assert line.sum(1) > line.sum(2)
    assert line.behind == set()
    line.bench.client.others[2] = 2000  # more than the range reaches
    line.plan()
    assert line.behind == {1}


def test_partitions_share_a_node_with_gpus_or_do_not_count() -> None:
    line = Line((0, 0.9), (900, 0.5))
    beside = (8, ("gpu", "all")), (0, ("gpu", "short")), (8, ("short", "all"))
    line.partitions(SHARED | {"all": 1}, *beside)
    line.change(2, partitions=("short",))
    line.plan()
    assert line.bench.client.factors[1] == 900


def test_a_higher_tier_goes_before_whatever_the_sums() -> None:
    line = Line((0, 0.9), (0, -0.5))
    line.partitions({"gpu": 1, "short": 2}, (8, ("gpu", "short")))
    line.change(2, partitions=("short",))
    line.plan()
    assert line.sum(1) > line.sum(2)
    assert line.behind == {1}
    line.change(2, reason="QOSMaxGRESPerUser")  # a limit keeps it: it takes no GPUs
    line.plan()
    assert line.behind == set()


def test_a_job_that_asks_for_no_gpus_takes_none_by_its_tier() -> None:
    line = Line((0, 0.9), (0, -0.5))
    line.partitions({"gpu": 1, "short": 2}, (8, ("gpu", "short")))
    line.change(2, partitions=("short",), num_gpus=0)
    line.plan()
    assert line.behind == set()


def test_a_lower_tier_does_not_count() -> None:
    line = Line((0, 0.9), (3000, 0.5))
    line.partitions({"gpu": 3, "short": 2}, (8, ("gpu", "short")))
    line.change(2, partitions=("short",))
    line.plan()
    assert line.bench.client.factors[1] == 900
    assert line.behind == set()


@pytest.mark.parametrize("asked", [("gpu", "short"), ("short", "gpu")])
def test_of_several_partitions_the_highest_tier_counts(asked: tuple[str, str]) -> None:
    line = Line((0, 0.9), (100, 0.5))
    line.partitions({"gpu": 1, "short": 2}, (8, ("gpu", "short")))
    line.change(1, partitions=asked)
    line.change(2, partitions=("short", "gpu"))
    line.plan()
    assert line.behind == set()
    line.bench.client.others[2] = 3000
    line.plan()
    assert line.behind == {1}


BOTH = pytest.mark.parametrize("rich", ["gpu", "short"])


@BOTH
def test_who_waits_in_several_partitions_is_put_before_the_jobs_of_each(rich: str) -> None:
    """They share no nodes: wherever GPUs are freed, it is to be the first."""
    line = Line((0, 0.9), (900, 0.5), (100, 0.5))
    line.change(1, partitions=("gpu", "short"))
    line.change(2, partitions=(rich,))
    line.change(3, partitions=("short" if rich == "gpu" else "gpu",))
    line.plan()
    assert line.sum(1) > line.sum(2) > line.sum(3)
    assert line.behind == set()


@BOTH
def test_who_waits_in_several_partitions_is_behind_the_first_of_any(rich: str) -> None:
    line = Line((0, 0.9), (2000, 0.5))  # more than the range reaches
    line.change(1, partitions=("gpu", "short"))
    line.change(2, partitions=(rich,))
    line.plan()
    assert line.behind == {1}
    line.change(2, partitions=("elsewhere", rich))
    line.plan()
    assert line.behind == {1}


def test_of_equal_sums_slurm_takes_whom_it_likes() -> None:
    """By the job's number: so an equal sum is not in front, and is written anew."""
    line = Line((0, 0.9), (100, 0.5))
    line.plan()
    line.bench.client.others[2] = 400
    assert line.sum(1) == line.sum(2)
    line.plan(carry_out=False)
    line.plan()
    assert line.sum(1) > line.sum(2)
    assert line.behind == set()
    line.bench.client.others[2] = SCALE.highest - 500
    line.bench.client.factors[1] = SCALE.highest
    line.bench.stands(1, 0, SCALE.highest)
    line.plan()
    assert line.sum(1) == line.sum(2)  # the range reaches no further
    assert line.behind == {1}


def test_a_job_that_may_not_be_moved_is_not_said_to_be_in_front() -> None:
    line = Line((0, 0.9), (900, 0.5))
    line.bench.backend.configure(
        replace(line.bench.settings, control_partitions=("gpu",)), SCALE, 30
    )
    plan = line.plan()
    assert (plan.changes, plan.reasons) == ((), {})
    assert line.behind == {1}


def test_the_last_points_of_the_range_are_written_as_well() -> None:
    """They are fewer than are worth a write otherwise, but make it the first."""
    line = Line((0, 0.9), (SCALE.highest - 5, 0.0))
    line.bench.client.factors[1] = SCALE.highest - 10
    line.bench.stands(1, 0, SCALE.highest - 10)
    line.plan()
    assert line.bench.client.factors[1] == SCALE.highest
    assert line.behind == set()


def test_what_was_not_written_yet_does_not_count() -> None:
    line = Line((0, 0.9), (900, 0.5))
    line.bench.snapshot()
    line.bench.backend.apply([])  # a burst, just now
    assert line.plan(carry_out=False).changes == ()
    assert line.behind == {1}
    line.bench.seconds += 3600
    line.plan()
    assert line.behind == set()


def test_a_job_that_slurm_does_not_list_is_behind() -> None:
    """It waits for the end of its requeue's delay, say: others start before it."""
    line = Line((0, 0.9), (0, 0.5))
    line.bench.client.hidden = {1}
    line.plan()
    assert line.behind == {1}
    line.bench.backend.freed_for = lambda: ["99"]  # is gone
    line.plan()
    assert line.behind == set()


def revoke_for(key: JobKey) -> Revoke:
    whose = JobKey("c", 50)
    return Revoke(
        action_id="r", key=whose, attempt=0, after_seq=0, valid_until=0, undo=None, grace_s=60,
        beneficiary=key,
    )  # fmt: skip


def test_it_is_in_front_before_anybody_is_told() -> None:
    line = Line((0, 0.9), (900, 0.5), freed_for=())
    line.plan(revoke_for(line.bench.key(1)))
    assert line.sum(1) > line.sum(2)
    assert line.behind == set()


def test_who_has_waited_beyond_the_bound_stays_before_it() -> None:
    line = Line((0, 0.9), (300, 0.5), (0, 0.0))
    line.starving = {3}
    line.plan()
    assert line.sum(3) > line.sum(1) > line.sum(2)
    assert line.behind == {1}


def test_nobody_is_put_before_those_who_have_waited_beyond_the_bound() -> None:
    line = Line((0, 0.9), (300, 0.5), (0, 0.0))
    line.starving = {3}
    plan = line.plan()
    assert line.bench.client.factors[1] == 900  # its level is enough before all others
    assert not [reason for reason in plan.reasons.values() if reason.params.get("in_front")]


LEVELS = st.none() | st.floats(-POLICY_TOP, POLICY_TOP)


@given(
    st.lists(st.tuples(st.integers(0, 2500), LEVELS), min_size=1, max_size=6),
    st.sets(st.integers(1, 6), max_size=2),
)
def test_behind_is_whoever_slurm_would_not_start_first(
    jobs: list[tuple[int, float | None]], freed_for: set[int]
) -> None:
    line = Line(*jobs, freed_for=sorted(freed_for))
    line.plan()
    others = [line.sum(number) for number in line.levels if number not in freed_for]
    highest = max(others, default=0)
    present = freed_for & line.levels.keys()
    assert line.behind == {number for number in present if line.sum(number) <= highest}
    for number in line.behind:  # nothing was left undone for it
        is_ranked = line.levels[number] is not None
        assert not is_ranked or line.bench.client.factors[number] == SCALE.highest


@pytest.mark.parametrize("is_there", [False, True])
def test_a_starving_job_elsewhere_does_not_keep_the_last_points_back(is_there: bool) -> None:
    line = Line((0, 0.9), (SCALE.highest - 5, 0.0), (0, 0.0))
    line.change(3, partitions=("elsewhere",))
    line.starving = {3} if is_there else set()
    line.bench.client.factors[1] = SCALE.highest - 10
    line.bench.stands(1, 0, SCALE.highest - 10)
    line.plan()
    assert line.behind == set()
