"""Small trainings for jobs that are interrupted: their end can be compared to the bit.

    trial_training.py KIND NAME
    trial_training.py undisturbed KIND:RANKS…

KIND is plain, ddp, fsdp, lightning or hugging_face. Each rank notes the steps that it has finished
in TRIAL_DIR/NAME.RANK.steps, a line a step: the start and the step; and its end in
TRIAL_DIR/NAME.RANK.hash. The first TRIAL_SLOW starts that come to a step take half a second for
each, so that there is time to interrupt them. `undisturbed` runs each KIND as so many ranks, forked
after one import of torch, and prints JSON: by KIND:RANKS, the hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DistributedSampler, TensorDataset

from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.data import ResumableLoader

TOTAL = 200
SLOW_STEP_S = 0.5
SAMPLES, BATCH = 48, 4


class Pace:
    """Notes each finished step; slow in the attempts that are to be interrupted."""

    def __init__(self, name: str, rank: int) -> None:
        folder = Path(os.environ["TRIAL_DIR"])
        path = folder / f"{name}.{rank}.steps"
        before = path.read_text().splitlines() if path.exists() else []
        self._start = len({line.split()[0] for line in before})
        self._is_slow = self._start < int(os.environ.get("TRIAL_SLOW") or 0)
        self._steps = path.open("a", encoding="ascii")
        self._hash = folder / f"{name}.{rank}.hash"

    def finished(self, step: int) -> None:
        """To be called as the last thing of a step."""
        if self._is_slow:
            time.sleep(SLOW_STEP_S)
        self._steps.write(f"{self._start} {step}\n")
        self._steps.flush()

    def ended(self, digest: str) -> None:
        """The training has come to its end by itself."""
        new = self._hash.with_suffix(".new")
        new.write_text(digest)
        new.replace(self._hash)


def digest_of(*states: Any) -> str:
    """Of tensors wherever they are in the states, and of what would be drawn next."""
    h = hashlib.sha256()
    for tensor in _tensors(list(states)):
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        h.update(whole.detach().numpy().tobytes())
    h.update(repr((torch.rand(2).tolist(), random.random())).encode())
    return h.hexdigest()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def net(inputs: int = 6) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 10), nn.Tanh(), nn.Dropout(0.2), nn.Linear(10, 3))


def dataset() -> TensorDataset:
    x = torch.arange(SAMPLES * 6.0).reshape(SAMPLES, 6) / 100
    return TensorDataset(x, x[:, :3].square())


def plain(name: str) -> None:
    """One process, a loop of its own."""
    torch.manual_seed(3)
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = ResumableLoader(dataset(), batch_size=BATCH, shuffle=True)
    _loop(name, model, optimizer, loader, rank=0)


def ddp(name: str) -> None:
    """As many ranks as the environment says, by DistributedDataParallel."""
    with _process_group() as rank:
        torch.manual_seed(3)
        # else more than two ranks sum the gradients in another order after a start
        model = nn.parallel.DistributedDataParallel(net(), find_unused_parameters=True)
        _loop_of_ranks(name, model, rank)


def fsdp(name: str) -> None:
    """As many ranks as the environment says, each with its part of the model."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    with _process_group() as rank:
        torch.manual_seed(3)
        model = net()
        fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
        _loop_of_ranks(name, model, rank)


@contextmanager
def _process_group() -> Iterator[int]:
    torch.distributed.init_process_group("gloo")
    yield torch.distributed.get_rank()
    torch.distributed.destroy_process_group()


def _loop_of_ranks(name: str, model: nn.Module, rank: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = dataset()
    loader = ResumableLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=4))
    torch.manual_seed(100 + rank)
    _loop(name, model, optimizer, loader, rank)


def _loop(
    name: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: ResumableLoader,
    rank: int,
) -> None:
    random.seed(5)
    pace = Pace(name, rank)
    with Checkpointer("checkpoints", model=model, optimizer=optimizer, loader=loader) as ckpt:
        for step, (x, y) in zip(ckpt.steps(TOTAL), loader.forever(), strict=False):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            ckpt.report(loss=loss)
            pace.finished(step + 1)
    pace.ended(digest_of(model.state_dict(), optimizer.state_dict()["state"]))


def lightning(name: str) -> None:
    """Lightning's Trainer with gsched's callback."""
    from lightning.pytorch import LightningModule, Trainer, seed_everything
    from torch.utils.data import DataLoader

    from gsched.runtime.lightning import CheckpointCallback

    pace = Pace(name, 0)

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            x, y = batch
            return nn.functional.mse_loss(self.net(x), y)

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            x, y = batch
            self.log("val_loss", nn.functional.mse_loss(self.net(x), y))

        def on_train_batch_end(self, *_: Any) -> None:
            pace.finished(self.global_step)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    seed_everything(1, verbose=False)
    module = Module()
    trainer = Trainer(
        max_steps=TOTAL, max_epochs=-1, accelerator="cpu", devices=1, logger=False,
        callbacks=[CheckpointCallback("checkpoints")], enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    train = ResumableLoader(dataset(), batch_size=BATCH, shuffle=True)
    trainer.fit(module, train, DataLoader(dataset(), batch_size=8))
    pace.ended(digest_of(module.state_dict(), trainer.optimizers[0].state_dict()["state"]))


def hugging_face(name: str) -> None:
    """Hugging Face's Trainer with gsched's callback."""
    from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

    from gsched.runtime.hugging_face import CheckpointCallback
    from support.train_hugging_face import data, model

    pace = Pace(name, 0)

    class Steps(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            pace.finished(state.global_step)

    set_seed(1)
    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(
            output_dir=output, max_steps=TOTAL, per_device_train_batch_size=4, seed=1, use_cpu=True,
            report_to=[], save_strategy="no", disable_tqdm=True, learning_rate=1e-2,
        )  # fmt: skip
        checkpoints = CheckpointCallback("checkpoints")
        trainer = Trainer(
            model(), arguments, train_dataset=data(32), callbacks=[checkpoints, Steps()]
        )
        trainer.train(resume_from_checkpoint=checkpoints.resume_point(trainer))
    pace.ended(digest_of(trainer.model.state_dict(), trainer.optimizer.state_dict()["state"]))


KINDS = {f.__name__: f for f in (plain, ddp, fsdp, lightning, hugging_face)}


def undisturbed(cases: list[str]) -> dict[str, list[str]]:
    """The hashes of all ranks, of trainings that nobody interrupts, by KIND:RANKS."""

    found = {}
    for case in cases:
        kind, _, ranks = case.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {"TRIAL_DIR": folder, "GSCHED_CHECKPOINT_DIR": f"{folder}/checkpoints"}
            os.environ |= {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1"}
            os.environ["MASTER_PORT"] = _free_port()
            pids = [_fork(kind, rank) for rank in range(int(ranks))]
            statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            if any(statuses):
                raise SystemExit(f"{case}: exit statuses {statuses}")
            found[case] = [Path(folder, f"u.{r}.hash").read_text() for r in range(int(ranks))]
    return found


def _fork(kind: str, rank: int) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
            KINDS[kind]("u")
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return pid


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if sys.argv[1] == "undisturbed":
        print(json.dumps(undisturbed(sys.argv[2:])))
    else:
        KINDS[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
