"""The one list of jobs that gsched never touches. Pure.

Every rule has a stable code (in the audit, in ``gsched why``, in tests) and a sentence for people.
``engine.validate`` drops whatever a policy decides about a job that is excluded from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsched.model.job import Capability, Exclusion, JobState
from gsched.slurm.records import PriorityRow, QueueRow
from gsched.slurm.target_reservations import is_in_own

CHANGES_JOB = (
    Capability.REORDER,
    Capability.PREEMPT,
    Capability.PLACE,
    Capability.SHARE,
    Capability.RESIZE,
)
"""What changes a job in Slurm."""

PROMISES = (Capability.ADMIT,)
"""What changes nothing in Slurm: gsched answers a request. Of a job left alone it says nothing."""

_REQUEUES = (Capability.PREEMPT, Capability.RESIZE)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the site decides: `partitions` in scope (empty = all), users and accounts left alone.

    `reservations` are gsched's own: the job for which one was made is left alone for nothing.
    """

    partitions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    reservations: frozenset[str] = frozenset()


def exclusions(
    row: QueueRow,
    priority: PriorityRow | None,
    rules: Rules,
    *,
    opted_out: bool,
    is_cron: bool,
    is_foreign: bool,
    saves: bool = False,
) -> tuple[Exclusion, ...]:
    """Why `row` must be left alone, by capability; empty when it need not be.

    `priority` is the job's line of sprio, None when it has none. `is_foreign`: somebody else has
    set the job's SiteFactor. `saves`: the job's user has asked for checkpoints, so that it saves
    its work when it is told to; no other one that runs is preempted. A job that no longer waits
    cannot be reordered anyway and is judged alike.
    """
    found = [
        *((CHANGES_JOB + PROMISES, why) for why in _consent(row, rules, opted_out)),
        *((CHANGES_JOB + PROMISES, why) for why in _kind(row, is_cron, rules)),
        *((CHANGES_JOB, why) for why in _others_say(row, priority)),
        *(((Capability.REORDER,), why) for why in _order(is_foreign)),
        *((_REQUEUES, why) for why in _no_requeue(row)),
        *(((Capability.PREEMPT,), why) for why in _no_checkpoint(row, saves)),
    ]
    return tuple(
        Exclusion(capability, code, detail)
        for capability in CHANGES_JOB + PROMISES
        for capabilities, (code, detail) in found
        if capability in capabilities
    )


_Found = Iterator[tuple[str, str]]


def _consent(row: QueueRow, rules: Rules, opted_out: bool) -> _Found:
    if opted_out:
        yield "opted-out", "its user has opted out of gsched (--gs-none)"
    if row.user in rules.users:
        yield "excluded-user", f"the site leaves the jobs of user {row.user} alone"
    if row.tenant in rules.accounts:
        yield "excluded-account", f"the site leaves the jobs of account {row.tenant} alone"
    if rules.partitions and not set(row.partitions) <= rules.partitions:
        outside = ",".join(sorted(set(row.partitions) - rules.partitions))
        yield "out-of-scope", f"partition {outside} is not among those that gsched orders"


def _kind(row: QueueRow, is_cron: bool, rules: Rules) -> _Found:
    if is_cron:
        yield "cron", "a scrontab job: Slurm itself runs it again and again"
    if not row.is_batch:
        yield "interactive", "salloc or srun: somebody waits at a terminal"
    if row.het_offset is not None:
        yield "het-component", "part of a heterogeneous job, which only moves as a whole"
    if row.reservation and not (row.reservation in rules.reservations and is_in_own(row)):
        yield "reservation", f"runs in the reservation {row.reservation}"


def _others_say(row: QueueRow, priority: PriorityRow | None) -> _Found:
    if row.is_unsplit_array:
        yield "unsplit-array", "an array whose tasks Slurm has not split off yet"
    if row.state is JobState.PENDING and row.priority == 0:
        yield "held", f"held ({row.reason})" if row.reason else "held"
    if priority is not None and priority.is_manual:
        yield "manual-priority", "an administrator has set its priority directly"


def _order(is_foreign: bool) -> _Found:
    if is_foreign:
        yield "foreign-site-factor", "its SiteFactor was set by somebody else"


def _no_requeue(row: QueueRow) -> _Found:
    if not row.can_requeue:
        yield "no-requeue", "submitted with --no-requeue, or the site does not requeue jobs"


def _no_checkpoint(row: QueueRow, saves: bool) -> _Found:
    if row.state is not JobState.PENDING and not saves:
        yield "no-checkpoint", "its user has not asked for checkpoints (--gs-checkpoint)"
