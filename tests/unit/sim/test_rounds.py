"""Policies without a closed form: they decide at every event, and when they want to wake up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from support.sim_checks import check
from support.sim_jobs import sim_jobs

from gsched.errors import ConfigError, GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Decision, Grant, JsonValue, Rank, Reason, Revoke
from gsched.model.job import Capability, JobState, JobView
from gsched.model.jobtable import FloatColumn, JobTable
from gsched.policy.base import OrderKind, Policy
from gsched.sim.cluster import SimCluster
from gsched.sim.replay import VAIN_ROUNDS
from gsched.sim.rules import Costs, Failures, Scheduler, SimRules, Sleep
from gsched.sim.run import simulate

ORIGIN = 1_000  # of `sim_jobs`
NODE = SimCluster.uniform({"p": 1})
FREE = SimRules()


class Plugin(Policy):
    """As a site might write one: no columns, no form; keeps the states that it has seen."""

    name = "plugin"
    summary = "for tests"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[ClusterState] = []

    def static_key(self, jobs: JobTable) -> FloatColumn:
        return np.zeros(len(jobs))

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        self.seen.append(state)
        waiting = [v for v in state.jobs.views if v.state is JobState.PENDING]
        ordered = sorted(waiting, key=self.place)
        order = {
            v.key: Rank("gpu", n, len(ordered), float(n), 1 - n / len(ordered))
            for n, v in enumerate(ordered, 1)
        }
        reasons = {key: Reason("plugin") for key in order}
        return Decision(order, self.actions(state, now), reasons, {}, self.wakeup(now))

    def place(self, view: JobView) -> float:
        return -view.request.gpus.minimum

    def actions(self, state: ClusterState, now: int) -> tuple[Action, ...]:
        return ()

    def wakeup(self, now: int) -> int | None:
        return None


def granted(state: ClusterState, view: JobView, length_s: int = 0) -> Grant:
    return Grant("g", view.key, view.attempt, state.seq, state.as_of, None, length_s)


def revoked(state: ClusterState, view: JobView) -> Revoke:
    return Revoke("r", view.key, view.attempt, state.seq, state.as_of, None, 0, None)


def test_a_plugin_orders_and_the_first_that_does_not_fit_blocks() -> None:
    jobs = sim_jobs([0, 1, 1, 1], [10, 10, 10, 10], num_gpus=[8, 1, 4, 6])
    result = simulate(jobs, NODE, Plugin(), FREE)
    assert result.path == "rounds"
    assert result.start_s.tolist() == [0, 20, 20, 10]  # the largest first; 4 does not fit beside 6
    check(result)


def test_each_event_is_one_round_with_what_is_there_then() -> None:
    policy = Plugin()
    simulate(sim_jobs([0, 5], [7, 7], num_gpus=[8, 8]), NODE, policy, FREE)
    assert [s.as_of - ORIGIN for s in policy.seen] == [0, 5, 7, 14]
    shown = [[(v.key.job_id, v.state.value) for v in s.jobs.views] for s in policy.seen]
    assert shown == [
        [(1, "PENDING")],
        [(1, "RUNNING"), (2, "PENDING")],
        [(2, "PENDING")],
        [],
    ]
    assert [s.nodes[0].gpus_used for s in policy.seen] == [0, 8, 0, 0]
    (running, _) = policy.seen[1].jobs.views
    assert running.allocation is not None
    assert (running.allocation.nodes, running.allocation.gpus) == (("p-0",), (8,))
    assert (running.allocation.start_time, running.attained_gpu_s) == (ORIGIN, 5 * 8)


def test_nodes_that_are_down_or_asleep_are_shown_as_such() -> None:
    policy = Plugin()
    rules = SimRules(seed=2, failures=Failures(30.0, 5.0), sleep=Sleep(3.0, 2.0))
    two = SimCluster.uniform({"p": 1, "q": 1})
    simulate(sim_jobs([0, 1, 40], [30, 5, 9], pool=[0, 1, 1], num_gpus=2), two, policy, rules)
    seen = {(n.state, n.flags, n.is_usable) for s in policy.seen for n in s.nodes}
    assert seen == {
        ("idle", (), True),
        ("mixed", (), True),
        ("down", ("down",), False),
        ("idle", ("powered_down",), True),
    }
    for state in policy.seen:
        assert [n.partitions for n in state.nodes] == [("p",), ("q",)]
        assert [p.nodes for p in state.partitions] == [("p-0",), ("q-0",)]


class Granting(Plugin):
    """Starts whatever waits, but not before second 25; wakes up for it."""

    requires = frozenset({Capability.REORDER, Capability.PREEMPT})

    def actions(self, state: ClusterState, now: int) -> tuple[Action, ...]:
        waiting = [v for v in state.jobs.views if v.state is JobState.PENDING]
        return tuple(granted(state, v) for v in waiting) if now >= ORIGIN + 25 else ()

    def wakeup(self, now: int) -> int | None:
        return ORIGIN + 25


def test_it_is_woken_when_it_wants_to_though_nothing_happens() -> None:
    jobs = sim_jobs([0, 30], [10, 10])
    policy = Granting()
    result = simulate(jobs, NODE, policy, FREE)
    assert result.start_s.tolist() == [25, 30]
    assert [s.as_of - ORIGIN for s in policy.seen] == [0, 25, 30, 35, 40]


class Asleep(Granting):
    def wakeup(self, now: int) -> int | None:
        return None


def test_what_is_never_granted_never_runs_and_that_ends_the_simulation() -> None:
    result = simulate(sim_jobs([0], [10]), NODE, Asleep(), FREE)
    assert np.isnan(result.start_s).all()
    assert not result.finished.any()
    assert not result.interrupted


class Restless(Granting):
    def actions(self, state: ClusterState, now: int) -> tuple[Action, ...]:
        return ()

    def wakeup(self, now: int) -> int | None:
        return now + 1


def test_a_policy_that_wakes_for_ever_in_vain_is_left_alone() -> None:
    policy = Restless()
    result = simulate(sim_jobs([0], [10]), NODE, policy, FREE)
    assert not result.finished.any()
    assert len(policy.seen) == VAIN_ROUNDS + 1


class ChangesItsMind(Plugin):
    """Lets the large job stand in front for twenty seconds, then the small one."""

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        self._large_first = now < ORIGIN + 20
        return super().decide(state, memory, now)

    def place(self, view: JobView) -> float:
        gpus = view.request.gpus.minimum
        return -gpus if self._large_first else gpus

    def wakeup(self, now: int) -> int | None:
        return ORIGIN + 20


def test_a_new_order_alone_lets_another_job_start() -> None:
    jobs = sim_jobs([0, 1, 1], [50, 10, 10], num_gpus=[4, 8, 2])
    result = simulate(jobs, NODE, ChangesItsMind(), FREE)
    assert result.start_s.tolist() == [0, 50, 20]


class Turns(Granting):
    """Every ten seconds the running job gives way to the one that has had less."""

    def place(self, view: JobView) -> float:
        return view.attained_gpu_s or 0.0

    def actions(self, state: ClusterState, now: int) -> tuple[Action, ...]:
        waiting = [v for v in state.jobs.views if v.state is JobState.PENDING]
        running = [v for v in state.jobs.views if v.state is JobState.RUNNING]
        over = [v for v in running if v.lease and v.lease.end_time <= now and waiting]
        revokes = [revoked(state, v) for v in over]
        return (*revokes, *(granted(state, v, 10) for v in waiting))

    def wakeup(self, now: int) -> int | None:
        return now + 10


@pytest.mark.parametrize(
    ("costs", "starts", "ends", "lost"),
    [
        (Costs(), [0, 10, 20, 30], [10, 20, 30, 45], [0, 0]),
        # 1 s to launch, 3 s to save; who comes back has 2 s to restart and 1 s to launch:
        # the first does 9, 7 and 4 s of its 20, the other 9, 7 and 9 of its 25
        (Costs(1, 0, 3, 2, 9), [0, 13, 26, 39, 52, 59], [13, 26, 39, 52, 59, 71], [13, 13]),
    ],
)
def test_a_revoked_job_saves_gives_its_gpus_and_goes_on_later(
    costs: Costs, starts: list[int], ends: list[int], lost: list[int]
) -> None:
    jobs = sim_jobs([0, 0], [20, 25], num_gpus=[8, 8])
    result = simulate(jobs, NODE, Turns(), SimRules(costs=costs))
    check(result)
    assert result.segments.job.tolist() == [0, 1, 0, 1, 0, 1][: len(starts)]
    assert result.segments.start_s.tolist() == starts
    assert result.segments.end_s.tolist() == ends
    assert result.lost_s.tolist() == lost
    assert result.preemptions.tolist() == [len(starts) // 2 - 1] * 2


def test_a_requeued_job_waits_in_a_new_attempt_since_its_first_submit() -> None:
    policy = Turns()
    simulate(sim_jobs([0, 0], [20, 25], num_gpus=[8, 8]), NODE, policy, FREE)
    at_20 = next(s for s in policy.seen if s.as_of == ORIGIN + 20)
    waiting = next(v for v in at_20.jobs.views if v.key.job_id == 1)
    assert (waiting.state, waiting.first_submit, waiting.restarts) == (
        JobState.PENDING,
        ORIGIN,
        1,
    )
    assert waiting.attempt > waiting.first_submit
    assert (waiting.attained_gpu_s, waiting.allocation, waiting.lease) == (10 * 8, None, None)


def test_under_slurms_scheduler_ranks_alone_count() -> None:
    jobs = sim_jobs([0, 0], [20, 25], num_gpus=[8, 8])
    result = simulate(jobs, NODE, Turns(), SimRules(scheduler=Scheduler.SLURM))
    assert result.start_s.tolist() == [0, 20]
    assert result.preemptions.tolist() == [0, 0]


class Failing(Plugin):
    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        if now > ORIGIN + 5:
            raise ZeroDivisionError("by 0")
        return super().decide(state, memory, now)


def test_a_policy_that_fails_is_named() -> None:
    with pytest.raises(GschedError, match="policy plugin failed: ZeroDivisionError: by 0"):
        simulate(sim_jobs([0, 6], [9, 9]), NODE, Failing(), FREE)


class Interrupted(Plugin):
    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        if now > ORIGIN + 10:
            raise KeyboardInterrupt
        return super().decide(state, memory, now)


def test_ctrl_c_leaves_the_finished_part() -> None:
    result = simulate(
        sim_jobs([0, 1, 12], [5, 20, 5], num_gpus=[8, 8, 8]), NODE, Interrupted(), FREE
    )
    assert result.interrupted
    assert result.finished.tolist() == [True, False, False]
    np.testing.assert_array_equal(result.end_s, [5, np.nan, np.nan])
    np.testing.assert_array_equal(result.start_s, [0, 5, np.nan])


def test_a_policy_that_needs_what_no_simulation_offers_is_refused_by_name() -> None:
    class Placing(Plugin):
        requires = frozenset({Capability.REORDER, Capability.PLACE})

    with pytest.raises(ConfigError, match="policy plugin needs place"):
        simulate(sim_jobs([0], [1]), NODE, Placing(), FREE)


def test_it_tells_how_many_jobs_have_ended() -> None:
    told: list[tuple[str, int]] = []
    jobs = sim_jobs(np.arange(600.0), np.full(600, 1.0))
    simulate(jobs, NODE, Plugin(), FREE, lambda what, many: told.append((what, many)))
    assert {what for what, _ in told} == {"jobs ended"}
    ended = [many for _, many in told]
    assert ended == sorted(ended)
    assert 0 < ended[-1] <= 600


def test_there_is_room_for_any_number_of_attempts_and_samples() -> None:
    jobs = sim_jobs([0, 0], [6000, 6000], num_gpus=[8, 8])
    result = simulate(jobs, NODE, Turns(), SimRules(sample_s=1.0))
    check(result)
    assert len(result.segments.job) == 1200
    assert result.samples.time_s.tolist() == list(range(12001))
    assert set(result.samples.gpus_used[:-1].tolist()) == {8}
