"""A simulated cluster behind the same port as the live one.

It lies over the state that the compiled loops work on and moves it by their own steps, one moment
at a time. The order is carried out exactly: jobs of one level are told apart by their position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gsched.engine.ports import Plan
from gsched.engine.starvation import STARVING_FROM
from gsched.model.cluster import ClusterState, Delta
from gsched.model.decision import Admit, Decision, Grant, Refuse, Renew, Revoke
from gsched.model.job import Capability, JobKey, JobState, JobView
from gsched.model.jobtable import IntColumn
from gsched.model.journal import Change, Outcome, Readback, Standing
from gsched.model.ranks import RankTable
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.build import make_sim, with_more_room
from gsched.sim.core.ordered_loop import result_of
from gsched.sim.core.queues import renew_keys
from gsched.sim.core.recording import sample_until, samples_due
from gsched.sim.core.state import RUNNING, STARVING, WAITING
from gsched.sim.core.steps import advance, next_event_s, preempt, schedule, start_if_fits
from gsched.sim.jobs import SimJobs
from gsched.sim.result import ADMITTED, REFUSED, SimResult
from gsched.sim.rules import Scheduler, SimRules
from gsched.sim.sight import Sight

CHANNEL = "sim-priority"
_LEVEL_POINTS = 2**40  # of a level of 1.0
_TIE_POINTS = 2**20  # of one point of a level: room for jobs that have the same
_STARVING_POINTS = round(STARVING_FROM * _LEVEL_POINTS) * _TIE_POINTS

CAPABILITIES = frozenset(
    {Capability.REORDER, Capability.PREEMPT, Capability.ADMIT, Capability.ORACLE}
)
"""What a simulation can do for a policy."""


class SimBackend:
    """Implements ``gsched.engine.ports.Backend`` on virtual time.

    Jobs start by their order, and `misfit` says what follows on one that does not fit; with
    `by_grant` they start by ``Grant`` alone. A ``Revoke`` takes a job's GPUs away. `records` are
    the jobs as policies see them, by row; each must fit on its pool. Which of them starve is seen
    from their ranks: it is for who runs the rounds to give them the bound of `rules`, too.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        jobs: SimJobs,
        cluster: SimCluster,
        rules: SimRules,
        records: Sequence[JobView],
        misfit: Misfit = Misfit.BLOCK,
        by_grant: bool = False,
    ) -> None:
        self.cluster, self.origin = jobs.cluster, jobs.origin
        if rules.scheduler is Scheduler.SLURM:
            self.capabilities = CAPABILITIES - {Capability.PREEMPT}
        self._jobs, self._cluster, self._rules = jobs, cluster, rules
        self._by_grant = by_grant and Capability.PREEMPT in self.capabilities
        form = OrderForm.static(np.zeros(len(jobs)), Discipline(misfit=misfit))
        self._sim = make_sim(jobs, cluster, form, replace(rules, starvation_bound_s=0))
        self.records = records
        self._sight = Sight(cluster, records, jobs.origin, leases=self._by_grant)
        self._priority = np.zeros(len(jobs), dtype=np.int64)
        self._shown: Mapping[JobKey, int] = {}  # the priorities that the last look showed
        self._rows: dict[JobKey, int] = {}  # of the jobs that the last look showed
        self._shown_at = 0
        self._seq = 0
        self._last: Mapping[JobKey, JobState] = {}
        self._answers = np.zeros(len(jobs), dtype=np.int32)

    # -- time, in seconds from the jobs' origin ---------------------------------------------

    @property
    def now(self) -> int:
        """Epoch seconds, whole ones as policies know them."""
        return self.origin + int(np.floor(self.time_s))

    @property
    def time_s(self) -> float:
        """Where the simulation is."""
        return float(self._sim.now[0]["time_s"])

    @property
    def next_round_s(self) -> float:
        """When the rules next let a policy decide: now, or at the next multiple of `round_s`."""
        round_s = self._rules.round_s
        if not round_s or self.time_s % round_s == 0:
            return self.time_s
        return (self.time_s // round_s + 1) * round_s

    @property
    def next_starving_s(self) -> float:
        """When the next waiting job has waited beyond the bound; infinite where none will."""
        bound_s = self._rules.starvation_bound_s
        if not bound_s:
            return np.inf
        due_s = np.floor(self._jobs.submit_s[self._rows_in(WAITING)]) + bound_s + 1
        return float(np.min(due_s[due_s > self.time_s], initial=np.inf))

    @property
    def ended(self) -> int:
        """How many jobs never run again."""
        return len(self._jobs) - int(self._sim.now[0]["open_jobs"])

    @property
    def running(self) -> int:
        """How many jobs hold GPUs."""
        return int(self._sim.now[0]["running"])

    @property
    def moves(self) -> int:
        """A number that grows whenever a job comes, starts or ends."""
        now = self._sim.now[0]
        return int(now["next_job"] + now["segments"]) + self.ended

    def advance(self, until_s: float = np.inf) -> bool:
        """Go to the next event, or to `until_s` where that is sooner. False when there is neither,
        or no job is left that could run.
        """
        time_s = min(float(next_event_s(self._sim)), until_s)
        if time_s == np.inf or self.ended == len(self._jobs):
            return False
        self._make_room(time_s)
        sample_until(self._sim, time_s)
        advance(self._sim, time_s)
        return True

    def start_jobs(self) -> list[JobKey]:
        """Start waiting jobs by their order and the discipline; returns the started ones."""
        before = self._rows_in(RUNNING)
        if not self._by_grant:
            self._put_in_order()
            schedule(self._sim, self.time_s)
        self._sight.note_started(self._sim)
        return [self.records[row].key for row in np.setdiff1d(self._rows_in(RUNNING), before)]

    def carry_out(self, decision: Decision) -> None:
        """Do what was decided of leases: revoke first, then give, in the order of the ranks.

        Answers to requests are noted; what a policy says of a job first is its answer.
        """
        given = []
        for action in decision.actions:
            row = self._rows.get(action.key)
            if row is None:
                continue
            if isinstance(action, Admit | Refuse):
                if not self._answers[row]:
                    self._answers[row] = ADMITTED if isinstance(action, Admit) else REFUSED
            elif isinstance(action, Revoke) and self._phase(row) == RUNNING:
                preempt(self._sim, row, self.time_s)
            elif isinstance(action, Grant | Renew):
                rank = decision.order.get(action.key)
                given.append((rank.position if rank else 0, row, action.length_s))
        for _, row, length_s in sorted(given):
            if self._phase(row) == WAITING and self._by_grant:
                start_if_fits(self._sim, row, self.time_s)
            if self._phase(row) == RUNNING:
                self._sim.jobs[row]["leased_until_s"] = self.time_s + length_s
        self._sight.note_started(self._sim)

    def pending_order(self) -> list[JobKey]:
        """Waiting jobs as they would be taken: by priority, then by row."""
        return [self.records[row].key for row in self._waiting().tolist()]

    def result(self, policy: str, interrupted: bool = False) -> SimResult:
        """What has come of it so far."""
        found = result_of(
            self._sim, self._jobs, self._cluster, self._rules, policy, "rounds", interrupted
        )
        return replace(found, answers=self._answers.copy()) if self._answers.any() else found

    # -- the port ---------------------------------------------------------------------------

    def look(self) -> None:
        """Note what waits and runs now."""
        self._sight.look(self._sim)
        views = self._sight.table.views
        rows = self._sight.rows.tolist()
        self._rows = dict(zip((v.key for v in views), rows, strict=True))
        self._shown = {
            view.key: int(self._priority[row])
            for view, row in zip(views, rows, strict=True)
            if view.state is JobState.PENDING
        }
        self._shown_at = self.now

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """The state that the last look showed."""
        del standing  # tells other hands' values from ours; there is no other hand here
        self._seq += 1
        table = self._sight.table
        before, self._last = self._last, {v.key: v.state for v in table.views}
        return ClusterState(
            cluster=self.cluster,
            as_of=self._shown_at,
            seq=self._seq,
            nodes=self._sight.nodes,
            partitions=self._sight.partitions,
            reservations=(),
            jobs=table,
            changed=Delta.between(before, self._last),
            ended=self._sight.ended,
        )

    def looked_up(self, changes: Sequence[Change]) -> list[Readback]:
        """The priorities as the last look showed them."""
        return [
            Readback(c.change_id, self._shown.get(c.key), c.key in self._shown) for c in changes
        ]

    def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
        """Priorities that differ from the decided levels."""
        ranks = RankTable.of(decision.order, state.jobs)
        changes = []
        for row, after in zip(ranks.rows.tolist(), _points(ranks).tolist(), strict=True):
            key = state.jobs.keys[row]
            before = self._shown[key]
            if after != before:
                changes.append(
                    Change(
                        change_id=f"{round_id}/{key.slurm_id}",
                        key=key,
                        attempt=state.jobs.views[row].attempt,
                        channel=CHANNEL,
                        before=before,
                        after=after,
                        reason=decision.reasons[key],
                    )
                )
        return Plan(tuple(changes))

    def apply(self, changes: Sequence[Change]) -> list[Outcome]:
        """Set the priorities of jobs that still wait."""
        outcomes = []
        for change in changes:
            waits = self._waits(change.key)
            if waits:
                self._priority[self._rows[change.key]] = change.after
            outcomes.append(Outcome(change.change_id, waits, "" if waits else "not pending"))
        return outcomes

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        """The priorities as they stand now."""
        answers = []
        for change in changes:
            waits = self._waits(change.key)
            value = int(self._priority[self._rows[change.key]]) if waits else None
            answers.append(Readback(change.change_id, value, waits))
        return answers

    # -- rows -------------------------------------------------------------------------------

    def _make_room(self, time_s: float) -> None:
        """For the samples until then, and for the segments of all that could start."""
        now = self._sim.now[0]
        samples = samples_due(self._sim, time_s) + 2
        segments = int(now["segments"]) + len(self._sim.runners)
        full = now["samples"] + samples > len(self._sim.samples)
        if full or segments > len(self._sim.segments):
            self._sim = with_more_room(self._sim, samples)

    def _phase(self, row: int) -> int:
        return int(self._sim.jobs["phase"][row])

    def _waits(self, key: JobKey) -> bool:
        return key in self._rows and self._phase(self._rows[key]) == WAITING

    def _rows_in(self, phase: int) -> IntColumn:
        arrived = int(self._sim.now[0]["next_job"])
        return np.flatnonzero(self._sim.jobs["phase"][:arrived] == phase)

    def _put_in_order(self) -> None:
        """The priorities as keys; a look at every pool, for what stands first may be another."""
        rows = self._waiting()
        starves = self._priority[rows] >= _STARVING_POINTS
        self._sim.jobs["level"][rows] = np.where(starves, STARVING, 0)
        for name in ("constant", "key"):
            self._sim.jobs[name][rows] = np.arange(len(rows))
        for pool in range(len(self._sim.pools)):
            renew_keys(self._sim, pool, self.time_s)
        self._sim.pools["is_dirty"] = 1

    def _waiting(self) -> IntColumn:
        """Rows of the waiting jobs in their order."""
        rows = self._rows_in(WAITING)
        return rows[np.lexsort((rows, -self._priority[rows]))]


def _points(ranks: RankTable) -> IntColumn:
    """The level in points. Those of one level by position; a job that is alone there has the same
    points whoever comes or leaves."""
    points = np.rint(ranks.level * _LEVEL_POINTS).astype(np.int64)
    ordered = np.lexsort((-ranks.position, points))
    first = np.flatnonzero(np.diff(points[ordered], prepend=points[ordered][:1] - 1))
    sizes = np.diff(first, append=len(ordered))
    above = np.empty_like(points)
    above[ordered] = np.arange(len(ordered)) - np.repeat(first, sizes)
    return points * _TIE_POINTS + above
