"""Hugging Face's Trainer on gsched's checkpoints: a callback.

    from gsched.runtime.hugging_face import CheckpointCallback
    checkpoints = CheckpointCallback("checkpoints")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.resume_point(trainer))

The Trainer finds its place in epochs and batches by a folder of its own form. `resume_point` makes
one that holds that place and no weights: those, and all the rest, come from gsched's checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME

from gsched.errors import UsageError
from gsched.runtime.checkpoint import DEFAULT_SIGNALS, Checkpointer
from gsched.runtime.data import shield_workers

_NO_WEIGHTS = "none.safetensors"


class CheckpointCallback(TrainerCallback):
    """Saves and restores a training: model, optimiser, scheduler, scaler, progress, random state.

    `folder` and `options` are those of `Checkpointer`. `save_strategy` may go on beside it. After
    SIGTERM `train` raises SystemExit(143) once the checkpoint is durable. A step ends with what
    belongs to it: an evaluation, the end of its epoch, what the other callbacks do. Batches in
    which the main process draws random numbers (a collator that masks words) are drawn anew after a
    resume, as with the Trainer's own checkpoints; `dataloader_num_workers` does not change that.
    """

    def __init__(self, folder: str | Path | None = None, **options: Any) -> None:
        self._folder = folder
        self._options = options
        self._checkpointer: Checkpointer | None = None
        self._point: Path | None = None  # what the Trainer goes on from, until it has begun
        self._restores_random = False
        self._last_step = 0

    def resume_point(self, trainer: Trainer) -> str | None:
        """Read the newest valid checkpoint; what to give to `train(resume_from_checkpoint=…)`.

        None for a first start. All ranks call it. UsageError for a model that DeepSpeed, FSDP or
        PEFT keep.
        """
        _refuse_foreign_models(trainer)
        self.close()
        callbacks = trainer.callback_handler.callbacks
        if self in callbacks:  # what the others do at a step's end belongs to it
            callbacks.remove(self)
            callbacks.append(self)
        self._training = _Training(trainer)
        self._checkpointer = Checkpointer(
            self._folder, replicated=("training",), training=self._training, **self._options
        )
        if self._checkpointer.start() is None:
            return None
        self._restores_random = True
        self._point = _resume_folder(trainer, self._training.kept["trainer_state"])
        return str(self._point)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Apply what was read."""
        if self._checkpointer is None:
            raise UsageError(
                "the training would start anew each time",
                "trainer.train(resume_from_checkpoint=callback.resume_point(trainer))",
            )
        self._training.apply()
        if self._point is not None:
            shutil.rmtree(self._point)
            self._point = None
        self._last_step = state.global_step
        self._checkpointer.total = state.max_steps
        shield_workers(kwargs["train_dataloader"], self._options.get("signals", DEFAULT_SIGNALS))

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the random state as it was, where an epoch begins: its loader draws from it."""
        if _is_between_epochs(state):
            self._restore_random()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the random state as it was, within an epoch: the loader has drawn from it again."""
        self._restore_random()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The end of a step, unless more belongs to it: an evaluation, the end of an epoch."""
        if not control.should_evaluate and not _is_between_epochs(state):
            self._finish_step(state, control)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The end of an epoch's last step, unless an evaluation belongs to it."""
        if not control.should_evaluate:
            self._finish_step(state, control)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The end of a step that was evaluated."""
        self._finish_step(state, control)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Hand the loss to the heartbeat."""
        if self._checkpointer is not None and "loss" in kwargs["logs"]:
            self._checkpointer.report(loss=kwargs["logs"]["loss"])

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save what the training has come to, and let go of the writer, which finishes its work.

        Another callback may have ended it after the last step was. A best model that the Trainer
        has loaded meanwhile is not what the training has come to.
        """
        if self._checkpointer is not None and not args.load_best_model_at_end:
            self._checkpointer.finish_step(state.global_step, is_last=True)
        self.close()

    def close(self, *, failed: bool = False) -> None:
        """Let go of the writer and of the signals: for after a `train` that has raised."""
        if self._point is not None:
            shutil.rmtree(self._point, ignore_errors=True)
            self._point = None
        if self._checkpointer is not None:
            checkpointer, self._checkpointer = self._checkpointer, None
            checkpointer.close(failed=failed)

    def _restore_random(self) -> None:
        """Once a start."""
        if self._restores_random and self._checkpointer is not None:
            self._restores_random = False
            self._checkpointer.restore_random()

    def _finish_step(self, state: TrainerState, control: TrainerControl) -> None:
        if self._checkpointer is None or state.global_step == self._last_step:
            return  # an evaluation outside a training, or one more after the same step
        self._last_step = state.global_step
        ends = self._checkpointer.finish_step(
            state.global_step, is_last=control.should_training_stop
        )
        status = self._checkpointer.exit_status
        if ends and status is not None:
            self.close()
            raise SystemExit(status)


class _Training:
    """The Trainer's parts, as one state: the same on every rank.

    What was read is kept until `apply`: optimiser and scheduler are made by `train`.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.kept: Any = {}

    def state_dict(self) -> Any:
        if self.kept is not None:
            return self.kept
        state: dict[str, Any] = {n: part.state_dict() for n, part in self._parts().items()}
        return state | {"trainer_state": _trainer_state(self._trainer)}

    def load_state_dict(self, state: Any) -> None:
        self.kept = state

    def apply(self) -> None:
        """Load the parts, if anything was read; from now on they are the state."""
        if self.kept:
            for name, part in self._parts().items():
                part.load_state_dict(self.kept[name])
        self.kept = None

    def _parts(self) -> dict[str, Any]:
        trainer = self._trainer
        parts = {
            "model": trainer.model,
            "optimizer": trainer.optimizer,
            "scheduler": trainer.lr_scheduler,
        }
        scaler = trainer.accelerator.scaler
        return parts if scaler is None else parts | {"scaler": scaler}


