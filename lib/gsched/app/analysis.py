"""Why one waiting job does not run: the verdict, and everything that holds it back."""

from __future__ import annotations

import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.app.job import LiveJob
from gsched.app.waiting import is_held_job
from gsched.errors import GschedError
from gsched.explain.dependency import Dependencies, JobStates, read_dependencies
from gsched.explain.limits import LimitFact, QosOrder, limit_facts
from gsched.explain.never import Ask, Block, Site, never_starts
from gsched.explain.requeued import requeue_delay
from gsched.explain.slurm_reasons import (
    NODES_UNAVAILABLE,
    SlurmReason,
    explain_reason,
    never_starts_there,
)
from gsched.explain.unavailable import unavailable_nodes
from gsched.explain.words import short_time
from gsched.model.cluster import NodeView, ReservationView
from gsched.model.hostlist import fold
from gsched.model.past import logical_jobs
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import AccountingFilter, JobDetail, QueueRow

_OVERRIDES = frozenset({"PartitionTimeLimit", "PartitionMaxNodes", "PartitionMinNodes"})
"""QOS flags with which a job may go beyond limits of its partition."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """`verdict` is ``never``, ``held`` or ``waiting``; the first of `blocks` is the main one.

    `ask` is what the job asks for, `site` what was looked at to see whether it can have it.
    """

    verdict: str
    reason: SlurmReason
    blocks: tuple[Block, ...]
    dependencies: Dependencies
    limits: tuple[LimitFact, ...]
    ask: Ask
    site: Site


def analyse(live: LiveJob, now: int) -> Analysis:
    """What holds a waiting job back. Asks Slurm a few questions more."""
    row, cluster = live.row, live.cluster
    reason = explain_reason(row.reason)
    demand = cluster.client.node_demand(row.raw_id)
    detail = cluster.client.job_detail(row.raw_id)
    reservations = _reservations(live)
    dependencies = _dependencies(live)
    by_partition = _limits(live, reason, demand)
    limits = tuple(dict.fromkeys(fact for facts in by_partition for fact in facts))
    ask, site = _ask(row, demand, detail), _site(live, reservations)
    block = (
        _never_by_dependency(reason, dependencies)
        or never_starts(ask, site)
        or _never_by_limit(live, reason, by_partition)
    )
    if block is not None:
        return Analysis("never", reason, (block,), dependencies, limits, ask, site)
    ahead = _reservations_ahead(live, reservations or (), now)
    main = _requeue_block(live) or _reason_block(reason, row)
    if reason.code in NODES_UNAVAILABLE:
        required = detail.required_nodes if detail else ""
        nodes = unavailable_nodes(row, required, cluster.nodes, reservations or (), now)
        words = f"nodes that it needs cannot be had: {nodes.words}" if nodes.words else main.words
        main = replace(main, words=words, advice="" if ahead else nodes.advice)
    elif reason.code == "PartitionTimeLimit" and _least_time_fits(live, demand):
        main = replace(main, advice="its --time-min fits: it starts by itself when there is room")
    blocks = (main, *_unusable_nodes(live), *ahead)
    verdict = "held" if is_held_job(row) else "waiting"
    return Analysis(verdict, reason, blocks, dependencies, limits, ask, site)


def _requeue_block(live: LiveJob) -> Block | None:
    """That it waits out the delay after a requeue, of which Slurm says the same as of --begin."""
    delay = requeue_delay(live.row, live.cluster.config.requeue_wait_s)
    if delay is None:
        return None
    params = {"reason": live.row.reason, "restarts": delay.restarts}
    params |= {"wait_s": delay.wait_s, "until": delay.until}
    return Block("requeue-delay", delay.words, "", params)


def _reason_block(reason: SlurmReason, row: QueueRow) -> Block:
    params = {"reason": row.reason}
    if reason.nodes:
        params["nodes"] = reason.nodes
    code = f"slurm.{reason.code}" if reason.is_known else "slurm.unknown"
    return Block(code, reason.words, reason.advice, params)


def _least_time_fits(live: LiveJob, demand: NodeDemand | None) -> bool:
    """Whether --time-min is within what a partition of the job allows: Slurm shortens its limit."""
    least_s = demand.time_min_s if demand is not None else None
    mine = [p.max_time_s for p in live.cluster.partitions if p.name in live.row.partitions]
    return least_s is not None and any(s is None or least_s <= s for s in mine)


def _ask(row: QueueRow, demand: NodeDemand | None, detail: JobDetail | None) -> Ask:
    if detail is None:
        return Ask(row, demand)
    return Ask(row, demand, detail.required_nodes, detail.excluded_nodes)


def _site(live: LiveJob, reservations: Sequence[ReservationView] | None) -> Site:
    cluster = live.cluster
    licences: Mapping[str, int] | None = None
    if live.row.licences:
        licences = cluster.client.licences()
    return Site(
        nodes=cluster.nodes,
        partitions=cluster.partitions,
        reservations=reservations,
        licences=licences,
        memory_counts=cluster.config.gives_out_memory,
        ignores_partition_limits=lambda: _ignores_partition_limits(live),
        accounts_above=lambda: _accounts_above(live),
    )


def _accounts_above(live: LiveJob) -> frozenset[str] | None:
    """The job's account and all above it; None where they are hidden or need not exist."""
    config = live.cluster.config
    enforced = set(config.get("AccountingStorageEnforce").lower().split(","))
    if not config.has_slurmdbd or "associations" not in enforced:
        return None
    try:
        records = live.cluster.client.limits(live.row.tenant, ())
    except GschedError:
        return None
    found = frozenset(record.account for record in records if not record.qos)
    return found if {"root", live.row.tenant} <= found else None


