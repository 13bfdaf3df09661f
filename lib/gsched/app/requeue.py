"""``gsched requeue``: which jobs of Slurm a name means, and which of them must not be touched.

Everything is checked before anything is sent. Slurm starts a job again from the beginning of its
script, under the same id; what the check could not know (a job that ends just now) Slurm says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gsched.app.named_job import named_job
from gsched.app.queue_filter import own_name
from gsched.app.saved_work import SavedWork, lines, saved_work
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import EXIT_REFUSED, GschedError, PermissionDeniedError, UsageError
from gsched.model.job import JobState
from gsched.model.jobid import JobId
from gsched.slurm.client import SlurmClient
from gsched.slurm.privileges import suffices
from gsched.slurm.records import QueueRow, SlurmConfig


@dataclass(frozen=True, slots=True)
class Unit:
    """One job that starts anew: a job, an array task, or a het job with all its components."""

    slurm_id: str
    row: QueueRow
    num_components: int = 1
    saved: SavedWork | None = None


@dataclass(frozen=True, slots=True)
class RequeuePlan:
    """What a requeue will touch. `notes` tell how many tasks that is, and what is saved.

    `eligible_in_s`: so soon after its end Slurm may start a requeued job again at the earliest.
    """

    units: tuple[Unit, ...]
    notes: tuple[str, ...]
    eligible_in_s: int
    hold: bool


def plan_requeue(settings: Settings, jobs: Sequence[str], *, hold: bool) -> RequeuePlan:
    """What to requeue for the named jobs; nothing has been touched when this raises.

    Raises UsageError for what is no job or not known to Slurm, PermissionDeniedError for somebody
    else's, GschedError with exit code 3 for one that cannot be requeued. The message names all.
    """
    wanted = [(text, _whole_job(text)) for text in jobs]
    client = slurm_client(settings)
    config = client.config()
    _check_cluster(config)
    rows = client.queue("all").rows
    units: dict[str, Unit] = {}
    notes: list[str] = []
    refusals: list[GschedError] = []
    for text, job_id in wanted:
        try:
            found, note = _units(text, job_id, rows)
            units |= {unit.slurm_id: unit for unit in found}
            notes += [note] if note else []
        except GschedError as refusal:
            refusals.append(refusal)
    refusals += _foreign(client, config, list(units.values()))
    if refusals:
        raise _together(refusals)
    planned = tuple(replace(u, saved=saved_work(settings, u.row, now())) for u in units.values())
    notes += lines(((unit.slurm_id, unit.saved) for unit in planned), config.kill_wait_s)
    return RequeuePlan(planned, tuple(notes), config.requeue_wait_s, hold)


def requeue(settings: Settings, plan: RequeuePlan) -> dict[str, Any]:
    """Carry a plan out; the document that `document` gives, with what Slurm said of each job.

    Raises when Slurm could not be reached: some jobs may have been requeued then.
    """
    client = slurm_client(settings)
    try:
        outcomes = client.requeue([unit.slurm_id for unit in plan.units], hold=plan.hold)
    except GschedError as error:
        error.hint = "some jobs may have been requeued; see `gsched queue`"
        raise
    return document(plan, {outcome.slurm_id: outcome.error for outcome in outcomes})


def document(plan: RequeuePlan, errors: dict[str, str] | None) -> dict[str, Any]:
    """A plan as plain values. `errors`: Slurm's word by job, "" when taken; None = dry run."""
    return {
        "dry_run": errors is None,
        "hold": plan.hold,
        "eligible_in_s": None if plan.hold else plan.eligible_in_s,
        "jobs": [
            {
                "job": unit.slurm_id,
                "user": unit.row.user,
                "state": unit.row.state_text,
                "components": unit.num_components,
                "checkpoints": unit.saved.document() if unit.saved else None,
                "requeued": errors is not None and not errors[unit.slurm_id],
                "error": (errors or {}).get(unit.slurm_id, ""),
            }
            for unit in plan.units
        ],
    }


def _whole_job(text: str) -> JobId:
    job_id = named_job(text)
    if job_id.step:
        raise UsageError(f"{text} is a step: only whole jobs are requeued", f"name {job_id.job_id}")
    return job_id


def _check_cluster(config: SlurmConfig) -> None:
    """Raise UsageError when the user's shell means another cluster than this host's."""
    meant = os.environ.get("SLURM_CLUSTERS", "")
    if meant and meant != config.cluster:
        raise UsageError(
            f"SLURM_CLUSTERS names {meant}, but gsched requeues on this host's cluster, "
            f"{config.cluster}",
            "unset SLURM_CLUSTERS, or use scontrol -M there",
        )


