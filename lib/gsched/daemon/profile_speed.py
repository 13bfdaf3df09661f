"""What profile runs say of a job that has not run: one node, then two, and the model between. Pure.

A profile run is a short job of the same script by the same user (``gsched submit --gs-profile``).
With t_1 and t_2 seconds an iteration on one and two nodes, the job's iteration on n takes
t_n = t_1 + log2(n)·(t_2 − t_1), as Chronus (SoCC'21) has it. Iterations in all, where a run on two
nodes names fewer than one on one, fall by the same factor with each doubling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.policy.remaining import PROFILE
from gsched.telemetry.heartbeat_file import ALIVE_INTERVAL_S, HeartbeatRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S

MAX_AGE_S = 7 * 86400.0
"""An older profile run says nothing: the script may be another one by now."""

LEAST_STEPS = 3
"""With fewer steps a run is no profile."""

_TOO_FAST = 4.0
_FASTER_AT_MOST = 0.25  # an iteration on many nodes is never less than this part of t_1
_SPREAD = 0.15  # relative; of an extrapolated one for each doubling beyond two nodes as much again
_LEVELS = ((0.02, -2.054), (0.1, -1.282), (0.25, -0.674), (0.5, 0.0))
_SLOWER = tuple((1.0 - p, -z) for p, z in reversed(_LEVELS[:-1]))


def profiled(
    view: JobView, records: Sequence[HeartbeatRecord | None], now: float
) -> tuple[Prediction, ...]:
    """SPEED and ITERATIONS of `view` by its profile runs, in the order in which it names them.

    () where they say nothing: a run that has not come to its steps, is too old, or contradicts
    itself, or two that are not of one node and of two.
    """
    found = [record for record in records if record is not None and _is_sound(record, view, now)]
    if not found or len(found) != len(records):
        return ()
    first = found[0]
    step_s, total = _step_s(first), first.total_steps or 0
    doublings = 0.0
    if len(found) == 2:
        second = found[1]
        if second.world_size != 2 * first.world_size or not second.total_steps:
            return ()
        doublings = math.log2(max(1, view.request.nodes.minimum))
        step_s = extrapolated(step_s, _step_s(second), doublings)
        fewer = min(1.0, second.total_steps / total)
        total = max(1, round(total * fewer**doublings))
    spread = _SPREAD * (1.0 + max(0.0, doublings - 1.0))
    rates = tuple([(p, math.exp(spread * z) / step_s) for p, z in (*_LEVELS, *_SLOWER)])
    as_of = math.floor(now)
    return (
        Prediction(PredictionKind.SPEED, 1.0 / step_s, rates, PROFILE, PROFILE, 0, as_of),
        Prediction(PredictionKind.ITERATIONS, float(total), (), PROFILE, PROFILE, 0, as_of),
    )


def extrapolated(one_node_s: float, two_nodes_s: float, doublings: float) -> float:
    """Seconds an iteration on 2**`doublings` nodes, from those on one and on two."""
    step_s = one_node_s + doublings * (two_nodes_s - one_node_s)
    return max(step_s, _FASTER_AT_MOST * min(one_node_s, two_nodes_s))


def _step_s(record: HeartbeatRecord) -> float:
    """The latest steps: what lies before them, as compiling, comes once a job."""
    return record.iteration_s or record.pace_s or 0.0


def _is_sound(record: HeartbeatRecord, view: JobView, now: float) -> bool:
    """Whether a run has told enough, lately, and no more than it had time for."""
    steps, ran_s = record.step - record.first_step, record.step_time - record.started_time
    step_s = _step_s(record)
    if not record.total_steps or steps < LEAST_STEPS or not 1e-4 <= step_s <= 1e7:
        return False
    is_of_it = abs(record.step_time - view.first_submit) <= MAX_AGE_S
    is_past = record.step_time <= now + CLOCK_SKEW_S
    return is_of_it and is_past and steps * step_s <= _TOO_FAST * (ran_s + ALIVE_INTERVAL_S)
