"""What Prometheus learns of the daemon: counts and times, no names of users or jobs.

Names begin with ``gsched_``, units are seconds and bytes, and every label has few values. Moments
are told as epoch seconds, so that the one who asks computes ages by his own clock. What is not
known has no sample. Read over HTTP (``serving``), from a textfile (``write``), or over the
daemon's local socket (``text``).
"""

from __future__ import annotations

import logging
from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from gsched.daemon.metrics_gauges import Facts, Gauges, picture_of
from gsched.daemon.metrics_server import MetricsServer
from gsched.engine.round import RoundResult
from gsched.errors import GschedError
from gsched.files import writing_whole
from gsched.model.journal import ChangeState

log = logging.getLogger("gsched.daemon")

SUCCEEDED = "succeeded"
OUTCOMES = {
    65: "data",
    69: "unavailable",
    70: "fault",
    75: "try-again",
    77: "no-permission",
    78: "configuration",
}
"""How a round failed, by the exit code of its error; any other is a fault as well."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds; a round at 10,000 waiting jobs is to take 2."""

_MODE = 0o644


class Metrics:
    """The daemon's metrics. The loop's thread tells; any thread may read."""

    def __init__(self, state_dir: Path) -> None:
        """`state_dir` is the folder whose free space is told."""
        # Of each counter a second series with its birthday: the time of the process says it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._server = MetricsServer(self._registry)
        self._gauges = Gauges(state_dir, self._server.refusals)
        self._registry.register(self._gauges)
        ProcessCollector(namespace="gsched", registry=self._registry)
        self._rounds = Counter(
            "gsched_rounds", "Rounds, by what the daemon was allowed to do and how they ended.",
            ["mode", "outcome"], registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "gsched_round_seconds", "Wall-clock seconds of whole rounds with their upkeep.",
            registry=self._registry, buckets=BUCKETS,
        )  # fmt: skip
        self._phases = Histogram(
            "gsched_round_phase_seconds", "Wall-clock seconds of each phase of a round.",
            ["phase"], registry=self._registry, buckets=BUCKETS,
        )  # fmt: skip
        self._cpu = Counter(
            "gsched_round_cpu_seconds", "CPU seconds of the daemon's own process in rounds.",
            registry=self._registry,
        )  # fmt: skip
        self._changes = Counter(
            "gsched_changes",
            "Changes of rounds and what the daemon took back, by the state in which that left them "
            "(not those of `gsched daemon clear`).",
            ["state"], registry=self._registry,
        )  # fmt: skip
        self._recovered = Counter(
            "gsched_changes_recovered", "Changes of earlier rounds that were settled later.",
            registry=self._registry,
        )  # fmt: skip
        self._problems = Counter(
            "gsched_decision_problems", "What a policy decided and no round may carry out.",
            registry=self._registry,
        )  # fmt: skip
        for state in ChangeState:  # a counter that begins at its first event hides that event
            self._changes.labels(state.value)
        self._problem = ""
        self._written: Path | None = None

    def round_done(self, result: RoundResult, mode: str, wall_s: float, cpu_s: float) -> None:
        """One round has ended. `mode` is the gate's word for what the daemon was allowed."""
        self._timed(mode, SUCCEEDED, wall_s, cpu_s)
        for phase, seconds in result.timings_s.items():
            self._phases.labels(phase).observe(seconds)
        self._ended(Counts(state for state, _ in result.settled.values()))
        self._recovered.inc(result.recovered)
        self._problems.inc(len(result.problems))
        self._gauges.picture = picture_of(result)
        self._gauges.last_success = result.state.as_of
        if result.info.acting and result.settled:
            self._gauges.last_write = result.state.as_of

    def round_failed(self, error: GschedError, mode: str, wall_s: float, cpu_s: float) -> None:
        """One round has failed; what the one before saw stays."""
        self._timed(mode, OUTCOMES.get(error.exit_code, "fault"), wall_s, cpu_s)

    def taken_back(self, states: Mapping[ChangeState, int], at: int) -> None:
        """At `at` (epoch) values were taken back beside a round: how many changes ended how."""
        self._ended(states)
        if any(states.values()):
            self._gauges.last_write = at

    def waits(self, mode: str) -> None:
        """No rounds for now, because of `mode`: what the last one saw is not so any more."""
        self._gauges.mode = mode
        self._gauges.picture = None
        self._gauges.last_round_s = None
        self._gauges.inversions = {}

    def facts(self, facts: Facts) -> None:
        """What is true beside the rounds."""
        self._gauges.facts = facts

    def inverted(self, counts: Mapping[str, int]) -> None:
        """Pairs of waiting jobs that gsched's order turns round (``qos``, ``fairshare``), of
        ``pairs`` that were compared."""
        self._gauges.inversions = dict(counts)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def write(self, path: Path | None) -> None:
        """Replace the textfile whole; None = there shall be none. One that was written elsewhere
        before is removed. What goes wrong is logged, each new reason once.
        """
        if path != self._written:
            self.end()
        if path is None:
            return
        self._written = path
        try:
            with writing_whole(path, _MODE) as f:
                f.write(self.text())
        except GschedError as error:
            if error.message != self._problem:
                log.warning("no metrics file, trying again each round: %s", error.message)
            self._problem = error.message
        else:
            self._problem = ""

    def end(self) -> None:
        """Remove the textfile: it would go on telling of a daemon that has ended."""
        path, self._written = self._written, None
        if path is None:
            return
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the metrics file %s stays: %s", path, error.strerror)

    @contextmanager
    def serving(self, address: str) -> Iterator[str]:
        """Answer ``GET /metrics`` at host:port during the block; gives the address in use.

        Raises UnavailableError when nobody can listen there.
        """
        with self._server.listening(address) as text:
            yield text

    def _ended(self, states: Mapping[ChangeState, int]) -> None:
        for state, number in states.items():
            self._changes.labels(state.value).inc(number)

    def _timed(self, mode: str, outcome: str, wall_s: float, cpu_s: float) -> None:
        for known in (SUCCEEDED, *OUTCOMES.values()):
            self._rounds.labels(mode, known)
        self._rounds.labels(mode, outcome).inc()
        self._seconds.observe(wall_s)
        self._cpu.inc(max(0.0, cpu_s))
        self._gauges.mode = mode
        self._gauges.last_round_s = wall_s
