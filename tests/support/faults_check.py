"""What must hold after every fault: the journal and Slurm explain each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gsched.config.loader import load
from gsched.daemon.locks import StateDir
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState, Standing
from gsched_sql import History
from gsched_sql.values import AuditRow
from support.faults_site import FaultSite

_MOST_ROWS = 100_000
_NEVER_SENT = (ChangeState.OBSERVED, ChangeState.REJECTED)


def findings(site: FaultSite, *, after_recovery: bool) -> list[str]:
    """What does not reconcile, in words; [] is well.

    Right after a kill, changes may be open; `after_recovery` those alone that Slurm does not show.
    No round writes meanwhile: the writer's lock is held.
    """
    with StateDir(site.state).writing(wait_s=30.0), opened(site) as history:
        factors = site.factors()
        cluster = site.bed.spec.cluster
        rows = history.audit(cluster, limit=_MOST_ROWS)
        standing = {
            key.job_id: s
            for (key, _), s in history.journal().standing(cluster).items()
            if key.array_task is None and key.het_offset is None
        }
    found = list(_unexplained(site, factors, standing))
    found += _untrue(site, factors, rows)
    found += site.touched()
    found += [
        f"job {row.change.key.slurm_id} ({site.witnesses[row.change.key.job_id]}) was written to"
        for row in rows
        if row.change.key.job_id in site.witnesses and row.state not in _NEVER_SENT
    ]
    if after_recovery:
        found += _left_open(factors, rows)
    return found


@contextmanager
def opened(site: FaultSite) -> Iterator[History]:
    """The site's history, as its daemon finds it."""
    settings = load({"GSCHED_CONFIG": str(site.config), **site.extra_env})
    with History.open(settings.database_url) as history:
        yield history


def _unexplained(
    site: FaultSite, factors: Mapping[int, int], standing: Mapping[int, Standing]
) -> Iterator[str]:
    """Every SiteFactor on a live job is another hand's, or the journal knows of it."""
    for job, value in factors.items():
        if job in site.own_factors or job in site.witnesses:
            continue  # looked at by FaultSite.touched
        ours = standing.get(job)
        explained = {0} if ours is None else {ours.found, ours.written, *ours.may_be}
        if value not in explained:
            yield f"job {job} carries {value}; the journal knows of {sorted(explained)}"


def _untrue(site: FaultSite, factors: Mapping[int, int], rows: list[AuditRow]) -> Iterator[str]:
    """What the journal calls confirmed, and nothing later has touched, is there."""
    newest: dict[JobKey, AuditRow] = {}
    for row in reversed(rows):  # oldest first
        if row.state not in _NEVER_SENT:
            newest[row.change.key] = row
    for key, row in newest.items():
        shown = factors.get(key.job_id)
        if key.job_id in site.witnesses or shown is None:
            continue
        if row.state is ChangeState.CONFIRMED and shown != row.change.after:
            yield f"job {key.job_id} was confirmed at {row.change.after}, Slurm shows {shown}"


def _left_open(factors: Mapping[int, int], rows: list[AuditRow]) -> Iterator[str]:
    """After recovery only a change that Slurm does not show yet may be open."""
    newest_round = next((row.round_id for row in rows if row.acting), "")
    for row in rows:
        is_open = row.state in (ChangeState.INTENT, ChangeState.SENT)
        if is_open and row.change.key.job_id in factors and row.round_id != newest_round:
            yield f"change {row.change.change_id} is still {row.state.value}"
