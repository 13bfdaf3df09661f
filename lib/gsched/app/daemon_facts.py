"""What the daemon's metrics tell beside its rounds."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.app.daemon_upkeep import Upkeep
from gsched.daemon.ces_facts import CesFacts
from gsched.daemon.forecast_facts import ForecastFacts
from gsched.daemon.lease_facts import LeaseFacts
from gsched.daemon.loop import DaemonLoop
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.target_facts import TargetFacts
from gsched.errors import GschedError
from gsched_sql import History


def facts_of(
    loop: DaemonLoop,
    upkeep: Upkeep,
    history: History,
    refusals: Mapping[str, int],
    earlier_errors: int,
    forecast: ForecastFacts | None,
    ces: CesFacts | None,
    leases: LeaseFacts | None,
    targets: TargetFacts | None,
) -> Facts:
    """The facts of this moment. `refusals`: by socket, how many got no answer so far;
    `earlier_errors` are those of the database before it was opened this time.
    """
    parts = loop.parts
    cluster = parts.runner.backend.cluster
    try:
        open_changes = len(history.journal().unsettled(cluster))
    except GschedError:
        open_changes = None  # the failed round says why
    return Facts(
        cluster=cluster,
        policy=parts.runner.policy.name,
        interval_s=loop.options.interval_s,
        model=upkeep.model_facts,
        ingest_time=upkeep.ingest_time,
        open_changes=open_changes,
        fence=parts.board.now.fence,
        watchdog_s=parts.notifier.watchdog_s,
        query_refusals=refusals.get("query", 0),
        control_refusals=refusals.get("control", 0),
        database_errors=earlier_errors + history.errors,
        upkeep_failures=dict(upkeep.failures),
        truths=upkeep.model.truths,
        forecast=forecast,
        ces=ces,
        leases=leases,
        targets=targets,
    )
