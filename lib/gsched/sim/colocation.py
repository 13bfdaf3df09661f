"""Measured speeds of jobs that share GPUs, from a file.

Two forms are read, told apart by their first letter:

* JSON as published with Gavel (Narayanan et al., OSDI 2020, ``simulation_throughputs.json``): by
  GPU type and job type, throughput alone (``null``) and in each pair, ``[own, partner's]``.
* CSV with the columns ``class,partner,speed`` (and ``num_gpus``, where it was measured with more
  than one GPU): the speed of a job of `class` beside one of `partner`, relative to alone. A pair
  counts where both directions are there; 0 means that it does not fit.

A class is a job name, or ``NAME xN`` where the measurement is of N GPUs. Speeds a little above 1
are noise of the measurement and count as 1; those above MAX_SPEED are of another unit and refused.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsched.errors import DataError
from gsched.sim.jobs import ANY, Ints
from gsched.sim.rules import Sharing
from gsched.traces.source import open_trace

MAX_BYTES = 64 << 20
MAX_CLASSES = 10_000
MAX_SPEED = 1.5

_JOB_TYPE = re.compile(r"\('(.{1,200})', (\d{1,5})\)")

Speeds = dict[tuple[str, str], float]  # (class, partner) → speed of class


def read_colocation(path: str, gpu_type: str = "v100", min_speed: float = 0.5) -> Sharing:
    """The measured pairs of a file (packed or not); `gpu_type` chooses a part of Gavel's.

    Raises DataError for what is neither form, and what `open_trace` raises.
    """
    with open_trace(path) as stream:
        data = stream.read(MAX_BYTES + 1)
        if stream.damage:
            raise DataError(f"{path}: {stream.damage}")
    if len(data) > MAX_BYTES:
        raise DataError(f"{path}: more than {MAX_BYTES >> 20} MiB, which no table of pairs needs")
    try:
        text = data.decode()
        speeds = _of_gavel(text, gpu_type) if text[:1] == "{" else _of_csv(text)
    except (UnicodeDecodeError, csv.Error, RecursionError, ValueError) as error:
        raise DataError(f"{path}: {error}", "see gsched-sim-run(1) for the two forms") from error
    return _sharing(path, speeds, min_speed)


def classes_of(sharing: Sharing, names: Sequence[str], num_gpus: Ints) -> Ints:
    """The class of each job by its name and number of GPUs; ANY where nothing was measured."""
    rows = {name: row for row, name in enumerate(sharing.classes)}
    return np.fromiter(
        (
            rows.get(sized(name, gpus), rows.get(name, ANY))
            for name, gpus in zip(names, num_gpus.tolist(), strict=True)
        ),
        dtype=np.int32,
        count=len(names),
    )


def drawn_classes(sharing: Sharing, num_gpus: Ints, seed: int) -> Ints:
    """A class for each job at random among those measured with its number of GPUs.

    For traces that do not tell what a job runs: the pairs are then an assumption, not a fact.
    """
    generator = np.random.default_rng(seed)
    drawn = np.full(len(num_gpus), ANY, dtype=np.int32)
    for gpus in np.unique(num_gpus).tolist():
        of_size = [r for r, name in enumerate(sharing.classes) if _size(name) == gpus]
        jobs = np.flatnonzero(num_gpus == gpus)
        if of_size:
            drawn[jobs] = generator.choice(np.array(of_size, dtype=np.int32), len(jobs))
    return drawn


def sized(name: str, num_gpus: int) -> str:
    """The class of what was measured with so many GPUs."""
    return f"{name} x{num_gpus}"


def _size(name: str) -> int:
    tail = name.rpartition(" x")[2]
    return int(tail) if tail.isdecimal() and len(tail) < 6 and " x" in name else 1


def _of_gavel(text: str, gpu_type: str) -> Speeds:
    types = json.loads(text)
    table = types.get(gpu_type)
    if not isinstance(table, dict):
        raise ValueError(f"has no GPU type {gpu_type!r} (it has {', '.join(map(str, types))})")
    names = {key: _class(key) for key in table}
    speeds: Speeds = {}
    for key, row in table.items():
        alone = _number(row.get("null")) if isinstance(row, dict) else math.nan
        if not alone > 0:  # never ran: it shares nothing
            continue
        for partner, pair in row.items():
            if partner != "null" and partner in names:
                speed = speeds[names[key], names[partner]] = _first(pair) / alone
                if speed > MAX_SPEED:
                    raise ValueError(
                        f"{key[:80]!r} beside {partner[:80]!r} is {speed:.3g} times as fast as "
                        f"alone; above {MAX_SPEED} that is no noise"
                    )
    return speeds


def _class(key: str) -> str:
    told = _JOB_TYPE.fullmatch(key)
    if told is None:
        raise ValueError(f"{key[:80]!r} is not a job type ('NAME', GPUS)")
    return sized(told[1], int(told[2]))


def _first(pair: Any) -> float:
    return _number(pair[0]) if isinstance(pair, list) and pair else math.nan


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _of_csv(text: str) -> Speeds:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    missing = {"class", "partner", "speed"} - set(rows.fieldnames or ())
    if missing:
        raise ValueError(f"no column {', '.join(sorted(missing))}")
    speeds: Speeds = {}
    for row in rows:
        pair = (_csv_class(row, "class"), _csv_class(row, "partner"))
        speed = float(row["speed"] or "nan")
        if math.isnan(speed) or speed < 0:
            raise ValueError(f"line {rows.line_num}: speed {row['speed']!r} is no speed")
        if speed > MAX_SPEED:
            raise ValueError(
                f"line {rows.line_num}: speed {row['speed']!r}: speeds are relative to running "
                f"alone, 1 at most (up to {MAX_SPEED} counts as noise and is 1)"
            )
        if speeds.setdefault(pair, speed) != speed:
            raise ValueError(f"line {rows.line_num}: {pair[0]!r} beside {pair[1]!r} comes twice")
    return speeds


def _csv_class(row: Mapping[str, str | None], column: str) -> str:
    name, gpus = row[column] or "", row.get("num_gpus") or ""
    if not name:
        raise ValueError(f"a row without {column}")
    return sized(name, int(gpus)) if gpus else name


def _sharing(path: str, speeds: Speeds, min_speed: float) -> Sharing:
    names = sorted({name for pair in speeds for name in pair})
    if not names or len(names) > MAX_CLASSES:
        raise DataError(f"{path}: {len(names)} classes of jobs (1 to {MAX_CLASSES} are taken)")
    row_of = {name: row for row, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    for (name, partner), speed in speeds.items():
        other = speeds.get((partner, name), 0.0)
        if speed > 0 and other > 0:  # NaN is not
            table[row_of[name], row_of[partner]] = min(speed, 1.0)
    return Sharing(tuple(names), table, min_speed)
