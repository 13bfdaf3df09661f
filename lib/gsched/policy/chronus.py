"""Deadlines that are promised and kept, by leases; what they leave goes to the shortest (CHRONUS).

After W. Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs"
(SoCC 2021). A job that asks for a deadline is a *target* once a plan was found that keeps it beside
all other targets; else it is refused, told the earliest time that could be promised, and runs as
best effort. A promise is not broken for a newcomer: only lost nodes and a job's own overrun can
make a target late, and then it is planned anew.

Targets hold their GPUs as late as is safe, so that best effort has them before. Those whose latest
start is near come first; then, by the least GPU-time to their end, best effort, the refused and the
targets that have time (Spot); jobs that cannot give way only where no target needs their GPUs
before they have ended. Jobs of which nothing is known run first, in a small part of the pool, for a
short while (Profiling): many end there.

Run times are those that are enough with the probability `quantile`. What is promised is a budget of
GPU-time: a job that overruns it gets more only where others leave it. What differs from the paper:
plans come from a greedy search, and from CP-SAT where that finds none; times are seconds, not
leases; placement is the backend's, for which GPUs are rounded up to 1, 2, 4 or whole nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability
from gsched.model.targets import TargetRules
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind, Policy
from gsched.policy.preemption import GRACE, lease_knob

if TYPE_CHECKING:
    from gsched.policy.chronus_round import Known, Round


def _seconds(name: str, default: float, most: float, text: str) -> KnobSpec:
    return KnobSpec(name, default, 0.0, most, "s", text)


KNOBS = (
    lease_knob(1200.0),
    _seconds("spot_lease_s", 0.0, 86400.0, "length of a lease of no target; 0: as lease_s"),
    GRACE,
    KnobSpec(
        name="quantile",
        default=0.95,
        minimum=0.5,
        maximum=0.99,
        unit="probability",
        help="with which the run time that a target is planned with is enough",
    ),
    KnobSpec(
        name="relative_error",
        default=0.0,
        minimum=0.0,
        maximum=2.0,
        unit="of the run time",
        help="standard deviation of predictions that come without quantiles",
    ),
    _seconds("resume_s", 0.0, 3600.0, "what a job loses when it is interrupted and goes on"),
    _seconds("lead_s", 0.0, 86400.0, "so long before it has to start a target comes first"),
    _seconds("margin_s", 300.0, 86400.0, "so long before its deadline a target is planned to end"),
    KnobSpec(
        name="room",
        default=1.0,
        minimum=0.0,
        maximum=4.0,
        unit="of the load of smaller jobs",
        help="for which GPUs are kept, the further ahead the more, when a deadline is promised",
    ),
    _seconds("least_run_s", 0.0, 86400.0, "shortest part of a plan; 0: a quarter of a lease"),
    _seconds("profile_s", 300.0, 3600.0, "first run of a job of which nothing is known; 0: none"),
    _seconds("solve_s", 2.0, 10.0, "for the solver in a round (deterministic); 0: no solver"),
)


class Chronus(Policy):
    """Promised deadlines as late as is safe, then the least GPU-time to the end; leases."""

    name = "chronus"
    summary = "promised deadlines by a plan of leases, then shortest remaining (CHRONUS)"
    axes = Axes(Objective.DEADLINE, Method.OPTIMISATION, Evidence.L, "Chronus, SoCC'21")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT, Capability.ADMIT})
    order_kind = OrderKind.STATE
    knobs: tuple[KnobSpec, ...] = KNOBS
    takes = frozenset({"target_rules"})
    reads_progress = True

    def __init__(self, target_rules: TargetRules | None = None, **knobs: float) -> None:
        """Raises ValueError as every policy does."""
        super().__init__(**knobs)
        self.rules = target_rules or TargetRules()
        self.known: Known = {}  # of the last decision: what has not changed is not reckoned anew

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Answers to requests, the plan of targets, and who gets leases, keeps or loses them."""
        from gsched.policy.chronus_round import Round

        round_: Round = Round.of(self, state, memory, now)
        return round_.decision()

    def seconds(self, knob: str) -> int:
        """The value of a knob as whole seconds, rounded up."""
        return math.ceil(self.knob_values[knob])

    @property
    def spot_lease_s(self) -> int:
        """Length of a lease of a job that is no target."""
        return self.seconds("spot_lease_s") or self.seconds("lease_s")
