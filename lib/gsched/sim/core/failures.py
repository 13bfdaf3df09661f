"""Nodes that fail: when, and what a job on them has left.

The time to a node's next failure is drawn from (seed, node, number of the failure) alone, so that
all policies meet the same failures, whatever happens between them.
"""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inner, compiled_lean

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / (1 << 53)


@compiled_lean
def uniform(seed: int, node: int, count: int) -> float:
    """A number in (0, 1) that depends on nothing else (splitmix64 over the three)."""
    state = _mixed(np.uint64(seed) + _GOLDEN * np.uint64(node + 1))
    state = _mixed(state + _GOLDEN * np.uint64(count + 1))
    return (np.float64(state >> np.uint64(11)) + 0.5) * _TO_UNIT


@compiled_inner
def _mixed(state: np.uint64) -> np.uint64:
    state = (state ^ (state >> np.uint64(30))) * _MIX_A
    state = (state ^ (state >> np.uint64(27))) * _MIX_B
    return state ^ (state >> np.uint64(31))


@compiled_lean
def seconds_to_failure(seed: int, node: int, count: int, mtbf_s: float) -> float:
    """Seconds of being up before failure number `count` of a node: exponential, mean `mtbf_s`."""
    return float(-np.log(uniform(seed, node, count)) * mtbf_s)


@compiled_lean
def kept_work_s(done_s: float, checkpoint_every_s: float) -> float:
    """What is kept of the work done in an attempt that a failure ends: up to its last checkpoint.

    0 for `checkpoint_every_s`: nothing is kept.
    """
    if checkpoint_every_s <= 0.0:
        return 0.0
    return float(np.floor(done_s / checkpoint_every_s) * checkpoint_every_s)
