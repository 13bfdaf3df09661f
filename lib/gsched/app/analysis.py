"""Why one waiting job does not run: the verdict, and everything that holds it back."""

from __future__ import annotations

import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsched.app.job import LiveJob
from gsched.errors import GschedError
from gsched.explain.dependency import Dependencies, JobStates, read_dependencies
from gsched.explain.limits import LimitFact, limit_facts
from gsched.explain.never import Ask, Block, Site, never_starts
from gsched.explain.slurm_reasons import SlurmReason, explain_reason, is_held
from gsched.explain.words import short_time
from gsched.model.cluster import NodeView, ReservationView
from gsched.model.hostlist import fold
from gsched.model.past import logical_jobs
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import AccountingFilter, QueueRow

_OVERRIDES = frozenset({"PartitionTimeLimit", "PartitionMaxNodes", "PartitionMinNodes"})
"""QOS flags with which a job may go beyond limits of its partition."""

# Slurm has looked at the job in its only partition, and this does not change by waiting.
_NEVER_IN_ONE_PARTITION = frozenset(
    {"AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS"}
)


@dataclass(frozen=True, slots=True)
class Analysis:
    """`verdict` is ``never``, ``held`` or ``waiting``; the first of `blocks` is the main one."""

    verdict: str
    reason: SlurmReason
    blocks: tuple[Block, ...]
    dependencies: Dependencies
    limits: tuple[LimitFact, ...]


def analyse(live: LiveJob, now: int) -> Analysis:
    """What holds a waiting job back. Asks Slurm a few questions more."""
    row, cluster = live.row, live.cluster
    reason = explain_reason(row.reason)
    demand = cluster.client.node_demand(row.raw_id)
    reservations = _reservations(live)
    dependencies = _dependencies(live)
    limits = _limits(live, reason, demand)
    block = (
        _never_by_dependency(reason, dependencies)
        or never_starts(_ask(live, demand), _site(live, reservations))
        or _never_by_limit(live, reason, limits)
    )
    if block is not None:
        return Analysis("never", reason, (block,), dependencies, limits)
    blocks = (
        _reason_block(reason, row),
        *_unusable_nodes(live),
        *_reservations_ahead(live, reservations or (), now),
    )
    verdict = "held" if is_held(reason) or row.priority == 0 else "waiting"
    return Analysis(verdict, reason, blocks, dependencies, limits)


def _reason_block(reason: SlurmReason, row: QueueRow) -> Block:
    params = {"reason": row.reason}
    if reason.nodes:
        params["nodes"] = reason.nodes
    code = f"slurm.{reason.code}" if reason.is_known else "slurm.unknown"
    return Block(code, reason.words, reason.advice, params)


def _ask(live: LiveJob, demand: NodeDemand | None) -> Ask:
    detail = live.cluster.client.job_detail(live.row.raw_id)
    if detail is None:
        return Ask(live.row, demand)
    return Ask(live.row, demand, detail.required_nodes, detail.excluded_nodes)


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
        memory_counts="memory" in cluster.config.get("SelectTypeParameters").lower(),
        ignores_partition_limits=lambda: _ignores_partition_limits(live),
    )


def _ignores_partition_limits(live: LiveJob) -> bool:
    if not live.cluster.config.has_slurmdbd or not live.row.qos:
        return False
    try:
        return bool(live.cluster.client.qos_flags(live.row.qos) & _OVERRIDES)
    except GschedError:
        return True  # not known: nothing is claimed then


def _reservations(live: LiveJob) -> Sequence[ReservationView] | None:
    """All reservations; None where they are hidden from some users."""
    if "reservations" in live.cluster.config.get("PrivateData"):
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


def _limits(live: LiveJob, reason: SlurmReason, demand: NodeDemand | None) -> tuple[LimitFact, ...]:
    row = live.row
    if reason.limit is None or not live.cluster.config.has_slurmdbd:
        return ()
    try:
        uid = pwd.getpwnam(row.user).pw_uid
    except KeyError:
        uid = None
    try:
        records = live.cluster.client.limits(row.tenant, row.qos)
    except GschedError:
        return ()  # the reason is told all the same
    return limit_facts(reason.limit, row, records, uid, demand)


def _never_by_limit(
    live: LiveJob, reason: SlurmReason, limits: Sequence[LimitFact]
) -> Block | None:
    """A limit that the job alone is beyond, of the family that Slurm names as its reason."""
    row = live.row
    if len(row.partitions) == 1 and reason.code in _NEVER_IN_ONE_PARTITION:
        return Block(f"slurm.{reason.code}", reason.words, reason.advice, {"reason": row.reason})
    mine = [p for p in live.cluster.partitions if p.name in row.partitions]
    if any(p.qos for p in mine):
        return None  # it may be the limit of a partition's own QOS
    hopeless = next((fact for fact in limits if fact.is_hopeless), None)
    if hopeless is None:
        return None
    advice = "ask for more" if hopeless.is_least else "ask for less, or for another QOS or account"
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
