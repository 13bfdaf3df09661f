"""What a policy is.

A policy is pure and deterministic: no clock, no input or output, random sources injected. It does
not know whether it runs on a live Slurm or in the simulator. Memory comes in and goes out as JSON.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.axes import Axes

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.policy.order_form import OrderForm


Received = Callable[[float, bool], Mapping[str, float]]
"""GPU-seconds that tenants have received, of which half counts after so many seconds; the second
argument: whether GPUs count by their worth."""


class OrderKind(enum.Enum):
    """What a policy's order depends on, and so how often it has to be computed.

    STATIC: on the job alone (one key in its life: the daemon writes once, the simulator sorts
    once). TIME: on the clock too. STATE: on the other jobs as well.
    """

    STATIC = "static"
    TIME = "time"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """One number by which a policy can be tuned, with its bounds and its unit."""

    name: str
    default: float
    minimum: float
    maximum: float
    unit: str
    help: str


class Policy(ABC):
    """Base of all policies. Subclasses set the class attributes and implement `decide`.

    A STATIC one implements `static_key`, one whose order has a closed form `order_form`. Where
    `axes` is None, as plugins may have it, nobody has said where the policy stands. `takes` says
    what of the site its constructor takes beside knobs: ``quotas`` (GPUs by tenant, or None),
    ``gpu_weights`` (worth by type of GPU), ``target_rules`` (who may have deadlines promised).
    `reads_progress`: it goes by how far jobs say they are, so that live rounds ask them.
    """

    name: str
    summary: str
    axes: Axes | None = None
    requires: frozenset[Capability]
    order_kind: OrderKind
    needs_prediction: bool = False
    reads_progress: bool = False
    knobs: tuple[KnobSpec, ...] = ()
    takes: frozenset[str] = frozenset()

    def __init__(self, **knobs: float) -> None:
        """Take knob values by name. Raises ValueError for an unknown knob or one out of bounds."""
        specs = {spec.name: spec for spec in self.knobs}
        for name, value in knobs.items():
            if name not in specs:
                known = ", ".join(specs) or "none"
                raise ValueError(f"policy {self.name} has no knob {name!r} (knobs: {known})")
            spec = specs[name]
            if not spec.minimum <= value <= spec.maximum:
                raise ValueError(
                    f"knob {name} of policy {self.name} is {value}, "
                    f"allowed {spec.minimum}..{spec.maximum} {spec.unit}"
                )
        self.knob_values = {spec.name: knobs.get(spec.name, spec.default) for spec in self.knobs}

    def seeded(
        self, memory: Mapping[str, JsonValue], as_of: int, received: Received
    ) -> Mapping[str, JsonValue]:
        """`memory` with what tenants have received until `as_of`, as the job history tells it.

        Asked when a daemon begins with this policy: its own memory knows nothing of the time in
        which it did not decide. A policy that does not count what tenants receive returns it as it
        is.
        """
        del as_of, received
        return memory

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """One value a job, smaller first, NaN for none: what a STATIC policy orders by.

        Raises NotImplementedError where the policy is of another kind.
        """
        raise NotImplementedError(f"the order of {self.name} is not static")

    def order_form(self, jobs: JobTable) -> OrderForm | None:
        """The order of `jobs` in closed form, None where it has none.

        The live `decide` and the simulator's compiled loops evaluate the same form. Here that of a
        STATIC policy: its keys, and the median for jobs that have none.
        """
        from gsched.policy.order_form import OrderForm, filled_by_median

        if self.order_kind is not OrderKind.STATIC:
            return None
        return OrderForm.static(filled_by_median(self.static_key(jobs)))

    @abstractmethod
    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Order and actions for `state` at `now` (epoch seconds), given the last `memory`.

        A job that gets a reason and no rank goes back to the median place. One that gets neither,
        or a reason that ends with LAST_ORDER_STANDS, keeps the place that it has.
        """
