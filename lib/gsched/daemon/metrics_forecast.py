"""The metrics of forecasts."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gsched.daemon.forecast_facts import ForecastFacts

_FAILURES = "Forecasts that failed: their process died, was silent, or could not be started."
_COVERAGE = "Share of them whose job started within the interval of 80 %."


def forecast_metrics(facts: ForecastFacts) -> Iterator[Metric]:
    """What Prometheus is told of the forecasts of starts."""
    if facts.as_of is not None:
        yield _gauge("timestamp_seconds", "When the newest forecast was made.", facts.as_of)
    yield _gauge("jobs", "Waiting jobs of which the newest forecast says something.", facts.jobs)
    yield _counter("cpu_seconds", "Processor time of forecasts.", facts.cpu_s)
    yield _counter("failures", _FAILURES, facts.child.failures)
    record = facts.record
    yield _gauge("compared", "Forecasts of a week that have met their truth.", record.known)
    if record.known:
        yield _gauge("coverage_ratio", _COVERAGE, record.covered / record.known)
    if record.median_error_s is not None:
        yield _gauge("median_error_seconds", "Median of |expected - actual| start.",
                     record.median_error_s)  # fmt: skip


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"gsched_forecast_{name}", documentation, value=float(value))


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(f"gsched_forecast_{name}", documentation, value=float(value))
