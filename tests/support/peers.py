"""Inputs and per-job answers of other simulators (``../shared/traces/validation``), by row.

Times are in ticks of the peer's clock: a second (philly7t, philly3d_q) or a minute (philly60min,
itp61min), from the first submission. Where a tick is a minute, a second of our jobs stands for it.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, Floats, Ints, SimJobs

from .shared import SHARED

VALIDATION = SHARED / "traces" / "validation"
_ANSWERS = {"philly3d_q": "lucid3dq"}  # answers that are not called as their input


@dataclass(frozen=True)
class PeerAnswer:
    """What the peer gives each job, in the rows of its input."""

    start_s: Floats  # its own "start": when it last started, for those that preempt
    end_s: Floats
    jct_s: Floats
    preemptions: Ints


@dataclass(frozen=True)
class PeerInput:
    """One input of a peer as jobs and nodes of ours."""

    name: str
    jobs: SimJobs
    cluster: SimCluster

    def answer(self, policy: str) -> PeerAnswer:
        """Its answer for ``fifo``, ``sjf``, ``srtf``, ``qssf`` or ``tiresias``."""
        path = VALIDATION / f"{_ANSWERS.get(self.name, self.name)}_{policy}_perjob.csv.gz"
        by_id = {_id(line): line for line in _lines(path)}
        lines = [by_id[job_id] for job_id in self.jobs.ids]
        assert len(lines) == len(by_id)
        return PeerAnswer(
            np.array([float(line["start_time"]) for line in lines]),
            np.array([float(line["end_time"]) for line in lines]),
            np.array([float(line["jct"]) for line in lines]),
            np.array([int(line["ckpt_times"]) for line in lines], dtype=np.int32),
        )


@cache
def peer_input(name: str) -> PeerInput:
    """Input `name` with simultaneous jobs in the order in which the peer sees them.

    ``predicted_duration_s`` is the noisy estimate where the input has one, else NaN.
    """
    folder = VALIDATION / name
    log = {_id(line): line for line in _lines(folder / "cluster_log.csv.gz")}
    order = {_id(line): float(line["submit_time"]) for line in _lines(folder / "peer_order.csv.gz")}
    assert log.keys() == order.keys()
    estimates = folder / "predicted_duration.csv.gz"
    told = {_id(line): line["priority"] for line in _lines(estimates)} if estimates.exists() else {}
    nodes = {line[""]: int(line["num"]) for line in _lines(folder / "vc_config.csv")}
    lines = [log[job_id] for job_id in order]
    pools, users = tuple(nodes), tuple(sorted({line["user"] for line in lines}))
    tenant = _codes(lines, "vc", pools)
    first = datetime.fromisoformat(lines[0]["submit_time"]).replace(tzinfo=UTC)
    count = len(lines)
    jobs = SimJobs(
        cluster=name,
        origin=int(first.timestamp()),
        ids=list(order),
        submit_s=np.array(list(order.values())),
        duration_s=np.array([float(line["duration"]) for line in lines]),
        num_gpus=np.array([int(line["gpu_num"]) for line in lines], dtype=np.int32),
        num_nodes=np.zeros(count, dtype=np.int32),
        num_cpus=np.array([int(line["cpu_num"]) for line in lines], dtype=np.int32),
        pool=tenant,
        tenant=tenant,
        tenants=pools,
        user=_codes(lines, "user", users),
        users=users,
        name=np.zeros(count, dtype=np.int32),
        names=("",),
        time_limit_s=np.full(count, np.nan),
        deadline_s=np.full(count, np.nan),
        weight=np.ones(count),
        predicted_duration_s=np.array([float(told.get(job_id, "nan")) for job_id in order]),
        share_class=np.full(count, ANY, dtype=np.int32),
        gpu_type=np.full(count, ANY, dtype=np.int32),
    )
    return PeerInput(name, jobs, SimCluster.uniform(nodes, gpus_a_node=8))


def _id(line: dict[str, str]) -> str:
    return line["job_id"] if "job_id" in line else line["jobname"]


def _codes(lines: list[dict[str, str]], column: str, names: tuple[str, ...]) -> Ints:
    code = {name: number for number, name in enumerate(names)}
    return np.array([code[line[column]] for line in lines], dtype=np.int32)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)
