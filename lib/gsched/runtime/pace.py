"""How fast a training run goes, from a few looks at its steps a second."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW_S = 600.0


class Sample(NamedTuple):
    """At `time_s` (of a clock that never goes back) so many steps and tokens were done."""

    time_s: float
    step: int
    tokens: int


class Pace:
    """The samples of the last ten minutes, at least two however slow the steps are.

    The first step counts for nothing: it is longer than others (start of workers, compilation).
    """

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def add(self, sample: Sample) -> None:
        """One more sample; what was known of a run whose steps go back is void."""
        samples = self._samples
        if samples and sample.step < samples[-1].step:
            samples.clear()
        samples.append(sample)
        while len(samples) > 2 and samples[1].time_s <= sample.time_s - WINDOW_S:
            samples.popleft()

    @property
    def iteration_s(self) -> float | None:
        """Mean seconds of the steps between the last two samples."""
        return _seconds_a_step(self._samples[-2], self._samples[-1]) if self._is_known else None

    @property
    def pace_s(self) -> float | None:
        """Seconds a step over the window, with all that lay between steps."""
        return _seconds_a_step(self._samples[0], self._samples[-1]) if self._is_known else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second over the window; None where none are told."""
        first, last = (self._samples[0], self._samples[-1]) if self._is_known else (None, None)
        if first is None or last is None or last.tokens == first.tokens:
            return None
        return (last.tokens - first.tokens) / max(last.time_s - first.time_s, 1e-9)

    @property
    def _is_known(self) -> bool:
        return len(self._samples) > 1


def _seconds_a_step(first: Sample, last: Sample) -> float | None:
    steps = last.step - first.step
    return (last.time_s - first.time_s) / steps if steps else None
