"""The parts that the daemon's rounds and `daemon clear` have in common, put together."""

from __future__ import annotations

import gc
import logging
import os
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gsched.app.wiring import now, slurm_client
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.bursts import bf_interval_s
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.deciding import RoundRules
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.errors import UsageError
from gsched.policy.base import Policy
from gsched.policy.registry import SiteFacts, check, load_scoped
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import QueueRow, SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

FAULT_VARIABLE = "GSCHED_FAULT_POINT"
"""Names a ``FaultPoint``: the process kills itself with SIGKILL there (crash tests)."""


@dataclass(frozen=True, slots=True)
class Live:
    """Slurm as it was found at the start, and the backend on it."""

    client: SlurmClient
    config: SlurmConfig
    backend: SlurmBackend


def live_parts(settings: Settings, history: History) -> Live:
    """Ask Slurm for its configuration, and make the backend that fits.

    Raises UnavailableError or TryAgainError when Slurm does not answer, ConfigError when the
    settings do not fit its priorities.
    """
    # no second back-off: a round that Slurm does not answer is repeated by the loop
    client = slurm_client(settings, log.warning, asks_again=False)
    config = client.config()
    cluster = config.cluster

    def epochs(rows: Sequence[QueueRow]) -> Sequence[int]:
        return history.epochs(cluster, rows)

    backend = SlurmBackend(
        client,
        cluster,
        scale_for(config, settings.daemon),
        settings.daemon,
        epochs,
        now,
        RequestBook(history.request_store()),
        bf_interval_s(config),
    )
    return Live(client, config, backend)


def new_round_id() -> str:
    """A round's identity, unique over all daemons: when and a random part."""
    return f"{now()}-{uuid.uuid4().hex[:12]}"


def fault_hook() -> FaultHook:
    """Kill this process with SIGKILL at the point that FAULT_VARIABLE names (crash tests)."""
    name = os.environ.get(FAULT_VARIABLE, "")
    if not name:
        return no_faults
    try:
        chosen = FaultPoint(name)
    except ValueError:
        known = ", ".join(p.value for p in FaultPoint)
        raise UsageError(f"{FAULT_VARIABLE}={name}: no such point", f"points: {known}") from None

    def hook(point: FaultPoint) -> None:
        if point is chosen:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python's search for circular garbage at each 100,000 new objects instead of 700.

    A round keeps nearly all that it makes, a record or more for each job: searching it again and
    again took a quarter of the first round of 10,000 jobs.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def policy_of(settings: DaemonSettings, live: Live, site: SiteFacts) -> Policy:
    """The policy in use. Raises ConfigError for one that needs what the backend lacks."""
    policy = load_scoped(settings.policy, settings.policy_scope, settings.knobs, site)
    check(policy, live.backend.capabilities)
    return policy


def rules_of(settings: DaemonSettings) -> RoundRules:
    """What bounds each round."""
    return RoundRules(settings.starvation_bound_s, settings.decide_limit_s)
