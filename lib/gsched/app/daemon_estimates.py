"""What a policy with deadlines goes by on a live cluster: jobs' progress, and what a restart costs.

Only a policy that reads progress has it read (``Policy.reads_progress``); for others nothing is
asked of anybody.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping

from gsched.app.user_names import user_number
from gsched.daemon.heartbeat_sweep import HeartbeatSweep
from gsched.daemon.progress_book import ProgressBook
from gsched.model.cluster import ClusterState
from gsched.policy.base import Policy
from gsched.policy.lease_length import knob_of, with_knob
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

RESUME_KNOB = "resume_s"
"""What an interruption costs a job on its GPUs; see ``policy.remaining``."""

FIRST_RESTART_S = 60.0
"""What a restart is taken to cost before any has been seen: imports, loading, the first step."""

FIRST_SAVE_S = 60.0
"""The same for saving; see ``engine.lease_rules``."""

_TOLERATED = 1.25  # a cost that is so much off is kept: it would change with every restart
_LEAST_S = 5.0


class Estimates:
    """Progress for the rounds of one cluster."""

    def __init__(
        self,
        history: History,
        cluster: str,
        heartbeat_dir: Callable[[], str],
        goes_by_profiles: Callable[[], bool] = bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`heartbeat_dir` gives the folder in which jobs tell of themselves, "" = none;
        `goes_by_profiles` whether the site believes profile runs.
        """
        self._leases = history.leases()
        self._cluster = cluster
        self._heartbeat_dir = heartbeat_dir
        self._goes_by_profiles = goes_by_profiles
        self._book = ProgressBook(
            HeartbeatSweep(user_number, clock),
            lambda present: self._leases.run_before(cluster, present),
        )

    def seen(self, state: ClusterState, policy: Policy) -> ClusterState:
        """`state` with what its jobs tell, where `policy` goes by it."""
        if not policy.reads_progress:
            return state
        profiles = self._goes_by_profiles()
        return self._book.fill(state, self._heartbeat_dir(), goes_by_profiles=profiles)

    @property
    def resume_s(self) -> float:
        """What an interruption costs: saving, as leases have shown, and the restart until the job
        goes on, as heartbeats have. Without any of them an assumption.
        """
        saves_s = self._leases.save_times(self._cluster)
        save_s = statistics.median(saves_s) if saves_s else FIRST_SAVE_S
        restart_s = self._book.restart_s
        return save_s + (FIRST_RESTART_S if restart_s is None else restart_s)

    def fitted(self, policy: Policy, knobs: Mapping[str, float]) -> Policy:
        """`policy` with the cost that was measured, unless the site's `knobs` name one."""
        known_s = knob_of(policy, RESUME_KNOB)
        if known_s is None or RESUME_KNOB in knobs:
            return policy
        resume_s = float(max(_LEAST_S, round(self.resume_s)))
        if known_s / _TOLERATED <= resume_s <= known_s * _TOLERATED:
            return policy
        log.info("an interruption is taken to cost a job %d s", resume_s)
        return with_knob(policy, RESUME_KNOB, resume_s)
