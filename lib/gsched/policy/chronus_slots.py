"""Time in slots that grow with their distance, for the greedy search by slots and for the solver.

A slot counts for a job from when it may start and until it is due; a job that is due within a slot
has the part before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gsched.policy.chronus_calendar import Calendar, Span, joined
from gsched.policy.chronus_plan import Need, beyond, latest, without_held

ALIKE = 16
"""So many slots have one length; then it doubles."""

MOST_SLOTS = 400


@dataclass(frozen=True, slots=True)
class Slots:
    """`bounds` are one more than slots; `free` are GPUs that are free all through each."""

    bounds: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, free: Calendar, end: int, base_s: int, most: int = MOST_SLOTS) -> Slots:
        """From the beginning of `free` until `end` or after, the first ones `base_s` long at least:
        longer where there would be more than `most`.
        """
        length_s = max(1, base_s)
        while True:
            bounds = _bounds(free.begin, end, length_s, most)
            if bounds is not None:
                break
            length_s *= 2
        own = tuple([free.least(a, b) for a, b in pairwise(bounds)])
        return cls(bounds, own)

    def __len__(self) -> int:
        return len(self.free)

    def seconds_for(self, need: Need, number: int) -> int:
        """For how long a slot does for a job, beyond what it holds anyway."""
        begin = need.held[-1][1] if need.held else need.begin
        start, end = self.bounds[number], self.bounds[number + 1]
        return max(0, min(end, need.due) - max(start, begin))

    def spans_of(self, need: Need, numbers: Sequence[int]) -> tuple[Span, ...]:
        """What these slots are for a job."""
        begin = need.held[-1][1] if need.held else need.begin
        found = [(max(self.bounds[n], begin), min(self.bounds[n + 1], need.due)) for n in numbers]
        return joined([span for span in found if span[0] < span[1]])


def _bounds(begin: int, end: int, length_s: int, most: int) -> tuple[int, ...] | None:
    """None where there would be more than `most` slots."""
    bounds = [begin]
    while bounds[-1] < end:
        if len(bounds) > most:
            return None
        doublings = (len(bounds) - 1) // ALIKE
        bounds.append(bounds[-1] + length_s * 2**doublings)
    return tuple(bounds)


def with_whole(
    needs: Sequence[Need], free: Calendar
) -> tuple[Calendar, dict[str, tuple[Span, ...]]] | None:
    """What is left, and the spans of those that cannot be cut: put in first, as late as can be.

    What others hold anyway is taken, too. None where one of them finds no room.
    """
    left, spans = without_held(needs, free), dict[str, tuple[Span, ...]]()
    whole = [need for need in needs if need.pieces.whole]
    for need in sorted(whole, key=lambda n: (-n.due, -n.gpus, n.tie)):
        found = latest(need, left)
        if found is None:
            return None
        left.take(beyond(need, found), need.gpus)
        spans[need.name] = found
    return left, spans


def by_slots(
    needs: Sequence[Need], free: Calendar, base_s: int
) -> Mapping[str, tuple[Span, ...]] | None:
    """Where all find room, slot by slot; None where somebody does not. See `_filled`."""
    begun = with_whole(needs, free)
    if begun is None or not needs:
        return None
    left, spans = begun
    cut = [need for need in needs if need.name not in spans]
    slots = Slots.of(left, max(n.due for n in needs), base_s)
    chosen, rest = _filled(cut, slots)
    if any(seconds > 0 for seconds in rest.values()):
        return None
    for need in cut:
        spans[need.name] = slots.spans_of(need, chosen[need.name])
    return spans


def unmet_gpu_s(needs: Sequence[Need], free: Calendar, base_s: int) -> float:
    """GPU-seconds for which there is no room before they are due, all taken as if they could be
    cut.
    """
    if not needs:
        return 0.0
    slots = Slots.of(without_held(needs, free), max(n.due for n in needs), base_s)
    _, rest = _filled(needs, slots)
    return float(sum(max(0, rest[need.name]) * need.gpus for need in needs))


def _filled(needs: Sequence[Need], slots: Slots) -> tuple[dict[str, list[int]], dict[str, int]]:
    """From the last slot on, in each of them those with most left to run: optimal for jobs of one
    GPU that can be stopped at no cost, and good for others.

    By job its slots, the last first, and the seconds for which it found none.
    """
    rest = {need.name: need.rest_s for need in needs}
    chosen: dict[str, list[int]] = {need.name: [] for need in needs}
    for number in range(len(slots) - 1, -1, -1):
        room, start = slots.free[number], slots.bounds[number]
        if room <= 0:
            continue
        asking = [n for n in needs if n.due > start and rest[n.name] > 0 and n.gpus <= room]
        asking.sort(key=lambda n: (-rest[n.name], -n.gpus, n.tie))
        for need in asking:
            seconds = slots.seconds_for(need, number) if need.gpus <= room else 0
            if not seconds:
                continue
            room -= need.gpus
            own = chosen[need.name]
            if own and own[-1] != number + 1:
                rest[need.name] += need.pieces.resume_s
            own.append(number)
            rest[need.name] -= seconds
    return chosen, rest
