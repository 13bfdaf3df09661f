"""Which jobs of the queue somebody asks for, by the filters of squeue(1)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gsched.app.named_job import named_job
from gsched.app.named_states import named_states
from gsched.errors import DataError, UsageError
from gsched.model.hostlist import expand
from gsched.model.job import JobState
from gsched.model.jobid import JobId, parse_tasks
from gsched.slurm.records import QueueRow

_BETWEEN_IDS = re.compile(r",(?![^\[]*\])")  # not the commas of 8_[1,3]
_LIVE = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Filters as written on the command line; empty = all. Commas stand between several words.

    `names` are whole names and may hold commas. `submitted_since`: epoch seconds.
    `all_partitions` shows hidden partitions too.
    """

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    node_lists: tuple[str, ...] = ()
    submitted_since: int | None = None
    pending_only: bool = False
    running_only: bool = False
    all_partitions: bool = False

    @property
    def wants_ended(self) -> bool:
        """Whether jobs that have ended are asked for."""
        return bool(self.states)

    def test(self) -> Callable[[QueueRow, str], bool]:
        """A function that tells whether a row and its name are asked for.

        Raises UsageError for an id, a state or a host list that is none.
        """
        tests = [
            self._state_test(),
            *_one_of(map(user_name, _words(self.users)), lambda row: row.user),
            *_one_of(_words(self.accounts), lambda row: row.tenant),
            *_one_of(_words(self.qos), lambda row: row.qos),
            *_one_of(_words(self.reservations), lambda row: row.reservation),
            *_partition_test(_words(self.partitions)),
            *_node_test(self.node_lists),
            *_job_test(self.job_ids),
        ]
        if self.submitted_since is not None:
            since = self.submitted_since
            tests.append(lambda row: row.submit_time >= since)
        names = {*self.names, *_words(self.names)}

        def takes(row: QueueRow, name: str) -> bool:
            return all(test(row) for test in tests) and (not names or name in names)

        return takes

    def _state_test(self) -> Test:
        if self.pending_only:
            return lambda row: row.state is JobState.PENDING
        if self.running_only:
            return lambda row: row.state in _LIVE and row.state is not JobState.PENDING
        states = [word for word in _words(self.states) if word.lower() != "all"]
        if len(states) < len(_words(self.states)):
            return lambda _: True
        if not states:  # a state that gsched does not know is shown, too
            return lambda row: not row.state.is_terminal
        named = named_states(states)
        return lambda row: row.state.value in named or row.state_text in named


Test = Callable[[QueueRow], bool]


def own_name() -> str:
    """The calling user's name; its number where the machine knows no name."""
    return user_name(str(os.getuid()))


def _words(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def user_name(text: str) -> str:
    """The name of a user, who may be given by number, as squeue and scancel take it."""
    if not text.isdecimal():
        return text
    try:
        return pwd.getpwuid(int(text)).pw_name
    except (KeyError, OverflowError):
        return text


def _one_of(words: Iterable[str], part: Callable[[QueueRow], str]) -> list[Test]:
    wanted = set(words)
    return [lambda row: part(row) in wanted] if wanted else []


def _partition_test(words: list[str]) -> list[Test]:
    wanted = set(words)
    return [lambda row: not wanted.isdisjoint(row.partitions)] if wanted else []


def _node_test(hostlists: Iterable[str]) -> list[Test]:
    wanted = {host for text in hostlists for host in _hosts(text)}
    return [lambda row: bool(row.node_list) and _shares_host(row.node_list, wanted)] * bool(wanted)


def _hosts(text: str) -> list[str]:
    try:
        return expand(text)
    except DataError as e:
        raise UsageError(e.message, e.hint) from e


def _shares_host(node_list: str, wanted: set[str]) -> bool:
    try:
        return not wanted.isdisjoint(expand(node_list))
    except DataError:  # Slurm's own text that is not understood: better shown than lost
        return True


def _job_test(texts: Iterable[str]) -> list[Test]:
    wanted: dict[int, list[JobId]] = {}
    for text in texts:
        for word in filter(str.strip, _BETWEEN_IDS.split(text)):
            job = named_job(word)
            wanted.setdefault(job.job_id, []).append(job)
    if not wanted:
        return []
    return [
        lambda row: (
            any(_means(job, row) for job in wanted.get(row.job_id, ()))
            or any(_is_whole(job) for job in wanted.get(row.raw_id, ()))
        )
    ]


def _is_whole(job: JobId) -> bool:
    return job.array_task is None and job.array_tasks is None and job.het_offset is None


def _means(job: JobId, row: QueueRow) -> bool:
    if job.het_offset is not None:
        return row.het_offset == job.het_offset
    if _is_whole(job):
        return True
    tasks = {job.array_task} if job.array_tasks is None else set(job.array_tasks)
    if row.is_unsplit_array:
        return not tasks.isdisjoint(parse_tasks(row.array_tasks))
    return row.array_task in tasks
