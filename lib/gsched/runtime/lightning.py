"""Lightning's Trainer on gsched's checkpoints: a callback.

::

    from gsched.runtime.lightning import CheckpointCallback
    trainer = Trainer(callbacks=[CheckpointCallback("checkpoints")])
    trainer.fit(model, loader)      # goes on after the newest valid checkpoint

Lightning has no public way to get and set its state as a value: the functions at the end of this
module alone touch what is private there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy

from gsched.errors import UsageError
from gsched.runtime.checkpoint import DEFAULT_SIGNALS, Checkpointer
from gsched.runtime.data import ResumableLoader

_STRATEGIES = (SingleDeviceStrategy, DDPStrategy)


class CheckpointCallback(Checkpoint):
    """Saves and restores a fit: model, optimisers, schedulers, loops, callbacks, random state.

    `folder` and `options` are those of `Checkpointer`. A checkpoint in the folder goes before
    `fit(ckpt_path=…)`, which thus can name what the first start begins with. The place in the data
    is kept where the loader has a state: with `gsched.runtime.data.ResumableLoader` to the bit,
    with torchdata's StatefulDataLoader but for the order of an epoch that begins after a resume
    between two. After SIGTERM `fit` raises SystemExit(143) once the checkpoint is durable.

    A step ends with what belongs to it: a validation, the end of its epoch. To keep the best models
    as well, give the Trainer a ModelCheckpoint beside it. It is a `Checkpoint` of Lightning's, so
    that it runs after all other callbacks, whose states it keeps; the Trainer thus adds no
    ModelCheckpoint of its own, and refuses it with `enable_checkpointing=False`.
    """

    def __init__(self, folder: str | Path | None = None, **options: Any) -> None:
        super().__init__()
        self._folder = folder
        self._options = options
        self._run: _Run | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Read the newest valid checkpoint, with all ranks; nothing is applied yet.

        UsageError for a strategy that shards the model.
        """
        if stage != "fit":
            return
        if not isinstance(trainer.strategy, _STRATEGIES):
            raise UsageError(
                f"gsched's callback cannot save what {type(trainer.strategy).__name__} shards",
                "train with one device or DDP, or write the loop with gsched.runtime.checkpoint",
            )
        self._run = _Run.start(trainer, self._folder, self._options)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give Lightning the state; it applies the rest of it, optimisers and loops, itself."""
        if self._run is not None:
            self._run.apply()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to listen to signals, and set the random state as it was."""
        if self._run is not None:
            self._run.listen()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The end of a step, unless more belongs to it."""
        if self._run is not None:
            self._run.checkpointer.report(loss=_loss(outputs))
            if not _ends_epoch(trainer) and not _validation_follows(trainer):
                _after_own_hook(pl_module, "on_train_batch_end", self._run.finish_step)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The end of a step that was validated, unless it is the last one of an epoch."""
        if self._run is not None and not trainer.sanity_checking and not _ends_epoch(trainer):
            _after_own_hook(pl_module, "on_validation_end", self._run.finish_step)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The end of the last step of the epoch before: schedulers have looked at its metrics."""
        if self._run is not None and self._run.has_new_step:
            _begin_epoch(trainer)
            self._run.finish_step()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save what the fit has come to, and wait until it is durable."""
        if self._run is not None:
            self._run.save_last()
            self._close(failed=False)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Let go of the writer after a fit that had nothing left to do."""
        self._close(failed=False)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Let go of the writer, which then saves the newest snapshot, and of the signals."""
        self._close(failed=not isinstance(exception, SystemExit))

    def _close(self, *, failed: bool) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            run.close(failed=failed)


@dataclass
class _Run:
    """One fit, from `setup` to its end.

    Lightning's own handler for SIGTERM waits for the other ranks within the handler, and can wait
    for ever. So it gets the handlers of before, and is put aside while batches are trained.
    """

    trainer: Trainer
    checkpointer: Checkpointer
    training: _Training
    loops: _Loops
    signums: tuple[int, ...]
    restored_step: int | None = None
    last_step: int = 0
    ours: dict[int, Any] = field(default_factory=dict)
    lightnings: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, trainer: Trainer, folder: str | Path | None, options: dict[str, Any]) -> _Run:
        training, loops = _Training(trainer), _Loops(trainer)
        checkpointer = Checkpointer(
            folder, replicated=("training",), training=training, loops=loops, **options
        )
        signums = tuple(options.get("signals", DEFAULT_SIGNALS))
        run = cls(trainer, checkpointer, training, loops, signums)
        before = _handlers(signums)
        run.restored_step = checkpointer.start()
        run.last_step = run.restored_step or 0
        run.ours = _handlers(signums)
        _set_handlers(before)
        return run

    @property
    def has_new_step(self) -> bool:
        """Whether there was a step since the last one that was finished: not while gradients are
        being accumulated."""
        return self.trainer.global_step != self.last_step

    def apply(self) -> None:
        if self.restored_step is not None:
            _hand_over(self.trainer, self.training.kept, self.loops.kept)
            self.checkpointer.restore_random()  # a new epoch's order is drawn before `listen`
        self.training.kept = self.loops.kept = None

    def listen(self) -> None:
        if self.restored_step is not None and not _is_between_epochs(self.trainer):
            self.checkpointer.restore_random()
        self.lightnings = _handlers(self.signums)
        _set_handlers(self.ours)
        steps = self.trainer.estimated_stepping_batches
        if self.trainer.lightning_module.automatic_optimization and isinstance(steps, int):
            self.checkpointer.total = steps

    def finish_step(self) -> None:
        if not self.has_new_step:
            return
        self.last_step = self.trainer.global_step
        ends = self.checkpointer.finish_step(self.last_step)
        if ends and self.checkpointer.exit_status is not None:
            raise SystemExit(self.checkpointer.exit_status)

    def save_last(self) -> None:
        self.checkpointer.finish_step(self.trainer.global_step, is_last=True)

    def close(self, *, failed: bool) -> None:
        try:
            self.checkpointer.close(failed=failed)
        finally:
            _set_handlers(self.lightnings)


