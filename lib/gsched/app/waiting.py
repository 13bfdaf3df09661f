"""What a waiting job waits for: what is free, who is ahead, who ends next, and the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsched.app.asks import ask_words, free_words
from gsched.app.job import LiveJob
from gsched.app.queue_filter import own_name
from gsched.daemon.request_answers import OPEN, REFUSED
from gsched.explain.lease_words import REQUEUED, gave_way_words, lease_words, unsaved_words
from gsched.explain.policy_reasons import caution_words, policy_reason, prediction_words
from gsched.explain.requeued import requeue_delay
from gsched.explain.slurm_reasons import explain_reason, is_held, never_starts_there
from gsched.explain.target_words import (
    alternatives_words,
    deadline_outcome,
    deadlines_words,
    end_of_target_words,
    estimate_words,
    minute_after,
    plan_words,
    promise_words,
    refusal_words,
    risk_words,
    target_words,
)
from gsched.explain.words import count
from gsched.model.job import JobState, finite_limit_s
from gsched.model.targets import steps_of
from gsched.slurm import wire
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import QueueRow

if TYPE_CHECKING:
    from gsched.app.expected import Expected


@dataclass(frozen=True, slots=True)
class WhyLine:
    """One line of ``gsched why``: `what` it is about ("" in the first) and the answer in `words`.

    With `at`, an epoch time, that moment is the answer and `words` say how to take it.
    """

    what: str
    words: str
    at: int | None = None


def waiting_lines(live: LiveJob, demand: NodeDemand | None, expected: Expected) -> list[WhyLine]:
    """The lines about a job that waits and can start; `demand` is what each node must give."""
    row = live.row
    lines = [WhyLine("asks for", f"{ask_words(live)}; {free_words(live, demand)}")]
    if not is_held_job(row):  # a held job is behind nobody, and waits for nobody's end
        lines.append(WhyLine("ahead of it", _ahead_words(ahead_of(live))))
        lines += expected.next_free_lines() or _next_to_end(live)
    slurm_start = row.start_time or None
    if slurm_start and row.reason == "BeginTime":
        delay = requeue_delay(row, live.cluster.config.requeue_wait_s)
        words = delay.end_words(live.line.at) if delay else "its earliest start"
        lines.append(WhyLine("not before", words, at=slurm_start))
        slurm_start = None
    lines += expected.start_lines(slurm_start) + expected.help_lines()
    return lines + target_lines(live) + lease_lines(live) + order_lines(live)


def never_looked_at(row: QueueRow) -> bool:
    """Whether Slurm says itself that a waiting job is held, or cannot start as it is."""
    reason = explain_reason(row.reason)
    if len(row.partitions) == 1 and never_starts_there(reason):
        return True
    return is_held(reason) or reason.code == "DependencyNeverSatisfied"


def is_held_job(row: QueueRow) -> bool:
    """Whether nobody looks at a job until it is released."""
    return row.priority == 0 or is_held(explain_reason(row.reason))


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
    if not live.cluster.config.hides("jobs"):
        return False
    own = own_name()
    return own != "root" and {row.user for row in live.cluster.rows} <= {own}


def ahead_of(live: LiveJob) -> Ahead | None:
    """Waiting jobs of its partitions with a higher priority; None where they are hidden.

    By Slurm's own priority: jobs that gsched leaves alone (arrays, others' values) count too, held
    ones and those that Slurm itself says cannot start do not. None for a held job, which nobody
    looks at.
    """
    if is_held_job(live.row) or _hides_jobs(live):
        return None
    mine = (-live.row.priority, live.row.raw_id)
    ahead = [
        line
        for line in live.cluster.queue.jobs
        if line.is_pending
        and line.row.priority > 0  # not held
        and not never_looked_at(line.row)
        and (-line.row.priority, line.raw_id) < mine
        and set(line.row.partitions) & set(live.row.partitions)
    ]
    known = [line for line in ahead if line.mean_duration_s is not None]
    return Ahead(
        num_jobs=len(ahead),
        num_own=sum(1 for line in ahead if line.row.user == live.row.user),
        num_unpredicted=len(ahead) - len(known),
        gpu_time_s=sum(line.row.num_gpus * (line.mean_duration_s or 0.0) for line in known),
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
    """The running job on nodes of its partitions whose limit ends it first; None without one.

    For a job that asks for GPUs, one that holds some. None for a held job, and where others' jobs
    are hidden.
    """
    if is_held_job(live.row) or _hides_jobs(live):
        return None
    nodes = {n.name for n in live.cluster.nodes if set(n.partitions) & set(live.row.partitions)}
    running = [
        row
        for row in live.cluster.rows
        if row.state is JobState.RUNNING
        and row.end_time is not None
        and finite_limit_s(row.time_limit_s)
        is not None  # of others Slurm shows an end all the same
        and nodes & (row.hosts or frozenset())
        and (row.num_gpus > 0 or not live.row.num_gpus)
    ]
    return min(running, key=lambda row: row.end_time or 0, default=None)


def _next_to_end(live: LiveJob) -> list[WhyLine]:
    row = next_to_end(live)
    if row is None:
        return []
    held = count(row.num_gpus, "GPU") if live.row.num_gpus else count(row.num_cpus, "CPU")
    words = f"{row.slurm_id} on {row.node_list} then gives back {held} at the latest: its limit"
    return [WhyLine("next to end", words, at=row.end_time)]


def target_lines(live: LiveJob) -> list[WhyLine]:
    """How the promise of a deadline stands and how it is to be kept, or why there is none."""
    answer, at = live.line.answer, live.line.at
    target = answer.get("target")
    if target is None:
        found = deadline_outcome(answer.get("outcomes", ()))
        if found is None or found["outcome"] not in (OPEN, REFUSED):
            return []
        if found["outcome"] == OPEN:
            return [WhyLine("deadline", f"not answered yet: {found['reason']}")]
        return _refused_lines(found, live.row.num_gpus)
    lines = [WhyLine("deadline", deadlines_words(target, at))]
    lines.append(WhyLine("target", target_words(target, at)))
    if words := risk_words(target, at):
        lines.append(WhyLine("risk", words))
    lines.append(WhyLine("plan", plan_words(target, at)))
    if words := estimate_words(target):
        lines.append(WhyLine("estimate", words))
    if words := promise_words(target, at):
        lines.append(WhyLine("was promised", words))
    return lines


def met_lines(live: LiveJob) -> list[WhyLine]:
    """Whether a job that has ended has met the deadline that its own comment asks for."""
    row, steps = live.row, steps_of(wire.read(live.text.comment).wants)
    if steps is None or not row.state.is_terminal or row.end_time is None:
        return []
    words = end_of_target_words(steps.times, row.end_time, row.state_text, live.line.at)
    return [WhyLine("deadline", words)]


def _refused_lines(refused: Mapping[str, Any], num_gpus: int) -> list[WhyLine]:
    lines = [WhyLine("deadline", f"refused: {refusal_words(refused)}")]
    if "earliest" in refused:
        words = f"{minute_after(refused['earliest'])} could be promised when it was asked for"
        lines.append(WhyLine("earliest", words))
    instead = alternatives_words(refused, num_gpus)
    return lines + [WhyLine("would be taken", words) for words in instead]


def lease_lines(live: LiveJob) -> list[WhyLine]:
    """Until when nobody takes its GPUs, or for whom it has given them up."""
    lease = live.line.answer.get("lease")
    if not lease:
        return []
    if lease["state"] == REQUEUED:
        return [WhyLine("gave way", gave_way_words(lease), at=round(lease["since"]))]
    lines = []
    if "end_time" in lease:
        lines.append(WhyLine("lease until", lease_words(lease), at=round(lease["end_time"])))
    if words := unsaved_words(lease):
        lines.append(WhyLine("has kept", words, at=round(lease["unsaved"]["at"])))
    return lines


def order_lines(live: LiveJob) -> list[WhyLine]:
    """Its place in the order: the daemon's, and Slurm's priority in parts."""
    line, answer, note = live.line, live.line.answer, live.cluster.queue.note
    lines: list[WhyLine] = []
    if not answer:
        lines.append(WhyLine("order", live.cluster.queue.note_on(line)))
    elif answer.get("excluded"):
        detail = answer["excluded"].get("detail")
        lines.append(WhyLine("order", f"gsched leaves it alone: {detail}"))
    elif answer.get("reason"):
        text = policy_reason(answer["reason"]["code"], answer["reason"]["params"])
        place = f"rank {line.rank['position']} of {line.rank['of']}: " if line.rank else ""
        lines.append(WhyLine("order", place + text))
    if answer.get("duration_s"):
        lines.append(WhyLine("predicted", prediction_words(answer["duration_s"])))
        if words := caution_words(answer["duration_s"]):
            lines.append(WhyLine("caution", words))
    if live.priority:
        foreign = (answer.get("excluded") or {}).get("code") == "foreign-site-factor"
        name = "SiteFactor (another hand's)" if foreign else "gsched"
        parts = {
            **live.priority.components,
            name: live.priority.site_factor,
            "nice": -live.priority.nice,
        }
        shown = ", ".join(f"{name} {value:+}" for name, value in parts.items() if value)
        is_exact = sum(parts.values()) == live.priority.total  # sprio rounds each part
        words = f"{'=' if is_exact else '≈'} {shown}" if shown else "= no factor counts"
        lines.append(WhyLine("priority", f"{live.priority.total} {words}"))
    if note and answer:
        lines.append(WhyLine("note", note))
    return lines
