"""Jobs that arrive over time: what a seed makes, and what the overheads are measured by."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from support.reality import Run, calibrated

from gsched.testbed.arrivals import Arrival, Played, make_arrivals, write_predictions
from gsched.testbed.workload import USERS


def made(seed: int = 1, num_jobs: int = 400, load: float = 1.5) -> list[Arrival]:
    return make_arrivals(seed, num_jobs, 32, shortest_s=20.0, longest_s=90.0, load=load)


def test_the_seed_alone_decides() -> None:
    assert made(1) == made(1)
    assert made(1) != made(2)


@pytest.mark.parametrize("load", [0.5, 2.0])
def test_they_ask_for_the_load(load: float) -> None:
    arrivals = made(load=load)
    wanted_gpu_s = sum(a.duration_s * a.num_gpus for a in arrivals)
    assert wanted_gpu_s / (32 * arrivals[-1].submit_s) == pytest.approx(load, rel=0.05)
    assert arrivals[0].submit_s == 0
    times = [a.submit_s for a in arrivals]
    assert times == sorted(times)


def test_what_slurm_and_the_policy_are_told() -> None:
    arrivals = made()
    assert all(20 <= a.duration_s <= 90 for a in arrivals)
    assert all(a.time_limit_s > a.duration_s and a.time_limit_s % 60 == 0 for a in arrivals)
    assert {(a.user, a.account) for a in arrivals} == set(USERS)
    assert len({a.name for a in arrivals}) == len(arrivals)
    noise = np.log([a.predicted_s / a.duration_s for a in arrivals])
    assert noise.std() == pytest.approx(0.3, abs=0.05)
    assert abs(noise.mean()) < 0.05
    of_size = spearmanr([a.num_gpus for a in arrivals], [a.duration_s for a in arrivals])
    assert abs(of_size.statistic) < 0.15


def test_the_table_of_predictions(tmp_path: Path) -> None:
    arrivals = made(num_jobs=3)
    write_predictions(arrivals, tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert [(r["user"], r["name"], float(r["duration_s"])) for r in rows] == [
        (a.user, a.name, a.predicted_s) for a in arrivals
    ]


def test_overheads_by_hand() -> None:
    """Two jobs start at once and take 1 s more than they run; the third waits for the first."""
    first, second, third = (replace(a, duration_s=20.0) for a in made(num_jobs=3))
    played = [Played(100, 100, 121), Played(101, 102, 122), Played(103, 122, 143)]
    run = Run((first, second, third), played, num_nodes=1)
    costs = calibrated([run])
    assert costs.launch_s == 1.0  # (121 − 100 − 20 + 122 − 101 − 20) / 2
    assert costs.cleanup_s == 0.0  # from 122, the last end before it, to 143: 21 s, of which 20 run
    later = Run((first, second, third), [*played[:2], Played(103, 124, 146)], num_nodes=1)
    assert calibrated([later]).cleanup_s == 3.0
