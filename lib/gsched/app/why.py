"""The answer of ``gsched why``: a verdict, what holds the job back, and what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gsched.app.analysis import Analysis, analyse
from gsched.app.ended import ended_words, known_past
from gsched.app.expected import Expected
from gsched.app.job import LiveJob, find_parts
from gsched.app.lease_ends import end_when_told
from gsched.app.told_progress import told_by
from gsched.app.waiting import (
    WhyLine,
    ahead_of,
    lease_lines,
    met_lines,
    next_to_end,
    target_lines,
    waiting_lines,
)
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.errors import DataError
from gsched.explain.never import Block
from gsched.explain.requeued import is_ending_to_start_again
from gsched.explain.slurm_reasons import explain_reason
from gsched.explain.words import count, short_time
from gsched.model.exitcode import ExitCode
from gsched.model.hostlist import fold
from gsched.model.job import JobState, finite_limit_s
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import QueueRow

_VERDICTS = {
    JobState.RUNNING: "running",
    JobState.SUSPENDED: "suspended",
    JobState.COMPLETING: "completing",
    JobState.UNKNOWN: "unknown",
}
_SLEEPS = frozenset({"powering_down", "powered_down", "power_up", "powering_up"})
_EARLY_S = 5.0
"""An end that lies so much before start and time limit together is another one."""


@dataclass(frozen=True, slots=True)
class Why:
    """The whole answer. `parts` are the rows of an array or het job, one of a plain job.

    `analysis` and `expected` (the forecast) are those of the waiting part that was looked at
    (`live`), None when none waits.
    """

    job: str
    verdict: str
    lines: tuple[WhyLine, ...]
    parts: tuple[LiveJob, ...] = ()
    live: LiveJob | None = None
    analysis: Analysis | None = None
    expected: Expected | None = None

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds."""
        live, analysis = self.live, self.analysis
        following = next_to_end(live) if live and analysis else None
        ahead = ahead_of(live) if live and analysis else None
        return {
            "job": self.job,
            "verdict": self.verdict,
            "state": live.row.state_text if live else None,
            "slurm_reason": live.row.reason if live else None,
            "headline": self.lines[0].words,
            "blocks": [b.document() for b in analysis.blocks] if analysis else [],
            "parts": [_part_document(part) for part in self.parts],
            "lines": [{"what": x.what, "words": x.words, "at": x.at} for x in self.lines],
            "ahead": ahead.document() if ahead else None,
            "next_to_end": None
            if following is None
            else {"job": following.slurm_id, "end_time": following.end_time},
            "slurm_start_time": live.row.start_time if live and analysis else None,
            **(self.expected or Expected(now())).document(),
            "gsched": (live.line.answer or None) if live else None,
            "dependencies": (
                [d.document() for d in analysis.dependencies.items] if analysis else []
            ),
            "limits": [fact.document() for fact in analysis.limits] if analysis else [],
        }


def _part_document(live: LiveJob) -> dict[str, Any]:
    row = live.row
    return {
        "job": live.line.slurm_id,
        "state": row.state_text,
        "slurm_reason": row.reason,
        "num_tasks": num_tasks(live),
    }


def explain_job(settings: Settings, job: str) -> Why:
    """Why a job waits, or what became of it.

    Raises UsageError for what is no job id, and when nobody shows such a job to the caller.
    """
    parts = find_parts(settings, job)
    if not parts:
        past = known_past(settings, job)
        lines = [WhyLine("", words) for words in ended_words(past)]
        if len(past) == 1:
            lines += _end_of_lease(settings, past[0].key.slurm_id, past[0].attempts[-1].submit_time)
        verdict = "ended" if all(one.attempts[-1].state.is_terminal for one in past) else "unknown"
        return Why(past[0].key.slurm_id if len(past) == 1 else job, verdict, tuple(lines))
    waiting = [part for part in parts if part.row.state is JobState.PENDING]
    if len(parts) == 1:
        one, row = _one(parts[0]), parts[0].row
        if row.state.is_terminal:
            told = _end_of_lease(settings, row.slurm_id, row.submit_time)
        else:
            told = _unheard(settings, row)
        return replace(one, lines=(*one.lines, *told))
    return _several(job, parts, waiting)


