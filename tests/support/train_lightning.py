"""Small fits of Lightning, with and without gsched's callback: prints JSON of what they came to.

    train_lightning.py FOLDER

Each interrupted fit gets SIGTERM at one step, from within it, and is then started anew with other
seeds: what it comes to has to equal the fit that nobody has disturbed, which knows no gsched.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader, TensorDataset

from gsched.errors import UnavailableError, UsageError
from gsched.runtime.data import ResumableLoader
from gsched.runtime.lightning import CheckpointCallback

EPOCHS, BATCHES = 3, 8
TOTAL = EPOCHS * BATCHES
CASES = {"in an epoch": 3, "end of an epoch": 8, "validated": 12, "last but one": TOTAL - 1}


class Module(LightningModule):
    """A net with dropout, and AdamW whose rate falls; asks itself for the end at one step."""

    def __init__(self, term_at: int | None = None) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )
        self.register_buffer("average", torch.zeros(1))
        self.term_at = term_at
        self.steps: list[int] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.average.mul_(0.9).add_(self.net[0].weight.detach().mean())

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.average.add_(1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.steps.append(self.global_step)
        if self.global_step + 1 == self.term_at:
            os.kill(os.getpid(), signal.SIGTERM)
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.9)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4 * BATCHES, 8, generator=generator)
    return TensorDataset(x, x.sum(dim=1, keepdim=True))


def fit(
    folder: Path | None, *, seed: int, term_at: int | None = None, **trainer_options: Any
) -> dict[str, Any]:
    """One start of a fit; `status` is what it ended with, `hash` of weights and optimiser."""
    seed_everything(seed, verbose=False)
    module = Module(term_at)
    callbacks: list[Any] = [EarlyStopping("val_loss", patience=50)]
    if folder is not None:
        callbacks.append(CheckpointCallback(folder, snapshot_every=1, every=3600.0))
    trainer = Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=1, callbacks=callbacks, logger=False,
        val_check_interval=4, enable_checkpointing=folder is not None,
        enable_progress_bar=False, enable_model_summary=False, **trainer_options,
    )  # fmt: skip
    train = ResumableLoader(data(), batch_size=4, shuffle=True)
    status: Any = 0
    try:
        trainer.fit(module, train, DataLoader(data(), batch_size=8))
    except SystemExit as end:
        status = end.code
    return {
        "status": status,
        "steps": module.steps,
        "hash": state_hash(module, trainer.optimizers[0]),
        "handler": str(signal.getsignal(signal.SIGTERM)),
    }


def state_hash(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    digest = hashlib.sha256()
    for tensor in module.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    for slot in optimizer.state_dict()["state"].values():
        for key in sorted(slot):
            digest.update(slot[key].numpy().tobytes())
    return digest.hexdigest()


def given(folder: Path) -> dict[str, Any]:
    """Two starts that are given weights to begin with; the second has a checkpoint by then."""
    weights = folder / "given.ckpt"
    options: Any = {"accelerator": "cpu", "devices": 1, "logger": False, "max_steps": 3,
                    "enable_progress_bar": False, "enable_model_summary": False}  # fmt: skip
    trainer = Trainer(enable_checkpointing=False, **options | {"max_steps": 1})
    trainer.fit(Module(), DataLoader(data(), batch_size=4))
    trainer.save_checkpoint(weights)
    starts = []
    for _ in range(2):
        module = Module()
        trainer = Trainer(callbacks=[CheckpointCallback(folder / "given")], **options)
        trainer.fit(module, DataLoader(data(), batch_size=4), ckpt_path=weights)
        starts.append({"steps": module.steps, "weights": weights_hash(module)})
    return dict(zip(("first", "second"), starts, strict=True))


def weights_hash(module: torch.nn.Module) -> str:
    return hashlib.sha256(
        b"".join(p.numpy().tobytes() for p in module.state_dict().values())
    ).hexdigest()


def sharded(folder: Path) -> str:
    """What a strategy that shards is told."""
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    try:
        trainer.strategy.__class__ = FSDPStrategy
        CheckpointCallback(folder).setup(trainer, Module(), "fit")
    except UsageError as refusal:
        return refusal.message
    return ""


def replacing(folder: Path) -> dict[str, Any]:
    """What a Trainer does about checkpoints of its own beside the callback."""
    callback = CheckpointCallback(folder)
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, callbacks=[callback])
    try:
        Trainer(accelerator="cpu", callbacks=[callback], enable_checkpointing=False)
    except MisconfigurationException:
        refused = True
    else:
        refused = False
    return {"others": len(trainer.checkpoint_callbacks) - 1, "refused": refused}


def unwritable() -> str:
    """What a fit comes to whose folder nobody can write, root neither."""
    callback = CheckpointCallback("/sys/kernel")
    trainer = Trainer(
        accelerator="cpu", devices=1, logger=False, max_steps=1, callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    try:
        trainer.fit(Module(), DataLoader(data(), batch_size=4))
    except UnavailableError as failure:
        return failure.message
    return ""


def main() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    result: dict[str, Any] = {"undisturbed": fit(None, seed=1), "cases": {}}
    for name, step in CASES.items():
        here = folder / name.replace(" ", "-")
        first = fit(here, seed=1, term_at=step)
        result["cases"][name] = {"first": first, "second": fit(here, seed=2)}
    result["finished"] = fit(here, seed=3)
    result["accumulated"] = {
        "undisturbed": fit(None, seed=1, accumulate_grad_batches=3),
        "first": fit(folder / "accumulated", seed=1, term_at=4, accumulate_grad_batches=3),
        "second": fit(folder / "accumulated", seed=2, accumulate_grad_batches=3),
    }
    result["given"] = given(folder)
    result["sharded"] = sharded(folder)
    result["replacing"] = replacing(folder)
    result["unwritable"] = unwritable()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
