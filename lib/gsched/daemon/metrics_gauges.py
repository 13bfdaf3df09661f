"""The metrics that go up and down: what the last round saw, and what is true beside the rounds."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gsched import __version__
from gsched.daemon.bounded_server import Refusals
from gsched.daemon.ces_facts import CesFacts
from gsched.daemon.forecast_facts import ForecastFacts
from gsched.daemon.gate import Mode
from gsched.daemon.lease_facts import LeaseFacts
from gsched.daemon.metrics_ces import ces_metrics
from gsched.daemon.metrics_forecast import forecast_metrics
from gsched.daemon.metrics_leases import lease_metrics
from gsched.daemon.metrics_targets import target_metrics
from gsched.daemon.model_facts import KINDS, ModelFacts
from gsched.daemon.target_facts import TargetFacts
from gsched.engine.round import RoundResult
from gsched.engine.starvation import STARVING
from gsched.model.job import Capability, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.model.prediction_truth import PredictionTruth
from gsched.model.ranks import ReasonTable

WAIT_QUANTILES = (0.5, 0.9, 0.99, 1.0)

_NOT_LEADING = {Mode.STANDBY.value, Mode.WAITING.value}

_Series = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true beside the rounds; None and '' = not known or there is none.

    Times are epoch seconds. The counts of refusals, errors and failures are since the daemon began.
    `watchdog_s` is systemd's patience.
    """

    cluster: str = ""
    policy: str = ""
    interval_s: float = 0.0
    model: ModelFacts = field(default_factory=ModelFacts)
    ingest_time: float | None = None
    open_changes: int | None = None
    fence: int | None = None
    watchdog_s: float = 0.0
    query_refusals: int = 0
    control_refusals: int = 0
    database_errors: int = 0
    upkeep_failures: Mapping[str, int] = field(default_factory=dict)
    truths: Sequence[PredictionTruth] = ()
    forecast: ForecastFacts | None = None
    ces: CesFacts | None = None
    leases: LeaseFacts | None = None
    targets: TargetFacts | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """The counts of one round. `waits_s` are the WAIT_QUANTILES of the jobs that could start.

    In `jobs`, `gpus` and `gpu_time_s` each waiting task of an array counts, in all else an array
    that Slurm has not split yet counts as one.
    """

    jobs: Mapping[str, int]
    gpus: Mapping[str, int]
    ranked: int
    unpredicted: int
    starving: int
    excluded: Mapping[str, int]
    gpu_time_s: float
    waits_s: tuple[float, ...]
    postponed: int


def picture_of(result: RoundResult) -> Picture:
    """What of a round is told; of the round itself nothing is kept."""
    table = result.state.jobs
    pending, running = table.pending, table.running
    predicted_s = table.predicted_duration_s[pending]
    waits_s = result.state.as_of - table.waiting_since[pending]
    waits_s = waits_s[waits_s >= 0]  # neither NaN nor of jobs that may start only later
    tasks = np.array([table.views[row].waiting_tasks for row in table.select(pending)], dtype=int)
    quantiles = np.quantile(waits_s, WAIT_QUANTILES) if len(waits_s) else ()
    return Picture(
        jobs={
            "pending": int(tasks.sum()),
            "running": int(running.sum()),
            "other": int((~(pending | running)).sum()),
        },
        gpus={
            "pending": int((tasks * table.num_gpus[pending]).sum()),
            "running": int(table.num_gpus[running].sum()),
        },
        ranked=len(result.decision.order),
        unpredicted=int(np.isnan(predicted_s).sum()),
        starving=_starving(result),
        excluded=_excluded(table),
        gpu_time_s=float(np.nansum(predicted_s * tasks * table.num_gpus[pending])),
        waits_s=tuple(float(q) for q in quantiles),
        postponed=result.postponed,
    )


def _excluded(table: JobTable) -> dict[str, int]:
    """Waiting jobs that are left alone, by the code of the first rule that says so."""
    rows = table.select(table.pending & ~table.reorderable)
    found = (table.views[row].exclusion(Capability.REORDER) for row in rows)
    return dict(Counter(exclusion.code for exclusion in found if exclusion))


def _starving(result: RoundResult) -> int:
    reasons = ReasonTable.of(result.decision.reasons, result.state.jobs)
    return sum(len(group.rows) for group in reasons.groups if group.code == STARVING)


def _most_compared(truths: Sequence[PredictionTruth]) -> PredictionTruth | None:
    """Of the models that predict run times the one that most is known of."""
    known = [t for t in truths if t.kind is PredictionKind.DURATION and t.known]
    return max(known, key=lambda truth: truth.known, default=None)


