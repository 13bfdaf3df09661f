"""Free GPUs of one pool over time, and where in it a job's run time finds place.

A step function in epoch seconds; behind its last step it goes on for ever. Jobs are put in as late
as their end allows, so that others get the GPUs before, or as early as there is room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FOREVER = 2**40
"""An epoch time that never comes."""

Span = tuple[int, int]
"""From when until when (epoch seconds) a job holds its GPUs."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Into which pieces a run may be cut: each of `least_s` at least but the last one placed, and
    each further one costs `resume_s` of run time more. `whole`: into none.
    """

    least_s: int = 1
    resume_s: int = 0
    whole: bool = False


class Calendar:
    """Free GPUs from `begin` on: `free`, until something is taken."""

    def __init__(self, begin: int, free: int) -> None:
        self._times = [begin]
        self._free = [free]  # from the time with the same number to the next one

    def copy(self) -> Calendar:
        """Another one that can be changed by itself."""
        other = Calendar.__new__(Calendar)
        other._times, other._free = self._times.copy(), self._free.copy()
        return other

    @property
    def begin(self) -> int:
        """The first second that it knows."""
        return self._times[0]

    def steps(self) -> Iterator[tuple[int, int]]:
        """(epoch second, GPUs free from then on), in order of time."""
        return zip(self._times, self._free, strict=True)

    def take(self, spans: Sequence[Span], gpus: int) -> None:
        """So many GPUs are held in each of `spans`; fewer than none may be left."""
        for start, end in spans:
            start = max(start, self.begin)
            if start < end:
                first, last = self._cut(start), self._cut(end)
                for number in range(first, last):
                    self._free[number] -= gpus

    def give(self, spans: Sequence[Span], gpus: int) -> None:
        """They are held no more."""
        self.take(spans, -gpus)

    def _cut(self, time: int) -> int:
        """The number of the step that begins at `time`, which is made if there is none."""
        number = bisect_left(self._times, time)
        if number == len(self._times) or self._times[number] != time:
            self._times.insert(number, time)
            self._free.insert(number, self._free[number - 1])
        return number

    def at_most(self, gpus: int, span: Span) -> None:
        """No more than so many are free at any time in `span`."""
        first, last = self._cut(max(span[0], self.begin)), self._cut(span[1])
        for number in range(first, last):
            self._free[number] = min(self._free[number], gpus)

    def least(self, start: int, end: int) -> int:
        """The least number of free GPUs at any time between."""
        first = max(0, bisect_right(self._times, start) - 1)
        last = max(first + 1, bisect_left(self._times, end))
        return min(self._free[first:last])

    def latest(
        self, gpus: int, need_s: int, window: Span, pieces: Pieces
    ) -> tuple[Span, ...] | None:
        """The latest spans in `window` in which so many GPUs are free for so long; None: too few.

        One piece where the latest room is long enough, else pieces from the end on.
        """
        found: list[Span] = []
        rest = need_s
        for start, end in self._rooms_backward(gpus, window):
            if end - start >= rest:
                return ((end - rest, end), *reversed(found))
            if not pieces.whole and end - start >= pieces.least_s:
                found.append((start, end))
                rest += pieces.resume_s - (end - start)
        return None

    def earliest(self, gpus: int, need_s: int, begin: int, pieces: Pieces) -> tuple[Span, ...]:
        """The earliest spans from `begin` on in which so many GPUs are free for so long; () where
        there will never be so many.
        """
        found: list[Span] = []
        rest = need_s
        for start, end in self._rooms(gpus, (begin, FOREVER)):
            if end - start >= rest:
                return (*found, (start, start + rest))
            if not pieces.whole and end - start >= pieces.least_s:
                found.append((start, end))
                rest += pieces.resume_s - (end - start)
        return ()

    def seconds_free(self, gpus: int, window: Span) -> int:
        """For how long in `window` so many GPUs are free."""
        return sum(end - start for start, end in self._rooms(gpus, window))

    def gpu_seconds(self, window: Span) -> int:
        """Free GPU-seconds in `window`."""
        first = max(0, bisect_right(self._times, window[0]) - 1)
        total = 0
        for number in range(first, len(self._times)):
            start, end = self._step(number, window)
            if start >= window[1]:
                break
            total += max(0, self._free[number]) * max(0, end - start)
        return total

    def _step(self, number: int, window: Span) -> Span:
        ends = self._times[number + 1] if number + 1 < len(self._times) else FOREVER
        return max(self._times[number], window[0]), min(ends, window[1])

    def _rooms(self, gpus: int, window: Span) -> Iterator[Span]:
        """Longest spans in `window` with so many free GPUs throughout, in order of time."""
        first = max(0, bisect_right(self._times, window[0]) - 1)
        begins: int | None = None
        for number in range(first, len(self._times)):
            start, _ = self._step(number, window)
            if start >= window[1]:
                break
            if self._free[number] >= gpus:
                begins = start if begins is None else begins
            elif begins is not None:
                yield begins, start
                begins = None
        if begins is not None and begins < window[1]:
            yield begins, window[1]

    def _rooms_backward(self, gpus: int, window: Span) -> Iterator[Span]:
        """The same, the latest first."""
        last = bisect_left(self._times, window[1]) - 1
        ends: int | None = None
        for number in range(last, -1, -1):
            start, end = self._step(number, window)
            if self._free[number] >= gpus:
                ends = end if ends is None else ends
            elif ends is not None:
                if end < ends:
                    yield max(end, window[0]), ends
                ends = None
            if start <= window[0]:
                break
        if ends is not None and window[0] < ends:
            yield window[0], ends


def joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The same time in as few spans as can be, in order."""
    ordered: list[Span] = []
    for span in spans:
        insort(ordered, span)
    found: list[Span] = []
    for start, end in ordered:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def rounded_up(gpus: int, node_gpus: int = 8) -> int:
    """GPUs that surely find place side by side: 1, 2, 4, … of a node, or whole nodes."""
    if gpus >= node_gpus:
        return -(-gpus // node_gpus) * node_gpus
    return min(node_gpus, 1 << max(0, gpus - 1).bit_length())
