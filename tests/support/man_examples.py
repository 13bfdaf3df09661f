"""The example programs of gsched-checkpointing(7), and a process that runs one of them.

    man_examples.py NAME FOLDER PORTS

Run three times, as rank RANK of WORLD_SIZE: undisturbed; stopped in the midst of a step by SIGTERM,
which only the last rank gets; and once more in the folder of the stopped one, with another seed.
Prints JSON: how each ended, and the hash of what this rank has of model and optimiser.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from support.forked import in_child

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-checkpointing.7"
NUM_STEPS, STOP_AT = 12, 5
_BLOCK = re.compile(r'^\.\\" example (\w+)\n\.nf\n(.*?)^\.fi\n\.\\" end$', re.M | re.S)


def examples() -> dict[str, str]:
    """The programs by name, as a reader of the page would type them."""
    return {
        name: text.replace("\\-", "-").replace("\\e", "\\")
        for name, text in _BLOCK.findall(PAGE.read_text())
    }


class Net(torch.nn.Module):
    """Layers, as the examples want them, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.dropout(torch.relu(layer(x)), 0.1)
        return x.sum(dim=1, keepdim=True)


class Data(torch.utils.data.Dataset[Any]):
    """24 samples; its process gets SIGTERM when the last sample of a step is asked for."""

    def __init__(self, term_at: int | None) -> None:
        self._x = torch.randn(24, 8, generator=torch.Generator().manual_seed(3))
        self._left = None if term_at is None else 4 * term_at

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> Any:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        x = self._x[index]
        return x, x.sum(dim=0, keepdim=True)


def run(name: str, folder: Path, *, seed: int, term_at: int | None) -> dict[str, Any]:
    """One start of an example, with `folder` as its working directory."""
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    torch.manual_seed(seed)
    model = Net()
    space: dict[str, Any] = {
        "torch": torch, "Net": Net, "data": Data(term_at), "num_steps": NUM_STEPS,
        "loss_of": torch.nn.functional.mse_loss, "model": model,
        "optimizer": torch.optim.AdamW(model.parameters()),
    }  # fmt: skip
    program = compile(examples()["loop"].split("\n\n")[0] + "\n" + examples()[name], name, "exec")
    status: Any = 0
    try:
        exec(program, space)  # noqa: S102 - the page's own programs
    except SystemExit as end:
        status = end.code
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return {"status": status, "step": space["ckpt"].step, "hash": _hash(space)}


def _hash(space: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    states = space["optimizer"].state_dict()["state"]
    tensors = [*space["model"].state_dict().values()]
    tensors += [state[key] for state in states.values() for key in sorted(state)]
    for tensor in tensors:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        digest.update(local.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    name, folder, ports = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(",")
    for module in ("torch._dynamo", "torch.distributed.fsdp", "gsched.runtime.checkpoint"):
        importlib.import_module(module)  # here, not in each child: they take long to load
    torch.set_num_threads(1)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    is_last = rank == world_size - 1
    starts = (
        ("undisturbed", "undisturbed", 1, None),
        ("stopped", "stopped", 1, STOP_AT if is_last else None),
        ("resumed", "stopped", 2, None),
    )
    told = {}
    for (what, where, seed, term_at), port in zip(starts, ports, strict=True):
        os.environ["MASTER_PORT"] = port
        start = partial(run, name, folder / where, seed=seed, term_at=term_at)
        told[what] = in_child(folder / f"{what}-{rank}.json", start)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
