"""What ``gsched top`` shows, as plain values: header, columns that fit, lines, details. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gsched.app.queued_job import QueuedJob
from gsched.app.watch import Look
from gsched_cli.output import cut, duration, local_time, padded, safe_text
from gsched_cli.queue_columns import COLUMNS
from gsched_cli.tables import Column

_NAMED = {column.name: column for column in COLUMNS}
_WIDTHS = {
    "rank": 9, "jobid": 10, "partition": 9, "name": 12, "user": 8, "state": 9, "gpus": 4,
    "predicted": 10, "expected": 19, "deadline": 16, "target": 14, "progress": 8, "eta": 12,
    "time": 10, "why": 20,
}  # fmt: skip
"""Columns in the order in which they stand, and the least width of each."""
_FIRST_TO_GO = (
    "why", "partition", "expected", "predicted", "rank", "eta", "user", "progress", "deadline",
    "time", "target", "gpus", "name", "state",
)  # fmt: skip
_MAX_NAME = 28

SORTS: tuple[tuple[str, Callable[[QueuedJob], Any]], ...] = (
    ("queue", lambda _: 0),
    ("gpus", lambda job: -job.num_gpus),
    ("time", lambda job: -(job.waited_s if job.is_pending else job.running_s or 0)),
    ("user", lambda job: job.user),
    ("state", lambda job: job.row.state_text),
    ("job", lambda job: (job.row.job_id, job.row.array_task or 0)),
)
"""Orders to go through; the first is that of ``gsched queue``."""

HELP = """\
Up Down        one job back, on         q, Ctrl-C  quit
PgUp PgDn      one page                 p          pause, go on
Home End       first, last job          Enter      details of the job
/              only jobs with a text    u          own jobs only, all
s              next order               ?          this page

Esc closes a page, or takes the text of / back.

PREDICTED is the run time that gsched expects; RANK is the job's place
in the order of the daemon. EXPECTED_START is when gsched expects it to
start, with its 80 % interval. DEADLINE is the one that is aimed at,
TARGET whether it is met, with the probability. PROGRESS and ETA are a
training job's own word. TIME is how long a job waits, or runs.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user wants to see: jobs with `text`, of `owner` alone, in which order of SORTS."""

    text: str = ""
    owner: str | None = None
    sort: int = 0

    def of(self, jobs: Sequence[QueuedJob]) -> list[QueuedJob]:
        """The jobs that are wanted, in order."""
        text = self.text.lower()
        found = [
            job
            for job in jobs
            if (self.owner is None or job.user == self.owner)
            and (not text or any(text in part.lower() for part in _searched(job)))
        ]
        return sorted(found, key=SORTS[self.sort][1])


def _searched(job: QueuedJob) -> tuple[str, ...]:
    row = job.row
    return (job.slurm_id, job.name, row.user, row.tenant, job.partition, row.state_text, row.qos)


def columns_for(
    width: int,
    has_ranks: bool,
    has_forecasts: bool,
    has_progress: bool = False,
    has_deadlines: bool = False,
) -> list[tuple[Column[QueuedJob], int]]:
    """The columns that fit `width`, the less needed left out, and how wide each is.

    Without ranks there are no predictions either, and no columns for them; `has_forecasts`: some
    jobs have an expected start, `has_progress`: some tell how far they are, `has_deadlines`: some
    have asked for one.
    """
    absent = {"rank", "predicted"} if not has_ranks else set()
    absent |= {"expected"} if not has_forecasts else set()
    absent |= {"progress", "eta"} if not has_progress else set()
    absent |= {"deadline", "target"} if not has_deadlines else set()
    names = [name for name in _WIDTHS if name not in absent]
    for name in (name for name in _FIRST_TO_GO if name in names):
        if sum(_WIDTHS[n] + 1 for n in names) - 1 <= width:
            break
        names.remove(name)
    widths = {name: _WIDTHS[name] for name in names}
    spare = width - sum(widths.values()) - (len(names) - 1)
    if spare > 0 and "name" in widths:
        more = min(spare, _MAX_NAME - widths["name"]) if "why" in widths else spare
        widths["name"] += more
        spare -= more
    if spare > 0 and "why" in widths:
        widths["why"] += spare
    return [(_NAMED[name], widths[name]) for name in names]


