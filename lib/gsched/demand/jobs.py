"""Demand from the job history: what was in use at each step, from when jobs began and ended.

A node that runs several jobs is one node: where the names of the nodes are known, a node is busy
while any job holds it. Where only numbers are known they are added, which counts shared nodes more
than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.demand.series import DemandSeries

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Use:
    """One attempt's hold on `amount` (GPUs, or whole nodes) of `kind`.

    `kind` is a GPU type, a node type or "". `end` None: it still runs. Times are epoch seconds; the
    second in which it ends is free again. `nodes` are names, where they are known.
    """

    start: int
    end: int | None
    amount: int
    kind: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """The steps of a series: from `since` (a multiple of `step_s`) until before `until`."""

    since: int
    until: int
    step_s: int

    def __post_init__(self) -> None:
        if self.step_s <= 0 or self.since % self.step_s or self.until < self.since:
            raise ValueError(f"no steps of {self.step_s} s from {self.since} to {self.until}")

    @property
    def num_steps(self) -> int:
        """Whole steps in it."""
        return (self.until - self.since) // self.step_s


def demand_of_jobs(uses: Iterable[Use], span: Span, unit: str) -> DemandSeries:
    """The greatest sum of amounts in use at one time within each step."""
    held = [use for use in uses if use.amount > 0]
    starts = np.array([use.start for use in held], dtype=np.int64)
    ends = np.array([span.until if use.end is None else use.end for use in held], dtype=np.int64)
    amounts = np.array([use.amount for use in held], dtype=np.float64)
    return _peaks(starts, ends, amounts, span, unit)


def demand_by_kind(uses: Iterable[Use], span: Span, unit: str) -> Mapping[str, DemandSeries]:
    """The same for each kind of what is held, by name."""
    held: dict[str, list[Use]] = {}
    for use in uses:
        held.setdefault(use.kind, []).append(use)
    return {kind: demand_of_jobs(held[kind], span, unit) for kind in sorted(held)}


def busy_nodes(uses: Iterable[Use], span: Span) -> DemandSeries:
    """The greatest number of nodes that ran something at one time within each step, by names.

    A use without names counts as `amount` nodes that it has for itself.
    """
    by_node: dict[str, list[tuple[int, int]]] = {}
    held: list[tuple[int, int, int]] = []
    for use in uses:
        end = span.until if use.end is None else use.end
        for node in use.nodes:
            by_node.setdefault(node, []).append((use.start, end))
        if not use.nodes:
            held.append((use.start, end, use.amount))
    for stretches in by_node.values():
        held += [(start, end, 1) for start, end in _union(stretches)]
    table = np.array(held, dtype=np.int64).reshape(-1, 3)
    return _peaks(table[:, 0], table[:, 1], table[:, 2].astype(np.float64), span, "nodes")


def _union(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that touch or overlap become one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _peaks(
    starts: Ints, ends: Ints, amounts: NDArray[np.float64], span: Span, unit: str
) -> DemandSeries:
    """The greatest level in each step: that at its beginning, or after a change within it."""
    last = span.since + span.num_steps * span.step_s
    inside = (np.maximum(ends, starts) > starts) & (ends > span.since) & (starts < last)
    starts, ends, amounts = starts[inside], ends[inside], amounts[inside]
    moments = np.concatenate([starts, ends])
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    level = np.cumsum(np.concatenate([amounts, -amounts])[order])
    last_of_moment = np.append(moments[1:] != moments[:-1], True)[: len(moments)]
    moments, level = moments[last_of_moment], level[last_of_moment]
    begins = span.since + span.step_s * np.arange(span.num_steps, dtype=np.int64)
    before = np.searchsorted(moments, begins, side="right") - 1
    peaks = np.where(before >= 0, np.append(level, 0.0)[before], 0.0)
    within = (moments >= span.since) & (moments < last)
    np.maximum.at(peaks, (moments[within] - span.since) // span.step_s, level[within])
    return DemandSeries(span.since, span.step_s, peaks, unit)
