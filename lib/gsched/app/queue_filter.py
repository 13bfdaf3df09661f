"""Which jobs of the queue somebody asks for, by the filters of squeue(1)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from gsched.app.array_part import means
from gsched.app.named_job import named_job, split_ids
from gsched.app.named_states import named_states
from gsched.errors import DataError, UsageError
from gsched.model.hostlist import expand
from gsched.model.job import JobState
from gsched.model.jobid import JobId
from gsched.slurm.records import QueueRow

_LIVE = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Filters as written on the command line; ``()`` = all. Commas stand between several words.

    As with squeue, one that is given without a word (``-u ""``) leaves nothing, and accounts, QOS
    and names are the same in upper and lower case; users, partitions, reservations and licences
    are not. `names` are whole names and may hold commas. `submitted_since`: epoch seconds.
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
    licences: tuple[str, ...] = ()
    submitted_since: int | None = None
    pending_only: bool = False
    running_only: bool = False
    all_partitions: bool = False

    @property
    def wants_ended(self) -> bool:
        """Whether jobs that have ended are asked for."""
        return bool(self.states)

    def named_jobs(self) -> list[JobId]:
        """The ids that are asked for. Raises UsageError for one that is none."""
        words = (word for text in self.job_ids for word in split_ids(text))
        return [named_job(word) for word in words if word.strip()]

    def test(self) -> Callable[[QueueRow, str], bool]:
        """A function that tells whether a row and its name are asked for.

        Raises UsageError for an id, a state or a host list that is none.
        """
        tests = [
            self._state_test(),
            *_one_of(self.users, lambda row: row.user, user_name),
            *_one_of(self.accounts, lambda row: row.tenant.lower(), str.lower),
            *_one_of(self.qos, lambda row: row.qos.lower(), str.lower),
            *_one_of(self.reservations, lambda row: row.reservation),
            *_any_of(self.partitions, lambda row: row.partitions),
            *_any_of(self.licences, _licences),
            *_node_test(self.node_lists),
        ]
        if self.job_ids:
            tests.append(_job_test(self.named_jobs()))
        if self.submitted_since is not None:
            since = self.submitted_since
            tests.append(lambda row: row.submit_time >= since)
        names = {name.lower() for name in (*self.names, *_words(self.names)) if name}

        def takes(row: QueueRow, name: str) -> bool:
            return all(test(row) for test in tests) and (not self.names or name.lower() in names)

        return takes

    def _state_test(self) -> Test:
        if self.pending_only:
            return lambda row: row.state is JobState.PENDING
        if self.running_only:
            return lambda row: row.state in _LIVE and row.state is not JobState.PENDING
        states = [word for word in _words(self.states) if word.lower() != "all"]
        if len(states) < len(_words(self.states)):
            return lambda _: True
        if not self.states:  # a state that gsched does not know is shown, too
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


def _one_of(
    texts: Collection[str],
    part: Callable[[QueueRow], str],
    spelt: Callable[[str], str] = str,
) -> list[Test]:
    wanted = set(map(spelt, _words(texts)))
    return [lambda row: part(row) in wanted] if texts else []


def _any_of(texts: Collection[str], parts: Callable[[QueueRow], Iterable[str]]) -> list[Test]:
    wanted = set(_words(texts))
    return [lambda row: not wanted.isdisjoint(parts(row))] if texts else []


def _licences(row: QueueRow) -> list[str]:
    """Names of the licences that a job asks for: ``matlab`` of ``matlab:2``."""
    return [item.partition(":")[0] for item in re.split(r"[,;|]", row.licences)]


def _node_test(hostlists: Collection[str]) -> list[Test]:
    wanted = {host for text in hostlists if text.strip() for host in _hosts(text)}
    # a row whose nodes are not understood is better shown than lost
    test: Test = lambda row: row.hosts is None or not wanted.isdisjoint(row.hosts)  # noqa: E731
    return [test] if hostlists else []


def _hosts(text: str) -> list[str]:
    try:
        return expand(text)
    except DataError as e:
        raise UsageError(e.message, e.hint) from e


def _job_test(ids: Iterable[JobId]) -> Test:
    wanted: dict[int, list[JobId]] = {}
    for job in ids:
        wanted.setdefault(job.job_id, []).append(job)

    def takes(row: QueueRow) -> bool:
        named = (*wanted.get(row.job_id, ()), *wanted.get(row.raw_id, ()))
        return any(means(job, row) for job in named)

    return takes
