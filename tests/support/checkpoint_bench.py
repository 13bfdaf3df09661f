"""What one save costs a training loop: the stall, what it slows down after, processor time."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from support.checkpoint_methods import Method

WIDTH = 1024
BATCH = 32
BYTES_A_PARAMETER = 12
"""The weight and AdamW's two moments, 4 bytes each."""
PLAIN_STEPS = 5
MOST_STEPS = 400
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Training:
    """Linear layers and AdamW, so wide that their state has the wanted size."""

    def __init__(self, megabytes: int) -> None:
        torch.manual_seed(0)
        layers = max(1, round(megabytes * 10**6 / BYTES_A_PARAMETER / WIDTH**2))
        self.model = torch.nn.Sequential(
            *(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self._batch = torch.randn(BATCH, WIDTH)
        self.step()  # AdamW makes its moments

    def step(self) -> float:
        """One training step; returns its seconds."""
        begun = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self._batch).square().mean().backward()
        self.optimizer.step()
        return time.perf_counter() - begun

    def state(self) -> dict[str, Any]:
        """The state dicts, not copied."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors of the state."""
        moments = [t for s in self.optimizer.state.values() for t in s.values()]
        return sum(t.nbytes for t in [*self.model.parameters(), *moments])


@dataclass(frozen=True)
class Cost:
    """What one save has cost; seconds."""

    plain_step_s: float
    """Median of the steps just before."""
    returned_s: float
    """Until the call came back."""
    stall_s: float
    """Until the optimiser could change the state: training stands still so long."""
    durable_s: float
    """From the call to the end of the first step after which the checkpoint was durable."""
    slowed_s: float
    """By how much the steps until then took longer, together, than plain ones."""
    rate_during: float
    """Steps a second until then over those before; 1 where nothing went on in the background."""
    cpu_s: float
    """Processor time of all processes of the run, without that of plain steps."""

    @property
    def lost_s(self) -> float:
        """Training time that the save has cost in all."""
        return self.stall_s + self.slowed_s


_steps = itertools.count(1)
"""Checkpoints are numbered by themselves, so that no name comes twice."""


def measure(training: Training, method: Method) -> Cost:
    """Save once by `method`, train on until the checkpoint is durable, and clean up."""
    os.sync()  # what others have left to write is not this one's
    cpu_before = _cpu_s()
    plain = statistics.median(training.step() for _ in range(PLAIN_STEPS))
    cpu_a_step = (_cpu_s() - cpu_before) / PLAIN_STEPS
    cpu_before, begun = _cpu_s(), time.perf_counter()
    method.save(next(_steps))
    returned_s = time.perf_counter() - begun
    method.wait_until_may_step()
    stall_s = time.perf_counter() - begun
    during: list[float] = []
    while not method.is_durable():
        during.append(training.step())
        assert len(during) < MOST_STEPS, f"{method.name} never became durable"
    durable_s = time.perf_counter() - begun
    cpu_s = _cpu_s() - cpu_before - cpu_a_step * len(during)
    method.clean_up()
    return Cost(
        plain_step_s=plain,
        returned_s=returned_s,
        stall_s=stall_s,
        durable_s=durable_s,
        slowed_s=sum(during) - plain * len(during),
        rate_during=plain * len(during) / sum(during) if during else 1.0,
        cpu_s=cpu_s,
    )


def _cpu_s() -> float:
    """Processor seconds of this process and all its descendants that live, to 10 ms each."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    family = {os.getpid()}
    while more := {p for p, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[p] for p in family) / TICKS_A_SECOND
