"""What simulations of some policies found, with all that they assume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gsched.model.job import Capability
from gsched.model.jobtable import JobTable
from gsched.policy.base import Policy
from gsched.policy.order_form import Discipline, OrderForm
from gsched.resampling import CONFIDENCE, MIN_DAYS
from gsched.sim.cluster import SimCluster
from gsched.sim.intervals import MIN_RUNS, Difference, Estimate, differences, estimates
from gsched.sim.metrics import Metrics
from gsched.sim.paired import ended_in_both, same_ended
from gsched.sim.rules import SimRules

if TYPE_CHECKING:
    from gsched.app.sim.left_out import LeftOut


@dataclass(frozen=True, eq=False)
class PolicyRuns:
    """The runs of one policy, one a seed (or window), in the same order for all policies.

    `label` tells it from the others: its name, and the knobs where those differ.
    """

    label: str
    policy: Policy
    runs: Sequence[Metrics]

    @property
    def is_oracle(self) -> bool:
        """Whether it was told the true run times."""
        return Capability.ORACLE in self.policy.requires

    @cached_property
    def _form(self) -> OrderForm | None:
        return self.policy.order_form(JobTable.from_views([]))

    @property
    def discipline(self) -> Discipline | None:
        """How its order is carried out; None where that is decided round by round."""
        return None if self._form is None else self._form.discipline

    @property
    def tells_tenants_apart(self) -> bool:
        """Whether its order hangs on what each tenant uses."""
        return self._form is not None and self._form.tenants is not None

    @property
    def preempts(self) -> bool:
        """Whether it may take GPUs from running jobs."""
        return Capability.PREEMPT in self.policy.requires

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Its figures with intervals, by name of `intervals.METRICS`."""
        return estimates(self.runs)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "label": self.label,
            "policy": self.policy.name,
            "knobs": dict(self.policy.knob_values),
            "oracle": self.is_oracle,
            "preempts": self.preempts,
            "misfit": None if self.discipline is None else self.discipline.misfit.value,
            "needs_prediction": self.policy.needs_prediction,
            "estimates": [{"metric": k, **v.document()} for k, v in self.estimates.items()],
            "runs": [run.document() for run in self.runs],
        }


@dataclass(frozen=True, eq=False)
class SimReport:
    """Policies on the same jobs and nodes; the first is what the others are compared with.

    `source` names in words what was read, `notes` say one thing a line that was assumed in
    reading: how the nodes were found, where predictions come from. `rules` are those of all runs
    but for the seed.
    """

    source: str
    left_out: Sequence[LeftOut]
    notes: Sequence[str]
    cluster: SimCluster
    rules: SimRules
    policies: Sequence[PolicyRuns]

    @property
    def baseline(self) -> PolicyRuns:
        """The first policy."""
        return self.policies[0]

    @property
    def simulated(self) -> str:
        """How many of the jobs that were read are simulated, in words; rows may be no jobs."""
        jobs = self.baseline.runs[0].all_jobs.jobs
        told = jobs + sum(left.jobs for left in self.left_out if left.reason != "rejected")
        return f"{jobs:,} of {told:,} jobs simulated"

    @property
    def interrupted(self) -> bool:
        """Whether a run was ended before its end."""
        return any(run.interrupted for policy in self.policies for run in policy.runs)

    @property
    def seeds(self) -> list[int]:
        """Of the runs, in their order."""
        return [run.seed for run in self.baseline.runs]

    @property
    def interval_unit(self) -> str | None:
        """What intervals are made of, ``runs`` or ``days``; None where there are too few."""
        if len(self.baseline.runs) > 1:
            return "runs" if len(self.baseline.runs) >= MIN_RUNS else None
        return "days" if len(self.baseline.runs[0].daily.days) >= MIN_DAYS else None

    @cached_property
    def differences(self) -> dict[str, dict[str, Difference]]:
        """By label of each policy but the baseline: its figures less the baseline's.

        Those of jobs are over the jobs that ended under both.
        """
        return {
            other.label: differences(other.runs, self.baseline.runs) for other in self.policies[1:]
        }

    @cached_property
    def same_ended(self) -> bool:
        """Whether the same jobs ended under all policies."""
        return all(same_ended(other.runs, self.baseline.runs) for other in self.policies[1:])

    def ended_under_both(self, policy: PolicyRuns) -> list[int]:
        """How many jobs ended under a policy and under the baseline, in each run."""
        pairs = zip(policy.runs, self.baseline.runs, strict=True)
        return [int(ended_in_both(run, base).sum()) for run, base in pairs]

    def document(self) -> dict[str, Any]:
        """As JSON; times in seconds, shares as parts of 1."""
        return {
            "source": self.source,
            "cluster": _cluster_document(self.cluster),
            "assumptions": _rules_document(self.rules, self.seeds),
            "left_out": [left.document() for left in self.left_out],
            "notes": list(self.notes),
            "interrupted": self.interrupted,
            "policies": [
                {**policy.document(), "ended_under_both": self.ended_under_both(policy)}
                for policy in self.policies
            ],
            "baseline": self.baseline.label,
            "confidence": CONFIDENCE,
            "interval_unit": self.interval_unit,
            "differences": [
                {"label": label, "metric": metric, **told.document()}
                for label, found in self.differences.items()
                for metric, told in found.items()
            ],
        }


def _cluster_document(cluster: SimCluster) -> dict[str, Any]:
    first = cluster.first_node.tolist()
    return {
        "nodes": cluster.num_nodes,
        "gpus": cluster.num_gpus,
        "pools": [
            {"name": name, "nodes": end - begin, "gpus": int(cluster.node_gpus[begin:end].sum())}
            for name, begin, end in zip(cluster.pools, first[:-1], first[1:], strict=True)
        ],
        "gpu_types": [
            {"name": name, "speed": float(speed), "gpus": _gpus_of(cluster, code)}
            for code, (name, speed) in enumerate(
                zip(cluster.gpu_types, cluster.type_speed, strict=True)
            )
        ],
    }


def _gpus_of(cluster: SimCluster, gpu_type: int) -> int:
    return int(np.sum(cluster.node_gpus[cluster.node_type == gpu_type]))


def _rules_document(rules: SimRules, seeds: Sequence[int]) -> dict[str, Any]:
    sharing = rules.sharing
    return {
        "placement": rules.placement.value,
        "scheduler": rules.scheduler.value,
        "seeds": list(seeds),
        "costs": asdict(rules.costs),
        "failures": None if rules.failures is None else asdict(rules.failures),
        "sharing": sharing and {"classes": list(sharing.classes), "min_speed": sharing.min_speed},
        "sleep": None if rules.sleep is None else asdict(rules.sleep),
        "power": asdict(rules.power),
        "sample_s": rules.sample_s,
        "size_first_tick_s": rules.size_first_tick_s,
        "round_s": rules.round_s,
        "starvation_bound_s": rules.starvation_bound_s,
    }
