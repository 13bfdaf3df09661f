"""What an import did, file by file, and sums that can be checked against the files themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import mul, sub
from typing import TYPE_CHECKING, Any

from gsched.errors import GschedError
from gsched.model.history import Reject
from gsched.model.trace import AttemptColumns, Constant, TraceChunk

if TYPE_CHECKING:
    from gsched_sql import IngestSummary

SHOWN_REJECTS = 20
"""So many rejected rows of a file are in its report; the database keeps them all."""


@dataclass(slots=True)
class Totals:
    """Sums over rows as the file has them, whatever the database made of them.

    `rows` = `attempts` + `rejected` + `skipped`; of the attempts, `attempts_new`,
    `attempts_updated` and `unchanged` (or `pruned`) say what they were for the database, and
    `earlier` were kept by an interrupted import of the same file. `steps` of the skipped rows were
    kept as job steps. `gpu_time_s` sums GPUs times run time over the `gpu_time_attempts` that tell
    both, `cpu_time_s` CPUs times run time.
    """

    rows: int = 0
    attempts: int = 0
    rejected: int = 0
    skipped: int = 0
    attempts_new: int = 0
    attempts_updated: int = 0
    unchanged: int = 0
    pruned: int = 0
    earlier: int = 0
    conflicts: int = 0
    steps: int = 0
    gpu_time_s: int = 0
    gpu_time_attempts: int = 0
    cpu_time_s: int = 0
    cpu_time_attempts: int = 0
    states: Counter[str] = field(default_factory=Counter)

    def read(self, chunk: TraceChunk) -> None:
        """Count a chunk as it came from the file."""
        attempts = chunk.attempts
        self.rows += chunk.rows_in
        self.attempts += attempts.count
        self.rejected += len(chunk.rejects)
        self.skipped += chunk.rows_skipped
        for state, number in _counted(attempts, "state").items():
            self.states[state.value] += number
        for kind in ("gpu", "cpu"):
            seconds, known = _device_time(attempts, f"num_{kind}s")
            self._add(f"{kind}_time_s", seconds)
            self._add(f"{kind}_time_attempts", known)

    def store(self, chunk: TraceChunk, summary: IngestSummary) -> None:
        """Count what became of a chunk in the database."""
        for name in (
            "attempts_new",
            "attempts_updated",
            "unchanged",
            "pruned",
            "conflicts",
            "steps",
        ):
            self._add(name, getattr(summary, name))
        unstorable = summary.rejected - len(chunk.rejects)
        self.rejected += unstorable
        self.attempts -= unstorable

    def add(self, other: Totals) -> None:
        """Add the sums of another file."""
        for name in _NUMBERS:
            self._add(name, getattr(other, name))
        self.states.update(other.states)

    def _add(self, name: str, number: int) -> None:
        setattr(self, name, getattr(self, name) + number)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        states = dict(sorted(self.states.items()))
        return {name: getattr(self, name) for name in _NUMBERS} | {"states": states}


_NUMBERS = tuple(name for name in Totals.__slots__ if name != "states")


@dataclass(slots=True)
class FileReport:
    """What became of one file.

    `same_as` names a file of this import with the same content, in whose place it was not read.
    `error` is why it could not be read (to its end, where `totals` has rows).
    """

    file: str
    totals: Totals = field(default_factory=Totals)
    clusters: set[str] = field(default_factory=set)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same_as: str | None = None
    error: GschedError | None = None

    def read(self, chunk: TraceChunk) -> None:
        """Count a chunk as it came from the file."""
        self.totals.read(chunk)
        self.clusters.update(_counted(chunk.attempts, "cluster"))
        self.rejects += chunk.rejects[: SHOWN_REJECTS - len(self.rejects)]
        self.notes += (note for note in chunk.notes if note not in self.notes)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "file": self.file,
            **self.totals.document(),
            "clusters": sorted(self.clusters),
            "rejects": [{"line": r.line, "reason": r.reason, "row": r.raw} for r in self.rejects],
            "notes": self.notes,
            "same_as": self.same_as,
            "error": self.error.message if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What one import did; `files` in the order of reading."""

    files: tuple[FileReport, ...]

    @property
    def total(self) -> Totals:
        """The sums over all files."""
        total = Totals()
        for report in self.files:
            total.add(report.totals)
        return total

    def document(self) -> dict[str, Any]:
        """As JSON."""
        files = [report.document() for report in self.files]
        return {"total": self.total.document(), "files": files}


def _counted(attempts: AttemptColumns, name: str) -> Counter[Any]:
    cells = attempts.columns.get(name, ())
    if isinstance(cells, Constant):
        return Counter({cells.value: attempts.count} if attempts.count else {})
    return Counter(cells)


def _device_time(attempts: AttemptColumns, device: str) -> tuple[int, int]:
    """Device-seconds of the attempts that tell devices and run time, and how many these are.

    As the history reckons: who ended without a start has run for 0 seconds.
    """
    if device not in attempts.columns:
        return 0, 0
    starts, ends, devices = map(attempts.column, ("start_time", "end_time", device))
    if None not in starts and None not in ends and None not in devices:
        seconds = list(map(sub, ends, starts))
        if all(run >= 0 for run in seconds):
            return sum(map(mul, seconds, devices)), attempts.count
    return _time_where_known(zip(starts, ends, devices, strict=True))


def _time_where_known(
    rows: Iterable[tuple[int | None, int | None, int | None]],
) -> tuple[int, int]:
    total = known = 0
    for start, end, devices in rows:
        if end is None:
            continue
        seconds = 0 if start is None else end - start
        if seconds < 0 or (devices is None and seconds):
            continue
        total += (devices or 0) * seconds
        known += 1
    return total, known
