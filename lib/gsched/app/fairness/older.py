"""The time of which jobs have been pruned: tenants' hours are kept in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from gsched.fairness.books import Books
from gsched.fairness.fading import HOUR_S, faded_gpu_s
from gsched.fairness.hours import IntervalSums
from gsched.model.accounts import FairnessEntry
from gsched.model.jobtable import FloatColumn


class OlderHours:
    """Closed hours of the time before `cut_s` (epoch), from which on the books know all.

    `tenants` are those of the books, and behind them who is in the hours alone.
    """

    def __init__(self, books: Books, entries: Sequence[FairnessEntry], cut_s: float) -> None:
        known = dict.fromkeys([*books.tenants, *(entry.tenant for entry in entries)])
        self.tenants = tuple(known)
        self.cut_s = cut_s
        self._entries = [entry for entry in entries if entry.begin_time + entry.length_s <= cut_s]
        code = {name: number for number, name in enumerate(self.tenants)}
        self._tenant = np.array([code[entry.tenant] for entry in self._entries], dtype=np.int64)
        self._begin_s = np.array([entry.begin_time for entry in self._entries], dtype=np.float64)

    def later(self, books: Books) -> Books:
        """The books without the time that these hours tell of, with their tenants."""
        asked, held = (s.disjoint().within(self.cut_s, np.inf) for s in (books.asked, books.held))
        return replace(books, tenants=self.tenants, asked=asked, held=held)

    def edges(self, edges_s: FloatColumn) -> FloatColumn:
        """Those of the intervals as far as the books tell of them."""
        later: FloatColumn = np.maximum(edges_s, self.cut_s)
        return later

    def added(self, sums: IntervalSums, edges_s: FloatColumn) -> IntervalSums:
        """`sums` with the whole hours that lie between the first and the last of `edges_s`."""
        place = np.searchsorted(edges_s, self._begin_s, side="right") - 1
        inside = (self._begin_s >= edges_s[0]) & (self._begin_s + HOUR_S <= edges_s[-1])
        rows = np.flatnonzero(inside)
        found = {}
        for one in fields(sums):
            column = getattr(sums, one.name).copy()
            told = [getattr(self._entries[row], f"{one.name}_gpu_s") for row in rows.tolist()]
            np.add.at(column, (self._tenant[rows], place[rows]), told)
            found[one.name] = column
        return IntervalSums(**found)

    def faded(self, at_s: float, half_life_s: float) -> FloatColumn:
        """GPU-seconds received by tenant, faded until `at_s` as if received in mid-hour."""
        counted = [faded_gpu_s(entry, at_s, half_life_s) for entry in self._entries]
        return np.bincount(self._tenant, counted, len(self.tenants)).astype(np.float64)