class Gauges(Collector):
    """Makes the samples when they are asked for; each part is replaced whole by the loop."""

    def __init__(self, state_dir: Path, refusals: Refusals) -> None:
        """`refusals` are those of who asks for metrics."""
        self._state_dir = state_dir
        self._refusals = refusals
        self.facts = Facts()
        self.mode = ""
        self.last_round_s: float | None = None
        self.picture: Picture | None = None
        self.last_success: int | None = None
        self.last_write: int | None = None
        self.inversions: Mapping[str, int] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing: no name is known before something has been told."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Every family that has a sample now."""
        facts, picture = self.facts, self.picture
        families = [*self._daemon(facts), *self._beside(facts), *self._disk()]
        if picture is not None:
            families += _queue(picture)
        families += [*self._order(), *self._model(facts)]
        if facts.forecast is not None:
            families += forecast_metrics(facts.forecast)
        if facts.ces is not None:
            families += ces_metrics(facts.ces)
        if facts.leases is not None:
            families += lease_metrics(facts.leases)
        if facts.targets is not None:
            families += target_metrics(facts.targets)
        return [family for family in families if family.samples]

    def _daemon(self, facts: Facts) -> Iterator[Metric]:
        yield _gauge(
            "daemon_info", "1; what runs, in labels. No cluster: it has not been asked yet.",
            {(facts.cluster, facts.policy, __version__): 1.0} if facts.policy else {},
            "cluster", "policy", "version",
        )  # fmt: skip
        yield _plain("metrics_timestamp_seconds", "When these metrics were told.", time.time())
        modes = {one.value: one.value == self.mode for one in Mode} if self.mode else {}
        yield _gauge("mode", "1 for what the daemon is allowed to do now, 0 for all else.",
                     _by_one(modes), "mode")  # fmt: skip
        yield _plain("round_interval_seconds", "Seconds between rounds.",
                     facts.interval_s or None)  # fmt: skip
        yield _plain("watchdog_seconds", "systemd's patience with a round, 0: none.",
                     facts.watchdog_s)  # fmt: skip
        yield _plain("last_round_seconds", "Wall-clock seconds of the last round.",
                     self.last_round_s)  # fmt: skip
        yield _plain("last_successful_round_timestamp_seconds",
                     "When the newest successful round looked at the cluster.",
                     self.last_success)  # fmt: skip
        leads = float(self.mode not in _NOT_LEADING) if self.mode else None
        yield _plain("leader", "Whether this daemon leads its cluster.", leads)
        yield _plain("leader_fence", "Number of this leadership, on a database server.",
                     facts.fence)  # fmt: skip

    def _beside(self, facts: Facts) -> Iterator[Metric]:
        yield _plain("journal_open_changes", "Changes of which it is not known how they ended.",
                     facts.open_changes)  # fmt: skip
        refusals = {
            "query": facts.query_refusals,
            "control": facts.control_refusals,
            "metrics": self._refusals.total,
        }
        yield _counter("socket_refusals", "Connections and questions that got no answer.",
                       _by_one(refusals), "socket")  # fmt: skip
        yield _counter("database_errors", "Errors of the history database.",
                       {(): facts.database_errors})  # fmt: skip
        yield _counter("upkeep_failures", "Failures to bring history or model up to date.",
                       _by_one(facts.upkeep_failures), "step")  # fmt: skip

    def _order(self) -> Iterator[Metric]:
        yield _plain("last_write_timestamp_seconds", "When the daemon last wrote to Slurm.",
                     self.last_write)  # fmt: skip
        counts = self.inversions
        yield _gauge(
            "inversions",
            "Pairs of waiting jobs that gsched's order turns against this; a pair may be of both.",
            _by_one({kind: counts[kind] for kind in ("qos", "fairshare") if kind in counts}),
            "kind",
        )  # fmt: skip
        yield _plain("inversion_pairs", "Pairs of waiting jobs that were compared.",
                     counts.get("pairs"))  # fmt: skip

    def _model(self, facts: Facts) -> Iterator[Metric]:
        yield _plain("model_timestamp_seconds", "When the model in use was written.",
                     facts.model.written_at)  # fmt: skip
        yield _plain("last_ingest_timestamp_seconds",
                     "When the history last took in ended jobs.", facts.ingest_time)  # fmt: skip
        if facts.model.written_at is not None:
            yield from _drift(facts.model)
        truth = _most_compared(facts.truths)
        if truth is not None:
            yield from _prediction(truth)

    def _disk(self) -> Iterator[Metric]:
        try:
            found = os.statvfs(self._state_dir)
        except OSError:
            return
        unit = found.f_frsize
        yield _plain("state_dir_free_bytes", "Bytes free for the daemon where its state lies.",
                     found.f_bavail * unit)  # fmt: skip
        yield _plain("state_dir_size_bytes", "Size of that file system.",
                     found.f_blocks * unit)  # fmt: skip


