"""The state before the first event, from jobs, nodes, order and rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.fairness.worth import worth_of
from gsched.policy.order_form import Misfit, OrderForm, TenantUse
from gsched.sim.cluster import SimCluster
from gsched.sim.core import state
from gsched.sim.core.effects import discipline_of, effect_fields, pair_speeds
from gsched.sim.core.heap import ENTRY
from gsched.sim.core.node_events import begin_nodes
from gsched.sim.core.nodes import Nodes, make_nodes
from gsched.sim.core.placement import placement_code
from gsched.sim.core.state import NONE, Sim
from gsched.sim.jobs import ANY, Floats, SimJobs
from gsched.sim.rules import Costs, SimRules

_MISFIT = {
    Misfit.BLOCK: state.BLOCK,
    Misfit.BLOCK_TENANT: state.BLOCK_TENANT,
    Misfit.SKIP: state.SKIP,
    Misfit.BACKFILL: state.BACKFILL,
}
_LEAST_SHARE = 1e-9  # of a tenant to which nothing is due: its ratio is large, not infinite
_EQUAL_PART = -1.0  # of a pool
_SPARE_ROOM = 1024
_ALL = 1 << 40

Records = NDArray[np.void]


def make_sim(jobs: SimJobs, cluster: SimCluster, form: OrderForm, rules: SimRules) -> Sim:
    """Everything waits to be submitted, all nodes are up and free."""
    tenant = _tenants_of(jobs, form)
    pairs, group = _numbered(jobs.pool, tenant)
    wanted, size = _sizes_of(jobs)
    pools = np.arange(len(cluster.pools))
    groups = _groups(pairs, np.bincount(group, minlength=pairs.shape[1]))
    sizes = np.zeros(wanted.shape[1], dtype=state.SIZE)
    sizes["num_gpus"] = wanted[1]
    gpus = np.add.reduceat(np.append(cluster.node_gpus, 0), cluster.first_node[:-1])
    runners = gpus.astype(np.int64) * (1 if rules.sharing is None else 2) + 1
    worth = _type_worth(cluster, form)
    ids = len(jobs) + cluster.num_nodes + len(pools)
    sim = Sim(
        jobs=_jobs(jobs, form, tenant, group, size),
        nodes=np.zeros(cluster.num_nodes, dtype=state.NODE),
        places=make_nodes(cluster, len(jobs)),
        pools=_pools(pools, pairs[0], wanted[0], gpus, runners, _pool_worth(cluster, worth)),
        groups=groups,
        sizes=sizes,
        tenants=_tenant_records(jobs, form),
        bounds=np.array(form.level_bounds_gpu_s, dtype=np.float64),
        ratios=np.zeros(len(groups)),
        queue=np.zeros(int(groups["room"].sum()), dtype=np.int64),
        runners=np.zeros(int(runners.sum()), dtype=np.int64),
        chosen=np.zeros(int(groups["room"].sum()), dtype=np.int64),
        leaving=np.zeros(int(runners.sum()), dtype=np.int64),
        heap=np.zeros(ids, dtype=np.int64),
        heap_place=np.full(ids, NONE, dtype=np.int64),
        heap_time=np.zeros(ids),
        segments=np.zeros(len(jobs) + int(runners.sum()) + _SPARE_ROOM, dtype=state.SEGMENT),
        samples=np.zeros(_SPARE_ROOM, dtype=state.SAMPLE),
        now=np.zeros(1, dtype=state.NOW),
        rules=_rules(form, rules),
        speeds=pair_speeds(rules),
        type_speed=cluster.type_speed.astype(np.float64),
        type_worth=worth,
        usable=np.zeros(cluster.num_nodes, dtype=np.int64),
        spare=np.zeros(cluster.num_nodes, dtype=np.int64),
        ends=np.zeros(int(runners.sum()), dtype=ENTRY),
    )
    first_s = jobs.submit_s[0] if len(jobs) else 0.0
    if (worth != 1).any():
        sim.jobs["worth"] = _asked_worth(jobs, cluster, sim.places, worth)
    sim.now["time_s"] = first_s
    sim.now["next_sample_s"] = first_s
    sim.now["open_jobs"] = len(jobs)
    sim.now["entitled_as_of_s"] = first_s
    sim.tenants["as_of_s"] = first_s
    begin_nodes(sim, first_s)
    return sim


def with_more_room(sim: Sim, samples: int) -> Sim:
    """The same state with half as much room again for segments, and for so many samples more."""
    return sim._replace(
        segments=_longer(sim.segments, len(sim.segments) // 2),
        samples=_longer(sim.samples, len(sim.samples) + samples),
    )


def _longer(records: Records, more: int) -> Records:
    return np.concatenate((records, np.zeros(more, dtype=records.dtype)))


def _numbered(
    pool: NDArray[np.int32], value: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs that there are, in order, and which of them each row has."""
    width = int(value.max(initial=0)) + 1
    codes, number = np.unique(pool.astype(np.int64) * width + value, return_inverse=True)
    return np.stack((codes // width, codes % width)), number


def _sizes_of(jobs: SimJobs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As `_numbered`, of what jobs ask for: pool, GPUs, nodes, type."""
    asked = np.stack((jobs.pool, jobs.num_gpus, jobs.num_nodes, jobs.gpu_type)).astype(np.int64)
    different, number = np.unique(asked, axis=1, return_inverse=True)
    return different, number.reshape(-1)


def _tenants_of(jobs: SimJobs, form: OrderForm) -> NDArray[np.int32]:
    """Codes of the tenants where they matter, and one behind for jobs without; 0 elsewhere."""
    if not _tells_tenants_apart(form):
        return np.zeros(len(jobs), dtype=np.int32)
    return np.where(jobs.tenant == ANY, len(jobs.tenants), jobs.tenant).astype(np.int32)


def _tells_tenants_apart(form: OrderForm) -> bool:
    return form.tenants is not None or form.discipline.misfit is Misfit.BLOCK_TENANT


def _tenant_records(jobs: SimJobs, form: OrderForm) -> Records:
    count = len(jobs.tenants) + 1 if _tells_tenants_apart(form) else 1
    shares = np.ones(count) if form.tenants is None else form.tenants.shares
    records = np.zeros(max(len(shares), 1), dtype=state.TENANT)
    records["share"] = np.maximum(shares / shares.sum(), _LEAST_SHARE) if len(shares) else 1.0
    quotas = form.shares.quotas if form.shares is not None else None
    records["quota"] = _EQUAL_PART if quotas is None or not len(quotas) else quotas
    return records


def _groups(pairs: NDArray[Any], jobs: NDArray[np.int64]) -> Records:
    groups = np.zeros(len(jobs), dtype=state.GROUP)
    groups["pool"], groups["tenant"] = pairs
    groups["room"] = 2 * jobs + 8
    groups["begin"] = np.cumsum(groups["room"]) - groups["room"]
    return groups


def _pools(
    rows: NDArray[np.int64],
    pool_of_group: NDArray[Any],
    pool_of_size: NDArray[Any],
    gpus: NDArray[Any],
    runners: NDArray[np.int64],
    worth: Floats,
) -> Records:
    pools = np.zeros(len(rows), dtype=state.POOL)
    pools["first_group"] = np.searchsorted(pool_of_group, rows)
    pools["last_group"] = np.searchsorted(pool_of_group, rows, side="right")
    pools["first_size"] = np.searchsorted(pool_of_size, rows)
    pools["last_size"] = np.searchsorted(pool_of_size, rows, side="right")
    pools["first_runner"] = np.cumsum(runners) - runners
    pools["gpus"] = pools["gpus_up"] = gpus
    pools["worth"] = worth
    pools["closes_s"] = np.inf
    return pools


def _type_worth(cluster: SimCluster, form: OrderForm) -> Floats:
    """Of a GPU of each type."""
    weights = form.shares.gpu_weights if form.shares is not None else {}
    return np.array([worth_of(name, weights) for name in cluster.gpu_types], dtype=np.float64)


def _pool_worth(cluster: SimCluster, worth: Floats) -> Floats:
    """Of all GPUs of each pool."""
    each = np.append(cluster.node_gpus * worth[cluster.node_type], 0.0)
    found: Floats = np.add.reduceat(each, cluster.first_node[:-1])
    return np.where(np.diff(cluster.first_node) > 0, found, 0.0)


def _asked_worth(jobs: SimJobs, cluster: SimCluster, places: Nodes, worth: Floats) -> Floats:
    """Of a GPU of each job before it has held any: the least that it accepts in its pool."""
    here = np.zeros((len(cluster.pools), len(worth)), dtype=np.bool_)
    here[places.node["pool"], cluster.node_type] = True
    accepted = here[:, None, :] & places.accepts[None, :, :]  # pool, type asked for + 1, type
    least = np.where(accepted, worth, np.inf).min(axis=2)
    found: Floats = least[jobs.pool, jobs.gpu_type + 1]
    return np.where(np.isfinite(found), found, 1.0)


def _jobs(
    jobs: SimJobs,
    form: OrderForm,
    tenant: NDArray[np.int32],
    group: NDArray[np.int64],
    size: NDArray[np.int64],
) -> Records:
    records = np.zeros(len(jobs), dtype=state.JOB)
    for name in (
        *("submit_s", "duration_s", "time_limit_s", "num_gpus", "num_nodes"),
        *("pool", "gpu_type", "share_class"),
    ):
        records[name] = getattr(jobs, name)
    has_place = ~np.isnan(form.constant)
    records["constant"] = np.where(has_place, form.constant, np.inf)
    records["per_executed_s"] = np.where(has_place, form.per_executed_s, 0.0)
    if _ages_alike(form):  # the same seconds pass for all: what counts is when each began
        records["constant"] -= form.per_elapsed_s * jobs.submit_s
    else:
        records["per_elapsed_s"] = np.where(has_place, form.per_elapsed_s, 0.0)
    records["level"] = np.where(has_place, 0, state.UNPLACED)
    records["tenant"], records["group"], records["size"] = tenant, group, size
    for name in ("partner", "segment", "runner"):
        records[name] = NONE
    records["work_left_s"] = jobs.duration_s
    records["rate"] = 1.0
    records["entitled_gpu_s"] = -1.0
    records["worth"] = 1.0
    records["start_s"] = np.nan
    records["end_s"] = np.nan
    return records


def _ages_alike(form: OrderForm) -> bool:
    """Whether time alone never changes the order of two waiting jobs."""
    slopes = form.per_elapsed_s
    return not slopes.any() or (form.elapsed_cap_s == np.inf and bool((slopes == slopes[0]).all()))


def _restart_one_gpu_s(costs: Costs) -> float:
    return costs.restart_s if costs.restart_one_gpu_s is None else costs.restart_one_gpu_s


def _rules(form: OrderForm, rules: SimRules) -> Records:
    discipline = discipline_of(form, rules)
    term = form.tenants
    fields: dict[str, float] = {
        "placement": placement_code(rules.placement),
        "misfit": _MISFIT[discipline.misfit],
        "preempts": discipline.preempts,
        "lease_s": discipline.lease_s,
        "round_s": rules.round_s,
        "starvation_bound_s": rules.starvation_bound_s,
        "backfill_depth": rules.backfill_depth or _ALL,
        "moves": form.shares is not None or not _ages_alike(form),
        "levels": len(form.level_bounds_gpu_s),
        "elapsed_cap_s": form.elapsed_cap_s,
        "executed_cap_s": form.executed_cap_s,
        "by_share": form.shares is not None,
        "weighted": form.shares is not None and bool(form.shares.gpu_weights),
        "tenants": 0 if term is None else len(term.shares),
        "by_allocated": term is not None and term.use is TenantUse.ALLOCATED,
        "half_life_s": np.inf if term is None else term.half_life_s,
        "band": 0.0 if term is None else term.band,
        "points": 0.0 if term is None else term.points,
        "launch_s": rules.costs.launch_s,
        "cleanup_s": rules.costs.cleanup_s,
        "checkpoint_s": rules.costs.checkpoint_s,
        "restart_s": rules.costs.restart_s,
        "restart_wide_s": rules.costs.restart_wide_s,
        "restart_one_gpu_s": _restart_one_gpu_s(rules.costs),
        "sample_s": rules.sample_s,
        **effect_fields(rules),
    }
    record = np.zeros(1, dtype=state.RULES)
    for name, value in fields.items():
        record[name] = value
    return record
