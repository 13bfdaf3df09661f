"""Trainings of several ranks, one after another, as a job has them that is killed and goes on.

    python -P tests/support/rank_trainee.py FOLDER ROUND…

A ROUND is JSON: "folder" (within FOLDER, for the checkpoints), "ranks", "total" (steps), "kind"
("ddp", "fsdp"; "declared" or "saved": a loop of its own that ends so), and perhaps "kill": [rank,
step, signal], which the rank sends to itself within
the step after so many. torch is imported once: each rank is a fork. Prints one JSON line a round:
"statuses" of the ranks (negative: the signal) and "digests".
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # else each rank imports it, for seconds
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, TensorDataset

from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.data import ResumableLoader

SAMPLES = 48
GLOBAL_BATCH = 8


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    for text in sys.argv[2:]:
        plan = json.loads(text)
        statuses, digests = play(folder / plan.get("folder", ""), plan)
        print(json.dumps({"statuses": statuses, "digests": digests}), flush=True)


def play(folder: Path, plan: dict[str, Any]) -> tuple[list[int], list[str]]:
    """One round: the ranks' exit statuses and what they said at the end."""
    with tempfile.TemporaryDirectory() as meeting:
        pids = []
        for rank in range(plan["ranks"]):
            pid = os.fork()
            if pid == 0:
                be_rank(folder, plan, rank, Path(meeting))
            pids.append(pid)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        said = [Path(meeting, f"digest-{rank}") for rank in range(plan["ranks"])]
        return statuses, [path.read_text() for path in said if path.exists()]


def be_rank(folder: Path, plan: dict[str, Any], rank: int, meeting: Path) -> None:
    """Never returns: an error ends the rank with status 1, SystemExit with its own."""
    status = 1
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=plan["ranks"]
        )
        run = train_by_itself if plan["kind"] in ("declared", "saved") else train
        (meeting / f"digest-{rank}").write_text(run(folder, plan, rank))
        status = 0
    except SystemExit as e:
        status = int(e.code or 0)
    except (RuntimeError, dist.DistError) as e:
        print(f"rank {rank}: {e}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def train(folder: Path, plan: dict[str, Any], rank: int) -> str:
    """Train to the end, or until the plan's signal; the digest of all that there is."""
    torch.manual_seed(3)
    model: nn.Module = nn.Sequential(
        nn.Linear(6, 10), nn.Tanh(), nn.Dropout(plan.get("dropout", 0.2)), nn.Linear(10, 3)
    )
    if plan["kind"] == "ddp":
        # else the first step after a start sums the gradients in another order than the later ones
        model = DistributedDataParallel(model, find_unused_parameters=True)
    else:
        fully_shard(model, mesh=init_device_mesh("cpu", (plan["ranks"],)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.arange(SAMPLES * 6.0).reshape(SAMPLES, 6) / 100
    dataset = TensorDataset(data, data[:, :3].square())
    sampler: Any = DistributedSampler(dataset, seed=4)
    batch_size = GLOBAL_BATCH // plan["ranks"]
    loader = ResumableLoader(dataset, batch_size=batch_size, sampler=sampler)
    torch.manual_seed(100 + rank)
    with Checkpointer(
        folder, every=3600, snapshot_every=1, model=model, optimizer=optimizer, loader=loader
    ) as ckpt:
        for step, (x, y) in zip(ckpt.steps(plan["total"]), loader.forever(), strict=False):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            if plan.get("kill", [None])[:2] == [rank, step]:
                os.kill(os.getpid(), plan["kill"][2])
            optimizer.step()
    return digest(model, optimizer)


def train_by_itself(folder: Path, plan: dict[str, Any], rank: int) -> str:
    """A loop that is not `steps`: in its last step it declares the end, or asks for a save."""
    counts = {"rank": rank, "steps": 0}
    ckpt = Checkpointer(folder, every=3600, snapshot_every=1000, counts=counts)
    ckpt.start()
    for step in range(1, plan["total"] + 1):
        counts["steps"] = step
        is_end = step == plan["total"]
        if plan.get("kill", [None])[:2] == [rank, step]:
            os.kill(os.getpid(), plan["kill"][2])
        if is_end and plan["kind"] == "saved":
            ckpt.save()
        ckpt.finish_step(step, is_last=is_end and plan["kind"] == "declared")
    ckpt.close()
    if ckpt.exit_status is not None:
        raise SystemExit(ckpt.exit_status)
    return f"{counts['steps']}"


def digest(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    h = hashlib.sha256()
    tensors = list(model.state_dict().values())
    for state in optimizer.state_dict()["state"].values():
        tensors += [state["exp_avg"], state["exp_avg_sq"], state["step"]]
    for tensor in tensors:
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        h.update(whole.detach().numpy().tobytes())
    return f"{h.hexdigest()} {torch.rand(1).item()}"


if __name__ == "__main__":
    main()
