"""Bring the history up to date from what a cluster has: squeue, and slurmdbd or jobcomp's file.

Accounting tells what has ended; squeue tells what jobcomp's file does not say (GPUs) and what
waits and runs. Reading twice changes nothing, so every read overlaps the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gsched.config.settings import Settings
from gsched.errors import ConfigError, GschedError
from gsched.model.history import Batch
from gsched.slurm.accounting import OVERLAP_S
from gsched.slurm.client import SlurmClient
from gsched.slurm.from_queue import to_attempt
from gsched.slurm.jobcomp import read_filetxt
from gsched.slurm.records import SlurmConfig
from gsched_sql import History, IngestSummary

Source = Literal["auto", "sacct", "jobcomp", "queue"]

Progress = Callable[[int, int], None]
"""Told after each chunk of slurmdbd up to when (epoch) all is kept, and the rows so far."""

_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one ingest of a cluster did, source by source in the order of reading."""

    cluster: str
    sources: tuple[tuple[str, IngestSummary], ...]

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
    clock: Callable[[], int] = lambda: int(time.time()),
    on_progress: Progress = lambda _until, _rows: None,
) -> IngestReport:
    """Read what is new; with `since` (epoch) also again what was read before, from then on.

    ``auto`` reads squeue and, where the cluster has it, slurmdbd or else jobcomp's file. A source
    that cannot be read does not keep the others from it; the first error is raised at the end.
    Raises ConfigError when `source` is something that the cluster does not have.
    """
    config = client.config()
    run = _Run(settings, client, history, config.cluster, since, clock, on_progress)
    readers: list[tuple[str, Callable[[], IngestSummary]]] = []
    named = jobcomp_file or (
        Path(settings.slurm.jobcomp_file) if settings.slurm.jobcomp_file else None
    )
    accounting = _accounting(config, source, named)
    if accounting == "sacct":
        readers.append(("sacct", run.sacct))
    elif accounting == "jobcomp":
        path = named or Path(config.get("JobCompLoc"))
        readers.append(("jobcomp", lambda: run.jobcomp(path)))
    if source in ("auto", "queue"):
        # Last, so that it still lists (for MinJobAge) what the accounting has just told of.
        readers.append(("squeue", run.queue))
    done: list[tuple[str, IngestSummary]] = []
    failure: GschedError | None = None
    for name, read in readers:
        try:
            done.append((name, read()))
        except GschedError as e:
            failure = failure or e
    if failure is not None:
        raise failure
    return IngestReport(config.cluster, tuple(done))


def _accounting(config: SlurmConfig, source: Source, jobcomp_file: Path | None) -> str | None:
    """Which of the two kinds of accounting to read, None for neither."""
    has_sacct = config.has_slurmdbd
    has_jobcomp = config.has_jobcomp_file or jobcomp_file is not None
    if source == "sacct" and not has_sacct:
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
    if source in ("sacct", "jobcomp"):
        return source
    if source == "queue":
        return None
    if has_sacct:
        return "sacct"
    return "jobcomp" if has_jobcomp else None


@dataclass(frozen=True)
class _Run:
    """The readers of one ingest."""

    settings: Settings
    client: SlurmClient
    history: History
    cluster: str
    since: int | None
    clock: Callable[[], int]
    on_progress: Progress

    def queue(self) -> IngestSummary:
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
        return self.history.ingest(batch, source_key=None)

    def jobcomp(self, path: Path) -> IngestSummary:
        """What jobcomp's file has behind the last read; all of it with `since`."""
        source_key = f"jobcomp:{self.cluster}:{path.resolve()}"
        cursor = "" if self.since is not None else self.history.cursor(source_key)
        total = IngestSummary()
        while True:
            batch = read_filetxt(path, self.cluster, cursor)
            total += self.history.ingest(batch, source_key=source_key)
            cursor = batch.cursor
            if batch.rows_in == 0:
                return total

    def sacct(self) -> IngestSummary:
        """What slurmdbd has of the time since the last read; each chunk is kept at once."""
        source_key = f"sacct:{self.cluster}"
        now = self.clock()
        begin = self._sacct_begin(self.history.cursor(source_key), now)
        total = IngestSummary()
        for batch in self.client.accounting_chunks(begin, now):
            total += self.history.ingest(batch, source_key=source_key)
            self.on_progress(int(batch.cursor), total.rows_in)
        return total

    def _sacct_begin(self, cursor: str, now: int) -> int:
        if not cursor:
            first = now - self.settings.predict.history_days * _DAY_S
            return first if self.since is None else self.since
        follow = int(cursor) - OVERLAP_S
        return follow if self.since is None else min(self.since, follow)