def _is_between_epochs(state: TrainerState) -> bool:
    return float(state.epoch).is_integer()


def _trainer_state(trainer: Trainer) -> str:
    """The TrainerState as JSON text, with its callbacks as they are now.

    Text, for its list of past logs grows: a value in a value costs less than a tree to walk.
    """
    callbacks: dict[str, Any] = {}
    for callback in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(callback, ExportableState):
            callbacks.setdefault(type(callback).__name__, []).append(callback.state())
    # the Trainer adds to a list and replaces what is none
    callbacks = {name: many if many[1:] else many[0] for name, many in callbacks.items()}
    return json.dumps(dataclasses.asdict(trainer.state) | {"stateful_callbacks": callbacks})


def _resume_folder(trainer: Trainer, trainer_state: str) -> Path:
    """A folder from which the Trainer takes its place, and loads nothing."""
    folder = Path(tempfile.mkdtemp(prefix="gsched-resume-"))
    (folder / TRAINER_STATE_NAME).write_text(trainer_state, encoding="utf-8")
    save_file({}, folder / _NO_WEIGHTS)
    names = trainer.model.state_dict() if trainer.model is not None else ()
    weight_map = dict.fromkeys(names, _NO_WEIGHTS)
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / SAFE_WEIGHTS_INDEX_NAME).write_text(index, encoding="utf-8")
    return folder


def _refuse_foreign_models(trainer: Trainer) -> None:
    others = {
        "DeepSpeed": trainer.is_deepspeed_enabled,
        "FSDP": trainer.is_fsdp_enabled,
        "PEFT": hasattr(trainer.model, "peft_config"),
    }
    for name, is_used in others.items():
        if is_used:
            raise UsageError(
                f"gsched's callback cannot save a model of {name}",
                "keep the Trainer's own checkpoints, and let gsched.runtime.save_command ask for "
                "one at a signal",
            )
