"""The daemon as a process: signals end it between two rounds, its log goes to stderr."""

from __future__ import annotations

import logging
import signal
from types import FrameType

from gsched.daemon.loop import DaemonLoop
from gsched.engine.round import RoundResult
from gsched.model.journal import ChangeState

log = logging.getLogger("gsched.daemon")


def serve(loop: DaemonLoop) -> None:
    """Run `loop` until SIGTERM or SIGINT; a round in progress is finished first."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        loop.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    logging.basicConfig(format="gsched: %(levelname)s: %(message)s", level=logging.INFO)
    mode = "act" if loop.options.acting else "observe"
    log.info(
        "daemon of %s: policy %s, %s, a round every %g s",
        loop.runner.backend.cluster,
        loop.runner.policy.name,
        mode,
        loop.options.interval_s,
    )
    loop.run(_log_round)
    log.info("daemon stopped; what it ordered stands until `gsched daemon clear`")


def _log_round(result: RoundResult) -> None:
    if result.changes or result.recovered or result.problems:
        log.info("round: %s", ", ".join(f"{k} {v}" for k, v in result.summary.items()))
    refused = [c for c in result.changes if result.settled[c.change_id][0] is ChangeState.REJECTED]
    if refused:
        job, why = refused[0].key.slurm_id, result.settled[refused[0].change_id][1]
        log.warning("Slurm refused %d changes (job %s: %s)", len(refused), job, why)
    for problem in result.problems:
        whose = f"job {problem.key.slurm_id}" if problem.key else f"policy {result.info.policy}"
        log.warning("%s: %s", whose, problem.what)
