"""CES, or any reactive sleep, on simulated jobs: who waits for nodes to wake up, and for how long.

The scheduler is that of every simulation, and the same whoever puts nodes to sleep. As under Slurm,
a job that no awake node can hold gets nodes that sleep, wakes them and waits until they are ready.
The policy looks at the nodes every minute, as the daemon does, and is told of nodes that jobs woke
since it looked last. Nodes fall asleep at once and take `wake_s` to come back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gsched.demand.forecaster import Outlook
from gsched.demand.series import DemandSeries
from gsched.errors import UsageError
from gsched.model.decision import Reason
from gsched.policy.base import Policy
from gsched.policy.ces import Ces
from gsched.policy.ces_state import (
    CesMemory,
    CesNode,
    CesState,
    NodePower,
    PoolDemand,
    PoolLook,
)
from gsched.sim.cluster import SimCluster
from gsched.sim.core import steps
from gsched.sim.core.build import make_sim, with_more_room
from gsched.sim.core.effects import discipline_of
from gsched.sim.core.ordered_loop import result_of
from gsched.sim.core.recording import samples_due
from gsched.sim.core.state import ASLEEP, UP, WAKING, Sim
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules, Sleep
from gsched.sim.run import check_jobs
from gsched.sim.table import job_table

NO_OUTLOOK = Outlook(None, Reason("series.none-at-this-step"))

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Outlooks = Mapping[str, Mapping[int, Outlook]]
"""By pool, by the end of the step in which they were made (epoch seconds)."""

_POWER = {UP: NodePower.AWAKE, ASLEEP: NodePower.ASLEEP, WAKING: NodePower.WAKING}


@dataclass(frozen=True, slots=True)
class Timeout:
    """Slurm's own power saving: nodes sleep when idle for `idle_s`, but for `spare` idle ones of
    each pool. Only jobs wake them.
    """

    idle_s: float
    spare: int = 0


Saver: TypeAlias = "Ces | Timeout | None"
"""Who puts nodes to sleep."""


@dataclass(frozen=True, slots=True)
class SavingRules:
    """Nodes may sleep from `since` on, all are awake until then; the policy looks until `until`.

    Both are epoch seconds. It looks every `look_s` and knows demand in steps of `step_s`, a
    multiple of that. Looks before `since` are those from which it learns the latest demand; without
    a policy they begin with the first job.
    """

    since: int
    until: int
    wake_s: int = 300
    look_s: int = 60
    step_s: int = 600

    def __post_init__(self) -> None:
        if self.look_s <= 0 or self.step_s % self.look_s:
            raise ValueError(f"steps of {self.step_s} s do not consist of {self.look_s} s")


@dataclass(frozen=True, eq=False)
class Looks:
    """What every look saw and did: a row a look, a column a pool; `time` is in epoch seconds.

    `running` nodes hold jobs, ready or not; the counts are those from before what was decided then.
    `woken_by_jobs` are nodes since the look before. `slept` are those that a policy put to sleep.
    """

    time: Counts
    running: Counts
    idle: Counts
    waking: Counts
    asleep: Counts
    woken_by_jobs: Counts
    woken: Counts
    slept: Counts


@dataclass(frozen=True, eq=False)
class SavingRun:
    """What became of the jobs, and what every look saw."""

    result: SimResult
    looks: Looks

    def busy(self, pool: int, step_s: int = 600) -> DemandSeries:
        """The running nodes of a pool as the looks saw them: the peaks of steps."""
        times = self.looks.time
        look_s = int(times[1] - times[0])
        values = self.looks.running[:, pool].astype(np.float64)
        return DemandSeries(int(times[0]), look_s, values).coarser(step_s)


def run_saving(
    jobs: SimJobs,
    cluster: SimCluster,
    policy: Policy,
    saver: Saver,
    outlooks: Outlooks,
    saving: SavingRules,
    rules: SimRules | None = None,
) -> SavingRun:
    """Run `policy` over all jobs while `saver` puts nodes to sleep, or nobody does.

    Raises DataError for a job that is none, UsageError for a policy that preempts or has no closed
    form, and where nodes fail or sleep by the rules already.
    """
    check_jobs(jobs, cluster)
    rules = rules or SimRules()
    form = policy.order_form(job_table(jobs, cluster, oracle=False))
    if form is None or discipline_of(form, rules).preempts:
        raise UsageError(f"{policy.name} preempts or has no closed form", "take fifo or sjf")
    if rules.failures is not None or rules.sleep is not None:
        raise UsageError("nodes fail or sleep by the rules already", "leave one of both out")
    spare = saver.spare if isinstance(saver, Timeout) else 0
    rules = replace(rules, sleep=Sleep(math.inf, saving.wake_s, spare))
    run = _Run(jobs, cluster, make_sim(jobs, cluster, form, rules), saver, outlooks, saving)
    run.go()
    result = result_of(run.sim, jobs, cluster, rules, policy.name, "ordered", interrupted=False)
    return SavingRun(result, run.looks())


class _Run:
    """The simulation, look by look."""

    def __init__(
        self,
        jobs: SimJobs,
        cluster: SimCluster,
        sim: Sim,
        saver: Saver,
        outlooks: Outlooks,
        saving: SavingRules,
    ) -> None:
        self.sim = sim
        self._cluster, self._saver, self._saving = cluster, saver, saving
        ces = saver if isinstance(saver, Ces) else None
        self._origin = jobs.origin
        self._first = cluster.first_node[:-1]
        self._demands = [_Demand(outlooks.get(name, {}), saving, ces) for name in cluster.pools]
        self._memory = CesMemory()
        self._wakes: Counts = np.zeros(len(cluster.pools), dtype=np.int64)
        self._is_on = False
        self._times: list[int] = []
        self._lines: list[Counts] = []

    def go(self) -> None:
        """Look until the time is over, then let all other jobs end."""
        saving = self._saving
        now = self._first_look()
        while now < saving.until:
            if self._pass(now - self._origin) == steps.DONE:
                break
            self._look(now)
            now += saving.look_s
        self._pass(math.inf)

    def _first_look(self) -> int:
        """At the beginning of a step, early enough for the policy to know the past it needs."""
        step_s = self._saving.step_s
        first = self._origin + math.floor(float(self.sim.now[0]["time_s"]))
        if self._saver is not None:
            saver = self._saver
            past_s = saver.settings.past_window_s if isinstance(saver, Ces) else 0
            first = max(first, self._saving.since - past_s - 2 * step_s)
        return first + -first % step_s

    def looks(self) -> Looks:
        """All looks as columns."""
        table = np.array(self._lines, dtype=np.int64).reshape(-1, 7, len(self._cluster.pools))
        return Looks(np.array(self._times, dtype=np.int64), *np.moveaxis(table, 1, 0))

    def _pass(self, until_s: float) -> int:
        while True:
            status = steps.run_until(self.sim, until_s)
            if status != steps.FULL:
                return status
            self._make_room(steps.next_event_s(self.sim))

    def _make_room(self, time_s: float) -> None:
        self.sim = with_more_room(self.sim, samples_due(self.sim, time_s))

    def _by_pool(self, nodes: Flags) -> Counts:
        return np.add.reduceat(nodes, self._first, dtype=np.int64)

    def _look(self, now: int) -> None:
        """See the nodes as they are after all that has happened up to `now`; ask, and carry out."""
        sim = self.sim
        state, is_free = sim.nodes["state"], sim.places.node["used"] == 0
        idle = (state == UP) & is_free
        wakes = np.add.reduceat(sim.nodes["wakes"], self._first)
        flags = (~is_free, idle, state == WAKING, state == ASLEEP)
        seen = np.array([*map(self._by_pool, flags), wakes - self._wakes])
        for demand, running in zip(self._demands, seen[0].tolist(), strict=True):
            demand.see(now, running)
        changed = np.zeros((2, len(self._first)), dtype=np.int64)
        if now >= self._saving.since:
            if isinstance(self._saver, Ces):
                changed = self._ask(self._saver, now, idle, seen)
            elif self._saver is not None and not self._is_on:
                steps.sleep_from_now_on(sim, self._saver.idle_s, float(now - self._origin))
                self._is_on = True
        self._wakes = wakes + changed[0]
        self._times.append(now)
        self._lines.append(np.concatenate((seen, changed)))

    def _ask(self, ces: Ces, now: int, idle: Flags, seen: Counts) -> Counts:
        """What `ces` decides, carried out: nodes woken and put to sleep, by pool.

        Most looks change nothing, and the numbers tell so; else all nodes are shown.
        """
        since = self.sim.nodes["idle_from_s"]
        rested = idle & (np.floor(since) + self._origin <= now - ces.settings.min_idle_s)
        sleepable = self._by_pool(rested).tolist()
        memory, demands = self._memory, {}
        is_quiet = True
        for pool, name in enumerate(self._cluster.pools):
            running, free, waking, asleep, woken = seen[:, pool].tolist()
            demands[name] = self._demands[pool].told(woken)
            look = PoolLook(name, running, free, sleepable[pool], waking, asleep, demands[name])
            verdict, memory = ces.size(look, memory, now)
            is_quiet = is_quiet and not (verdict.wake or verdict.sleep)
        if is_quiet:
            self._memory = memory
            return np.zeros((2, len(self._first)), dtype=np.int64)
        decision = ces.decide(CesState(now, self._nodes(idle), demands), self._memory)
        self._memory = decision.memory
        number = {name: row for row, name in enumerate(self._cluster.node_names)}
        wake, sleep = (
            np.array([number[each.node] for each in changes], dtype=np.int64)
            for changes in (decision.wake, decision.sleep)
        )
        self._switch(now, wake, sleep)
        pools = self.sim.places.node["pool"]
        width = len(self._first)
        return np.stack([np.bincount(pools[rows], minlength=width) for rows in (wake, sleep)])

    def _switch(self, now: int, wake: Counts, sleep: Counts) -> None:
        time_s = float(now - self._origin)
        while not steps.stand_at(self.sim, time_s):
            self._make_room(time_s)
        for node in wake.tolist():
            if not steps.wake_up(self.sim, node, time_s):
                raise ValueError(f"node {node} was to wake up and does not sleep")
        for node in sleep.tolist():
            if not steps.put_to_sleep(self.sim, node):
                raise ValueError(f"node {node} was to sleep and is not idle")

    def _nodes(self, idle: Flags) -> list[CesNode]:
        """All nodes as the policy sees them."""
        cluster, records = self._cluster, self.sim.nodes
        pools = self.sim.places.node["pool"].tolist()
        states, since = records["state"].tolist(), records["idle_from_s"].tolist()
        wakes = records["wakes"].tolist()
        return [
            CesNode(
                name=cluster.node_names[row],
                pool=cluster.pools[pools[row]],
                power=_POWER[states[row]],
                is_running=states[row] == UP and not idle[row],
                idle_since=math.floor(since[row]) + self._origin if idle[row] else None,
                switch=f"{cluster.node_switch[row]}",
                power_cycles=wakes[row],
            )
            for row in range(cluster.num_nodes)
        ]


class _Demand:
    """What the policy is told of one pool's demand: the peaks of the steps that have ended."""

    def __init__(
        self, outlooks: Mapping[int, Outlook], saving: SavingRules, ces: Ces | None
    ) -> None:
        self._outlooks, self._saving = outlooks, saving
        past_window_s = ces.settings.past_window_s if ces else 0
        self._past: deque[float] = deque(maxlen=1 + max(1, past_window_s // saving.step_s))
        self._ends: int | None = None
        self._peak = 0
        self._outlook = NO_OUTLOOK

    def see(self, now: int, running: int) -> None:
        """One look; the first of a step ends the step before."""
        step_s = self._saving.step_s
        if self._ends is None or now >= self._ends:
            if self._ends is not None:
                self._past.append(float(self._peak))
                self._outlook = self._outlooks.get(self._ends, NO_OUTLOOK)
            self._ends = now - now % step_s + step_s
            self._peak = 0
        self._peak = max(self._peak, running)

    def told(self, woken_by_jobs: int) -> PoolDemand:
        """Jobs that could start on sleeping nodes have done so: nothing is wanted beyond."""
        return PoolDemand(
            wanted=0,
            past=tuple(self._past),
            step_s=self._saving.step_s,
            forecast=self._outlook.forecast,
            why=self._outlook.reason,
            wake_lead_s=self._saving.wake_s,
            woken_by_slurm=woken_by_jobs,
        )
