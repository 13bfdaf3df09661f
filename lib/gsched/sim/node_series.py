"""CES, or any reactive sleep, run over a series of node counts: what it saves, and what it costs.

The series says how many nodes jobs held at each step while all nodes were awake. Node counts are
all there is: which jobs would have waited, and how that would have moved those behind them, is not
known. What is missing at a step is *unmet demand*, in node-seconds: a proxy of delay. Nodes go to
sleep at once and take `wake_lead_s` to come back; in both they use as much as awake ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.demand.forecaster import Outlook
from gsched.demand.series import DemandSeries
from gsched.model.decision import Reason
from gsched.model.times import DAY_S
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesMemory, PoolDemand, PoolLook

POOL = "all"
NO_OUTLOOK = Outlook(None, Reason("series.none-at-this-step"))


@dataclass(frozen=True, slots=True)
class SeriesRules:
    """What is assumed. Figures count from `since` on.

    All nodes are awake `warm_up_s` before, and those that are idle then have been so for long.

    With `is_instant` a change already holds for the step on which it was decided, and no node
    takes time to wake: the accounting of the published simulation.
    """

    since: int
    until: int
    wake_lead_s: int = 300
    warm_up_s: int = DAY_S
    is_instant: bool = False


@dataclass(frozen=True, slots=True)
class SeriesResult:
    """Figures over `days` days of known demand; steps without a value are left out.

    `utilisation_pct` is demand that was met over nodes that were powered (awake or waking), time
    for time; `mean_step_utilisation_pct` the mean over the steps of that share, which is what was
    published. `before_pct` is the latter with all nodes awake. `wake_ups_a_day` counts decisions to
    wake, `nodes_woken_a_day` nodes. Unmet demand in node-minutes a day; `unmet_steps_pct` of all
    steps had some.
    """

    days: float
    mean_nodes: float
    mean_asleep: float
    before_pct: float
    utilisation_pct: float
    mean_step_utilisation_pct: float
    wake_ups_a_day: float
    nodes_woken_a_day: float
    sleeps_a_day: float
    unmet_node_minutes_a_day: float
    unmet_steps_pct: float
    most_unmet_nodes: int
    asleep_node_hours: float
    powered_node_hours: float

    def document(self) -> dict[str, float | int]:
        """With the names of the fields as keys."""
        return asdict(self)


def run_series(
    busy: DemandSeries,
    total: DemandSeries,
    known: DemandSeries,
    outlooks: Mapping[int, Outlook],
    policy: Ces,
    rules: SeriesRules,
) -> SeriesResult:
    """Run `policy` over `busy` of `total` nodes (the same steps).

    `known` is the demand in longer steps as the policy sees it; `outlooks` go by the end of such a
    step (epoch seconds).
    """
    first = busy.row_before(rules.since - rules.warm_up_s) + 1
    last = busy.row_before(rules.until)
    run = _Run(busy, total, known, outlooks, policy, rules)
    for row in range(max(first, 0), last + 1):
        run.step(row)
    return run.result()


class _Run:
    """The nodes of one pool, step by step."""

    def __init__(
        self,
        busy: DemandSeries,
        total: DemandSeries,
        known: DemandSeries,
        outlooks: Mapping[int, Outlook],
        policy: Ces,
        rules: SeriesRules,
    ) -> None:
        self._busy, self._total = busy, total.filled()
        self._step_s, self._rules, self._policy = busy.step_s, rules, policy
        self._lead_s = 0 if rules.is_instant else rules.wake_lead_s
        past_window_s = policy.settings.past_window_s
        self._demands = _Demands(known, outlooks, past_window_s, self._lead_s)
        self._memory = CesMemory()
        self._asleep = self._waking = 0
        self._coming: deque[tuple[int, int]] = deque()  # (when ready, nodes)
        self._levels = _LatestPeak(max(1, policy.settings.min_idle_s // busy.step_s))
        self._lines: list[tuple[float, ...]] = []

    def step(self, row: int) -> None:
        """One step of the series: its demand is met or not, then the policy is asked."""
        begin = self._busy.start + row * self._step_s
        demand = self._busy.values[row]
        if np.isnan(demand) or np.isnan(self._total[row]):
            return
        nodes = int(self._total[row])
        arrived = self._arrive(begin)
        self._shrink(nodes)
        wanted = min(int(demand), nodes)
        ready = nodes - self._asleep - self._waking
        met = min(wanted, ready)
        self._levels.add(ready if arrived else met)
        before = nodes - self._asleep
        woken, slept = self._ask(begin + self._step_s, ready, met, wanted)
        powered = nodes - self._asleep if self._rules.is_instant else before
        if begin >= self._rules.since:
            met = min(wanted, powered) if self._rules.is_instant else met
            short = wanted - ready if self._rules.is_instant else wanted - met
            line = (nodes, powered, wanted, met, max(short, 0), woken, slept)
            self._lines.append(line)

    def _arrive(self, moment: int) -> bool:
        arrived = 0
        while self._coming and self._coming[0][0] <= moment:
            arrived += self._coming.popleft()[1]
        self._waking -= arrived
        return arrived > 0

    def _shrink(self, nodes: int) -> None:
        """Nodes that the cluster has no more were asleep as far as there are such, then waking."""
        over = max(self._asleep + self._waking - nodes, 0)
        asleep = min(over, self._asleep)
        self._asleep -= asleep
        over -= asleep
        self._waking -= over
        while over:  # the last ones that were woken
            ready_at, number = self._coming.pop()
            gone = min(over, number)
            over -= gone
            if number > gone:
                self._coming.append((ready_at, number - gone))

    def _ask(self, now: int, ready: int, met: int, wanted: int) -> tuple[int, int]:
        idle = ready - met
        look = PoolLook(
            pool=POOL,
            running=met,
            idle=idle,
            sleepable=min(idle, max(ready - self._levels.peak, 0)),
            waking=self._waking,
            asleep=self._asleep,
            demand=self._demands.at(now, wanted - met),
        )
        verdict, self._memory = self._policy.size(look, self._memory, now)
        self._asleep += verdict.sleep - verdict.wake
        if verdict.wake:
            self._waking += verdict.wake
            self._coming.append((now + self._lead_s, verdict.wake))
        return verdict.wake, verdict.sleep

    def result(self) -> SeriesResult:
        table: NDArray[np.float64] = np.array(self._lines, dtype=np.float64).reshape(-1, 7)
        if not len(table):
            raise ValueError("no step of the series has a known demand in this time")
        nodes, powered, wanted, met, unmet, woken, slept = table.T
        days = len(table) * self._step_s / DAY_S
        hours = self._step_s / 3600
        return SeriesResult(
            days=days,
            mean_nodes=float(nodes.mean()),
            mean_asleep=float((nodes - powered).mean()),
            before_pct=float(np.mean(100 * wanted / nodes)),
            utilisation_pct=float(100 * met.sum() / max(powered.sum(), 1)),
            mean_step_utilisation_pct=float(np.mean(100 * met / np.maximum(powered, 1))),
            wake_ups_a_day=float((woken > 0).sum() / days),
            nodes_woken_a_day=float(woken.sum() / days),
            sleeps_a_day=float((slept > 0).sum() / days),
            unmet_node_minutes_a_day=float(unmet.sum() * self._step_s / 60 / days),
            unmet_steps_pct=float(100 * np.mean(unmet > 0)),
            most_unmet_nodes=int(unmet.max()),
            asleep_node_hours=float((nodes - powered).sum() * hours),
            powered_node_hours=float(powered.sum() * hours),
        )


class _Demands:
    """What the policy is told of demand at a moment: the long steps that have ended."""

    def __init__(
        self,
        known: DemandSeries,
        outlooks: Mapping[int, Outlook],
        past_window_s: int,
        wake_lead_s: int,
    ) -> None:
        self._known, self._values = known, known.filled()
        self._outlooks = outlooks
        self._lead_s = wake_lead_s
        self._length = 1 + max(1, past_window_s // known.step_s)
        self._row = -2
        self._past: tuple[float, ...] = ()
        self._outlook = NO_OUTLOOK

    def at(self, now: int, wanted: int) -> PoolDemand:
        row = self._known.row_before(now)
        if row != self._row:
            self._row = row
            past = self._values[max(row + 1 - self._length, 0) : row + 1]
            self._past = tuple(past[~np.isnan(past)].tolist())
            ended = self._known.start + (row + 1) * self._known.step_s
            self._outlook = self._outlooks.get(ended, NO_OUTLOOK)
        return PoolDemand(
            wanted=wanted,
            past=self._past,
            step_s=self._known.step_s,
            forecast=self._outlook.forecast,
            why=self._outlook.reason,
            wake_lead_s=self._lead_s,
        )


class _LatestPeak:
    """The greatest of the last `length` levels, in constant time on average.

    Nodes are taken to be used from the first one on: those beyond the greatest number in use, or
    just woken, within a time have been idle for all of it.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._count = 0
        self._falling: deque[tuple[int, int]] = deque()

    @property
    def peak(self) -> int:
        return self._falling[0][1]

    def add(self, level: int) -> None:
        while self._falling and self._falling[-1][1] <= level:
            self._falling.pop()
        self._falling.append((self._count, level))
        self._count += 1
        if self._falling[0][0] <= self._count - 1 - self._length:
            self._falling.popleft()
