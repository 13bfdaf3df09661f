"""A small training run with everything that has a state, whose end can be compared to the bit.

AdamW, dropout, batch norm, random augmentation with three libraries' generators, a shuffled loader,
a scheduler, a scaler, an average of the weights, a dict of the user's.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.data import ResumableLoader

BATCH = 4
SAMPLES = 22  # the last batch of an epoch is a short one


class NoisyNumbers(Dataset[Any]):
    """Samples that are augmented by random numbers of every kind when they are loaded."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        x = torch.arange(8.0) * (index + 1) / SAMPLES
        noise = random.random() + np.random.rand() + torch.rand(1).item()
        return x + 0.1 * noise, x.sum(dim=0, keepdim=True)


class Training:
    """All objects of one process, as a script makes them at its start."""

    def __init__(self, workers: int = 0, *, width: int = 16) -> None:
        torch.manual_seed(5)
        np.random.seed(6)
        random.seed(7)
        self.model = nn.Sequential(
            nn.Linear(8, width), nn.BatchNorm1d(width), nn.Dropout(0.3), nn.Linear(width, 1)
        )
        self.average = torch.optim.swa_utils.AveragedModel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [3, 9])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
        self.generator = torch.Generator().manual_seed(9)
        self.numpy_generator = np.random.default_rng(10)
        self.seen: dict[str, Any] = {"losses": []}
        self.loader = ResumableLoader(
            NoisyNumbers(), batch_size=BATCH, shuffle=True, num_workers=workers
        )

    def states(self) -> dict[str, Any]:
        names = ("model", "average", "optimizer", "scheduler", "scaler", "generator")
        return {name: getattr(self, name) for name in (*names, "numpy_generator", "seen", "loader")}

    def learn(self, batch: Any) -> None:
        """One training step."""
        x, y = batch
        x = x + torch.randn(x.shape, generator=self.generator) * self.numpy_generator.random()
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.average.update_parameters(self.model)
        self.seen["losses"].append(np.float64(loss.item() + random.random() + np.random.rand()))

    def digest(self) -> str:
        """Of everything that the next step would depend on."""
        h = hashlib.sha256()
        for part in (self.model, self.average, self.optimizer):
            for tensor in _tensors(part.state_dict()):
                h.update(tensor.detach().numpy().tobytes())
        h.update(repr([float(x) for x in self.seen["losses"]]).encode())
        h.update(repr((self.scheduler.state_dict(), self.scaler.state_dict())).encode())
        h.update(repr((random.random(), np.random.rand(), torch.rand(3).tolist())).encode())
        drawn = torch.rand(2, generator=self.generator).tolist()
        h.update(repr((drawn, self.numpy_generator.random())).encode())
        return h.hexdigest()


def run(
    folder: Path,
    total: int,
    *,
    workers: int = 0,
    at_step: Callable[[Checkpointer], None] = lambda _: None,
    **options: Any,
) -> str:
    """Train up to `total` steps as one process would: from the beginning, or from where it was.

    `at_step` is called within each step. The digest at the end.
    """
    training = Training(workers)
    torch.manual_seed(99)  # what a resume has to set right
    with Checkpointer(folder, **{"every": 3600, **options}, **training.states()) as ckpt:
        if ckpt.step == 0:
            torch.manual_seed(5)
        for _, batch in zip(ckpt.steps(total), training.loader.forever(), strict=False):
            training.learn(batch)
            at_step(ckpt)
    return training.digest()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