def _ignores_partition_limits(live: LiveJob) -> bool:
    if not live.cluster.config.has_slurmdbd or not live.row.qos:
        return False
    try:
        return bool(live.cluster.client.qos_flags(live.row.qos) & _OVERRIDES)
    except GschedError:
        return True  # not known: nothing is claimed then


def _reservations(live: LiveJob) -> Sequence[ReservationView] | None:
    """All reservations; None where they are hidden from some users."""
    if live.cluster.config.hides("reservations"):
        return None
    return live.cluster.client.reservations()


def _dependencies(live: LiveJob) -> Dependencies:
    if not live.row.dependency:
        return Dependencies((), any_is_enough=False)

    def ended(job_ids: Sequence[str]) -> JobStates:
        if not live.cluster.config.has_slurmdbd:
            return {}
        chosen = AccountingFilter(job_ids=tuple(job_ids))
        records = live.cluster.client.accounting(0, live.line.at + 1, chosen).records
        jobs = reversed(logical_jobs(records))  # of a used id, the newest
        return {job.key.slurm_id: (job.state, job.state_text) for job in jobs}

    return read_dependencies(live.row.dependency, live.cluster.rows, ended)


def _never_by_dependency(reason: SlurmReason, dependencies: Dependencies) -> Block | None:
    if reason.code != "DependencyNeverSatisfied" and not dependencies.is_never:
        return None
    words = "the job that it depends on ended the wrong way"
    advice = "cancel it, or update its dependency"
    failed = [item for item in dependencies.items if item.status == "never"]
    if failed and all("can never start" in item.words for item in failed):
        words = "the job that it depends on can never start itself"
    params = {"dependencies": [item.document() for item in failed]}
    return Block("dependency", words, advice, params)


def _limits(
    live: LiveJob, reason: SlurmReason, demand: NodeDemand | None
) -> list[tuple[LimitFact, ...]]:
    """The limits that the reason can mean, for each partition that the job may start in."""
    row = live.row
    if reason.limit is None or not live.cluster.config.has_slurmdbd:
        return []
    try:
        uid = pwd.getpwnam(row.user).pw_uid
    except KeyError:
        uid = None
    try:
        orders = _qos_orders(live)
        names = {name: None for order in orders for name in order.names}
        records = live.cluster.client.limits(row.tenant, tuple(names))
    except GschedError:
        return []  # the reason is told all the same
    return [limit_facts(reason.limit, row, records, uid, demand, order) for order in orders]


def _qos_orders(live: LiveJob) -> list[QosOrder]:
    """Whose limits go first, in each partition; nothing where a partition is not shown."""
    row = live.row
    own = (row.qos,) if row.qos else ()
    mine = [p for p in live.cluster.partitions if p.name in row.partitions]
    if len(mine) != len(set(row.partitions)):
        return []
    others = {p.qos for p in mine} - {"", row.qos}
    own_first = bool(others and own) and "OverPartQOS" in live.cluster.client.qos_flags(row.qos)
    orders = []
    for partition in mine:
        its = (partition.qos,) if partition.qos in others else ()
        orders.append(QosOrder(partition.name, own + its if own_first else its + own))
    return orders


def _never_by_limit(
    live: LiveJob, reason: SlurmReason, limits: Sequence[Sequence[LimitFact]]
) -> Block | None:
    """A limit that the job alone is beyond in each partition, of the family that Slurm names."""
    row = live.row
    is_judged = reason.code != "PartitionTimeLimit" and never_starts_there(reason)
    if len(row.partitions) == 1 and is_judged:
        return Block(f"slurm.{reason.code}", reason.words, reason.advice, {"reason": row.reason})
    each = [next((fact for fact in facts if fact.is_hopeless), None) for facts in limits]
    hopeless = each[0] if each else None
    if hopeless is None or None in each:
        return None
    advice = "ask for less, or for another QOS or account"
    if " of partition " in hopeless.owner:
        advice = "ask for less, or for another partition"
    if hopeless.is_least:
        advice = advice.replace("less", "more")
    return Block("limit", hopeless.words, advice, {"reason": row.reason, **hopeless.document()})


def _unusable_nodes(live: LiveJob) -> list[Block]:
    """That every node of its partitions is down or drained: it does not start before that ends."""
    mine = [n for n in live.cluster.nodes if set(n.partitions) & set(live.row.partitions)]
    if not mine or any(n.is_usable for n in mine):
        return []
    names = fold(n.name for n in mine)
    return [
        Block(
            "nodes-unavailable",
            f"it cannot start while {names} {_are(mine)} down, drained or not responding",
            "ask an administrator",
            {"nodes": names},
        )
    ]


def _are(nodes: Sequence[NodeView]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _reservations_ahead(
    live: LiveJob, reservations: Sequence[ReservationView], now: int
) -> list[Block]:
    """Reservations of all of its nodes that begin before its time limit would end it."""
    row = live.row
    mine = {n for p in live.cluster.partitions if p.name in row.partitions for n in p.nodes}
    found = []
    for reservation in reservations:
        left_s = reservation.start_time - now
        covers = bool(mine) and mine <= set(reservation.nodes)
        if not covers or left_s <= 0 or row.reservation or row.time_limit_s is None:
            continue
        if row.time_limit_s > left_s:
            found.append(
                Block(
                    "reservation-ahead",
                    f"all of its nodes are reserved ({reservation.name}) in {short_time(left_s)}, "
                    f"before its time limit of {short_time(row.time_limit_s)} would have ended",
                    f"a --time below {short_time(left_s)} would end before that",
                    {"reservation": reservation.name, "start_time": reservation.start_time},
                )
            )
    return found
