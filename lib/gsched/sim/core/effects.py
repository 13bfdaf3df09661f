"""What the rules say of failures, sharing, sleep and energy, for the compiled loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsched.errors import UsageError
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.sim.rules import Power, Scheduler, SimRules


def discipline_of(form: OrderForm, rules: SimRules) -> Discipline:
    """How the order is carried out: as the form says, or as Scheduler.SLURM tells."""
    if rules.scheduler is Scheduler.SLURM:
        return replace(form.discipline, preempts=False, misfit=Misfit.BACKFILL)
    return form.discipline


def check_effects(preempts: bool, rules: SimRules) -> None:
    """Raises UsageError for what cannot be simulated together."""
    if preempts and rules.sharing is not None:
        raise UsageError(
            "GPU sharing is not simulated with a policy that preempts: who shares holds no GPUs of"
            " its own that it could give up",
            "leave sharing out, or take a policy without preemption",
        )
    if preempts and rules.starvation_bound_s:
        raise UsageError(
            "a starvation bound is not simulated with a policy that preempts: such a policy gives "
            "GPUs by its own rule, whoever stands in front",
            "leave the bound out, or take a policy without preemption",
        )


def effect_fields(rules: SimRules) -> dict[str, float]:
    """The fields of state.RULES that are told here, by name."""
    fields: dict[str, float] = {"seed": rules.seed}
    if rules.failures is not None:
        fields |= {
            "failures": 1,
            "node_mtbf_s": rules.failures.node_mtbf_s,
            "repair_s": rules.failures.repair_s,
            "checkpoint_every_s": rules.failures.checkpoint_every_s,
            "max_requeues": rules.failures.max_requeues,
        }
    if rules.sharing is not None:
        fields |= {"sharing": 1, "min_speed": rules.sharing.min_speed}
    if rules.sleep is not None:
        fields |= {
            "sleep": 1,
            "idle_timeout_s": rules.sleep.idle_timeout_s,
            "wake_s": rules.sleep.wake_s,
            "keep_awake": rules.sleep.keep_awake,
        }
    return fields


def pair_speeds(rules: SimRules) -> NDArray[np.float64]:
    """The speeds of pairs; one number that is never asked for where nothing is shared."""
    if rules.sharing is None:
        return np.full((1, 1), np.nan)
    return np.ascontiguousarray(rules.sharing.speeds, dtype=np.float64)


def energy_wh(power: Power, node_s: float, asleep_node_s: float, used_gpu_s: float) -> float:
    """Energy in watt-hours.

    `node_s` are the seconds in which nodes were up or asleep, `asleep_node_s` those of them asleep
    (a node that is down draws nothing), `used_gpu_s` the seconds in which GPUs were held: those of
    two jobs on the same GPUs count once.
    """
    awake_node_s = node_s - asleep_node_s
    joules = power.asleep_w * asleep_node_s + power.idle_w * awake_node_s + power.gpu_w * used_gpu_s
    return joules / 3600
