"""A policy asked for its decision, whatever it may do: it is code of others."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from gsched.engine.ports import OverTimeError, TimeLimit
from gsched.engine.validate import Problem, validate
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.base import Policy

_HINT = "choose another one in [daemon] policy; Slurm keeps the last order until then"


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What holds in every round, whatever the policy: see the settings of the same names.

    0 = no bound, no limit.
    """

    starvation_bound_s: int = 0
    decide_limit_s: float = 0.0


NO_RULES = RoundRules()


def no_limit(_seconds: float) -> AbstractContextManager[object]:
    """The time limit of a simulation: none."""
    return nullcontext()


def decide(
    policy: Policy,
    state: ClusterState,
    memory: Mapping[str, JsonValue],
    now: int,
    capabilities: frozenset[Capability],
    limit_s: float,
    time_limit: TimeLimit,
) -> tuple[Decision, tuple[Problem, ...]]:
    """The policy's checked decision, and what was dropped from it.

    Raises GschedError when the policy fails, answers with what is no decision, or takes longer
    than `limit_s` (0 = no limit). The check is within the limit too: mappings of a policy's own
    may fail or loop as it can.
    """
    guard = time_limit(limit_s) if limit_s else nullcontext()
    try:
        with guard:
            decision = policy.decide(state, copy.deepcopy(dict(memory)), now)
            return validate(decision, state, capabilities, now)
    except KeyboardInterrupt:
        raise
    except OverTimeError as e:
        raise GschedError(
            f"policy {policy.name} has not decided within {limit_s:g} s (decide_limit_s)", _HINT
        ) from e
    except BaseException as e:  # also SystemExit: a policy must not end the daemon
        raise GschedError(f"policy {policy.name} failed: {_told(e)}", _HINT) from e


def _told(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # the error is the policy's own, too
        text = "its error cannot be shown"
    return f"{type(error).__name__}: {text}"[:500]
