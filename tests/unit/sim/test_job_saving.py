"""Sleep on simulated jobs, by hand and by what must always hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sim_jobs import columns_of, sim_jobs

from gsched.demand.forecaster import Outlook
from gsched.errors import UsageError
from gsched.model.decision import Reason
from gsched.model.demand_forecast import constant_forecast
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesSettings, PoolLook
from gsched.policy.fifo import Fifo
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.job_saving import Saver, SavingRules, SavingRun, Timeout, run_saving
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import Failures, SimRules, Sleep
from gsched.sim.run import simulate
from gsched.sim.saving_figures import figures, waking_delays_s

ORIGIN = 60_000  # a multiple of steps and looks
REACTIVE = CesSettings(
    sigma=0, wake_sigma=0, needs_forecast=False, hold_s=0, min_idle_s=600, max_sleep=0, period_s=60
)
TIMEOUT = Timeout(600)
RULES = SavingRules(ORIGIN, ORIGIN + 90_000, wake_s=300)


def run(
    jobs: SimJobs,
    nodes: int,
    saver: Saver | CesSettings,
    outlooks: dict[int, Outlook] | None = None,
    rules: SavingRules = RULES,
) -> SavingRun:
    cluster = SimCluster.uniform({"p": nodes}, 8)
    saver = Ces(saver) if isinstance(saver, CesSettings) else saver
    return run_saving(jobs, cluster, Fifo(), saver, {"p": outlooks or {}}, rules)


def asleep_at(done: SavingRun, second: int) -> int:
    """How many nodes slept when somebody looked at that second."""
    return int(done.looks.asleep[done.looks.time == ORIGIN + second, 0][0])


def test_a_job_waits_for_a_node_that_it_wakes() -> None:
    jobs = sim_jobs([0, 1000], [100, 100], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 1, TIMEOUT)
    assert done.result.start_s.tolist() == [0, 1300]
    assert done.result.segments.start_s.tolist() == [0, 1000]
    assert waking_delays_s(done).tolist() == [0, 300]
    assert [asleep_at(done, s) for s in (660, 720, 960, 1020)] == [0, 1, 1, 0]  # from 700 on
    assert done.looks.woken_by_jobs.sum() == 1
    assert done.looks.woken.sum() == done.looks.slept.sum() == 0


def test_the_spare_is_woken_once_jobs_have_woken_nodes_and_spares_the_next_job_the_wait() -> None:
    jobs = sim_jobs([0, 3000, 3400], [100, 1000, 1000], num_gpus=8, origin=ORIGIN)
    alone = run(jobs, 3, REACTIVE)
    assert alone.result.start_s.tolist() == [0, 3300, 3700]
    spared = run(jobs, 3, replace(REACTIVE, wake_sigma=1))
    # seen at 3000, when the job comes: one node more is awake at 3300
    assert spared.result.start_s.tolist() == [0, 3300, 3400]
    assert spared.looks.woken.sum() == 1


def test_a_job_can_have_a_node_that_wakes_already_and_waits_for_less_long() -> None:
    jobs = sim_jobs([0, 3000, 3100], [100, 1000, 1000], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 3, replace(REACTIVE, wake_sigma=1))
    assert done.result.start_s.tolist() == [0, 3300, 3300]
    assert done.result.wakes == 2  # none was woken for the last job
    assert done.looks.woken_by_jobs.sum() == 1


def test_awake_nodes_are_taken_before_one_that_wakes() -> None:
    jobs = sim_jobs([0, 0, 3000, 3100], [3050, 100, 500, 500], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 3, replace(REACTIVE, wake_sigma=1))
    # the job of 3000 wakes one and the policy another; at 3050 the first node is free, and awake
    assert done.result.start_s.tolist() == [0, 0, 3300, 3100]


def told(level: float, every_s: int = 600) -> dict[int, Outlook]:
    """The same forecast at the end of every step."""
    moments = range(ORIGIN - 7200, ORIGIN + 90_000, every_s)
    return {
        at: Outlook(constant_forecast(level, at, 600, 36, "test"), Reason("test.forecast"))
        for at in moments
    }


def test_ces_sleeps_by_the_forecast_alone() -> None:
    jobs = sim_jobs([0, 18_000], [100, 100], num_gpus=8, origin=ORIGIN)
    ces = CesSettings(sigma=1, wake_sigma=1, xi_h=0, xi_p=0, hold_s=0, min_idle_s=0, max_sleep=2)
    rests = run(jobs, 6, ces, told(0.0))
    # one runs, or ran in the last ten minutes, and one is to spare; two at a time
    number = rests.looks.slept[:, 0]
    assert (rests.looks.time - ORIGIN)[number > 0].tolist() == [600, 1200, 1800]
    assert number[number > 0].tolist() == [2, 2, 1]
    assert run(jobs, 6, ces, told(9.0)).looks.slept.sum() == 0
    assert run(jobs, 6, ces).looks.slept.sum() == 0  # without a forecast nothing is done
    blind = replace(ces, needs_forecast=False)
    assert run(jobs, 6, blind).looks.slept.sum() == 5


class Watched(Ces):
    """CES that notes what it is asked by numbers, and compares it with the nodes it is shown."""

    def __init__(self, settings: CesSettings) -> None:
        super().__init__(settings)
        self.pasts: dict[int, tuple[float, ...]] = {}
        self.decisions = 0
        self._last: PoolLook | None = None

    def size(self, look, memory, now, wake_failures=0):
        self.pasts[now], self._last = look.demand.past, look
        return super().size(look, memory, now, wake_failures)

    def decide(self, state, memory):
        assert self.look(state, "p") == self._last
        self.decisions += 1
        return super().decide(state, memory)


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_the_nodes_and_the_past_is_that_of_the_looks(seed: int) -> None:
    ces = Watched(replace(REACTIVE, sigma=1, wake_sigma=1, min_idle_s=120, past_window_s=1800))
    done = run(random_jobs(seed), 6, ces)
    assert ces.decisions > 3
    peaks = done.busy(0)
    for now, past in list(ces.pasts.items())[200:]:
        assert past == tuple(peaks.known_at(now).values[-4:].tolist())


def test_the_energy_is_that_of_the_seconds_asleep() -> None:
    jobs = sim_jobs([0, 6030], [100, 100], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 1, replace(REACTIVE, min_idle_s=0))
    slept_s = 6030 - 120  # no step has ended yet that would keep it awake
    power = SimRules().power
    joules = (6430 - slept_s) * power.idle_w + 8 * (100 + 400) * power.gpu_w
    assert done.result.energy_wh == pytest.approx(joules / 3600)


def test_a_node_that_wakes_before_a_job_needs_it_uses_energy_from_then_on() -> None:
    jobs = sim_jobs([0, 6030], [100, 100], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 2, replace(REACTIVE, min_idle_s=0, wake_sigma=1))
    # the one from 120 until the job comes; the other until 6060, and from 6360, when it is awake
    slept_s = (6030 - 120) + 6060 + (6430 - 6360)
    power = SimRules().power
    joules = (2 * 6430 - slept_s) * power.idle_w + 8 * (100 + 400) * power.gpu_w
    assert done.result.energy_wh == pytest.approx(joules / 3600)
    assert done.result.samples.nodes_asleep[[5, 10]].tolist() == [2, 2]


def test_ces_wakes_ahead_of_a_rise_and_nobody_waits() -> None:
    jobs = sim_jobs([0, 12_000], [100, 100], num_gpus=[8, 32], origin=ORIGIN)
    outlooks = told(0.0)
    rises = ORIGIN + 10_800
    outlooks |= {at: each for at, each in told(4.0).items() if at >= rises}
    ces = CesSettings(
        sigma=0, wake_sigma=0, xi_h=-99, xi_p=-99, hold_s=0, min_idle_s=0, max_sleep=0,
        peak_window_s=3600, wakes_ahead=True,
    )  # fmt: skip
    done = run(jobs, 6, ces, outlooks)
    assert asleep_at(done, 9960) == 6
    assert done.looks.woken.sum() == 4
    assert done.result.start_s.tolist() == [0, 12_000]
    late = run(jobs, 6, replace(ces, wakes_ahead=False), outlooks)
    assert late.result.start_s.tolist() == [0, 12_300]


def test_nodes_are_all_awake_before_the_time_comes() -> None:
    jobs = sim_jobs([0, 5000, 9000], [100, 100, 100], num_gpus=8, origin=ORIGIN)
    rules = replace(RULES, since=ORIGIN + 6000)
    assert run(jobs, 2, TIMEOUT, rules=rules).result.start_s.tolist() == [0, 5000, 9300]
    done = run(jobs, 2, REACTIVE, rules=rules)
    assert done.result.start_s.tolist() == [0, 5000, 9300]
    assert done.looks.time[0] == ORIGIN + 6000 - 3600 - 1200


def test_a_node_that_has_long_been_idle_sleeps_from_the_time_on_at_which_nodes_may() -> None:
    jobs = sim_jobs([0, 9000], [100, 100], num_gpus=8, origin=ORIGIN)
    done = run(jobs, 1, TIMEOUT, rules=replace(RULES, since=ORIGIN + 6000))
    power = SimRules().power
    joules = (9400 - 3000) * power.idle_w + 8 * (100 + 400) * power.gpu_w
    assert done.result.energy_wh == pytest.approx(joules / 3600)


def random_jobs(seed: int, count: int = 150) -> SimJobs:
    draw = np.random.default_rng(seed)
    return sim_jobs(
        np.sort(draw.integers(0, 18_000, count)).tolist(),
        draw.integers(1, 1500, count).tolist(),
        num_gpus=draw.choice([1, 1, 2, 4, 8, 16, 24], count),
        origin=ORIGIN,
    )


@pytest.mark.parametrize("saver", [Timeout(math.inf), replace(REACTIVE, min_idle_s=10**9), None])
@pytest.mark.parametrize("seed", range(3))
def test_a_timeout_that_never_comes_gives_the_plain_result_to_the_byte(
    seed: int, saver: Saver | CesSettings
) -> None:
    jobs = random_jobs(seed)
    cluster = SimCluster.uniform({"p": 6}, 8)
    rules = SimRules(sleep=Sleep(math.inf, 300))
    plain = columns_of(simulate(jobs, cluster, Fifo(), rules))
    done = run(jobs, 6, saver)
    for name, column in columns_of(done.result).items():
        np.testing.assert_array_equal(column, plain[name], err_msg=name)
    without = columns_of(simulate(jobs, cluster, Fifo()))
    for name in ("start_s", "end_s", "segments.start_s", "segments.node", "energy_wh"):
        np.testing.assert_array_equal(columns_of(done.result)[name], without[name], err_msg=name)
    assert done.looks.asleep.sum() == 0


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_timeout_from_the_beginning_is_the_simulators_own_sleep(seed: int, spare: int) -> None:
    jobs, cluster = random_jobs(seed), SimCluster.uniform({"p": 6}, 8)
    own = simulate(jobs, cluster, Fifo(), SimRules(sleep=Sleep(630, 300, spare)))
    done = run(jobs, 6, Timeout(630, spare), rules=replace(RULES, since=0))
    assert own.wakes > 5 - spare
    theirs = columns_of(own)
    for name, column in columns_of(done.result).items():
        np.testing.assert_array_equal(column, theirs[name], err_msg=name)
    assert done.looks.woken_by_jobs.sum() == own.wakes


POLICIES = st.builds(
    replace,
    st.sampled_from([REACTIVE, replace(REACTIVE, needs_forecast=True, wakes_ahead=True)]),
    sigma=st.integers(0, 3),
    wake_sigma=st.integers(0, 3),
    min_idle_s=st.sampled_from([0, 60, 600]),
    hold_s=st.sampled_from([0, 1200]),
    max_sleep=st.integers(0, 3),
    max_wake=st.integers(0, 2),
)


@given(seed=st.integers(0, 10**6), policy=POLICIES, level=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_what_always_holds(seed: int, policy: CesSettings, level: int) -> None:
    jobs, nodes = random_jobs(seed, 60), 4
    done = run(jobs, nodes, policy, told(float(level)))
    result, looks = done.result, done.looks
    assert result.finished.all()  # no job is lost
    delays = waking_delays_s(done)
    assert (delays >= 0).all()
    assert (delays <= RULES.wake_s).all()
    np.testing.assert_allclose(result.end_s - result.start_s, jobs.duration_s)
    held = result.segments
    gpus = jobs.num_gpus[held.job]
    for start in held.start_s.tolist():  # no more is held than there is
        assert gpus[(held.start_s <= start) & (held.end_s > start)].sum() <= 8 * nodes
    total = looks.running + looks.idle + looks.waking + looks.asleep
    assert (total == nodes).all()
    powered = looks.idle + looks.running + looks.waking
    assert ((looks.slept <= looks.idle) & (looks.slept < powered + 1)).all()
    assert ((looks.woken == 0) | (looks.slept == 0)).all()  # one pool: never both
    assert result.wakes == looks.woken.sum() + looks.woken_by_jobs.sum()
    if not looks.slept.any():  # who finds all nodes awake is never delayed
        assert not delays.any()
    first_sleep = looks.time[looks.slept.any(axis=1)]
    if len(first_sleep):
        before = held.start_s + ORIGIN <= first_sleep[0]
        assert not delays[held.job[before]].any()


@given(seed=st.integers(0, 10**6), spare=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_a_job_that_awake_nodes_can_hold_is_never_delayed(seed: int, spare: int) -> None:
    """Whoever was delayed found fewer free GPUs on awake nodes than it asks for, or none whole."""
    draw = np.random.default_rng(seed)
    submit = np.sort(draw.choice(18_000, 40, replace=False))
    jobs = sim_jobs(submit.tolist(), draw.integers(1, 900, 40).tolist(), num_gpus=8, origin=ORIGIN)
    done = run(jobs, 5, replace(REACTIVE, sigma=spare, min_idle_s=120))
    delays, looks = waking_delays_s(done), done.looks
    for row in np.flatnonzero(delays > 0):
        came = done.result.start_s[row] - delays[row] + ORIGIN
        look = np.searchsorted(looks.time, came, side="left") - 1  # the last one before it
        left = looks.idle[look, 0] - looks.slept[look, 0]
        since = (done.result.segments.start_s + ORIGIN > looks.time[look]) & (
            done.result.segments.start_s + ORIGIN < came
        )
        assert since.sum() >= left  # others have taken what was awake and free


def test_figures_by_hand() -> None:
    jobs = sim_jobs([0, 3000, 9000], [600, 600, 600], num_gpus=8, origin=ORIGIN)
    plain, done = run(jobs, 2, None), run(jobs, 2, TIMEOUT)
    since, until = ORIGIN + 2400, ORIGIN + 8400
    told = figures(done, plain, since, until)
    assert (told.jobs_started, told.jobs_delayed, told.jobs_submitted) == (1, 1, 1)
    assert (told.delay_p50_s, told.delay_p99_s, told.delay_max_s) == (300, 300, 300)
    assert told.delay_hours == pytest.approx(300 / 3600)
    assert told.jct_mean_s == 900
    assert told.jct_added_s == 300
    assert told.jobs_later == 1
    # one node all the time; the other until 3000 and from 4500 (it ran until 3900) on
    hours = 6000 / 3600 + (600 + 8400 - 4500) / 3600
    assert told.asleep_node_hours == pytest.approx(hours)
    assert told.kwh == pytest.approx(hours * 2.4)  # 800 W, and twice that for cooling
    days = 6000 / 86_400
    assert told.wake_ups_a_day == pytest.approx(1 / days)
    assert told.nodes_woken_a_day == pytest.approx(1 / days)
    assert told.nodes_woken_by_jobs_a_day == pytest.approx(1 / days)
    busy = 900 / 12_000
    assert told.utilisation_pct == pytest.approx(100 * 900 / (12_000 - hours * 3600))
    assert told.before_pct == pytest.approx(100 * busy)


def test_figures_without_sleep_are_those_of_no_delay() -> None:
    jobs = sim_jobs([0, 3000], [600, 600], num_gpus=8, origin=ORIGIN)
    plain = run(jobs, 2, None)
    told = figures(plain, plain, ORIGIN, ORIGIN + 6000)
    assert (told.jobs_delayed, told.delay_p99_s, told.asleep_node_hours, told.kwh) == (0, 0, 0, 0)
    assert plain.busy(0, 600).values.tolist() == [1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("saver", [TIMEOUT, Ces(REACTIVE)])
def test_several_pools_share_nothing(saver: Saver) -> None:
    jobs = sim_jobs([0, 0, 3000], [100, 100, 100], num_gpus=8, pool=[0, 1, 1], origin=ORIGIN)
    cluster = SimCluster.uniform({"a": 1, "b": 2}, 8)
    done = run_saving(jobs, cluster, Fifo(), saver, {}, RULES)
    assert done.looks.asleep.max(axis=0).tolist() == [1, 2]
    assert done.looks.woken_by_jobs.sum(axis=0).tolist() == [0, 1]
    assert done.result.start_s.tolist() == [0, 0, 3300]


def test_what_does_not_go_together_is_refused() -> None:
    jobs, cluster = random_jobs(0, 5), SimCluster.uniform({"p": 6}, 8)
    with pytest.raises(UsageError, match="preempts"):
        run_saving(jobs, cluster, load("srtf"), None, {}, RULES)
    for rules in (SimRules(failures=Failures(1e6, 60)), SimRules(sleep=Sleep(60, 60))):
        with pytest.raises(UsageError, match="already"):
            run_saving(jobs, cluster, Fifo(), None, {}, RULES, rules)
    with pytest.raises(ValueError, match="steps"):
        SavingRules(0, 1, look_s=45)
