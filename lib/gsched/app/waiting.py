"""What a waiting job waits for: what is free, who is ahead, who ends next, and the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.job import LiveJob
from gsched.app.queue import NO_DAEMON
from gsched.app.queue_filter import own_name
from gsched.explain.policy_reasons import policy_reason, prediction_source
from gsched.explain.words import count
from gsched.model.cluster import NodeView
from gsched.model.job import JobState
from gsched.slurm.records import QueueRow


@dataclass(frozen=True, slots=True)
class WhyLine:
    """One line of ``gsched why``: `what` it is about ("" in the first) and the answer in `words`.

    With `at`, an epoch time, that moment is the answer and `words` say how to take it.
    """

    what: str
    words: str
    at: int | None = None


def waiting_lines(live: LiveJob) -> list[WhyLine]:
    """The lines about a job that waits and can start."""
    row = live.row
    lines = [WhyLine("asks for", ask_words(row) + _free_words(live))]
    if row.priority > 0:  # a held job is behind nobody
        lines.append(WhyLine("ahead of it", _ahead_words(ahead_of(live))))
    lines += _next_to_end(live)
    if row.start_time:
        if row.reason == "BeginTime":
            lines.append(WhyLine("not before", "its earliest start", at=row.start_time))
        else:
            lines.append(WhyLine("Slurm expects", "reckons with time limits", at=row.start_time))
    return lines + order_lines(live)


def ask_words(row: QueueRow) -> str:
    """What a job asks for, in short."""
    nodes = count(row.min_nodes, "node")
    what = count(row.num_gpus, "GPU") if row.num_gpus else count(row.num_cpus, "CPU")
    return f"{what} on {nodes}"


def _free_words(live: LiveJob) -> str:
    """Free GPUs, for a job that asks for some."""
    row = live.row
    if not row.num_gpus:
        return ""
    free = sum(n.num_gpus - n.gpus_used for n in live.cluster.nodes if _could_serve(n, row))
    return f"; {count(free, 'GPU')} free in {','.join(row.partitions)} now"


def _could_serve(node: NodeView, row: QueueRow) -> bool:
    return node.is_usable and bool(set(node.partitions) & set(row.partitions))


@dataclass(frozen=True, slots=True)
class Ahead:
    """Waiting jobs that Slurm puts before one, and their predicted GPU-time.

    `num_own` are of its own user; `num_unpredicted` of the jobs have no prediction.
    """

    num_jobs: int
    num_own: int
    num_unpredicted: int
    gpu_time_s: float

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "num_jobs": self.num_jobs,
            "num_own": self.num_own,
            "num_unpredicted": self.num_unpredicted,
            "predicted_gpu_time_s": self.gpu_time_s,
        }


def _hides_jobs(live: LiveJob) -> bool:
    """Whether others' jobs are hidden from the caller, so that nothing can be said of them."""
    if "jobs" not in live.cluster.config.get("PrivateData").split(","):
        return False
    return {row.user for row in live.cluster.rows} <= {own_name()}


def ahead_of(live: LiveJob) -> Ahead | None:
    """Waiting jobs of its partitions with a higher priority; None where they are hidden.

    By Slurm's own priority: jobs that gsched leaves alone (arrays, others' values) count too.
    """
    if _hides_jobs(live):
        return None
    mine = (-live.row.priority, live.row.raw_id)
    ahead = [
        line
        for line in live.cluster.queue.jobs
        if line.is_pending
        and line.row.priority > 0  # not held
        and (-line.row.priority, line.raw_id) < mine
        and set(line.row.partitions) & set(live.row.partitions)
    ]
    known = [line for line in ahead if line.predicted_duration_s is not None]
    return Ahead(
        num_jobs=len(ahead),
        num_own=sum(1 for line in ahead if line.row.user == live.row.user),
        num_unpredicted=len(ahead) - len(known),
        gpu_time_s=sum(line.row.num_gpus * (line.predicted_duration_s or 0.0) for line in known),
    )


def _ahead_words(ahead: Ahead | None) -> str:
    if ahead is None:
        return "unknown: this cluster hides other users' jobs (PrivateData)"
    jobs, own = count(ahead.num_jobs, "job"), f"{ahead.num_own} of its user"
    if ahead.num_unpredicted == ahead.num_jobs:
        return f"{jobs} ({own}; without predictions)" if ahead.num_jobs else "no job"
    rest = f"; {ahead.num_unpredicted} without a prediction" if ahead.num_unpredicted else ""
    return f"{jobs}, {ahead.gpu_time_s / 3600:.2g} GPU-hours predicted ({own}{rest})"


def next_to_end(live: LiveJob) -> QueueRow | None:
    """The running job of its partitions whose time limit ends it first; None without one.

    Of a job that asks for GPUs, one that holds some. None where others' jobs are hidden.
    """
    if _hides_jobs(live):
        return None
    running = [
        row
        for row in live.cluster.rows
        if row.state is JobState.RUNNING
        and row.end_time is not None
        and set(row.partitions) & set(live.row.partitions)
        and (row.num_gpus > 0 or not live.row.num_gpus)
    ]
    return min(running, key=lambda row: row.end_time or 0, default=None)


def _next_to_end(live: LiveJob) -> list[WhyLine]:
    row = next_to_end(live)
    if row is None:
        return []
    held = count(row.num_gpus, "GPU") if row.num_gpus else count(row.num_cpus, "CPU")
    words = f"{row.slurm_id} on {row.node_list} then gives back {held} at the latest: its limit"
    return [WhyLine("next to end", words, at=row.end_time)]


def order_lines(live: LiveJob) -> list[WhyLine]:
    """Its place in the order: the daemon's, and Slurm's priority in parts."""
    line, answer, note = live.line, live.line.answer, live.cluster.queue.note
    lines: list[WhyLine] = []
    if not answer:
        lines.append(WhyLine("order", note or NO_DAEMON))
    elif answer.get("excluded"):
        detail = answer["excluded"].get("detail")
        lines.append(WhyLine("order", f"gsched leaves it alone: {detail}"))
    elif line.rank:
        reason = answer.get("reason") or {}
        text = policy_reason(reason.get("code", ""), reason.get("params", {}))
        lines.append(WhyLine("order", f"rank {line.rank['position']} of {line.rank['of']}: {text}"))
    if answer.get("duration_s"):
        lines.append(WhyLine("predicted", _predicted(answer["duration_s"])))
    if live.priority:
        foreign = (answer.get("excluded") or {}).get("code") == "foreign-site-factor"
        name = "SiteFactor (another hand's)" if foreign else "gsched"
        parts = {
            **live.priority.components,
            name: live.priority.site_factor,
            "nice": -live.priority.nice,
        }
        shown = ", ".join(f"{name} {value:+}" for name, value in parts.items() if value)
        lines.append(WhyLine("priority", f"{live.priority.total} = {shown or 'no factor counts'}"))
    if note and answer:
        lines.append(WhyLine("note", note))
    return lines


def _predicted(duration: dict[str, Any]) -> str:
    quantiles: Sequence[Any] = duration.get("quantiles") or []
    text = f"{float(duration['mean']):.0f} s"
    if len(quantiles) >= 2:
        (low_p, low), (high_p, high) = quantiles[0], quantiles[-1]
        text += f" ({100 * (high_p - low_p):.0f} %: {low:.0f}–{high:.0f} s)"
    source = prediction_source(str(duration.get("source")), int(duration.get("similar_jobs") or 0))
    return f"{text}, {source}"
