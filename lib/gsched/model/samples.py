"""Utilisation samples: what is measured of what, at even intervals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """What is sampled of what.

    `subject` is a node (``n1``), a GPU of it (``n1/gpu0``) or a job (``job 17``). `metric` carries
    its unit: ``gpu_utilization_pct``. `source` is who measured: ``dcgm``, ``slurm``, ``runtime``.
    """

    cluster: str
    subject: str
    metric: str
    source: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One value; it stands for the `interval_s` seconds that begin at `time` (epoch seconds)."""

    time: float
    interval_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of samples. `late` ones were of times that have been thinned out already."""

    kept: int
    late: int
