"""Columns of simulated jobs and results, for tests: what is not told is as plain as can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.result import SimResult

_INT_COLUMNS = {
    "num_gpus": 1,
    "num_nodes": 0,
    "num_cpus": 1,
    "pool": 0,
    "tenant": 0,
    "user": 0,
    "name": 0,
    "share_class": ANY,
    "gpu_type": ANY,
}
_FLOAT_COLUMNS = {
    "time_limit_s": np.nan,
    "deadline_s": np.nan,
    "weight": 1.0,
    "predicted_duration_s": np.nan,
}


def sim_jobs(
    submit_s: Sequence[float], duration_s: Sequence[float], origin: int = 1_000, **told: Any
) -> SimJobs:
    """Jobs in the order given, which must be that of their submission.

    `told` are columns of SimJobs by name, or one number for all jobs; tenants and users are called
    t0, t1, … and u0, u1, …
    """
    count = len(submit_s)
    columns: dict[str, NDArray[Any]] = {}
    for kind, defaults in ((np.int32, _INT_COLUMNS), (np.float64, _FLOAT_COLUMNS)):
        for name, default in defaults.items():
            values = np.asarray(told.pop(name, default), dtype=kind)
            columns[name] = np.broadcast_to(values, count).copy()
    assert not told, f"no such columns: {sorted(told)}"
    return SimJobs(
        cluster="c",
        origin=origin,
        ids=[str(row + 1) for row in range(count)],
        submit_s=np.asarray(submit_s, dtype=np.float64),
        duration_s=np.asarray(duration_s, dtype=np.float64),
        tenants=_numbered("t", columns["tenant"]),
        users=_numbered("u", columns["user"]),
        names=_numbered("n", columns["name"]),
        **columns,
    )


def _numbered(letter: str, codes: NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(int(codes.max(initial=0)) + 1))


def columns_of(result: SimResult) -> dict[str, NDArray[Any]]:
    """Everything that a result tells, by name: for comparisons to the byte."""
    plain = ("start_s", "end_s", "run_s", "lost_s", "preemptions", "failures")
    columns = {name: getattr(result, name) for name in plain}
    for group in ("segments", "samples"):
        columns |= {f"{group}.{name}": c for name, c in vars(getattr(result, group)).items()}
    return columns | {"energy_wh": np.array(result.energy_wh)}
