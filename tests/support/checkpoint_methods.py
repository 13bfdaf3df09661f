"""Ways of saving one training state, behind one interface, so that a bench can compare them.

torch.save with fsync and rename; torch's distributed checkpoint (DCP), saving asynchronously by a
thread or by a process with a warm stager, which is its quickest setting. Each is as durable as the
others when `is_durable` says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse

from gsched.ckpt import layout
from gsched.runtime.checkpoint import Checkpointer

NEVER = 10**9
"""Seconds, or steps: the bench says itself when to save."""

State = Callable[[], dict[str, Any]]
"""Gives the model's and the optimiser's state dicts as they are now."""


class Method(Protocol):
    """One way of saving."""

    name: str

    def save(self, step: int) -> None:
        """Begin to save; training must not touch the state before `wait_until_may_step`."""

    def wait_until_may_step(self) -> None:
        """Wait until the optimiser may change the state."""

    def is_durable(self) -> bool:
        """Whether the checkpoint is on disk, committed."""

    def clean_up(self) -> None:
        """Remove the checkpoint."""

    def close(self) -> None:
        """End whatever runs."""


class TorchSave:
    """torch.save into a temporary file, fsync, rename, fsync of the folder: all in the loop."""

    name = "torch_save_fsync"

    def __init__(self, folder: Path, state: State) -> None:
        folder.mkdir()
        self._folder = folder
        self._state = state

    def save(self, step: int) -> None:
        with (self._folder / "tmp").open("wb") as file:
            torch.save(self._state(), file)
            file.flush()
            os.fsync(file.fileno())
        (self._folder / "tmp").rename(self._folder / f"{step}.pt")
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def wait_until_may_step(self) -> None:
        pass

    def is_durable(self) -> bool:
        return True

    def clean_up(self) -> None:
        for file in self._folder.iterdir():
            file.unlink()

    def close(self) -> None:
        pass


class DcpAsync:
    """DCP's async_save; needs a process group. Its stager returns before it has copied."""

    def __init__(self, folder: Path, state: State, by: AsyncCheckpointerType) -> None:
        self.name = f"dcp_async_{by.value}"
        folder.mkdir()
        self._folder = folder
        self._state = state
        self._by = by
        options = StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=by is AsyncCheckpointerType.PROCESS,
            use_async_staging=True,
            use_non_blocking_copy=False,
        )
        self._stager = DefaultStager(options)
        self._staged: Future[None] = Future()
        self._durable: Future[None] = Future()

    def save(self, step: int) -> None:
        answer = dcp.async_save(
            self._state(),
            checkpoint_id=self._folder / str(step),
            async_checkpointer_type=self._by,
            async_stager=self._stager,
        )
        assert isinstance(answer, AsyncSaveResponse)
        self._staged = answer.staging_completion
        self._durable = answer.upload_completion

    def wait_until_may_step(self) -> None:
        self._staged.result()

    def is_durable(self) -> bool:
        if self._durable.done():
            self._durable.result()  # raises what went wrong
            return True
        return False

    def clean_up(self) -> None:
        for checkpoint in self._folder.iterdir():
            shutil.rmtree(checkpoint)

    def close(self) -> None:
        self._stager.close()


class Gsched:
    """gsched's Checkpointer: a copy into shared memory, and a writer beside the training."""

    name = "gsched"

    def __init__(
        self, folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        self._folder = folder
        self._step = 0
        self._checkpointer = Checkpointer(
            folder, every=NEVER, snapshot_every=NEVER, signals={}, model=model, optimizer=optimizer
        )
        self._checkpointer.start()

    def save(self, step: int) -> None:
        self._step = step
        self._checkpointer.save()
        self._checkpointer.finish_step(step)

    def wait_until_may_step(self) -> None:
        pass

    def is_durable(self) -> bool:
        pointer = self._folder / layout.LATEST_NAME
        return pointer.exists() and pointer.read_bytes() == layout.encode_latest(self._step)

    def clean_up(self) -> None:
        shutil.rmtree(self._folder / layout.step_name(self._step))

    def close(self) -> None:
        self._checkpointer.close()
