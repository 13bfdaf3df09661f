"""A small recurring workload for the private Slurm: what the demo and the tests run.

Several users run the same scripts again and again. How long a script runs is in its body alone:
not in its name, its comment, its time limit or its GPU count, so that only the history knows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.testbed.environment import ACCOUNTS

USERS = tuple((user, account) for account, users in ACCOUNTS.items() for user in users)
"""The testbed's ordinary users, and the accounts they work for."""

_NAMES = (
    *("bert-ft", "resnet50", "llama-sft", "whisper", "vit-large", "gpt-eval"),
    *("unet", "dlrm", "clip-prep", "ppo-agent", "t5-summ", "wav2vec"),
    *("yolo-x", "graphsage", "diffusion", "rag-index"),
)
_GPU_COUNTS = (3, 4, 5)  # near alike: the order by GPU count alone gains next to nothing
SHORTEST_S, LONGEST_S = 0.5, 20.0


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a user runs again and again, always for `duration_s` seconds."""

    user: str
    account: str
    name: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class Submission:
    """One run of a script on `num_gpus` GPUs of one node."""

    script: Script
    num_gpus: int

    @property
    def gpu_time_s(self) -> float:
        """True GPU-time, GPU-seconds."""
        return self.num_gpus * self.script.duration_s

    def sbatch_options(self) -> list[str]:
        """The options of sbatch(1) for this run, without the script."""
        return [f"--gres=gpu:{self.num_gpus}", "-A", self.script.account, "-o", "/dev/null"]


@dataclass(frozen=True, slots=True)
class Workload:
    """`history`: each script a few times on one GPU; `queue`: what is to be ordered later."""

    scripts: tuple[Script, ...]
    history: tuple[Submission, ...]
    queue: tuple[Submission, ...]


def make_workload(
    seed: int, num_scripts: int, runs_each: int, num_jobs: int, longest_s: float = LONGEST_S
) -> Workload:
    """A workload that depends on `seed` alone. Durations are log-uniform.

    GPU counts are drawn apart from the durations; each script recurs equally often.
    """
    rng = random.Random(seed)  # noqa: S311  (a workload, not a secret)
    steps = [(i + 0.5) / num_scripts for i in range(num_scripts)]
    rng.shuffle(steps)
    span = math.log(longest_s / SHORTEST_S)
    scripts = tuple(
        Script(*USERS[i % len(USERS)], _name(i), round(SHORTEST_S * math.exp(span * step), 1))
        for i, step in enumerate(steps)
    )
    queue = [Submission(scripts[i % num_scripts], rng.choice(_GPU_COUNTS)) for i in range(num_jobs)]
    rng.shuffle(queue)
    history = tuple(Submission(s, 1) for _ in range(runs_each) for s in scripts)
    return Workload(scripts, history, tuple(queue))


def _name(index: int) -> str:
    again, which = divmod(index, len(_NAMES))
    return _NAMES[which] + (f"-{again + 1}" if again else "")


def write_scripts(scripts: Sequence[Script], folder: Path) -> dict[Script, Path]:
    """Write each script into `folder`, readable for everybody; returns where."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    paths = {}
    for script in scripts:
        path = folder / f"{script.user}-{script.name}.sh"
        path.write_text(
            f"#!/bin/bash\n#SBATCH --job-name={script.name}\nexec sleep {script.duration_s}\n"
        )
        path.chmod(0o755)
        paths[script] = path
    return paths


def write_blocker(folder: Path, gate: Path) -> Path:
    """A script that fills a node until the file `gate` exists, so that a queue can build up."""
    path = folder / "maintenance.sh"
    path.write_text(
        f"#!/bin/bash\n#SBATCH --job-name=maintenance\nuntil [ -e '{gate}' ]; do sleep 0.1; done\n"
    )
    path.chmod(0o755)
    return path
