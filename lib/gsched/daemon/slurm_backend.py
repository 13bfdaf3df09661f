"""The live backend: a Slurm cluster seen and moved through the adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gsched.config.settings import DaemonSettings
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
from gsched.slurm.wire import read as read_token

CHANNEL = "site-factor"

TEXT_LIFE_S = 300
"""Free text is read again after so many seconds: a user may opt out of gsched later."""

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
    """Implements ``gsched.engine.ports.Backend`` on Slurm's SiteFactor."""

    capabilities = frozenset({Capability.REORDER})

    def __init__(
        self,
        client: SlurmClient,
        cluster: str,
        scale: SiteFactorScale,
        settings: DaemonSettings,
        epochs: EpochLookup,
        clock: Clock,
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
        rows = self._client.queue().rows
        by_id = self._client.priorities()
        texts = self._free_texts(rows, as_of)
        nodes, partitions, reservations, cron = self._describe(as_of)
        keys = self.keys(rows)
        self._standing = standing
        self._priorities = {
            k: by_id[r.raw_id] for k, r in zip(keys, rows, strict=True) if r.raw_id in by_id
        }
        views = [
            self._view(k, r, texts[r.raw_id], r.raw_id in cron)
            for k, r in zip(keys, rows, strict=True)
            if r.raw_id in texts  # a job that ended between two calls has no text any more
        ]
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
        )

    def keys(self, rows: Sequence[QueueRow]) -> list[JobKey]:
        """The logical job behind each row."""
        return [
            JobKey(self.cluster, r.job_id, r.array_task, r.het_offset, epoch)
            for r, epoch in zip(rows, self._epochs(rows), strict=True)
        ]

    def _view(self, key: JobKey, row: QueueRow, text: FreeText, is_cron: bool) -> JobView:
        priority = self._priorities.get(key)
        found = exclusions(
            row,
            priority,
            self._rules,
            opted_out=read_token(text.comment).opt_out,
            is_cron=is_cron,
            is_foreign=priority is not None and self._is_foreign(key, priority.site_factor),
        )
        return to_view(row, text, key, found)

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

    def _free_texts(self, rows: Sequence[QueueRow], at: int) -> dict[int, FreeText]:
        if at - self._texts_from >= TEXT_LIFE_S:
            self._texts, self._texts_from = {}, at
        new = [r.raw_id for r in rows if (r.raw_id, r.submit_time) not in self._texts]
        read = self._client.free_text(new) if new else {}
        known = {
            (r.raw_id, r.submit_time): text
            for r in rows
            if (text := read.get(r.raw_id) or self._texts.get((r.raw_id, r.submit_time)))
        }
        self._texts = known
        return {raw_id: text for (raw_id, _), text in known.items()}

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
        shown = self._client.priorities()
        rows = {r.slurm_id: r for r in self._client.queue().rows}
        seen = []
        for c in changes:
            row = rows.get(c.key.slurm_id)
            if row is None or row.state is not JobState.PENDING or row.submit_time != c.attempt:
                seen.append(Readback(c.change_id, None, False))
                continue
            listed = shown.get(row.raw_id)
            # sprio shows 0 for a job whose priority an admin has set, whatever its SiteFactor is
            value = listed.site_factor if listed and not listed.is_manual else None
            seen.append(Readback(c.change_id, value, True))
        return seen


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
