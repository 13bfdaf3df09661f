"""Files of past jobs of any length, made by a seed: a Philly-like CSV and saved sacct text.

A site with ten years of history has a few hundred users of whom a few submit most, names that come
again with other numbers, many short jobs and few long ones. What matters to a database is in them:
how many texts differ, how often a user comes, how far the times lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsched.slurm.parse_sacct import FIELDS

_BLOCK = 100_000
EPOCH = 1_420_070_400  # 2015-01-01T00:00:00Z
YEAR_S = 365 * 86_400
JOBS_A_YEAR = 1_000_000

PHILLY_HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
NUM_USERS = 300
GONE = 10
"""Every user whose number is a multiple of GONE has left when 8 of 10 years are over."""

_GPUS = np.array([0, 1, 2, 4, 8, 16, 32, 64])
_GPU_SHARES = np.array([0.10, 0.55, 0.10, 0.10, 0.10, 0.03, 0.015, 0.005])
_STATES = np.array(
    ["COMPLETED", "FAILED", "CANCELLED by 1042", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"]
)
_STATE_SHARES = np.array([0.68, 0.15, 0.11, 0.045, 0.01, 0.005])
_NAMES = ("train", "resnet50", "bert-ft", "eval", "llama-7b", "vit", "sweep", "preprocess")


@dataclass(frozen=True)
class _Block:
    """Some jobs in the order of their submits."""

    first: int
    submit: np.ndarray
    wait_s: np.ndarray
    run_s: np.ndarray
    gpus: np.ndarray
    user: np.ndarray
    state: np.ndarray
    name: np.ndarray
    number: np.ndarray


def _blocks(jobs: int, seed: int, first: int) -> Iterator[_Block]:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, NUM_USERS + 1) ** 0.9
    gap_s = YEAR_S / JOBS_A_YEAR
    for begin in range(first, first + jobs, _BLOCK):
        size = min(_BLOCK, first + jobs - begin)
        submit = EPOCH + (np.arange(begin, begin + size) * gap_s).astype(np.int64)
        yield _Block(
            first=begin,
            submit=submit,
            wait_s=rng.exponential(1800, size).astype(np.int64),
            run_s=np.minimum(rng.lognormal(6.0, 2.2, size), 30 * 86_400).astype(np.int64),
            gpus=rng.choice(_GPUS, size, p=_GPU_SHARES),
            user=rng.choice(NUM_USERS, size, p=share / share.sum()),
            state=rng.choice(_STATES, size, p=_STATE_SHARES),
            name=rng.integers(0, len(_NAMES), size),
            number=rng.geometric(0.02, size),
        )


def _written(times: np.ndarray) -> list[str]:
    texts: list[str] = np.datetime_as_string(times.astype("datetime64[s]")).tolist()
    return texts


def write_philly(path: Path, jobs: int, seed: int = 1) -> None:
    """Jobs as in the public Philly file: no id, no user, virtual clusters, float seconds."""
    with path.open("w", encoding="ascii") as file:
        file.write(PHILLY_HEADER + "\n")
        for block in _blocks(jobs, seed, 0):
            gpus = np.maximum(block.gpus, 1)
            columns = (
                [text.replace("T", " ") for text in _written(block.submit)],
                block.run_s.tolist(),
                gpus.tolist(),
                (block.run_s * gpus).tolist(),
                (block.user % 15).tolist(),
            )
            file.writelines(
                f"{time},{run}.0,{gpus},{gpu_time}.0,vc{vc:02}\n"
                for time, run, gpus, gpu_time, vc in zip(*columns, strict=True)
            )


def write_sacct(path: Path, jobs: int, seed: int = 1, *, first: int = 0) -> None:
    """Jobs from number `first` on as ``sacct -P`` prints them, with a header, times in UTC."""
    with path.open("w", encoding="ascii") as file:
        file.write("|".join(FIELDS) + "\n")
        for block in _blocks(jobs, seed + first, first):
            file.writelines("|".join(row) + "\n" for row in _sacct_rows(block, _written))


def live_sacct(jobs: int, first: int, seed: int = 1) -> str:
    """The same as gsched asks sacct for it: no header, times as epoch, a separator at the end."""

    def epoch(times: np.ndarray) -> list[str]:
        return [str(time) for time in times.tolist()]

    blocks = _blocks(jobs, seed + first, first)
    return "".join("|".join((*row, "\n")) for b in blocks for row in _sacct_rows(b, epoch))


def _sacct_rows(
    block: _Block, written: Callable[[np.ndarray], list[str]]
) -> Iterator[tuple[str, ...]]:
    start = block.submit + block.wait_s
    times = [written(t) for t in (block.submit, start, start + block.run_s)]
    numbers = [c.tolist() for c in (block.gpus, block.user, block.name, block.number)]
    columns = (*times, *numbers, block.state.tolist())
    for row, values in enumerate(zip(*columns, strict=True)):
        submit, start_text, end, gpus, user, name, number, state = values
        job = block.first + row + 1
        if user % GONE == 0 and job > 8 * JOBS_A_YEAR:
            user += 1
        nodes, cpus, node = max(1, gpus // 8), 8 * max(1, gpus), job % 300
        tres = f"billing={cpus},cpu={cpus},mem={cpus * 4}G,node={nodes}"
        tres += f",gres/gpu={gpus},gres/gpu:a100={gpus}" if gpus else ""
        yield (
            str(job),
            f"{job - job % 5 + 1}_{job % 5}" if user % 4 == 1 else str(job),
            "big",
            f"user{user:03}",
            f"lab{user % 30:02}",
            "gpu" if gpus else "cpu",
            "normal",
            f"{_NAMES[name]}-u{user}-{number}",
            state,
            submit,
            submit,
            start_text,
            end,
            "2-00:00:00",
            str(nodes),
            str(cpus),
            tres,
            tres,
            "0:0" if state == "COMPLETED" else "1:0",
            f"gpu{node:03}" if nodes == 1 else f"gpu[{node:03}-{node + nodes - 1:03}]",
        )
