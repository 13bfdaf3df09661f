"""An order and its reasons by column; single ranks and reasons are made when they are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.decision import QUEUES, JsonValue, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn, JobTable


@dataclass(frozen=True, eq=False)
class RankTable(Mapping[JobKey, Rank]):
    """Ranks of the jobs in `rows` of `jobs`, one element a ranked job in every column.

    `queue` holds indices into QUEUES, `out_of` what ``Rank.of`` tells; the others are those of
    ``Rank``. Raises ValueError where columns do not fit each other.
    """

    jobs: JobTable
    rows: IntColumn
    queue: IntColumn
    position: IntColumn
    out_of: IntColumn
    key: FloatColumn
    level: FloatColumn

    def __post_init__(self) -> None:
        """Columns of the right kind, all of one length."""
        for name in ("rows", "queue", "position", "out_of"):
            object.__setattr__(self, name, _column(getattr(self, name), np.int64, name))
        for name in ("key", "level"):
            object.__setattr__(self, name, _column(getattr(self, name), np.float64, name))
        if len({len(column) for column in self.columns().values()}) != 1:
            raise ValueError("columns of ranks are not of one length")
        _check_indices(self.rows, len(self.jobs), "row")
        _check_indices(self.queue, len(QUEUES), "queue")
        if len(self.rows) and np.bincount(self.rows).max() > 1:
            raise ValueError("a job is ranked twice")

    @classmethod
    def of(cls, order: Mapping[JobKey, Rank], jobs: JobTable) -> RankTable:
        """`order` by column; a table over the same jobs as it is.

        Raises KeyError for a job that is not in `jobs`, ValueError for an unknown queue.
        """
        if isinstance(order, RankTable) and order.jobs is jobs:
            return order
        ranks = list(order.values())
        return cls(
            jobs=jobs,
            rows=np.array([jobs.row(key) for key in order], dtype=np.int64),
            queue=np.array([QUEUES.index(r.queue) for r in ranks], dtype=np.int64),
            position=np.array([r.position for r in ranks], dtype=np.int64),
            out_of=np.array([r.of for r in ranks], dtype=np.int64),
            key=np.array([r.key for r in ranks], dtype=np.float64),
            level=np.array([r.level for r in ranks], dtype=np.float64),
        )

    def columns(self) -> dict[str, Any]:
        """Every column by its name, `rows` first."""
        names = ("rows", "queue", "position", "out_of", "key", "level")
        return {name: getattr(self, name) for name in names}

    def take(self, chosen: BoolColumn | IntColumn) -> RankTable:
        """The ranks that `chosen` (a mask, or numbers) selects, as they are."""
        return replace(self, **{name: column[chosen] for name, column in self.columns().items()})

    def renumbered(self) -> RankTable:
        """The same with positions counted anew in the order of the columns, by queue."""
        position, out_of = np.empty_like(self.position), np.empty_like(self.out_of)
        for number in range(len(QUEUES)):
            members = np.flatnonzero(self.queue == number)
            position[members] = np.arange(1, len(members) + 1)
            out_of[members] = len(members)
        return replace(self, position=position, out_of=out_of)

    @cached_property
    def _place(self) -> list[int]:
        """By row of `jobs`: which rank, -1 for none."""
        return _places(len(self.jobs), self.rows)

    @cached_property
    def _values(self) -> tuple[list[Any], ...]:
        """The columns of ``Rank`` in its order, as lists: single elements are got quicker."""
        columns = (self.queue, self.position, self.out_of, self.key, self.level)
        return tuple(column.tolist() for column in columns)

    def __getitem__(self, key: JobKey) -> Rank:
        place = self._place[self.jobs.row(key)]
        if place < 0:
            raise KeyError(key)
        queue, *values = [column[place] for column in self._values]
        return Rank(QUEUES[queue], *values)

    def __iter__(self) -> Iterator[JobKey]:
        keys = self.jobs.keys
        return (keys[row] for row in self.rows.tolist())

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Jobs with the same kind of reason: one `code`, and by name the values behind it by column.

    Columns hold numbers (float64, int64) or JSON values (object), one element a row of `rows`.
    """

    code: str
    rows: IntColumn
    params: Mapping[str, NDArray[Any]]

    def take(self, chosen: BoolColumn) -> ReasonGroup:
        """The same reason for some of its rows."""
        params = {name: column[chosen] for name, column in self.params.items()}
        return ReasonGroup(self.code, self.rows[chosen], params)