def _units(text: str, wanted: JobId, rows: Sequence[QueueRow]) -> tuple[list[Unit], str]:
    """The jobs behind one name, and a note where they are several. Raises when one cannot be."""
    found = [row for row in rows if row.job_id == wanted.job_id]
    if not found and wanted == JobId(wanted.job_id):  # Slurm's own number of a task or component
        found = [row for row in rows if row.raw_id == wanted.job_id]
        if found and found[0].array_task is not None:
            wanted = JobId(found[0].job_id, found[0].array_task)
    if not found:
        raise UsageError(
            f"Slurm has no job {text} (any more), or it is not yours to see",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    if found[0].het_offset is not None:
        return [_het_unit(text, wanted, found)], ""
    if wanted.array_task is None and wanted.array_tasks is None and not _is_array(found):
        return [_checked(Unit(found[0].slurm_id, found[0]))], ""
    return _array_units(text, wanted, found)


def _is_array(rows: Sequence[QueueRow]) -> bool:
    return any(row.is_unsplit_array or row.array_task is not None for row in rows)


def _het_unit(text: str, wanted: JobId, components: Sequence[QueueRow]) -> Unit:
    leader = components[0].job_id
    if wanted.het_offset is not None or wanted.job_id != leader:
        raise _refusal(
            f"{text} is one component of a heterogeneous job, which Slurm requeues only as a whole",
            f"name {leader}",
        )
    first = min(components, key=lambda row: row.het_offset or 0)
    return _checked(Unit(str(leader), first, len(components)))


def _array_units(text: str, wanted: JobId, rows: Sequence[QueueRow]) -> tuple[list[Unit], str]:
    """The tasks that a name means, with a note of how many. Of a whole array those that wait
    already are left out: there is nothing to requeue.
    """
    own = {row.array_task: row for row in rows if row.array_task is not None}
    together = [row for row in rows if row.is_unsplit_array]
    unread = [f"[{row.array_tasks}]" for row in together if row.tasks is None]
    if wanted.array_task is None and wanted.array_tasks is None:
        chosen = [row for row in own.values() if row.state is not JobState.PENDING]
        num_waiting = len(own) + sum(len(row.tasks or ()) for row in together) - len(chosen)
        waiting = " and ".join([str(num_waiting)] * bool(num_waiting) + unread)
        if not chosen:
            raise _refusal(f"all {waiting} tasks of {text} wait already")
        rest = f"; {waiting} wait already" if waiting else ""
        return [_checked(Unit(row.slurm_id, row)) for row in chosen], _count(text, chosen) + rest
    chosen = []
    for task in wanted.tasks:
        if any(task in (row.tasks or ()) for row in together):
            raise _refusal(f"{wanted.job_id}_{task} waits already")
        if task not in own and unread:
            raise _refusal(f"{wanted.job_id}_{task} may be one of {unread[0]}, which wait already")
        if task not in own:
            raise UsageError(f"Slurm knows no task {wanted.job_id}_{task} (any more)")
        chosen.append(own[task])
    note = _count(text, chosen) if wanted.array_tasks else ""
    return [_checked(Unit(row.slurm_id, row)) for row in chosen], note


def _count(text: str, rows: Sequence[QueueRow]) -> str:
    return f"{text} means {len(rows)} task{'' if len(rows) == 1 else 's'} of an array"


def _checked(unit: Unit) -> Unit:
    """The unit itself. Raises GschedError with exit code 3 when Slurm could not requeue it."""
    row = unit.row
    if row.state is JobState.PENDING:
        raise _refusal(f"{unit.slurm_id} waits already")
    if not row.is_batch:
        raise _refusal(f"{unit.slurm_id} is interactive (salloc, srun): it has no script to start")
    if not row.can_requeue:
        raise _refusal(
            f"{unit.slurm_id} was submitted with --no-requeue, or the site requeues no jobs",
            f"its owner may allow it: scontrol update jobid={unit.slurm_id} requeue=1",
        )
    return unit


def _foreign(
    client: SlurmClient, config: SlurmConfig, units: Sequence[Unit]
) -> Iterator[GschedError]:
    """Refusals for the jobs of others, unless the caller may requeue those."""
    me = own_name()
    foreign = [unit for unit in units if unit.row.user != me]
    if not foreign or suffices(client.privilege(me), "requeue"):
        return
    accounts = client.coordinated_accounts(me) if config.has_slurmdbd else frozenset()
    for unit in foreign:
        if unit.row.tenant not in accounts:
            yield PermissionDeniedError(
                f"{unit.slurm_id} is a job of {unit.row.user}",
                "its owner, the account's coordinators and operators may requeue it",
            )


def _refusal(message: str, hint: str = "") -> GschedError:
    return GschedError(message, hint, EXIT_REFUSED)


def _together(refusals: Sequence[GschedError]) -> GschedError:
    """All refusals as one error, with the hint and the exit code of the first."""
    first = refusals[0]
    message = "; ".join(refusal.message for refusal in refusals)
    if len(refusals) > 1:
        message += ". Nothing was requeued"
    return GschedError(message, first.hint, first.exit_code)
