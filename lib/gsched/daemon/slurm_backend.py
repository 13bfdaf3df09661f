"""The live backend: a Slurm cluster seen and moved through the adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook, Sighting
from gsched.daemon.site_factor import SiteFactorScale
from gsched.engine.ports import Clock
from gsched.model.cluster import ClusterState, Delta, NodeView, PartitionView, ReservationView
from gsched.model.decision import Decision, Reason
from gsched.model.job import Capability, JobKey, JobState, JobView
from gsched.model.jobtable import JobTable
from gsched.model.journal import Change, Outcome, Readback, Standing
from gsched.slurm.client import SlurmClient
from gsched.slurm.exclusions import Rules, exclusions
from gsched.slurm.from_queue import to_view
from gsched.slurm.records import FreeText, PriorityRow, QueueRow

CHANNEL = "site-factor"

DESCRIPTION_LIFE_S = 60
"""Nodes, partitions and reservations are read again after so many seconds."""

_Description = tuple[
    tuple[NodeView, ...], tuple[PartitionView, ...], tuple[ReservationView, ...], frozenset[int]
]

# Exclusions that end gsched's say over a job for good: what it wrote is taken back.
_TAKE_BACK = frozenset({"opted-out", "excluded-user", "excluded-account", "out-of-scope"})

EpochLookup = Callable[[Sequence[QueueRow]], Sequence[int]]
"""First submit time of the logical job behind each row (the history knows requeued ones)."""


class SlurmBackend:
    """Implements ``gsched.engine.ports.Backend`` on Slurm's SiteFactor.

    Answers to requests (ADMIT) need nothing of Slurm: the daemon publishes them.
    """

    capabilities = frozenset({Capability.REORDER, Capability.ADMIT})

    def __init__(
        self,
        client: SlurmClient,
        cluster: str,
        scale: SiteFactorScale,
        settings: DaemonSettings,
        epochs: EpochLookup,
        clock: Clock,
        requests: RequestBook,
    ) -> None:
        self.cluster = cluster
        self._client = client
        self.scale = scale
        self._settings = settings
        self._rules = Rules(
            partitions=frozenset(settings.partitions),
            users=frozenset(settings.exclude_users),
            accounts=frozenset(settings.exclude_accounts),
        )
        self._epochs = epochs
        self._clock = clock
        self.requests = requests
        self._seq = 0
        self._texts: dict[tuple[int, int], FreeText] = {}
        self._texts_from = 0
        self._description: _Description = ((), (), (), frozenset())
        self._description_from = 0
        self._priorities: Mapping[JobKey, PriorityRow] = {}
        self._standing: Mapping[tuple[JobKey, str], Standing] = {}
        self._last: dict[JobKey, JobState] = {}

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """Read Slurm's queue and priorities; what changes seldom only now and then."""
        as_of = self._clock()
        look = Look.at(self._client)
        rows, by_id = look.rows, look.priorities
        texts = self._free_texts(look, as_of)
        nodes, partitions, reservations, cron = self._describe(as_of)
        keys = self.keys(rows)
        self._standing = standing
        self._priorities = {
            k: by_id[r.raw_id] for k, r in zip(keys, rows, strict=True) if r.raw_id in by_id
        }
        # a job that ended between two calls has no text any more
        seen = [(k, r) for k, r in zip(keys, rows, strict=True) if r.raw_id in texts]
        self.requests.look([Sighting(k, r.user, texts[r.raw_id].comment) for k, r in seen], as_of)
        views = [self._view(k, r, texts[r.raw_id].name, r.raw_id in cron) for k, r in seen]
        self._seq += 1
        return ClusterState(
            cluster=self.cluster,
            as_of=as_of,
            seq=self._seq,
            nodes=nodes,
            partitions=partitions,
            reservations=reservations,
            jobs=JobTable.from_views(views),
            changed=self._delta(views),
            requests=tuple(v.key for v in views if _awaits_answer(v)),
        )

    def keys(self, rows: Sequence[QueueRow]) -> list[JobKey]:
        """The logical job behind each row."""
        return [
            JobKey(self.cluster, r.job_id, r.array_task, r.het_offset, epoch)
            for r, epoch in zip(rows, self._epochs(rows), strict=True)
        ]

    def _view(self, key: JobKey, row: QueueRow, name: str, is_cron: bool) -> JobView:
        priority = self._priorities.get(key)
        wants = self.requests.wants(key)
        found = exclusions(
            row,
            priority,
            self._rules,
            opted_out=wants.opt_out,
            is_cron=is_cron,
            is_foreign=priority is not None and self._is_foreign(key, priority.site_factor),
        )
        return to_view(row, name, key, wants, found)

    def _is_foreign(self, key: JobKey, value: int) -> bool:
        """Whether another hand has set this SiteFactor: then it is not ours to change."""
        ours = self._standing.get((key, CHANNEL))
        if ours is None:
            return value != 0
        return value not in {ours.written, ours.found, *ours.may_be}

    def _describe(self, at: int) -> _Description:
        if at - self._description_from >= DESCRIPTION_LIFE_S:
            client = self._client
            self._description = (
                client.nodes(),
                client.partitions(),
                client.reservations(),
                client.cron_job_ids(),
            )
            self._description_from = at
        return self._description

    def _free_texts(self, look: Look, at: int) -> dict[int, FreeText]:
        """Names and comments: of a new job at once, of all now and then (a later request)."""
        if at - self._texts_from >= self._settings.comment_interval_s:
            self._texts, self._texts_from = {}, at
        attempts = {(r.raw_id, r.submit_time) for r in look.rows}
        new = [
            i for i, when in attempts if (i, when) not in self._texts and i not in look.task_texts
        ]
        read = dict(self._client.free_text(new)) if new else {}
        read |= look.task_texts
        self._texts = {
            (raw_id, when): text
            for raw_id, when in attempts
            if (text := read.get(raw_id) or self._texts.get((raw_id, when)))
        }
        return {raw_id: text for (raw_id, _), text in self._texts.items()}

    def _delta(self, views: Sequence[JobView]) -> Delta:
        before, self._last = self._last, {v.key: v.state for v in views}
        return Delta.between(before, self._last)

    def plan(self, decision: Decision, state: ClusterState, round_id: str) -> list[Change]:
        """SiteFactors that differ from the decided ones, the widest differences first."""
        changes = self._to_take_back(state, round_id)
        for key, rank in decision.order.items():
            priority = self._priorities.get(key)
            if priority is None:  # not listed by sprio yet: its value cannot be read, so not moved
                continue
            before = priority.site_factor
            floor = 1 - (priority.total - before)  # Slurm cuts priorities off at 1
            after = max(self.scale.value(rank.level), min(0, floor))
            if self.scale.worth_writing(before, after):
                attempt = state.jobs.view(key).attempt
                reason = decision.reasons[key]
                changes.append(site_factor_change(round_id, key, attempt, before, after, reason))
        changes.sort(key=lambda c: (-abs(c.after - (c.before or 0)), c.change_id))
        return changes[: self._settings.write_budget]

    def _to_take_back(self, state: ClusterState, round_id: str) -> list[Change]:
        back = []
        for (key, channel), ours in self._standing.items():
            if channel != CHANNEL or key not in state.jobs:
                continue
            view, shown = state.jobs.view(key), self._priorities.get(key)
            codes = {e.code for e in view.exclusions if e.capability is Capability.REORDER}
            if not codes & _TAKE_BACK or codes & {"foreign-site-factor", "manual-priority"}:
                continue
            if shown is not None and shown.site_factor != ours.found:
                because = Reason("clear", {"because": min(codes & _TAKE_BACK)})
                back.append(
                    site_factor_change(
                        round_id,
                        key,
                        view.attempt,
                        shown.site_factor,
                        ours.found,
                        because,
                        takes_back=True,
                    )
                )
        return back

    def apply(self, changes: Sequence[Change]) -> list[Outcome]:
        """Feed one scontrol with all of them."""
        answers = self._client.set_site_factors([(c.key.slurm_id, c.after) for c in changes])
        return [
            Outcome(c.change_id, not a.error, a.error)
            for c, a in zip(changes, answers, strict=True)
        ]

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        """Look at sprio again; squeue tells a job that left from one that sprio does not list.

        A job that was requeued meanwhile, or another one that has its id by now, is not the one
        that was changed.
        """
        if not changes:
            return []
        look = Look.at(self._client)
        rows = {r.slurm_id: r for r in look.rows}
        seen = []
        for c in changes:
            row = rows.get(c.key.slurm_id)
            if row is None or row.state is not JobState.PENDING or row.submit_time != c.attempt:
                seen.append(Readback(c.change_id, None, False))
                continue
            listed = look.priorities.get(row.raw_id)
            # sprio shows 0 for a job whose priority an admin has set, whatever its SiteFactor is
            value = listed.site_factor if listed and not listed.is_manual else None
            seen.append(Readback(c.change_id, value, True))
        return seen


