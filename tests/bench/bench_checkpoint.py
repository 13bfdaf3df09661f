"""What a checkpoint costs training: gsched's, torch.save with fsync, and DCP's async_save.

One training run with a state of 1 GB (weights and AdamW's moments) saves by each method in turn,
round after round, each time in another order, and trains on until the checkpoint is durable. On a
quiet machine. Writes tests/results/checkpoint.json.

    python tests/bench/bench_checkpoint.py [MEGABYTES [ROUNDS [FOLDER]]]

Defaults: 1000 MB, 7 rounds, a temporary folder. Ends with 1 when the stall is not 5 times shorter
than torch.save's with fsync, in the median of the rounds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.checkpoint_bench import Cost, Training, measure  # noqa: E402
from support.checkpoint_methods import DcpAsync, Gsched, Method, TorchSave  # noqa: E402

RESULT = ROOT / "tests" / "results" / "checkpoint.json"
TARGET = 5.0
WHAT = (
    "One process trains linear layers with AdamW and saves its state by each method in turn; on "
    "one thread, which leaves processors to a writer, and on as many threads as there are "
    "processors, which leaves none. stall_s: until the optimiser may go on (DCP's call returns "
    "sooner, returned_s, but its copy is not made yet). durable_s: until the checkpoint is "
    "committed, to a step. lost_s: the stall, and by how much the steps until then took longer "
    "than the five before the save. rate_during: their rate over the rate before. cpu_s: "
    "processor time of the run's processes beyond that of plain steps. Each: median of the "
    "rounds, [least, greatest]. times_less_stall: torch.save's stall over this method's, and "
    "lost_less_s: torch.save's lost_s less this method's, both round by round. An unmeasured "
    "round comes first: buffers are made, processes are started."
)


def main() -> int:
    """Measure, print, record; 1 when the target was missed."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    where = sys.argv[3] if len(sys.argv) > 3 else None
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=where) as name:
        _init_process_group(Path(name))
        training = Training(megabytes)
        methods = _methods(training, Path(name))
        figures = {}
        for threads in sorted({1, os.cpu_count() or 1}):
            torch.set_num_threads(threads)
            figures[f"threads_{threads}"] = _figures(_rounds(training, methods, rounds))
        for method in methods:
            method.close()
        dist.destroy_process_group()
    document = {
        "what": WHAT,
        "state_bytes": training.num_bytes,
        "rounds": rounds,
        "cpus": os.cpu_count(),
        "load_before": round(load_before, 2),
        "torch": torch.__version__,
        "python": platform.python_version(),
        **figures,
    }
    print(json.dumps(document, indent=2))
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    ratios = [of["gsched"]["times_less_stall"]["median"] for of in figures.values()]
    return int(min(ratios) < TARGET)


def _methods(training: Training, folder: Path) -> list[Method]:
    return [
        TorchSave(folder / "torch", training.state),
        DcpAsync(folder / "thread", training.state, AsyncCheckpointerType.THREAD),
        DcpAsync(folder / "process", training.state, AsyncCheckpointerType.PROCESS),
        Gsched(folder / "gsched", training.model, training.optimizer),
    ]


def _rounds(training: Training, methods: list[Method], rounds: int) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {method.name: [] for method in methods}
    for number in range(rounds + 1):
        turn = number % len(methods)
        for method in [*methods[turn:], *methods[:turn]]:
            cost = measure(training, method)
            if number:
                costs[method.name].append(cost)
            print(f"round {number} {method.name}: stall {cost.stall_s:.3f} s", file=sys.stderr)
    return costs


def _figures(costs: dict[str, list[Cost]]) -> dict[str, dict[str, Any]]:
    names = [f.name for f in dataclasses.fields(Cost)] + ["lost_s"]
    figures = {}
    for method, own in costs.items():
        spreads = {name: _spread([getattr(c, name) for c in own]) for name in names}
        pairs = list(zip(costs[TorchSave.name], own, strict=True))
        spreads["times_less_stall"] = _spread([base.stall_s / c.stall_s for base, c in pairs])
        spreads["lost_less_s"] = _spread([base.lost_s - c.lost_s for base, c in pairs])
        figures[method] = spreads
    return figures


def _spread(values: list[float]) -> dict[str, Any]:
    return {
        "median": round(statistics.median(values), 4),
        "range": [round(min(values), 4), round(max(values), 4)],
    }


def _init_process_group(folder: Path) -> None:
    store = dist.FileStore(str(folder / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)


if __name__ == "__main__":
    sys.exit(main())
