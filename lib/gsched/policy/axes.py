"""What kind of policy it is: the axes along which the survey of Gao et al. sorts schedulers.

W. Gao et al., "Deep Learning Workload Scheduling in GPU Datacenters: A Survey" (ACM Computing
Surveys, 2024), tables 1 to 3.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Objective(enum.Enum):
    """What a policy is after."""

    TIMING = "timing"  # efficiency: completion times, queueing, makespan
    COST = "cost"  # efficiency: money, energy
    RESOURCE = "resource"  # efficiency: GPUs in use
    FAIRNESS = "fairness"
    DEADLINE = "deadline"


class ResourceUse(enum.Enum):
    """How jobs use GPUs."""

    EXCLUSIVE = "exclusive"
    HETEROGENEOUS = "heterogeneous"
    SHARING = "sharing"
    ELASTIC = "elastic"


class Method(enum.Enum):
    """How it decides."""

    HEURISTIC = "heuristic"
    OPTIMISATION = "optimisation"
    PROFILE = "profile"
    LEARNING = "learning"


class Evidence(enum.Enum):
    """GPUs of the largest physical cluster on which its source shows it."""

    SIMULATION = "simulation"  # none
    S = "S"  # up to 30
    M = "M"  # up to 60
    L = "L"  # up to 120
    XL = "XL"  # more


@dataclass(frozen=True, slots=True)
class Axes:
    """Where a policy stands, as it is implemented here; `source` is where it comes from.

    An approximation may stand elsewhere than its source: one that knows a single kind of GPU is
    exclusive, one that sorts is a heuristic. `evidence` is always the source's.
    """

    objective: Objective
    method: Method
    evidence: Evidence
    source: str
    resource_use: ResourceUse = ResourceUse.EXCLUSIVE
