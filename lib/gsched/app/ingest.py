"""Bring the history up to date from what a cluster has: squeue, and slurmdbd or jobcomp's file.

Accounting tells what has ended; squeue tells what jobcomp's file does not say (GPUs) and what
waits and runs; slurmdbd also knows when which nodes were down. Reading twice changes nothing, so
every read overlaps the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from gsched.app import jobcomp_twice
from gsched.config.settings import Settings
from gsched.errors import ConfigError, GschedError
from gsched.model.history import Batch
from gsched.model.times import DAY_S
from gsched.slurm.accounting import EVERY_JOB, OVERLAP_S
from gsched.slurm.client import SlurmClient
from gsched.slurm.from_queue import to_attempt
from gsched.slurm.jobcomp import read_filetxt
from gsched.slurm.records import SacctForm, SlurmConfig
from gsched_sql import History, IngestSummary

Source = Literal["auto", "sacct", "sacct-json", "jobcomp", "queue", "node-events"]

Progress = Callable[[int, int], None]
"""Told after each chunk of slurmdbd up to when (epoch) all is kept, and the rows so far."""


@dataclass(frozen=True, slots=True)
class NodeEventCounts:
    """How many events of nodes were told; of these, how many are new or tell more than before."""

    told: int
    new: int
    updated: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one ingest of a cluster did, source by source in the order of reading.

    `node_events` is None where none were asked for. Rows of theirs that were not understood are
    among the rejects of the source ``sacctmgr``.
    """

    cluster: str
    sources: tuple[tuple[str, IngestSummary], ...]
    node_events: NodeEventCounts | None = None

    @property
    def total(self) -> IngestSummary:
        """The sum over the sources."""
        return sum((summary for _, summary in self.sources), IngestSummary())


def ingest(
    settings: Settings,
    client: SlurmClient,
    history: History,
    *,
    source: Source = "auto",
    since: int | None = None,
    jobcomp_file: Path | None = None,
    events_interval_s: int = 0,
    queue: bool = True,
    config: SlurmConfig | None = None,
    clock: Callable[[], int] = lambda: int(time.time()),
    on_progress: Progress = lambda _until, _rows: None,
) -> IngestReport:
    """Read what is new; with `since` (epoch) also again what was read before, from then on.

    ``auto`` reads squeue and, where the cluster has it, slurmdbd (jobs and events of nodes) or else
    jobcomp's file. Events of nodes are left for later when they were read less than
    `events_interval_s` ago. The daemon's rounds list the queue themselves: without `queue`,
    ``auto`` leaves it out. `config` is the cluster's, where the caller has just asked for it.

    A source that cannot be read does not keep the others from it; the first error is raised at
    the end. Raises ConfigError when `source` is something that the cluster does not have.
    """
    config = config or client.config()
    run = _Run(settings, client, history, config.cluster, since, clock, on_progress)
    named = jobcomp_file or (
        Path(settings.slurm.jobcomp_file) if settings.slurm.jobcomp_file else None
    )
    failure: GschedError | None = None
    for read in _readers(run, config, source, named, events_interval_s, queue):
        try:
            read()
        except GschedError as e:
            failure = failure or e
    if failure is not None:
        raise failure
    return IngestReport(config.cluster, tuple(run.done), run.events)


def _readers(
    run: _Run,
    config: SlurmConfig,
    source: Source,
    jobcomp_file: Path | None,
    events_interval_s: int,
    queue: bool,
) -> list[Callable[[], None]]:
    """What is to be read, in this order. Raises ConfigError."""
    accounting = _accounting(config, source, jobcomp_file)
    readers: list[Callable[[], None]] = []
    if accounting in ("sacct", "sacct-json"):
        readers.append(lambda: run.sacct(as_json=accounting == "sacct-json"))
    elif accounting == "jobcomp":
        path = jobcomp_file or Path(config.get("JobCompLoc"))
        readers.append(lambda: run.jobcomp(path))
    if source == "node-events" or (source == "auto" and config.has_slurmdbd):
        readers.append(lambda: run.node_events(events_interval_s))
    if source == "queue" or (source == "auto" and queue):
        # Last, so that it still lists (for MinJobAge) what the accounting has just told of.
        readers.append(run.queue)
    return readers


