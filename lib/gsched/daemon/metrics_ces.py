"""The metrics of cluster energy saving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gsched.daemon.ces_facts import CesFacts, helper_problem

STATES = ("running", "idle", "falling", "asleep", "waking", "excluded")


def ces_metrics(facts: CesFacts) -> Iterator[Metric]:
    """What Prometheus is told of nodes that sleep."""
    told = facts.document
    yield _gauge("acting", "1: nodes are put to sleep and woken, 0: it is only said.",
                 float(bool(told.get("acting"))))  # fmt: skip
    yield _gauge("failing", "1: energy saving fails, or gsched-helper does not do what it asks.",
                 float(bool(told.get("problem") or helper_problem(told))))  # fmt: skip
    looked_at = told.get("looked_at")
    if isinstance(looked_at, int):
        yield _gauge("look_timestamp_seconds", "When nodes were last looked at.", looked_at)
    yield _nodes(told)
    failures = told.get("wake_failures")
    if isinstance(failures, int):
        yield _gauge("wake_failures", "Nodes that lately did not wake.", failures)
    yield _orders(facts)
    yield from _demand(facts)


def _nodes(told: Mapping[str, Any]) -> Metric:
    family = GaugeMetricFamily(
        "gsched_ces_nodes",
        "Nodes by pool and state; wanted ones are those that jobs wait for.",
        labels=("pool", "state"),
    )
    for pool in told.get("pools") or ():
        for state in (*STATES, "wanted"):
            family.add_metric((pool["pool"], state), float(pool[state]))
    return family


def _orders(facts: CesFacts) -> Metric:
    family = CounterMetricFamily(
        "gsched_ces_orders", "Orders to nodes, by how they ended.", labels=("verb", "state")
    )
    counts = Counter({(v.value, s.value): number for (v, s), number in facts.totals.items()})
    for (verb, state), number in sorted(counts.items()):
        family.add_metric((verb, state), float(number))
    return family


def _demand(facts: CesFacts) -> Iterator[Metric]:
    demand = facts.demand
    if demand.made_at is not None:
        yield _gauge("forecast_timestamp_seconds", "When demand was last forecast.", demand.made_at)
    yield _gauge("pools_foreseen", "Pools whose demand is forecast.", demand.foreseen)
    yield _counter("forecast_cpu_seconds", "Processor time of forecasts of demand.", demand.cpu_s)
    yield _counter("forecast_failures", "Forecasts of demand that failed.", demand.child.failures)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"gsched_ces_{name}", documentation, value=float(value))


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(f"gsched_ces_{name}", documentation, value=float(value))
