"""How often to take a snapshot, and how often to have one written, from what they cost.

No torch, no clock: times come in as arguments, in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NODE_MTBF_S = 150 * 86_400.0
"""Mean time between failures of one node, where nobody says better: 6.5 failures in a thousand
node-days were reported of a research cluster of 16,000 GPUs (Kokolis et al., 2024)."""

SNAPSHOT_SHARE = 0.01
"""Of the training time that snapshots may take, where their cadence is automatic."""

MIN_INTERVAL_S = 10.0
MAX_INTERVAL_S = 3600.0

SLOW_DISK_BYTES_S = 50e6
"""What a disk is expected to do at least, until it has shown what it does."""

MAX_PATIENCE_S = 30.0

_WEIGHT = 0.2
"""Of a new measurement in a running mean."""


def young_daly_s(cost_s: float, mtbf_s: float) -> float:
    """The interval between checkpoints that loses the least time: sqrt(2 · cost · MTBF).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974. Daly's
    higher-order estimate (2006) differs from it by less than the cost, where that is small.
    """
    return math.sqrt(2 * cost_s * mtbf_s)


@dataclass
class RunningMean:
    """A mean in which old values fade; None before the first."""

    value: float | None = None

    def add(self, x: float) -> None:
        """One more measurement."""
        self.value = x if self.value is None else (1 - _WEIGHT) * self.value + _WEIGHT * x


@dataclass
class Cadence:
    """Measures a run and says when.

    `every_s` is the interval of written checkpoints and `snapshot_every` that of snapshots, in
    steps; None: automatic. `mtbf_s` is the mean time between failures of the whole job.
    """

    every_s: float | None
    snapshot_every: int | None
    mtbf_s: float
    stall_s: RunningMean = field(default_factory=RunningMean)
    write_s: RunningMean = field(default_factory=RunningMean)
    step_s: RunningMean = field(default_factory=RunningMean)
    step_while_writing_s: RunningMean = field(default_factory=RunningMean)
    _last_persist: float | None = None
    _last_snapshot_step: int | None = None

    def step_took(self, seconds: float, *, writing: bool) -> None:
        """A training step's time, without that of a snapshot; and whether the writer was busy."""
        (self.step_while_writing_s if writing else self.step_s).add(seconds)

    def snapshot_taken(self, step: int, stall_s: float, *, is_typical: bool = True) -> None:
        """Training stood still so long; the first time, with memory to be made, is not typical."""
        self._last_snapshot_step = step
        if is_typical:
            self.stall_s.add(stall_s)

    def persist_asked(self, now: float) -> None:
        """A checkpoint is being written from now on."""
        self._last_persist = now

    @property
    def cost_s(self) -> float:
        """What one checkpoint costs the training: the stall, and the slower steps meanwhile."""
        stall, write = self.stall_s.value or 0.0, self.write_s.value or 0.0
        alone, beside = self.step_s.value, self.step_while_writing_s.value
        slower = max(0.0, beside / alone - 1) if alone and beside else 0.0
        # of `write` seconds at a slower pace, this part is lost
        return stall + write * slower / (1 + slower)

    @property
    def interval_s(self) -> float:
        """Between written checkpoints; at least twice the time that writing takes."""
        if self.every_s is not None:
            return self.every_s
        best = young_daly_s(self.cost_s, self.mtbf_s)
        return max(min(best, MAX_INTERVAL_S), MIN_INTERVAL_S, 2 * (self.write_s.value or 0.0))

    def patience_s(self, num_bytes: int) -> float:
        """How long a writer may take for a checkpoint of so many bytes before that is remarkable.

        Three intervals, at most `MAX_PATIENCE_S`; but never less than three times what it usually
        takes.
        """
        usual = self.write_s.value
        expected = num_bytes / SLOW_DISK_BYTES_S if usual is None else usual
        return max(min(3 * self.interval_s, MAX_PATIENCE_S), 3 * expected)

    @property
    def steps_between_snapshots(self) -> int:
        """As few as cost no more than `SNAPSHOT_SHARE` of the training time."""
        if self.snapshot_every is not None:
            return self.snapshot_every
        stall, step = self.stall_s.value, self.step_s.value
        if not stall or not step:
            return 1
        return max(1, math.ceil(stall / (SNAPSHOT_SHARE * step)))

    def wants_snapshot(self, step: int) -> bool:
        """Whether one is due after this step. Says so once."""
        last = self._last_snapshot_step
        is_due = last is None or step - last >= self.steps_between_snapshots
        if is_due:
            self._last_snapshot_step = step
        return is_due

    def wants_persist(self, now: float) -> bool:
        """Whether a checkpoint is due, once; where the interval is automatic, the first is at once.

        So a disk that is full, or a folder that cannot be written, shows in the first minute.
        """
        last = self._last_persist
        is_due = self.every_s is None if last is None else now - last >= self.interval_s
        if is_due or last is None:
            self._last_persist = now
        return is_due
