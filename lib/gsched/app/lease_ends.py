"""Whether a job that has ended did so because its lease was over: from the history."""

from __future__ import annotations

from gsched.app.named_job import named_job
from gsched.app.wiring import has_history, open_history
from gsched.config.settings import Settings
from gsched.engine.leases import WHEN_TOLD
from gsched.errors import GschedError
from gsched.model.job import LeaseState

_LOOKED_AT = 20


def end_when_told(settings: Settings, job: str, attempt: int) -> str:
    """How an attempt (submit time, epoch) ended that was told to save and did not survive it.

    "" for any other one, and where the caller cannot read the history.
    """
    if not has_history(settings):  # known without loading SQLAlchemy
        return ""
    try:
        wanted = named_job(job)
        with open_history(settings, bounded=True) as history:
            store = history.leases()
            pasts = [p for c in history.clusters() for p in store.revoked(c, wanted, _LOOKED_AT)]
    except GschedError:
        return ""
    for past in pasts:
        last = past.events[-1] if past.events else None
        is_it = past.grant.attempt == attempt and past.grant.lease.state is LeaseState.ENDED
        if is_it and last is not None and WHEN_TOLD in last.detail:
            return f"its lease of GPUs was over: it {last.detail}"
    return ""
