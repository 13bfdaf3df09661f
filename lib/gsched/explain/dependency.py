"""What a job's ``--dependency`` waits for, and whether that can still come about.

Slurm has the last word: it marks a dependency ``(failed)`` and a job ``DependencyNeverSatisfied``.
Until it has, what is said here follows from the states of the jobs that are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gsched.model.job import JobState
from gsched.slurm.records import QueueRow

MAX_DEPTH = 5
"""Chains of dependencies are followed so far."""

_ITEM = re.compile(
    r"(?P<kind>[a-z]+)(?::(?P<id>\d{1,10})(?:_(?P<task>\d{1,10}|\*))?(?:\+(?P<delay>\d{1,9}))?)?"
    r"(?:\((?P<state>[a-z]+)\))?",
    re.ASCII,
)
_MEANING = {
    "after": "has started",
    "afterany": "has ended",
    "afterok": "has ended well",
    "afternotok": "has ended badly",
    "aftercorr": "has ended well, task by task",
    "afterburstbuffer": "has staged out its data",
    "expand": "runs (it adds to that job's nodes)",
    "singleton": "no other job of the same name and user runs",
}


@dataclass(frozen=True, slots=True)
class Dependency:
    """One condition: `kind` of Slurm, the job (`slurm_id` None for singleton), and how it stands.

    `status` is ``met``, ``open``, ``never`` or ``unknown`` (Slurm does not show that job, or not
    any more); `words` say it whole. `job_state` is the job's state in Slurm's words, "" unknown.
    """

    kind: str
    slurm_id: str | None
    status: str
    words: str
    job_state: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "job": self.slurm_id,
            "status": self.status,
            "job_state": self.job_state or None,
            "words": self.words,
        }


@dataclass(frozen=True, slots=True)
class Dependencies:
    """All conditions of a job; `any_is_enough` when ``?`` stands between them."""

    items: tuple[Dependency, ...]
    any_is_enough: bool

    @property
    def is_never(self) -> bool:
        """Whether they can never be met."""
        states = [item.status == "never" for item in self.items]
        return bool(states) and (all(states) if self.any_is_enough else any(states))


JobStates = Mapping[str, tuple[JobState, str]]
"""Jobs that have left the queue: slurm id → state and its text, of the accounting."""


def named_jobs(text: str) -> list[str]:
    """The jobs that a dependency names: ``7``, or ``7_3`` where it is about one array task."""
    matches = (_ITEM.fullmatch(item) for item in re.split(r"[,?]", text))
    found = [_slurm_id(match) for match in matches if match is not None and match["id"]]
    return list(dict.fromkeys(found))


def _slurm_id(match: re.Match[str]) -> str:
    return match["id"] if match["task"] in {None, "*"} else f"{match['id']}_{match['task']}"


def read_dependencies(
    text: str,
    rows: Sequence[QueueRow],
    ended: Callable[[Sequence[str]], JobStates],
    *,
    depth: int = MAX_DEPTH,
) -> Dependencies:
    """The conditions in squeue's text of a dependency.

    `rows` is the whole queue; `ended` looks up in the accounting the jobs that are not in it.
    """
    gone = [job for job in named_jobs(text) if not _rows_of(job, rows)]
    past = ended(gone) if gone else {}
    items = []
    for part in re.split(r"[,?]", text):
        match = _ITEM.fullmatch(part)
        if match is None:
            if part:
                items.append(Dependency(part, None, "unknown", f"waits for: {part}"))
            continue
        items.append(_dependency(match, rows, past, ended, depth))
    return Dependencies(tuple(items), "?" in text)


def _dependency(
    match: re.Match[str],
    rows: Sequence[QueueRow],
    past: JobStates,
    ended: Callable[[Sequence[str]], JobStates],
    depth: int,
) -> Dependency:
    kind, meaning = match["kind"], _MEANING.get(match["kind"], "")
    if not match["id"]:
        words = f"waits until {meaning}" if meaning else f"waits for: {match[0]}"
        return Dependency(kind, None, "open", words)
    slurm_id = _slurm_id(match)
    states = _states(slurm_id, rows, past)
    text = ", ".join(dict.fromkeys(text for _, text in states))
    words = f"waits until {slurm_id} {meaning or match[0]}"
    if kind == "after" and match["delay"]:
        words += f" {match['delay']} min ago"
    status = "never" if match["state"] == "failed" else _status(kind, [s for s, _ in states])
    found = Dependency(kind, slurm_id, status, f"{words}; {_now(text)}", text)
    if status == "open" and depth > 0 and kind in {"afterok", "aftercorr"}:
        return _with_chain(found, rows, ended, depth)
    if status == "never":
        return replace(found, words=f"{found.words}: it never will")
    return found


def _now(text: str) -> str:
    return f"it is {text} now" if text else "Slurm shows no such job (any more)"


def _states(slurm_id: str, rows: Sequence[QueueRow], past: JobStates) -> list[tuple[JobState, str]]:
    """The states of a job, or of all tasks or components where no single one is named."""
    found = [(row.state, row.state_text) for row in _rows_of(slurm_id, rows)]
    if found:
        return found
    parts = () if "_" in slurm_id else (f"{slurm_id}_", f"{slurm_id}+")
    return [s for name, s in past.items() if name == slurm_id or name.startswith(parts)]


def _rows_of(slurm_id: str, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows of a job, of all its tasks or components, or of one task.

    A task may wait in the row of its array, and does where nobody can tell which tasks that has.
    """
    job_id, _, task = slurm_id.partition("_")
    found = [row for row in rows if row.job_id == int(job_id)]
    if not task:
        return found
    own = [row for row in found if row.array_task == int(task)]
    together = (row for row in found if row.is_unsplit_array)
    return own or [row for row in together if row.tasks is None or int(task) in row.tasks]


def _status(kind: str, states: Sequence[JobState]) -> str:
    """How a condition stands, as far as the named job's states tell."""
    if not states:
        return "unknown"
    over = all(state.is_terminal and state is not JobState.REQUEUED for state in states)
    well = all(state is JobState.COMPLETED for state in states)
    if kind == "after":  # a delay may still run
        return "open"
    if not over:
        return "open"
    if kind == "afterok":
        return "met" if well else "never"
    if kind == "afternotok":
        return "never" if well else "met"
    return "open" if kind == "aftercorr" else "met"


def _with_chain(
    found: Dependency,
    rows: Sequence[QueueRow],
    ended: Callable[[Sequence[str]], JobStates],
    depth: int,
) -> Dependency:
    """A job that must end well, yet waits itself for what never comes, never will."""
    for row in rows:
        if row.slurm_id != found.slurm_id or row.state is not JobState.PENDING:
            continue
        if row.reason == "DependencyNeverSatisfied":
            return replace(
                found, status="never", words=f"{found.words}, and can never start itself"
            )
        if row.dependency:
            further = read_dependencies(row.dependency, rows, ended, depth=depth - 1)
            words = f"{found.words}, and itself {'; '.join(i.words for i in further.items)}"
            return replace(found, status="never" if further.is_never else "open", words=words)
    return found