class _Kept:
    """A state that is kept as it was read until Lightning can take it; then it is Lightning's."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.kept: Any = {}

    def load_state_dict(self, state: Any) -> None:
        self.kept = state


class _Training(_Kept):
    """What is the same on every rank of DDP: all but the loops."""

    def state_dict(self) -> Any:
        return _dump(self._trainer) if self.kept is None else self.kept


class _Loops(_Kept):
    """Each rank's own: how far epochs and batches are, and where the loaders stand."""

    def state_dict(self) -> Any:
        if self.kept is not None:
            return self.kept
        state = self._trainer.fit_loop.state_dict()
        if _is_between_epochs(self._trainer) and not _all_resumable(self._trainer):
            # other loaders do not know that their epoch has ended: the next start begins them anew
            state["state_dict"].pop("combined_loader", None)
        return state


def _after_own_hook(module: LightningModule, name: str, then: Callable[[], None]) -> None:
    """Call `then` when the module's hook of that name has run, which comes next.

    Lightning calls the module after all callbacks, and what its hook changes (the average of the
    weights, another network's weights) belongs to the step. It calls what the instance has: that is
    the class's own again as soon as it is called, so that copies of the module never have it.
    """
    own = getattr(module, name)

    def hook(*arguments: Any, **named: Any) -> Any:
        delattr(module, name)
        result = own(*arguments, **named)
        then()
        return result

    setattr(module, name, hook)


def _handlers(signums: tuple[int, ...]) -> dict[int, Any]:
    return {signum: signal.getsignal(signum) for signum in signums}


def _set_handlers(handlers: dict[int, Any]) -> None:
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


def _loss(outputs: Any) -> Any:
    return outputs.get("loss") if isinstance(outputs, dict) else outputs


def _dump(trainer: Trainer) -> dict[str, Any]:
    """The state as ModelCheckpoint would save it, without the loops."""
    state: dict[str, Any] = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
    del state["loops"]
    return state


def _hand_over(trainer: Trainer, training: dict[str, Any], loops: dict[str, Any]) -> None:
    """Restore module, data module and callbacks; the connector does the rest after on_fit_start."""
    connector = trainer._checkpoint_connector
    connector._loaded_checkpoint = training | {"loops": {"fit_loop": loops}}
    connector.restore_datamodule()
    connector.restore_model()
    connector.restore_callbacks()


def _validation_follows(trainer: Trainer) -> bool:
    fit_loop = trainer.fit_loop
    return bool(fit_loop.epoch_loop._should_check_val_fx(fit_loop._data_fetcher))  # type: ignore[arg-type]


def _ends_epoch(trainer: Trainer) -> bool:
    return trainer.fit_loop.epoch_loop.batch_progress.is_last_batch


def _is_between_epochs(trainer: Trainer) -> bool:
    return trainer.fit_loop.epoch_loop.batch_progress.current.ready == 0


def _begin_epoch(trainer: Trainer) -> None:
    """Begin one before the loop does: it would take the counts of a full epoch for done."""
    loop = trainer.fit_loop.epoch_loop
    loop.batch_progress.reset_on_run()
    loop.scheduler_progress.reset_on_run()
    loop.automatic_optimization.optim_progress.reset_on_run()
    loop.val_loop.batch_progress.total.reset()
    for loader in _loaders(trainer):
        if isinstance(loader, ResumableLoader):
            loader.end_epoch()


def _all_resumable(trainer: Trainer) -> bool:
    return all(isinstance(loader, ResumableLoader) for loader in _loaders(trainer))


def _loaders(trainer: Trainer) -> list[Any]:
    combined = trainer.fit_loop._combined_loader
    return combined.flattened if combined else []
