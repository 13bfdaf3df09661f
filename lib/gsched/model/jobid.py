"""Job ids as users and Slurm write them: plain, array, heterogeneous, with steps."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gsched.errors import DataError

MAX_JOB_ID = 2**32 - 1
MAX_TASK = 4_000_000
"""The largest id that Slurm gives to an array task (MaxArraySize in slurm.conf(5), less one)."""

_ID = re.compile(
    r"(?P<job>\d{1,10})"
    r"(?:_(?:(?P<task>\d{1,10})|\[(?P<tasks>[\d,:%.-]+)\])|\+(?P<het>\d{1,4}))?"
    r"(?:\.(?P<step>(?:\d{1,10}|batch|extern|interactive|TBD)(?:\+\d{1,4})?))?",
    re.ASCII,
)
_RANGE = re.compile(
    r"(?P<first>\d{1,10})(?:-(?P<last>\d{1,10})(?::(?P<stride>\d{1,10}))?)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TaskRange:
    """Array tasks `first`, `first` + `stride`, … up to `last`, both included."""

    first: int
    last: int
    stride: int = 1

    def __len__(self) -> int:
        return (self.last - self.first) // self.stride + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1, self.stride))

    def __contains__(self, task: object) -> bool:
        return task in range(self.first, self.last + 1, self.stride)

    def common(self, other: TaskRange) -> TaskRange | None:
        """The tasks of both ranges; None without any."""
        together = math.gcd(self.stride, other.stride)
        gap = other.first - self.first
        if gap % together:
            return None
        mine, theirs = self.stride // together, other.stride // together
        meets = self.first + self.stride * (gap // together * pow(mine, -1, theirs) % theirs)
        stride = mine * other.stride
        first = meets + max(0, -((meets - max(self.first, other.first)) // stride)) * stride
        last = min(self.last, other.last)
        if first > last:
            return None
        last -= (last - first) % stride
        return TaskRange(first, last, stride if last > first else 1)

    def __str__(self) -> str:
        if self.first == self.last:
            return str(self.first)
        stride = f":{self.stride}" if self.stride != 1 else ""
        return f"{self.first}-{self.last}{stride}"


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of an array expression, in ranges that rise and do not overlap.

    `throttle` is the most tasks that may run at once (``%4``), None = no limit.
    """

    ranges: tuple[TaskRange, ...]
    throttle: int | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for part in self.ranges:
            yield from part

    def __contains__(self, task: object) -> bool:
        if not isinstance(task, int):
            return False
        place = bisect_right(self.ranges, task, key=lambda part: part.first)
        return place > 0 and task in self.ranges[place - 1]

    def common(self, other: TaskSet) -> TaskSet:
        """The tasks of both sets, without a throttle. No range is expanded."""
        found, mine, theirs = [], 0, 0
        while mine < len(self.ranges) and theirs < len(other.ranges):
            ours, others = self.ranges[mine], other.ranges[theirs]
            if (part := ours.common(others)) is not None:
                found.append(part)
            if ours.last < others.last:
                mine += 1
            else:
                theirs += 1
        return TaskSet(tuple(found))

    def __str__(self) -> str:
        throttle = f"%{self.throttle}" if self.throttle is not None else ""
        return ",".join(map(str, self.ranges)) + throttle


def parse_tasks(text: str) -> TaskSet:
    """An array expression as sbatch takes it (``-a``) and Slurm prints it: ``1-9:2,20%4``.

    Raises DataError, with a reason of its own for one that Slurm has cut short with ``...``: the
    tasks behind the cut, and a throttle, are not known.
    """
    if "..." in text:
        raise DataError(
            f"array expression cut short by Slurm: {text[:80]!r}",
            "name the whole array by its number; SLURM_BITSTR_LEN=0 makes Slurm print all of it",
        )
    in_brackets = text.startswith("[") and text.endswith("]")
    listed, percent, limit = (text[1:-1] if in_brackets else text).partition("%")
    if percent and not re.fullmatch(r"\d{1,9}", limit, re.ASCII):
        raise _no_tasks(text)
    ranges = tuple(_task_range(item, text) for item in listed.split(","))
    if any(after.first <= before.last for before, after in pairwise(ranges)):
        ranges = _in_order(ranges, text)
    return TaskSet(ranges, int(limit or 0) or None)


def _task_range(item: str, whole: str) -> TaskRange:
    match = _RANGE.fullmatch(item.strip())
    if match is None:
        raise _no_tasks(whole)
    first = int(match["first"])
    last = int(match["last"] or first)
    stride = int(match["stride"] or 1)
    if last < first or stride == 0 or last > MAX_TASK:
        raise DataError(
            f"range {item!r} is empty, or goes beyond {MAX_TASK}, in the array expression "
            f"{whole[:80]!r}"
        )
    last -= (last - first) % stride
    return TaskRange(first, last, stride if last > first else 1)


def _in_order(ranges: tuple[TaskRange, ...], whole: str) -> tuple[TaskRange, ...]:
    """Ranges that overlap or do not rise, as Slurm reads them: each task once, in order."""
    if sum(map(len, ranges)) > 2 * MAX_TASK:
        raise DataError(f"array expression names its tasks many times over: {whole[:80]!r}")
    marks = bytearray(max(part.last for part in ranges) + 1)
    for part in ranges:
        marks[part.first : part.last + 1 : part.stride] = b"\x01" * len(part)
    runs = re.finditer(rb"\x01+", marks)
    return tuple(TaskRange(run.start(), run.end() - 1) for run in runs)


def _no_tasks(text: str) -> DataError:
    return DataError(f"not an array expression: {text[:80]!r}", "write for example 1-9:2,20%4")


@dataclass(frozen=True, slots=True)
class JobId:
    """One job, array task, set of array tasks, het component or step.

    `job_id` is the array's or the het leader's id. At most one of `array_task`, `array_tasks` and
    `het_offset` is set. `step` is empty for the job itself: ``batch``, ``extern``, ``0``, or
    ``0+1`` for its part in a het component.
    """

    job_id: int
    array_task: int | None = None
    array_tasks: TaskSet | None = None
    het_offset: int | None = None
    step: str = ""

    @property
    def tasks(self) -> TaskSet:
        """The array tasks that are named, one or several; empty for any other job."""
        if self.array_task is not None:
            return TaskSet((TaskRange(self.array_task, self.array_task),))
        return self.array_tasks or TaskSet(())

    def __str__(self) -> str:
        text = str(self.job_id)
        if self.array_task is not None:
            text += f"_{self.array_task}"
        elif self.array_tasks is not None:
            text += f"_[{self.array_tasks}]"
        elif self.het_offset is not None:
            text += f"+{self.het_offset}"
        return f"{text}.{self.step}" if self.step else text


def parse_job_id(text: str) -> JobId:
    """A job id in any of Slurm's spellings: ``7``, ``7_3``, ``7_[1-5%2]``, ``7+1``, ``7.batch``.

    Raises DataError, also for an expression that Slurm has cut short with ``...``.
    """
    match = _ID.fullmatch(text.strip())
    if match is None or not 0 < int(match["job"]) <= MAX_JOB_ID:
        raise DataError(
            f"not a job id: {text[:80]!r}", "write 123, 123_4 (array task) or 123+1 (het component)"
        )
    return JobId(
        job_id=int(match["job"]),
        array_task=None if match["task"] is None else int(match["task"]),
        array_tasks=None if match["tasks"] is None else parse_tasks(match["tasks"]),
        het_offset=None if match["het"] is None else int(match["het"]),
        step=match["step"] or "",
    )