def _accounting(config: SlurmConfig, source: Source, jobcomp_file: Path | None) -> str | None:
    """Which of the kinds of accounting to read, None for none. Raises ConfigError."""
    has_jobcomp = config.has_jobcomp_file or jobcomp_file is not None
    if source in ("sacct", "sacct-json", "node-events") and not config.has_slurmdbd:
        raise ConfigError(
            f"cluster {config.cluster} has no slurmdbd, so that sacct knows nothing",
            "use --source jobcomp or --source queue",
        )
    if source == "jobcomp" and not has_jobcomp:
        raise ConfigError(
            f"cluster {config.cluster} writes no jobcomp/filetxt file (JobCompType is "
            f"{config.get('JobCompType') or 'not set'})",
            "name a file with --jobcomp, or use --source sacct or --source queue",
        )
    if source in ("sacct", "sacct-json", "jobcomp"):
        return source
    if source != "auto":
        return None
    if config.has_slurmdbd:
        return "sacct"
    return "jobcomp" if has_jobcomp else None


@dataclass
class _Run:
    """The readers of one ingest, and what they have done."""

    settings: Settings
    client: SlurmClient
    history: History
    cluster: str
    since: int | None
    clock: Callable[[], int]
    on_progress: Progress
    done: list[tuple[str, IngestSummary]] = field(default_factory=list)
    events: NodeEventCounts | None = None

    def queue(self) -> None:
        """Sightings of every job that slurmctld still knows."""
        listing = self.client.queue("all")
        rows = [row for row in listing.rows if not row.is_unsplit_array]
        new = self.history.unnamed(self.cluster, rows)
        texts = self.client.free_text([row.raw_id for row in new]) if new else {}
        sightings = [(row, to_attempt(row, texts.get(row.raw_id), self.cluster)) for row in rows]
        records = tuple(
            replace(record, restarts=row.restarts) for row, record in sightings if record
        )
        batch = Batch(
            records=records,
            rejects=listing.rejects,
            rows_in=len(listing.rows) + len(listing.rejects),
            rows_skipped=len(listing.rows) - len(records),
        )
        self.done.append(("squeue", self.history.ingest(batch, source_key=None)))

    def jobcomp(self, path: Path) -> None:
        """What jobcomp's file has behind the last read; all of it with `since`."""
        source_key = f"jobcomp:{self.cluster}:{path.resolve()}"
        cursor = "" if self.since is not None else self.history.cursor(source_key)
        total = IngestSummary()
        while True:
            batch = read_filetxt(path, self.cluster, cursor)
            stored = self.history.told_of(self.cluster, jobcomp_twice.keys_of(batch))
            batch = jobcomp_twice.without_contradictions(batch, stored)
            total += self.history.ingest(batch, source_key=source_key)
            cursor = batch.cursor
            if batch.rows_in == 0:
                self.done.append(("jobcomp", total))
                return

    def sacct(self, *, as_json: bool) -> None:
        """What slurmdbd has of the time since the last read; each chunk is kept at once."""
        source_key = f"sacct:{self.cluster}"
        now = self.clock()
        begin = self._begin(self.history.cursor(source_key), now)
        form = SacctForm(as_json, self.settings.database.keep_steps)
        total = IngestSummary()
        for batch in self.client.accounting_chunks(begin, now, EVERY_JOB, form):
            total += self.history.ingest(batch, source_key=source_key)
            self.on_progress(int(batch.cursor), total.rows_in)
        self.done.append(("sacct-json" if as_json else "sacct", total))

    def node_events(self, interval_s: int) -> None:
        """What slurmdbd knows of nodes that were down or drained since the last read."""
        source_key = f"node-events:{self.cluster}"
        now, cursor = self.clock(), self.history.cursor(source_key)
        if cursor and self.since is None and 0 <= now - int(cursor) < interval_s:
            return
        found = self.client.node_events(self._begin(cursor, now))
        if found.rejects:
            batch = Batch((), found.rejects, rows_in=len(found.rejects))
            self.done.append(("sacctmgr", self.history.ingest(batch, source_key=None)))
        new, updated = self.history.keep_node_events(
            found.events, source_key=source_key, cursor=str(now)
        )
        self.events = NodeEventCounts(len(found.events), new, updated)

    def _begin(self, cursor: str, now: int) -> int:
        if not cursor:
            first = now - self.settings.predict.history_days * DAY_S
            return first if self.since is None else self.since
        follow = int(cursor) - OVERLAP_S
        return follow if self.since is None else min(self.since, follow)
