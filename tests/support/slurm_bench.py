"""A Slurm of a few jobs with state, and the live backend over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gsched.config.settings import DaemonSettings
from gsched.daemon.job_book import CHANNEL
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.ports import Plan
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.journal import Standing
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow, UpdateOutcome
from support.queue import row as queue_row
from support.requests import MemoryRequests

BASE = 1_000_000
SCALE = SiteFactorScale(max_shift=1000, quantum=10, dead_band=20)


EXCLUDED: dict[str, dict[str, Any]] = {
    "opted-out": {},
    "excluded-user": {"user": "carol"},
    "excluded-account": {"tenant": "lab9"},
    "out-of-scope": {"partitions": ("gpu", "secret")},
    "cron": {},
    "interactive": {"is_batch": False},
    "het-component": {"het_offset": 0},
    "reservation": {"reservation": "course"},
    "unsplit-array": {"is_unsplit_array": True, "array_tasks": "1-3"},
    "held": {"priority": 0},
    "manual-priority": {},
    "foreign-site-factor": {},
}
"""Every code of the list of exclusions → a job that it is about; but no-requeue and no-checkpoint,
which bar no reordering. See ``Bench.exclude``."""


class StatefulClient:
    """A Slurm of a few jobs: rows, texts and SiteFactors can be changed by the test."""

    def __init__(self, rows: Sequence[QueueRow]) -> None:
        self.rows = {r.raw_id: r for r in rows}
        self.texts = {r.raw_id: FreeText(f"job-{r.raw_id}", "") for r in rows}
        self.factors = dict.fromkeys(self.rows, 0)
        self.tasks: dict[int, QueueRow] = {}  # array tasks that squeue hides
        self.points: dict[int, dict[str, int]] = {}  # told of a job, but in no sum
        self.others: dict[int, int] = {}  # in the sum of a job, besides its partition's
        self.refusals: dict[int, str] = {}
        self.writes: list[tuple[int, int]] = []
        self.hidden: set[int] = set()  # sprio does not list these
        self.manual: set[int] = set()  # an admin has set their priority
        self.cron: frozenset[int] = frozenset()
        self.base = BASE
        self.calls: list[str] = []

    def queue(self, states: str = "live", *, with_texts: bool = False) -> QueueListing:
        self.calls.append(f"queue {states}{' with texts' if with_texts else ''}")
        return QueueListing(tuple(self.rows.values()), (), dict(self.texts))

    def split_tasks(self, raw_ids: Sequence[int]) -> QueueListing:
        self.calls.append(f"split {sorted(raw_ids)}")
        rows = tuple(self.tasks[i] for i in raw_ids if i in self.tasks)
        return QueueListing(rows, (), {r.raw_id: self.texts[r.raw_id] for r in rows})

    def priorities(self, raw_ids: Sequence[int] = ()) -> Mapping[int, PriorityRow]:
        self.calls.append(f"sprio {sorted(raw_ids)}" if raw_ids else "sprio")
        points = {"partition": self.base}
        return {
            i: PriorityRow(
                i,
                max(1, self.base + self.others.get(i, 0) + f),
                f,
                0,
                points | self.points.get(i, {}),
                i in self.manual,
            )
            for i, f in self.factors.items()
            if (i in self.rows or i in self.tasks) and i not in self.hidden
            if not raw_ids or i in raw_ids
        }

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        self.calls.append(f"write {len(values)}")
        outcomes = []
        for slurm_id, value in values:
            raw_id = self.raw_id(slurm_id)
            error = "Invalid job id specified" if raw_id is None else self.refusals.get(raw_id, "")
            if raw_id is not None and not error:
                self.factors[raw_id] = value
                self.writes.append((raw_id, value))
            outcomes.append(UpdateOutcome(slurm_id, error))
        return tuple(outcomes)

    def raw_id(self, slurm_id: str) -> int | None:
        known = (*self.rows.values(), *self.tasks.values())
        return next((r.raw_id for r in known if r.slurm_id == slurm_id), None)

    def nodes(self) -> tuple[()]:
        self.calls.append("describe")
        return ()

    def partitions(self) -> tuple[()]:
        return ()

    def reservations(self) -> tuple[()]:
        return ()

    def cron_job_ids(self) -> frozenset[int]:
        return self.cron


class Bench:
    """A backend over a StatefulClient with a clock that the test moves."""

    def __init__(self, *ids: int, **settings: Any) -> None:
        self.client = StatefulClient([queue_row(i) for i in ids])
        self.now = 10_000
        self.seconds = 500.0
        self.first_submits: dict[int, int] = {}  # of restarted jobs, by raw id
        self.epoch_lookups: list[list[int]] = []
        self.settings = DaemonSettings(**settings)
        self.backend = SlurmBackend(
            self.client,  # type: ignore[arg-type]
            "c",
            SCALE,
            self.settings,
            self._epochs,
            lambda: self.now,
            RequestBook(MemoryRequests()),
            monotonic=lambda: self.seconds,
        )
        self.standing: dict[tuple[JobKey, str], Standing] = {}

    def _epochs(self, rows: Sequence[QueueRow]) -> list[int]:
        self.epoch_lookups.append([r.raw_id for r in rows])
        return [self.first_submits.get(r.raw_id, r.submit_time) for r in rows]

    def key(self, job_id: int) -> JobKey:
        return JobKey("c", job_id, epoch=self.client.rows[job_id].submit_time)

    def stands(self, job_id: int, found: int, written: int, *may_be: int) -> None:
        key = self.key(job_id)
        attempt = self.client.rows[job_id].submit_time
        self.standing[key, CHANNEL] = Standing(key, attempt, CHANNEL, found, written, may_be)

    def snapshot(self) -> ClusterState:
        self.backend.look()
        return self.backend.snapshot(self.standing)

    def exclude(self, job_id: int, code: str) -> None:
        """Make the job one that is left alone for this reason."""
        client = self.client
        client.rows[job_id] = replace(client.rows[job_id], **EXCLUDED[code])
        if code == "opted-out":
            client.texts[job_id] = FreeText("x", "gs1{none}")
        elif code == "cron":
            client.cron = frozenset({job_id})
            self.seconds += 60  # so seldom it is asked for
        elif code == "manual-priority":
            client.manual = {job_id}
        elif code == "foreign-site-factor":
            client.factors[job_id] = 77

    def decide(self, unranked: Mapping[int, Reason] | None = None, /, **levels: float) -> Plan:
        """Look, and plan the levels ``j7=0.5``; `unranked` have a reason only."""
        state = self.snapshot()
        ranks = {self.key(int(n[1:])): Rank("gpu", 1, 9, 1.0, v) for n, v in levels.items()}
        reasons = {k: Reason("x") for k in ranks}
        reasons |= {self.key(job): reason for job, reason in (unranked or {}).items()}
        decision = Decision(ranks, (), reasons, {})
        return self.backend.plan(decision, state, "r1")

    def plan(self, **levels: float) -> dict[int, tuple[int | None, int, bool]]:
        """The same as job id → (before, after, takes_back), in order."""
        changes = self.decide(**levels).changes
        return {c.key.job_id: (c.before, c.after, c.takes_back) for c in changes}

    def excluded(self, job_id: int) -> str | None:
        state = self.snapshot()
        found = state.jobs.view(self.key(job_id)).exclusions
        return found[0].code if found else None