@dataclass(frozen=True, eq=False)
class ReasonTable(Mapping[JobKey, Reason]):
    """Reasons of jobs, by groups; of a job in several groups the last one's counts.

    Raises ValueError where a group's rows are none of `jobs` or its columns do not fit them.
    """

    jobs: JobTable
    groups: tuple[ReasonGroup, ...]

    def __post_init__(self) -> None:
        """Groups whose columns fit."""
        for group in self.groups:
            if any(column.shape != group.rows.shape for column in group.params.values()):
                raise ValueError(f"columns of reason {group.code!r} do not fit its rows")
            _check_indices(group.rows, len(self.jobs), "row")

    @classmethod
    def of(cls, reasons: Mapping[JobKey, Reason], jobs: JobTable) -> ReasonTable:
        """`reasons` by column; a table over the same jobs as it is.

        Raises KeyError for a job that is not in `jobs`.
        """
        if isinstance(reasons, ReasonTable) and reasons.jobs is jobs:
            return reasons
        alike: defaultdict[tuple[str, ...], list[tuple[int, Reason]]] = defaultdict(list)
        for key, reason in reasons.items():
            alike[reason.code, *reason.params].append((jobs.row(key), reason))
        groups = []
        for (code, *names), found in alike.items():
            rows = np.array([row for row, _ in found], dtype=np.int64)
            params = {name: _objects([r.params[name] for _, r in found]) for name in names}
            groups.append(ReasonGroup(code, rows, params))
        return cls(jobs, tuple(groups))

    def without(self, rows: Sequence[int]) -> ReasonTable:
        """The same but for these rows of `jobs`."""
        groups = tuple(g.take(~np.isin(g.rows, rows)) for g in self.groups)
        return replace(self, groups=groups)

    def with_(self, reasons: Mapping[JobKey, Reason]) -> ReasonTable:
        """The same, with these instead of what it has of the same jobs."""
        return replace(self, groups=(*self.groups, *ReasonTable.of(reasons, self.jobs).groups))

    @cached_property
    def has(self) -> BoolColumn:
        """By row of `jobs`: whether there is a reason."""
        has = np.zeros(len(self.jobs), dtype=np.bool_)
        for group in self.groups:
            has[group.rows] = True
        return has

    @cached_property
    def _group(self) -> list[int]:
        """By row of `jobs`: which group, -1 for none."""
        found = np.full(len(self.jobs), -1, dtype=np.int64)
        for number, group in enumerate(self.groups):
            found[group.rows] = number
        return found.tolist()

    @cached_property
    def _values(self) -> tuple[tuple[list[int], dict[str, list[JsonValue]]], ...]:
        """By group: by row of `jobs` which element, and the columns as lists."""
        return tuple(
            (_places(len(self.jobs), g.rows), {name: c.tolist() for name, c in g.params.items()})
            for g in self.groups
        )

    def __getitem__(self, key: JobKey) -> Reason:
        row = self.jobs.row(key)
        number = self._group[row]
        if number < 0:
            raise KeyError(key)
        places, columns = self._values[number]
        place = places[row]
        return Reason(
            self.groups[number].code, {name: column[place] for name, column in columns.items()}
        )

    def __iter__(self) -> Iterator[JobKey]:
        keys = self.jobs.keys
        return (keys[row] for row in np.flatnonzero(self.has).tolist())

    def __len__(self) -> int:
        return int(self.has.sum())


def _column(values: Any, kind: type[Any], name: str) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim != 1 or not (np.can_cast(column.dtype, kind, "same_kind") or not len(column)):
        raise ValueError(f"column {name} of ranks is no column of {kind.__name__}")
    return column.astype(kind, copy=False)


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """A column of any values: numpy itself would take lists of one length for a matrix."""
    column = np.empty(len(values), dtype=np.object_)
    for place, value in enumerate(values):
        column[place] = value
    return column


def _check_indices(indices: IntColumn, size: int, what: str) -> None:
    if len(indices) and not (indices.min() >= 0 and indices.max() < size):
        raise ValueError(f"a {what} is outside 0..{size - 1}")


def _places(size: int, rows: IntColumn) -> list[int]:
    place = np.full(size, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place.tolist()
