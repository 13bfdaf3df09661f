"""A policy of a plugin that goes wrong on command: the file FAULTY_POLICY_FILE names the way."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.policy.qssf import Qssf

FILE_VARIABLE = "FAULTY_POLICY_FILE"


class Faulty(Qssf):
    """QSSF, until it is told otherwise."""

    name = "faulty"
    summary = "goes wrong on command"

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """What QSSF decides, or nonsense."""
        path = Path(os.environ[FILE_VARIABLE])
        way = path.read_text().strip() if path.exists() else ""
        return _WAYS[way](super().decide(state, memory, now), state)


def _raise(_decision: Decision, _state: ClusterState) -> Any:
    raise ZeroDivisionError("a plugin's mistake\x1b[31m\nover two lines")


def _exit(_decision: Decision, _state: ClusterState) -> Any:
    raise SystemExit(3)


def _loop(_decision: Decision, _state: ClusterState) -> Any:
    while True:
        pass


def _loop_and_hold_on(_decision: Decision, _state: ClusterState) -> Any:
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: S112 - as careless plugins do
            continue


def _levels(decision: Decision, level: float) -> Decision:
    order = {key: dataclasses.replace(rank, level=level) for key, rank in decision.order.items()}
    return dataclasses.replace(decision, order=order)


def _rank_the_untouchable(decision: Decision, state: ClusterState) -> Decision:
    """First of all those jobs that nobody may move, and one that is not there."""
    first = Rank("gpu", 1, 1, 0.0, 1.0)
    missing = dataclasses.replace(state.jobs.keys[0], job_id=999_999)
    keys = [*state.jobs.keys, missing]
    reasons = {key: Reason("faulty") for key in keys}
    return dataclasses.replace(decision, order=dict.fromkeys(keys, first), reasons=reasons)


_WAYS = {
    "": lambda decision, _state: decision,
    "raise": _raise,
    "exit": _exit,
    "loop": _loop,
    "loop-and-hold-on": _loop_and_hold_on,
    "none": lambda _decision, _state: None,
    "text": lambda _decision, _state: "first come, first served",
    "nan": lambda decision, _state: _levels(decision, math.nan),
    "huge": lambda decision, _state: _levels(decision, 1e300),
    "untouchable": _rank_the_untouchable,
    "no-reasons": lambda decision, _state: dataclasses.replace(decision, reasons={}),
    "memory": lambda decision, _state: dataclasses.replace(decision, memory={"x": {1, 2}}),
}
