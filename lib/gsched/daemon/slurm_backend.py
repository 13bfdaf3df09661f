"""The live backend: a Slurm cluster seen and moved through the adapter."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gsched.config.settings import DaemonSettings
from gsched.daemon.age_repaid import NOTHING_OWED, Repayment, repay, told
from gsched.daemon.bursts import DEFAULT_BF_INTERVAL_S, Bursts
from gsched.daemon.gpu_lines import GpuLines
from gsched.daemon.inversions import Inversions, InversionWatch
from gsched.daemon.job_book import EpochLookup, JobBook, Seen
from gsched.daemon.look import Look, Looker
from gsched.daemon.requests import RequestBook
from gsched.daemon.sightings import Sightings
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.site_factor_front import behind, to_front, told_in_front
from gsched.daemon.site_factor_lift import lift, starving_places
from gsched.daemon.site_factor_plan import is_control, moves, take_backs, targets
from gsched.engine.ports import Clock, Plan
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, Reason, Revoke
from gsched.model.history import Batch
from gsched.model.job import Capability, JobKey, JobState, JobView
from gsched.model.jobtable import JobTable
from gsched.model.journal import Change, Outcome, Readback, Standing
from gsched.model.ranks import RankTable
from gsched.slurm.client import SlurmClient
from gsched.slurm.exclusions import Rules


class SlurmBackend:
    """Implements ``gsched.engine.ports.Backend`` on Slurm's SiteFactor.

    Answers to requests (ADMIT) need nothing of Slurm: the daemon publishes them. Leases (PREEMPT)
    are carried out by ``gsched.daemon.lease_backend``, where the site allows them.
    """

    capabilities: frozenset[Capability]
    rules: Rules
    repayment: Repayment
    """What requeued jobs are owed; whoever carries leases out sets it."""
    freed_for: Callable[[], Collection[str]]
    """Gives the jobs for which GPUs are being freed, as Slurm spells them; likewise."""
    behind: frozenset[JobKey]
    """Of the jobs for which GPUs are being freed, or shall be: those that Slurm would not start
    first, after the last plan."""

    def __init__(
        self,
        client: SlurmClient,
        cluster: str,
        scale: SiteFactorScale,
        settings: DaemonSettings,
        epochs: EpochLookup,
        clock: Clock,
        requests: RequestBook,
        bf_interval_s: float = DEFAULT_BF_INTERVAL_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`bf_interval_s` is the cluster's own; `monotonic` gives seconds that no clock change
        touches.
        """
        self.cluster = cluster
        self.requests = requests
        self.repayment = NOTHING_OWED
        self.freed_for = frozenset
        self.behind = frozenset()
        self._client = client
        self._clock = clock
        self._monotonic = monotonic
        self._looker = Looker(client, monotonic)
        self._book = JobBook(cluster, epochs, requests)
        self._sightings = Sightings(cluster)
        self._bursts = Bursts(bf_interval_s)
        self._inversions = InversionWatch()
        self._seq = 0
        self._own_reservations: frozenset[str] = frozenset()
        self._look: Look | None = None
        self._looked_at = 0.0
        self._table: JobTable | None = None
        self.configure(settings, scale, bf_interval_s)

    def configure(
        self, settings: DaemonSettings, scale: SiteFactorScale, bf_interval_s: float
    ) -> None:
        """Go on by other settings; what was read and when was written is kept."""
        self.scale = scale
        self._settings = settings
        self._control = frozenset(settings.control_partitions)
        leasing = {Capability.PREEMPT} if settings.leases else frozenset()
        self.capabilities = frozenset({Capability.REORDER, Capability.ADMIT}) | leasing
        self.rules = Rules(
            partitions=frozenset(settings.partitions),
            users=frozenset(settings.exclude_users),
            accounts=frozenset(settings.exclude_accounts),
            reservations=self._own_reservations,
        )
        self._bursts.interval_s = settings.burst_interval_s or bf_interval_s

    def own_reservations(self, names: frozenset[str]) -> None:
        """These are gsched's own, made for jobs whose deadline is due: their nodes can be used, and
        their jobs are managed.
        """
        if names != self._own_reservations:
            self._own_reservations = names
            self.rules = replace(self.rules, reservations=names)

    # -- seeing -----------------------------------------------------------------------------

    def look(self) -> None:
        """One squeue and one sprio; what changes seldom only now and then."""
        self._looked_at = self._monotonic()
        self._look = self._looker.look()

    @property
    def last_look(self) -> Look:
        """What `look` saw last. Raises GschedError before the first."""
        if self._look is None:
            raise GschedError("the cluster has not been looked at yet")
        return self._look

    def keys(self) -> list[JobKey]:
        """The logical job behind each row of the last look."""
        return self._book.keys(self.last_look)

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """The state of the last look; unchanged jobs are the objects of the snapshot before."""
        look, as_of = self.last_look, self._clock()
        delta = self._book.update(look, standing, self.rules, as_of)
        views = [seen.view for seen in self._book.jobs.values()]
        before, self._table = self._table, JobTable.from_views(views, self._table)
        self._seq += 1
        return ClusterState(
            cluster=self.cluster,
            as_of=as_of,
            seq=self._seq,
            nodes=look.description.nodes,
            partitions=look.description.partitions,
            reservations=tuple(
                [r for r in look.description.reservations if r.name not in self._own_reservations]
            ),
            jobs=self._table,
            changed=delta,
            requests=tuple([v.key for v in views if _awaits_answer(v)]),
            ended=before.no_longer_holding(self._table) if before else (),
        )

    @property
    def seen(self) -> Mapping[int, Seen]:
        """The jobs of the last snapshot with what they were made of, by raw id; never changed."""
        return self._book.jobs

    def is_control(self, view: JobView) -> bool:
        """Whether this job is ranked but not moved, for comparison."""
        return is_control(view, self._control)

    def sightings(self) -> Batch:
        """What the last look tells the job history that it has not been given yet."""
        return self._sightings.fresh(self.last_look.listing)

    def sightings_kept(self) -> None:
        """The history has what `sightings` gave last."""
        self._sightings.kept()

    def looked_up(self, changes: Sequence[Change]) -> list[Readback]:
        """What the last look showed of `changes`.

        A job that was requeued meanwhile, or another one that has its id by now, is not the one
        that was changed.
        """
        look = self.last_look
        rows = {r.slurm_id: r for r in look.rows} if changes else {}
        seen = []
        for c in changes:
            row = rows.get(c.key.slurm_id)
            if row is None or row.state is not JobState.PENDING or row.submit_time != c.attempt:
                seen.append(Readback(c.change_id, None, False))
                continue
            shown = look.priorities.get(row.raw_id)
            # sprio shows 0 for a job whose priority an admin has set, whatever its SiteFactor is
            value = shown.site_factor if shown and not shown.is_manual else None
            seen.append(Readback(c.change_id, value, True))
        return seen

    # -- moving -----------------------------------------------------------------------------

    def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
        """SiteFactors that differ from the decided ones: what is taken back first, then the widest
        differences. None at all within a burst interval of the last round that wrote.
        """
        jobs = list(self._book.jobs.values())
        ranks = RankTable.of(decision.order, state.jobs)
        back = take_backs(jobs, self._control, ranks, decision.reasons, round_id)
        found = targets(ranks, jobs, self.scale, self._control)
        owed = self.repayment
        found, repaid = repay(found, jobs, owed, self.scale)
        whom = self._beneficiaries(decision)
        starving = starving_places(ranks, decision.reasons)
        lines = GpuLines(state.nodes if whom else (), state.partitions)
        found, moved = to_front(found, ranks, jobs, back, starving, whom, self.scale, lines)
        found, short = lift(found, ranks, decision.reasons, jobs, back, self.scale)
        self._inversions.ranked(jobs, found)
        reasons = {key: _out_of_reach(decision.reasons[key]) for key in short}
        reasons |= {
            key: told(decision.reasons[key], points, owed.waited_s[key])
            for key, points in repaid.items()
            if key not in reasons
        }
        budget = self._settings.write_budget
        room = max(0, budget - len(back))
        chosen, left = moves(found, jobs, self.scale, decision.reasons, round_id, room)
        changes = (*back[:budget], *chosen)
        left += max(0, len(back) - budget)
        reasons |= {key: told_in_front(reasons.get(key, decision.reasons[key])) for key in moved}
        if not self._bursts.may_write(self._looked_at):
            changes, left = (), len(changes) + left
        self.behind = behind(jobs, changes, whom, lines)
        return Plan(changes, left, reasons)

    def _beneficiaries(self, decision: Decision) -> frozenset[JobKey]:
        """The waiting jobs for which GPUs are being freed, or are to be from now on."""
        named, jobs = self.freed_for(), self._book.jobs.values()
        whom = {seen.key for seen in jobs if seen.key.slurm_id in named} if named else set()
        revokes = (action for action in decision.actions if isinstance(action, Revoke))
        return frozenset(whom | {a.beneficiary for a in revokes if a.beneficiary is not None})

    def inversions(self) -> Inversions | None:
        """The pairs of jobs that the last plan turns round against their QOS or fair-share.

        None before the first plan. Counted at most once a minute, and when the order has changed.
        """
        return self._inversions.count(self._looked_at)

    def apply(self, changes: Sequence[Change]) -> list[Outcome]:
        """Feed one scontrol with all of them."""
        self._bursts.wrote(self._looked_at)
        answers = self._client.set_site_factors([(c.key.slurm_id, c.after) for c in changes])
        return [
            Outcome(c.change_id, not a.error, a.error)
            for c, a in zip(changes, answers, strict=True)
        ]

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        """Ask sprio for these jobs again: a job that it does not list is left for the next look."""
        look = self.last_look
        raw_ids = {key: row.raw_id for key, row in zip(self.keys(), look.rows, strict=True)}
        asked = [(c, raw_ids[c.key]) for c in changes if c.key in raw_ids]
        if not asked:
            return []
        priorities = self._client.priorities([raw_id for _, raw_id in asked])
        seen = []
        for change, raw_id in asked:
            shown = priorities.get(raw_id)
            value = shown.site_factor if shown and not shown.is_manual else None
            seen.append(Readback(change.change_id, value, True))
        return seen


def _out_of_reach(reason: Reason) -> Reason:
    return replace(reason, params={**reason.params, "out_of_reach": True})


def _awaits_answer(view: JobView) -> bool:
    return view.wants.deadline is not None or bool(view.wants.soft_deadlines)
