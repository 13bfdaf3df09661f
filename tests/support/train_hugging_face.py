"""Small trainings of Hugging Face's Trainer, as in `train_lightning`: prints JSON.

train_hugging_face.py FOLDER
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from gsched.errors import UsageError
from gsched.runtime.hugging_face import CheckpointCallback
from support.train_lightning import state_hash

STEPS_AN_EPOCH, EPOCHS = 8, 2
TOTAL = STEPS_AN_EPOCH * EPOCHS
CASES = {"in an epoch": 3, "end of an epoch": 8, "evaluated": 10, "last but one": TOTAL - 1}


class Terminator(TrainerCallback):
    """Asks the process for its end at one step; notes which steps were done."""

    def __init__(self, term_at: int | None) -> None:
        self.term_at = term_at
        self.steps: list[int] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps.append(state.global_step)
        if state.global_step + 1 == self.term_at:
            os.kill(os.getpid(), signal.SIGTERM)


class EarlyEnd(TrainerCallback):
    """Ends the training when it is evaluated, after all other callbacks have seen that step."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = True


def model() -> GPT2LMHeadModel:
    """A GPT-2 of two small layers: dropout, and weights that are tied."""
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
                   eos_token_id=0)
    )  # fmt: skip


def data(num: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    texts = torch.randint(0, 32, (num, 12), generator=generator)
    return [{"input_ids": text, "labels": text} for text in texts]


def train(
    folder: Path | None,
    output: Path,
    *,
    seed: int,
    term_at: int | None = None,
    ends_early: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """One start of a training; `data_seed` is fixed as the order of the data is the Trainer's."""
    set_seed(seed)
    terminator = Terminator(term_at)
    arguments = TrainingArguments(
        output_dir=str(output), num_train_epochs=EPOCHS, per_device_train_batch_size=4, seed=seed,
        data_seed=7, use_cpu=True, report_to=[], save_strategy="no", eval_strategy="steps",
        eval_steps=5, logging_steps=2, disable_tqdm=True, warmup_steps=3, learning_rate=1e-2,
        **options,
    )  # fmt: skip
    trainer = Trainer(
        model(), arguments, train_dataset=data(4 * STEPS_AN_EPOCH), eval_dataset=data(4),
        callbacks=[terminator],
    )  # fmt: skip
    resume = None
    if folder is not None:
        snapshot_every = 1000 if ends_early else 1
        checkpoints = CheckpointCallback(folder, snapshot_every=snapshot_every, every=3600.0)
        trainer.add_callback(checkpoints)
        if ends_early:
            trainer.add_callback(EarlyEnd())
        resume = checkpoints.resume_point(trainer)
    status: Any = 0
    try:
        trainer.train(resume_from_checkpoint=resume)
    except SystemExit as end:
        status = end.code
    return {
        "status": status,
        "steps": terminator.steps,
        "hash": state_hash(trainer.model, trainer.optimizer),
        "losses": [log["loss"] for log in trainer.state.log_history if "loss" in log],
        "resume_folder_left": resume is not None and Path(resume).exists(),
    }


def refused(folder: Path, output: Path) -> list[str]:
    """What a training is told that forgets `resume_point`, and a model of PEFT."""
    arguments = TrainingArguments(output_dir=str(output), use_cpu=True, report_to=[], max_steps=1)
    checkpoints = CheckpointCallback(folder / "refused")
    trainer = Trainer(model(), arguments, train_dataset=data(4), callbacks=[checkpoints])
    told = []
    for attempt in (trainer.train, lambda: checkpoints.resume_point(trainer)):
        try:
            attempt()
        except UsageError as refusal:
            told.append(f"{refusal.message}; {refusal.hint}")
        trainer.model.peft_config = {}  # what models of PEFT are known by
    return told


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    output = folder / "output"
    result: dict[str, Any] = {"undisturbed": train(None, output, seed=1), "cases": {}}
    for name, step in CASES.items():
        here = folder / name.replace(" ", "-")
        first = train(here, output, seed=1, term_at=step)
        result["cases"][name] = {"first": first, "second": train(here, output, seed=2)}
    result["finished"] = train(here, output, seed=3)
    result["early"] = train(folder / "early", output, seed=1, ends_early=True)
    result["accumulated"] = {
        "undisturbed": train(None, output, seed=1, gradient_accumulation_steps=2),
        "first": train(
            folder / "accumulated", output, seed=1, term_at=3, gradient_accumulation_steps=2
        ),
        "second": train(folder / "accumulated", output, seed=2, gradient_accumulation_steps=2),
    }
    result["forgotten"], result["peft"] = refused(folder, output)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
