"""Fits of Lightning by DDP, one rank of two: undisturbed, stopped, resumed, and one that another
callback ends early. Prints JSON.

train_lightning_ddp.py FOLDER PORTS
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader

from gsched.runtime.data import ResumableLoader
from gsched.runtime.lightning import CheckpointCallback
from support.forked import in_child
from support.train_lightning import EPOCHS, Module, data, state_hash

STOP_AT = 6
EARLY_END = 7


class EarlyEnd(Callback):
    """Ends the fit after one step, on all ranks."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        trainer.should_stop = trainer.global_step >= EARLY_END


def fit(
    folder: Path | None,
    *,
    term_at: int | None,
    draws: int,
    snapshot_every: int = 1,
    others: tuple[Callback, ...] = (),
) -> dict[str, Any]:
    """One start, with the script's own seed; `draws` random numbers come after it."""
    seed_everything(1, verbose=False)
    torch.rand(draws)
    module = Module(term_at)
    callbacks: list[Any] = [*others]
    if folder is not None:
        callbacks.append(CheckpointCallback(folder, snapshot_every=snapshot_every, every=3600.0))
    trainer = Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=2, strategy="ddp", callbacks=callbacks,
        logger=False, val_check_interval=2, enable_checkpointing=folder is not None,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    status: Any = 0
    try:
        trainer.fit(
            module,
            ResumableLoader(data(), batch_size=4, shuffle=True),
            DataLoader(data(), batch_size=8),
        )
    except SystemExit as end:
        status = end.code
    hashed = state_hash(module, trainer.optimizers[0])
    return {"status": status, "steps": module.steps, "hash": hashed}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    folder, ports = Path(sys.argv[1]), sys.argv[2].split(",")
    starts = {
        "undisturbed": partial(fit, None, term_at=None, draws=0),
        "stopped": partial(fit, folder / "stopped", term_at=STOP_AT, draws=0),
        "resumed": partial(fit, folder / "stopped", term_at=None, draws=3),
        "early": partial(
            fit,
            folder / "early",
            term_at=None,
            draws=0,
            snapshot_every=1000,
            others=(EarlyEnd(),),
        ),
    }
    told = {}
    for (name, start), port in zip(starts.items(), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        told[name] = in_child(folder / f"{name}-{os.environ['RANK']}.json", start)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