def _end_of_lease(settings: Settings, job: str, attempt: int) -> list[WhyLine]:
    words = end_when_told(settings, job, attempt)
    return [WhyLine("lease", words)] if words else []


def _unheard(settings: Settings, row: QueueRow) -> list[WhyLine]:
    """Why nobody believes what a job that runs tells of its progress; nothing where it is heard."""
    if row.state not in {JobState.RUNNING, JobState.SUSPENDED}:
        return []
    try:
        told_by(settings, row, now())
    except DataError as error:
        return [WhyLine("progress", f"what the job tells of it is not believed: {error.message}")]
    return []


def _one(live: LiveJob) -> Why:
    if live.row.state is not JobState.PENDING:
        is_over = live.row.state.is_terminal
        verdict = "ended" if is_over else _VERDICTS.get(live.row.state, "unknown")
        return Why(live.line.slurm_id, verdict, tuple(_not_waiting(live)), (live,), live)
    analysis = analyse(live, now())
    expected = Expected.of(live, analysis)
    lines = _analysis_lines(live, analysis, expected)
    verdict = analysis.verdict
    return Why(live.line.slurm_id, verdict, tuple(lines), (live,), live, analysis, expected)


def _not_waiting(live: LiveJob) -> list[WhyLine]:
    row, state = live.row, live.row.state
    if is_ending_to_start_again(row, live.line.at):
        return _ending_to_start_again(live)
    waking = _waking(live)
    lines = [WhyLine("", f"{live.line.slurm_id} does not wait: it is {row.state_text}")]
    if waking:
        lines = _waits_for_nodes(live, waking)
    if row.node_list:
        lines.append(WhyLine("nodes", row.node_list))
    if row.start_time and row.node_list and waking:
        lines.append(WhyLine("has them since", f"waited {live.line.waited_s} s", at=row.start_time))
    elif row.start_time and row.node_list:
        lines.append(WhyLine("started", f"waited {live.line.waited_s} s", at=row.start_time))
    if state in {JobState.RUNNING, JobState.SUSPENDED} and row.end_time:
        if finite_limit_s(row.time_limit_s) is None:
            lines.append(WhyLine("ends", "by itself: its time limit is UNLIMITED, or unknown"))
        else:
            lines.append(WhyLine("ends", _latest_end_words(row), at=row.end_time))
    if state.is_terminal and row.end_time:
        lines.append(WhyLine("ended", _exit_words(live), at=row.end_time))
    return lines + met_lines(live) + target_lines(live) + lease_lines(live)


def _waking(live: LiveJob) -> list[str]:
    """The nodes of a job that Slurm has given it, and that have to wake from sleep first."""
    if live.row.state_text != "CONFIGURING":
        return []
    own = live.row.hosts or frozenset()
    return [n.name for n in live.cluster.nodes if n.name in own and _SLEEPS.intersection(n.flags)]


def _waits_for_nodes(live: LiveJob, waking: Sequence[str]) -> list[WhyLine]:
    within = short_time(PowerSaving.of(live.cluster.config).resume_timeout_s)
    many = len(waking) > 1
    return [
        WhyLine(
            "",
            f"{live.line.slurm_id} has its nodes, and waits for {fold(waking)} to wake from sleep: "
            f"it is {live.row.state_text}",
        ),
        WhyLine(
            "begins",
            f"once {'they are' if many else 'it is'} up; Slurm gives up what is not within "
            f"{within} (ResumeTimeout)",
        ),
    ]


def _latest_end_words(row: QueueRow) -> str:
    """By slurm.conf(5), GraceTime: a job that is chosen for preemption gets an earlier end."""
    limit_s = finite_limit_s(row.time_limit_s)
    early_s = 0.0
    if limit_s is not None and row.start_time and row.end_time:
        early_s = row.start_time + limit_s - row.end_time
    if early_s > _EARLY_S:
        return "at the latest: before its time limit, as Slurm ends a job that it preempts"
    return "at the latest: its time limit"


def _ending_to_start_again(live: LiveJob) -> list[WhyLine]:
    wait = short_time(live.cluster.config.requeue_wait_s)
    return [
        WhyLine(
            "",
            f"{live.line.slurm_id} was requeued and does not wait yet: its last attempt is being "
            f"ended on {live.row.node_list or 'its nodes'}",
        ),
        WhyLine("starts again", f"{wait} after that at the earliest (Slurm's cred_expire)"),
    ]


