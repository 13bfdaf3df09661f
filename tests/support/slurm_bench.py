"""A Slurm of a few jobs with state, and the live backend over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.slurm_backend import CHANNEL, SlurmBackend
from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.journal import Standing
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow, UpdateOutcome
from support.queue import row as queue_row
from support.requests import MemoryRequests

BASE = 1_000_000
SCALE = SiteFactorScale(max_shift=1000, quantum=10, dead_band=20)


class StatefulClient:
    """A Slurm of a few jobs: rows, texts and SiteFactors can be changed by the test."""

    def __init__(self, rows: Sequence[QueueRow]) -> None:
        self.rows = {r.raw_id: r for r in rows}
        self.texts = {r.raw_id: FreeText(f"job-{r.raw_id}", "") for r in rows}
        self.factors = dict.fromkeys(self.rows, 0)
        self.hidden: set[int] = set()  # sprio does not list these
        self.manual: set[int] = set()  # an admin has set their priority
        self.cron: frozenset[int] = frozenset()
        self.base = BASE
        self.calls: list[str] = []

    def queue(self, states: str = "live") -> QueueListing:
        return QueueListing(tuple(self.rows.values()), ())

    def split_tasks(self, raw_ids: Sequence[int]) -> QueueListing:
        return QueueListing((), ())

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        self.calls.append(f"text {sorted(raw_ids)}")
        return {i: self.texts[i] for i in raw_ids if i in self.rows}

    def priorities(self) -> Mapping[int, PriorityRow]:
        return {
            i: PriorityRow(i, self.base + f, f, 0, {"partition": self.base}, i in self.manual)
            for i, f in self.factors.items()
            if i in self.rows and i not in self.hidden
        }

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        for slurm_id, value in values:
            self.factors[int(slurm_id.partition("+")[0])] = value
        return tuple(UpdateOutcome(slurm_id, "") for slurm_id, _ in values)

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
        self.settings = DaemonSettings(**settings)
        self.backend = SlurmBackend(
            self.client,  # type: ignore[arg-type]
            "c",
            SCALE,
            self.settings,
            lambda rows: [r.submit_time for r in rows],
            lambda: self.now,
            RequestBook(MemoryRequests()),
        )
        self.standing: dict[tuple[JobKey, str], Standing] = {}

    def key(self, job_id: int) -> JobKey:
        return JobKey("c", job_id, epoch=self.client.rows[job_id].submit_time)

    def stands(self, job_id: int, found: int, written: int, *may_be: int) -> None:
        key = self.key(job_id)
        attempt = self.client.rows[job_id].submit_time
        self.standing[key, CHANNEL] = Standing(key, attempt, CHANNEL, found, written, may_be)

    def plan(self, **levels: float) -> dict[int, tuple[int | None, int, bool]]:
        """Plan the levels ``j7=0.5``; returns job id → (before, after, takes_back), in order."""
        state = self.backend.snapshot(self.standing)
        ranks = {self.key(int(n[1:])): Rank("gpu", 1, 9, 1.0, v) for n, v in levels.items()}
        decision = Decision(ranks, (), {k: Reason("x") for k in ranks}, {})
        changes = self.backend.plan(decision, state, "r1")
        return {c.key.job_id: (c.before, c.after, c.takes_back) for c in changes}

    def excluded(self, job_id: int) -> str | None:
        state = self.backend.snapshot(self.standing)
        found = state.jobs.view(self.key(job_id)).exclusions
        return found[0].code if found else None