def _prediction(truth: PredictionTruth) -> Iterator[Metric]:
    yield _plain("predictions_compared", "Predicted run times that have met their truth.",
                 truth.known)  # fmt: skip
    yield _plain("prediction_median_error_seconds", "Median of |predicted - actual| run time.",
                 truth.median_error)  # fmt: skip
    yield _plain("prediction_mean_error_seconds", "Mean of predicted - actual run time.",
                 truth.mean_error)  # fmt: skip
    yield _gauge(
        "prediction_coverage_ratio", "Share of run times at or below the predicted quantile.",
        {(f"{probability:g}",): share for probability, share, _ in truth.coverage}, "quantile",
    )  # fmt: skip


def _drift(model: ModelFacts) -> Iterator[Metric]:
    yield _plain("model_pinned", "Whether a model is pinned: refits do not replace it.",
                 bool(model.pinned))  # fmt: skip
    yield _gauge(
        "model_fallback", "1: the rolling estimate predicts jobs of this kind, not the model.",
        _by_one({kind: kind in model.fallen for kind in KINDS}), "kind",
    )  # fmt: skip
    judged = model.judgements.items()
    yield _gauge(
        "model_compared_jobs", "Ended jobs that are compared with what was predicted.",
        _by_one({kind: found.num_jobs for kind, found in judged}), "kind",
    )  # fmt: skip
    yield _gauge(
        "model_off_by_ratio", "Median factor between their predicted and actual run times.",
        {(kind, name): v for kind, found in judged for name, v in found.off_by.items()},
        "kind", "estimator",
    )  # fmt: skip
    yield _gauge(
        "model_rank_correlation", "Rank correlation of their predicted and actual GPU-time.",
        {(kind, n): v for kind, found in judged for n, v in found.rank_correlations.items()},
        "kind", "estimator",
    )  # fmt: skip


_TASKS = "each waiting task of an array counts, where Slurm tells how many there are"


def _queue(picture: Picture) -> Iterator[Metric]:
    yield _gauge("jobs", f"Jobs in the queue; {_TASKS}.", _by_one(picture.jobs), "state")
    yield _gauge("gpus", f"GPUs that jobs ask for or hold; {_TASKS}.", _by_one(picture.gpus),
                 "state")  # fmt: skip
    yield _plain("jobs_ranked",
                 "Waiting jobs that have a place in the order, an array not split yet as one.",
                 picture.ranked)  # fmt: skip
    yield _plain("jobs_unpredicted", "Waiting jobs without a predicted run time.",
                 picture.unpredicted)  # fmt: skip
    yield _plain("jobs_starving", "Waiting jobs beyond the starvation bound.", picture.starving)
    yield _gauge("jobs_excluded", "Waiting jobs that are left alone, by the first reason.",
                 _by_one(picture.excluded), "reason")  # fmt: skip
    yield _plain("queue_predicted_gpu_seconds",
                 "Predicted GPU-seconds of the waiting jobs that are predicted.",
                 picture.gpu_time_s)  # fmt: skip
    waits = zip(WAIT_QUANTILES, picture.waits_s, strict=False)
    yield _gauge(
        "queue_wait_seconds", "For how long waiting jobs could have started, by quantile.",
        {(f"{quantile:g}",): wait_s for quantile, wait_s in waits}, "quantile",
    )  # fmt: skip
    yield _plain("postponed_changes", "Writes that the last round has left to later ones.",
                 picture.postponed)  # fmt: skip


def _by_one(counts: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    return {(name,): float(count) for name, count in counts.items()}


def _plain(name: str, documentation: str, value: float | None) -> Metric:
    return _gauge(name, documentation, {} if value is None else {(): float(value)})


def _gauge(name: str, documentation: str, series: _Series, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"gsched_{name}", documentation, labels=labels)
    for values, number in series.items():
        family.add_metric(values, number)
    return family


def _counter(name: str, documentation: str, series: _Series, *labels: str) -> Metric:
    family = CounterMetricFamily(f"gsched_{name}", documentation, labels=labels)
    for values, number in series.items():
        family.add_metric(values, number)
    return family