def _awaits_answer(view: JobView) -> bool:
    return view.wants.deadline is not None or bool(view.wants.soft_deadlines)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the queue: its jobs, sprio's lines by raw id, and the texts of split tasks.

    squeue shows a task that Slurm has split off its array (requeued, edited) within the array's
    row as long as it waits; sprio lists it.
    """

    rows: Sequence[QueueRow]
    priorities: Mapping[int, PriorityRow]
    task_texts: Mapping[int, FreeText]

    @classmethod
    def at(cls, client: SlurmClient) -> Look:
        """What `client` shows now."""
        rows, priorities = client.queue().rows, client.priorities()
        hidden = sorted(priorities.keys() - {row.raw_id for row in rows})
        if not hidden:
            return cls(rows, priorities, {})
        tasks = client.split_tasks(hidden)
        return cls((*rows, *tasks.rows), priorities, tasks.texts)


def site_factor_change(
    round_id: str,
    key: JobKey,
    attempt: int,
    before: int | None,
    after: int,
    reason: Reason,
    *,
    takes_back: bool = False,
) -> Change:
    """A SiteFactor change with its idempotency key."""
    change_id = f"{round_id}/{key.slurm_id}/{CHANNEL}"
    return Change(change_id, key, attempt, CHANNEL, before, after, reason, takes_back)
