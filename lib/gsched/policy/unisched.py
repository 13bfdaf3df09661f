"""Every kind of job in one reward and one model, by leases (UniSched).

After W. Gao et al., "UniSched: A Unified Scheduler for Deep Learning Training Jobs with Different
User Demands" (IEEE Transactions on Computers, 2024). Strict and soft deadlines, best effort, fixed
iterations and target metrics, and first short runs in which a job is measured, all have a reward of
0 to 100 for their end; a lease is worth what it brings a job nearer to it. One CP-SAT model chooses
in each round which leases go on, which jobs start, and on which nodes, so that the sum is greatest.

Built on `chronus`: promises, their calendar and what is told to the refused are the same, and a
target that is due comes before all that can be weighed: a promise is not for sale. What is new: a
deadline that could not be promised counts as long as it can still be met; jobs of which nothing is
known are measured first and answered then, the longer they wait the sooner. No part of the pool is
set aside for that, but one user's first runs take no more than a part of it from others. Where a
job is put is chosen with who runs.

A greedy pass comes first. The model is asked where that may lie further below the best than `gap`,
and taken where it is better; without a solver, or in time, the greedy choice stands, which is told
(`choice` in the memory). What differs from the paper: cells and rewards in detail are ours; no job
is measured on fewer GPUs than it asks for. On a live Slurm nodes are a wish, not an order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobView
from gsched.model.targets import TargetRules
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec
from gsched.policy.chronus import KNOBS as CHRONUS_KNOBS
from gsched.policy.chronus import Chronus
from gsched.policy.remaining import DEFAULT, LIMIT, Remaining

KNOBS = (
    *CHRONUS_KNOBS,
    KnobSpec(
        name="choose_s",
        default=0.5,
        minimum=0.0,
        maximum=10.0,
        unit="s",
        help="for the choice of who runs in a round (deterministic); 0: the greedy one",
    ),
    KnobSpec(
        name="gap",
        default=0.02,
        minimum=0.0,
        maximum=1.0,
        unit="of the points",
        help="by so much a greedy choice may lie below the best without the model being asked",
    ),
    KnobSpec(
        name="deadline_worth",
        default=4.0,
        minimum=0.0,
        maximum=100.0,
        unit="best-effort ends",
        help="what a deadline counts that was not promised and can still be met",
    ),
    KnobSpec(
        name="profile_wait_s",
        default=300.0,
        minimum=1.0,
        maximum=86400.0,
        unit="s",
        help="after this wait a first run, to be measured, counts twice",
    ),
)


class UniSched(Chronus):
    """Promised deadlines first, then the most points of all kinds of jobs by one model."""

    name = "unisched"
    summary = "promised deadlines, then the best of all kinds of jobs by one model (UniSched)"
    axes = Axes(Objective.DEADLINE, Method.OPTIMISATION, Evidence.M, "UniSched, TC'24")
    knobs = KNOBS

    def __init__(self, target_rules: TargetRules | None = None, **knobs: float) -> None:
        """Raises ValueError as every policy does."""
        super().__init__(target_rules, **knobs)
        self.ways: Counter[str] = Counter()  # how choices were made since it was loaded

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """As `chronus`, with the choice of the model."""
        from gsched.policy.unisched_round import UniRound

        round_ = UniRound.of(self, state, memory, now)
        return round_.decision()

    def is_to_be_measured(self, view: JobView, left: Remaining | None) -> bool:
        """Whether nothing is known of a job and it has not had its first short run yet."""
        profile_s = self.knob_values["profile_s"]
        if not profile_s or (left is not None and left.source not in (LIMIT, DEFAULT)):
            return False
        gpus = view.request.gpus.minimum
        return (view.attained_gpu_s or 0.0) < profile_s * gpus