def _exit_words(live: LiveJob) -> str:
    if not live.row.node_list:
        return "it never ran"  # Slurm shows an exit code all the same
    detail = live.cluster.client.job_detail(live.row.raw_id)
    if detail is None or detail.exit_code is None:
        return "Slurm does not tell its exit code"
    return ExitCode(detail.exit_code, detail.exit_signal or 0).words


def _several(job: str, parts: Sequence[LiveJob], waiting: Sequence[LiveJob]) -> Why:
    """An array or a het job: how many parts do what, then why those that wait do."""
    is_het = parts[0].row.het_offset is not None
    states = Counter[str]()
    for part in parts:
        states[part.row.state_text] += num_tasks(part)
    told = ", ".join(f"{number} {state}" for state, number in states.items())
    kind = (
        f"{count(len(parts), 'component')} that start together"
        if is_het
        else f"{count(sum(states.values()), 'task')} that slurmctld knows"
    )
    head = WhyLine("", f'{job} "{parts[0].text.name}" has {kind}: {told}')
    if not waiting:
        verdicts = {p.row.state.is_terminal for p in parts}
        verdict = "ended" if verdicts == {True} else "running"
        return Why(job, verdict, (head,), tuple(parts), parts[0])
    reasons = Counter[str]()
    for part in waiting:
        reasons[part.row.reason] += num_tasks(part)
    because = [
        WhyLine("waiting", f"{number}: {explain_reason(reason).words}")
        for reason, number in reasons.most_common()
    ]
    live, analysis = _most_hopeless(waiting, all_parts=is_het)
    expected = Expected.of(live, analysis)
    lines = [head, *because, *_analysis_lines(live, analysis, expected, "namely")]
    return Why(job, analysis.verdict, tuple(lines), tuple(parts), live, analysis, expected)


def _most_hopeless(waiting: Sequence[LiveJob], *, all_parts: bool) -> tuple[LiveJob, Analysis]:
    """The part to explain. Tasks of an array ask for the same; one component can doom a het job."""
    chosen = [part for part in waiting if part.row.reason != "JobArrayTaskLimit"] or list(waiting)
    looked_at = [(part, analyse(part, now())) for part in (chosen if all_parts else chosen[:1])]
    return next((found for found in looked_at if found[1].verdict == "never"), looked_at[0])


def num_tasks(live: LiveJob) -> int:
    """How many tasks a row stands for: at least one, where its expression is not understood."""
    return len(live.row.tasks or ()) or 1


def _analysis_lines(
    live: LiveJob, analysis: Analysis, expected: Expected, what: str = ""
) -> list[WhyLine]:
    """The answer in short, then what it rests on."""
    slurm_id, main = live.line.slurm_id, analysis.blocks[0]
    if analysis.verdict == "never":
        lines = [WhyLine(what, f"{slurm_id} can never start: {_sentence(main)}")]
        return lines + _dependency_lines(analysis)
    words = main.words if main.words.startswith(("waits ", "held")) else f"waits: {main.words}"
    if words.startswith("held"):
        words = f"is {words}"
    elif analysis.verdict == "held" and not main.words.startswith("held"):
        words = f"is held: {main.words}"
    lines = [WhyLine(what, f'{slurm_id} "{live.text.name}" {words}')]
    lines += [WhyLine("limit", fact.words) for fact in analysis.limits]
    lines += _dependency_lines(analysis)
    lines += [WhyLine("besides", block.words) for block in analysis.blocks[1:]]
    lines += [WhyLine("what to do", block.advice) for block in analysis.blocks if block.advice]
    return lines + waiting_lines(live, analysis.ask.demand, expected)


def _dependency_lines(analysis: Analysis) -> list[WhyLine]:
    found = analysis.dependencies
    lines = [WhyLine("depends on", item.words) for item in found.items]
    if found.any_is_enough:
        lines.insert(0, WhyLine("depends on", "any one of these:"))
    return lines


def _sentence(block: Block) -> str:
    if not block.advice:
        return f"{block.words}."
    return f"{block.words}. {block.advice[:1].upper()}{block.advice[1:]}."
