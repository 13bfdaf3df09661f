"""Leases on a live Slurm: a job is told to save by a signal to its batch shell, then requeued.

Slurm's own way (PreemptType with PreemptMode=REQUEUE, a GraceTime, and the user's own signal) does
the same at once and without a daemon. Where it is configured for two jobs, it is left to Slurm: the
one that shall have the GPUs only has to stand in front.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from gsched.daemon.lease_heartbeats import Reports, no_reports
from gsched.daemon.requests import RequestBook
from gsched.engine.leases import JobSeen, Move, SaveReport, Verb
from gsched.errors import GschedError
from gsched.model.accounts import LeaseGrant
from gsched.model.job import Capability, JobKey, JobView, LeaseState
from gsched.slurm.client import SlurmClient
from gsched.slurm.exclusions import Rules, exclusions
from gsched.slurm.own_preemption import OwnPreemption
from gsched.slurm.records import NodeFacts, QueueRow, SlurmConfig

log = logging.getLogger("gsched.daemon")

SAVE_SIGNAL = "USR1"
"""What a job is told to save by, as ``sbatch --signal=B:USR1@…`` asks Slurm itself to do.

It goes to the batch shell alone. A shell that does not trap it dies of it: only jobs that have
asked for checkpoints are ever told.
"""

PREEMPTION_LIFE_S = 300.0
"""Who may preempt whom is asked again after so many seconds."""

SLURMS_TIME_S = 600.0
"""What Slurm has not done by itself after so many seconds, gsched does: the victim may be exempt
from preemption for a reason that is not seen here."""

ASKS_AGAIN_S = 1.0
"""Whether nodes have registered is asked so often at most, however many leases wait for it."""

_UP = frozenset({"idle", "mixed", "allocated", "completing", "unknown"})
_AWAY = frozenset(
    {
        "not_responding",
        "powered_down",
        "power_down",
        "powering_down",
        "powering_up",
        "down",
        "drain",
    }
)

_QUIET = frozenset({LeaseState.GRANTED, LeaseState.RENEWED})


class LiveLeases:
    """Implements ``gsched.engine.lease_ports.LeasePort``."""

    def __init__(
        self,
        client: SlurmClient,
        config: SlurmConfig,
        rules: Rules,
        requests: RequestBook,
        reports: Reports = no_reports,
        behind: Callable[[], Collection[JobKey]] = frozenset,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`behind` gives the jobs before which Slurm would start others, though GPUs are freed for
        them; `monotonic` seconds that no clock change touches.
        """
        self._client = client
        self._requests = requests
        self._reports = reports
        self._behind = behind
        self._monotonic = monotonic
        self._own = OwnPreemption()
        self._own_until = -math.inf
        self._left: dict[tuple[JobKey, int], float] = {}  # attempts left to Slurm, since when
        self._settled_boot = ""  # of the slurmctld that has been seen to know its nodes
        self._asks_nodes_at = -math.inf
        self.configure(config, rules)

    def configure(self, config: SlurmConfig, rules: Rules) -> None:
        """Go on by what the site and Slurm's configuration say now."""
        self.wait_s = config.requeue_wait_s
        self._config = config
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
        """By the one list of exclusions; whether it is a cron job the snapshot has told.

        What its user asked is what the daemon has captured, as in the snapshot.
        """
        wants = self._requests.wants(key)
        found = exclusions(
            row,
            None,
            self._rules,
            opted_out=wants.opt_out,
            is_cron=False,
            is_foreign=False,
            saves=wants.checkpoint,
        )
        codes = [e.code for e in found if e.capability is Capability.PREEMPT]
        return JobSeen(row.submit_time, row.restarts, row.state, codes[0] if codes else "")

    def report(self, grant: LeaseGrant) -> SaveReport | None:
        """By the heartbeat of the user who has asked for checkpoints; None where it has none."""
        asked = self._requests.of(grant.key)
        return None if asked is None else self._reports(grant, asked.user)

    def is_slurms(self, victim: JobView, beneficiary: JobView) -> bool:
        """By PreemptType: the QOS that one may preempt, or the partitions of a lower tier."""
        now = self._monotonic()
        if now >= self._own_until:
            self._ask_preemption(now)
        if not self._own.requeues(victim, beneficiary):
            return False
        since = self._left.setdefault((victim.key, victim.attempt), now)
        return now - since < SLURMS_TIME_S

    def is_behind(self, beneficiary: str) -> bool:
        """By the priorities of the last look and what was written since."""
        return any(key.slurm_id == beneficiary for key in self._behind())

    def starts_safely(self) -> bool:
        """Whether all nodes have registered since slurmctld was started.

        It gives the GPUs of the others away as well, but a step there fails ("Invalid generic
        resource (gres) specification"): they register within seconds.
        """
        now = self._monotonic()
        if now < self._asks_nodes_at:
            return False
        boot = self._client.config().get("BOOT_TIME")
        if not boot or boot != self._settled_boot:
            waits = [node.view.name for node in self._client.node_facts() if is_unregistered(node)]
            if waits:
                self._asks_nodes_at = now + ASKS_AGAIN_S
                log.info(
                    "no job gives way: %d nodes have not registered yet, %s …", len(waits), waits[0]
                )
                return False
            self._settled_boot = boot
        return True

    def _ask_preemption(self, now: float) -> None:
        """What is not answered stands as it was: no reason to fail a round."""
        self._own_until = now + PREEMPTION_LIFE_S
        self._left = {which: at for which, at in self._left.items() if now - at < 86400}
        try:
            self._own = self._client.own_preemption(self._config)
        except GschedError as e:
            log.warning("whom Slurm itself preempts is not known: %s", e.message)

    def act(self, verb: Verb, key: JobKey) -> str:
        """By one scancel or scontrol for this job."""
        if verb is Verb.SIGNAL:
            return self._client.signal(key.slurm_id, SAVE_SIGNAL).error
        return self._client.requeue([key.slurm_id], unfinished_only=True)[0].error


def is_unregistered(node: NodeFacts) -> bool:
    """Whether a node counts as up though slurmctld has not heard of it since its own start: it does
    not know when the node booted.
    """
    view = node.view
    is_up = view.state in _UP and not _AWAY & set(view.flags)
    return is_up and node.boot_time is None


def tell(grant: LeaseGrant, move: Move) -> None:
    """Log what a lease has come to; of those that only begin, in detail logs."""
    level = logging.DEBUG if move.state in _QUIET else logging.INFO
    if move.is_unsaved or move.is_of_signal:
        level = logging.WARNING
    log.log(
        level,
        "lease %s of job %s: %s%s",
        grant.lease.lease_id,
        grant.key.slurm_id,
        move.state.value,
        f" ({move.detail})" if move.detail else "",
    )
