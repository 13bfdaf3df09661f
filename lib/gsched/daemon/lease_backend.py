"""Leases on a live Slurm: a job is told to save by a signal to its batch shell, then requeued.

Slurm's own way (PreemptType with PreemptMode=REQUEUE, a GraceTime, and the user's own signal) does
the same at once and without a daemon, where it is configured: `own_preemption` tells.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from gsched.daemon.requests import RequestBook
from gsched.engine.leases import JobSeen, Move, Verb
from gsched.model.accounts import LeaseGrant
from gsched.model.job import Capability, JobKey, LeaseState
from gsched.slurm.client import SlurmClient
from gsched.slurm.exclusions import Rules, exclusions
from gsched.slurm.records import QueueRow, SlurmConfig

log = logging.getLogger("gsched.daemon")

SAVE_SIGNAL = "USR1"
"""What a job is told to save by, as ``sbatch --signal=B:USR1@…`` asks Slurm itself to do.

It goes to the batch shell alone. A shell that does not trap it dies of it: only jobs that have
asked for checkpoints are ever told.
"""

_QUIET = frozenset({LeaseState.GRANTED, LeaseState.RENEWED})


class LiveLeases:
    """Implements ``gsched.engine.lease_driver.LeasePort``."""

    def __init__(
        self, client: SlurmClient, config: SlurmConfig, rules: Rules, requests: RequestBook
    ) -> None:
        self._client = client
        self._requests = requests
        self.configure(config, rules)

    def configure(self, config: SlurmConfig, rules: Rules) -> None:
        """Go on by what the site and Slurm's configuration say now."""
        self.wait_s = config.requeue_wait_s
        self._rules = rules

    def observe(self, keys: Sequence[JobKey]) -> Mapping[JobKey, JobSeen]:
        """These jobs as squeue shows them now, by their numbers."""
        wanted = {key.slurm_id: key for key in keys}
        rows = self._client.jobs(list(wanted))
        return {
            wanted[row.slurm_id]: self._seen(wanted[row.slurm_id], row)
            for row in rows
            if row.slurm_id in wanted
        }

    def _seen(self, key: JobKey, row: QueueRow) -> JobSeen:
        """By the one list of exclusions; whether it is a cron job the snapshot has told."""
        found = exclusions(
            row,
            None,
            self._rules,
            opted_out=self._requests.wants(key).opt_out,
            is_cron=False,
            is_foreign=False,
        )
        codes = [e.code for e in found if e.capability is Capability.PREEMPT]
        return JobSeen(row.submit_time, row.restarts, row.state, codes[0] if codes else "")

    def saved(self, grant: LeaseGrant) -> bool | None:
        """None: no job has a way yet to report that it has saved. Its grace decides."""
        del grant
        return None

    def act(self, verb: Verb, key: JobKey) -> str:
        """By one scancel or scontrol for this job."""
        if verb is Verb.SIGNAL:
            return self._client.signal(key.slurm_id, SAVE_SIGNAL).error
        return self._client.requeue([key.slurm_id])[0].error


def tell(grant: LeaseGrant, move: Move) -> None:
    """Log what a lease has come to; of those that only begin, in detail logs."""
    level = logging.DEBUG if move.state in _QUIET else logging.INFO
    log.log(
        level,
        "lease %s of job %s: %s%s",
        grant.lease.lease_id,
        grant.key.slurm_id,
        move.state.value,
        f" ({move.detail})" if move.detail else "",
    )


def own_preemption(config: SlurmConfig) -> str:
    """How Slurm itself preempts jobs by requeueing them, in words; "" where it does not."""
    kind = config.get("PreemptType").rpartition("/")[2]
    if kind in {"", "none"} or "REQUEUE" not in config.get("PreemptMode").upper():
        return ""
    signals = "preempt_send_user_signal"
    told = signals in config.flags("SlurmctldParameters") or "send_user_signal" in config.flags(
        "PreemptParameters"
    )
    return (
        f"Slurm preempts here by itself (preempt/{kind}, REQUEUE), and "
        f"{'tells' if told else 'does not tell'} jobs by their own --signal"
    )