def headings(columns: Sequence[tuple[Column[QueuedJob], int]]) -> str:
    """The line above the jobs."""
    return _line([column.heading for column, _ in columns], columns)


def job_line(job: QueuedJob, columns: Sequence[tuple[Column[QueuedJob], int]]) -> str:
    """One job on one line."""
    return _line([safe_text(column.cell(job)) for column, _ in columns], columns)


def _line(cells: Sequence[str], columns: Sequence[tuple[Column[QueuedJob], int]]) -> str:
    widths = [width for _, width in columns]
    shown = [cut(cell, width) for cell, width in zip(cells, widths, strict=True)]
    right = {index for index, (column, _) in enumerate(columns) if column.right}
    return " ".join(padded(shown, widths, right))


def header(look: Look | None, error: str, at: float, is_paused: bool) -> list[str]:
    """Two lines: the cluster, and how fresh and whose the order is."""
    if look is None:
        return ["", error or "asking Slurm …"]
    nodes, queue = look.nodes, look.queue
    counts = queue.counts()
    waiting, running = counts.pop("PENDING", 0), counts.pop("RUNNING", 0)
    others = f", {sum(counts.values())} other" if counts else ""
    down = f" ({nodes.down} down)" if nodes.down else ""
    first = (
        f"{safe_text(queue.cluster)}: {nodes.total} nodes{down}, "
        f"GPUs {nodes.gpus_used}/{nodes.gpus} used"
        + (f", {nodes.gpus_down} down" if nodes.gpus_down else "")
        + f"   {running} running, {waiting} pending{others}"
    )
    if error:
        return [first, f"no answer since {_clock(queue.at)}: {error}"]
    age = f"{_clock(queue.at)} ({max(0, round(at - queue.at))} s ago)"
    daemon = queue.note or f"order of {queue.policy}, {duration(queue.at - (queue.as_of or 0))} old"
    return [first, f"{'PAUSED at ' if is_paused else ''}{age}   {safe_text(daemon)}"]


def _clock(epoch: float) -> str:
    return datetime.fromtimestamp(epoch).astimezone().strftime("%H:%M:%S")


def status(choice: Choice, shown: int, total: int) -> str:
    """The last line: what is chosen, and the keys."""
    parts = [f"{shown} of {total}" if shown != total else f"{total} jobs"]
    if choice.sort:
        parts.append(f"by {SORTS[choice.sort][0]}")
    if choice.owner is not None:
        parts.append("own jobs")
    if choice.text:
        parts.append(f"with {safe_text(choice.text, 20)!r}")
    return ", ".join(parts) + "   q quit  / find  u own  s sort  p pause  Enter details  ? help"


def details(job: QueuedJob, note: str) -> list[str]:
    """Everything that the listing has of one job, a fact a line."""
    lines = [f"job {job.slurm_id}  {safe_text(job.name, 60)}", ""]
    for key, value in job.document().items():
        if value in (None, "", []) or key in ("job", "name", "rank"):
            continue
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        if key.endswith("_time"):
            shown = local_time(value)
        elif key.endswith("_per_s"):
            shown = f"{value:,.0f} a second"
        elif key.endswith("_s"):
            shown = f"{value:.3g} s" if 0 < value < 1 else duration(value)
        lines.append(f"{key.removesuffix('_s').replace('_', ' '):<20} {safe_text(shown)}")
    lines.append(f"{'rank':<20} {job.rank_text}")
    return [*lines, "", safe_text(note)] if note else lines
