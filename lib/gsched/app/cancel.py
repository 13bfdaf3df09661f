"""``gsched cancel --dry-run``: the jobs that a command line of scancel means just now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gsched.app.named_job import named_jobs
from gsched.app.named_states import named_states
from gsched.app.queue_filter import user_name
from gsched.app.saved_work import SavedWork, lines, saved_work
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.jobscript.command_line import Kind, Word
from gsched.model.hostlist import expand
from gsched.model.job import JobState
from gsched.model.jobid import JobId
from gsched.slurm.records import QueueRow

Test = Callable[[QueueRow, str], bool]
"""Whether a row with its name is chosen."""

# What scancel compares with the whole of an option's value; it knows no lists there.
_COMPARED: Mapping[str, Callable[[QueueRow, str], str]] = {
    "account": lambda row, _: row.tenant,
    "jobname": lambda _, name: name,
    "name": lambda _, name: name,
    "partition": lambda row, _: ",".join(row.partitions),
    "qos": lambda row, _: row.qos,
    "reservation": lambda row, _: row.reservation,
}
_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_UNSEEN = frozenset({"clusters", "sibling", "wckey", "admin-comment"})


@dataclass(frozen=True, slots=True)
class Target:
    """A job, the tasks of an array that has not been split, or a step (`unit`) of job `row`."""

    unit: str
    row: QueueRow
    name: str
    saved: SavedWork | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be cancelled, or be sent `signal`; `unmatched` are ids that match no live job.

    `notes` tell what is saved of jobs that would be cancelled.
    """

    targets: tuple[Target, ...]
    unmatched: tuple[str, ...]
    signal: str
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        return {
            "dry_run": True,
            "signal": self.signal or None,
            "jobs": [
                {
                    "job": target.unit,
                    "user": target.row.user,
                    "partition": ",".join(target.row.partitions),
                    "state": target.row.state_text,
                    "name": target.name,
                    "checkpoints": target.saved.document() if target.saved else None,
                }
                for target in self.targets
            ],
            "unmatched": list(self.unmatched),
        }


def preview(settings: Settings, words: Sequence[Word]) -> Preview:
    """What a command line, as scanned, would cancel.

    Raises UsageError for one whose effect gsched cannot see: on other clusters, by wckey.
    """
    ids = [job for word in words if word.kind is Kind.OPERAND for job in named_jobs(word.name)]
    tests = list(_tests(words))
    if not ids and not tests:
        raise UsageError("no job named", "see `gsched cancel --help`")
    signal = next((w.value or "" for w in reversed(words) if w.name == "signal"), "")
    client = slurm_client(settings)
    listing = client.queue(with_texts=True)
    live = []
    for row in listing.rows:
        name = listing.texts[row.raw_id].name if row.raw_id in listing.texts else ""
        if row.state is not JobState.COMPLETING and all(test(row, name) for test in tests):
            live.append(Target(row.slurm_id, row, name))
    matches = {job: list(_matching(job, live)) for job in ids}
    named = {target.unit: target for found in matches.values() for target in found}
    unmatched = tuple(str(job) for job, found in matches.items() if not found)
    targets = tuple(named.values()) if ids else tuple(map(_whole, live))
    if signal:
        return Preview(targets, unmatched, signal)
    targets = tuple(replace(t, saved=saved_work(settings, t.row, now())) for t in targets)
    saved = [(target.unit, target.saved) for target in targets if target.saved]
    notes = lines(saved, client.config().kill_wait_s) if saved else ()
    return Preview(targets, unmatched, "", tuple(notes))


def _tests(words: Sequence[Word]) -> Iterator[Test]:
    """What the filters on the command line ask of a job; all must hold."""
    if os.environ.get("SLURM_CLUSTERS"):
        raise UsageError(
            "SLURM_CLUSTERS is set: scancel asks there, but --dry-run sees this host's cluster only"
        )
    # of an option given twice the last counts
    options = {word.name: word.value or "" for word in words if word.kind is Kind.OPTION}
    for name, value in options.items():
        if name in _UNSEEN:
            raise UsageError(f"--dry-run cannot see what --{name} means to Slurm")
        if name in _COMPARED:
            yield _equal(_COMPARED[name], value)
        elif name == "state":
            yield _in_state(value)
        elif name == "nodelist":
            yield _on_hosts(value)
        elif name in ("user", "me"):
            yield _of_user(value if name == "user" else str(os.getuid()))


def _equal(part: Callable[[QueueRow, str], str], value: str) -> Test:
    return lambda row, name: part(row, name) == value


def _of_user(text: str) -> Test:
    user = user_name(text)
    return lambda row, _: row.user == user


def _in_state(text: str) -> Test:
    states = named_states((text,))
    if not states < _STATES or "," in text:
        raise UsageError(f"scancel takes no state {text!r}", f"one of {', '.join(sorted(_STATES))}")
    return lambda row, _: row.state.value in states


def _on_hosts(text: str) -> Test:
    try:
        wanted = frozenset(expand(text))
    except DataError as error:
        raise UsageError(error.message, error.hint) from error
    # a job whose nodes are not understood is better shown than lost
    return lambda row, _: row.hosts is None or not wanted.isdisjoint(row.hosts)


def _matching(job: JobId, live: Sequence[Target]) -> Iterator[Target]:
    """The targets that an id means, as scancel(1) reads it."""
    for target in live:
        row = target.row
        if job.job_id not in (row.job_id, row.raw_id):
            continue
        if job.het_offset is not None and job.het_offset != row.het_offset:
            continue
        if job.array_task is None and job.array_tasks is None:
            if job.step:
                yield Target(f"{row.slurm_id}.{job.step}", row, target.name)
            else:
                yield _whole(target)
            continue
        yield from _tasks(job, target)


def _tasks(job: JobId, target: Target) -> Iterator[Target]:
    wanted = job.tasks
    row = target.row
    step = f".{job.step}" if job.step else ""
    if row.array_task in wanted:
        yield Target(row.slurm_id + step, row, target.name)
    elif row.is_unsplit_array and row.tasks is None:  # which of them it has is not known
        yield _whole(target)
    elif row.is_unsplit_array and row.tasks and (common := wanted.common(row.tasks)):
        unit = f"{row.job_id}_[{common}]" if len(common) > 1 else f"{row.job_id}_{common}"
        yield Target(unit + step, row, target.name)


def _whole(target: Target) -> Target:
    row = target.row
    if not row.is_unsplit_array:
        return target
    return Target(f"{row.job_id}_[{row.array_tasks}]", row, target.name)
