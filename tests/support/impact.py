"""Histories of a cluster on which a daemon acted and only observed in turn, made by a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from gsched.config.settings import DaemonSettings, Settings
from gsched.model.history import AttemptRecord
from gsched.model.job import JobState
from gsched.model.times import DAY_S
from gsched_sql import History
from support.history import CLUSTER, attempt, batch

BEGIN = 20_000 * DAY_S
"""Midnight (UTC) of the first day."""
TURN_DAYS = 2
JOBS_A_DAY = 60
RUN_S = 1200
MODES = ("act", "control")


def settings_of(folder: Path, **daemon: object) -> Settings:
    """Settings with a history of their own."""
    return replace(Settings(state_dir=folder), daemon=replace(DaemonSettings(), **daemon))


def mode_of(day: int) -> str:
    """What the daemon did on a day, counted from BEGIN."""
    return MODES[day // TURN_DAYS % 2]


def jobs_of(
    num_days: int, factor: float, seed: int, partitions: Sequence[str] = ("gpu",)
) -> list[AttemptRecord]:
    """Jobs whose waits are `factor` times as long as by chance while the daemon acts.

    Days differ among themselves more than jobs of one day do, as they do on a real cluster. The
    last of several `partitions` is not moved.
    """
    random = np.random.default_rng(seed)
    found = []
    for day in range(num_days):
        typical_s = 1800 * random.lognormal(0, 0.6)
        for number in range(JOBS_A_DAY):
            submit = BEGIN + day * DAY_S + int(random.uniform(0, DAY_S / 2))
            partition = partitions[number % len(partitions)]
            is_moved = mode_of(day) == "act" and not (
                len(partitions) > 1 and partition == partitions[-1]
            )
            wait_s = int(typical_s * random.lognormal(0, 0.5) * (factor if is_moved else 1))
            start = submit + wait_s
            found.append(
                attempt(
                    1 + day * JOBS_A_DAY + number,
                    submit,
                    eligible_time=submit,
                    start_time=start,
                    end_time=start + RUN_S,
                    partition=partition,
                    user=f"u{number % 3}",
                    num_gpus=number % 2,
                    state=JobState.COMPLETED,
                )
            )
    return found


def make_history(settings: Settings, records: Sequence[AttemptRecord], num_days: int) -> None:
    """The history of `records`, and of a daemon that had turns of TURN_DAYS days."""
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        history.ingest(batch(*records), source_key=None)
        note_turns(history, num_days)


def note_turns(history: History, num_days: int) -> None:
    """The daemon's spans: a round every six hours, and one at each turn."""
    spans = history.spans(CLUSTER)
    moments = range(BEGIN, BEGIN + num_days * DAY_S + 1, DAY_S // 4)
    for _, at in pairwise((None, *moments)):
        spans.note(mode_of((at - BEGIN) // DAY_S), "qssf", at, DAY_S)
