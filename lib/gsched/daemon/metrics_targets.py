"""The metrics of deadlines."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gsched.daemon.target_facts import TargetFacts
from gsched.model.target_records import OUTCOMES, Risk

WAYS = ("insert", "greedy", "last-plan", "cp-sat", "overload")
"""How a round may have made its plans, as far as is known before there was one."""


def target_metrics(facts: TargetFacts) -> Iterator[Metric]:
    """What Prometheus is told of deadlines."""
    standing = GaugeMetricFamily(
        "gsched_targets", "Promised deadlines of jobs in the queue, by risk.", labels=("risk",)
    )
    for risk in Risk:
        standing.add_metric((risk.value,), float(facts.standing.get(risk.value, 0)))
    yield standing
    yield GaugeMetricFamily(
        "gsched_targets_refused",
        "Jobs in the queue whose deadline was refused.",
        value=float(facts.refused),
    )
    outcomes = CounterMetricFamily(
        "gsched_target_outcomes", "What promised deadlines have come to.", labels=("outcome",)
    )
    for state in OUTCOMES:
        outcomes.add_metric((state.value,), float(facts.outcomes.get(state.value, 0)))
    yield outcomes
    rounds = CounterMetricFamily(
        "gsched_target_plans", "Rounds by how the plans of deadlines were made.", labels=("way",)
    )
    for way in dict.fromkeys([*WAYS, *facts.rounds]):
        rounds.add_metric((way,), float(facts.rounds.get(way, 0)))
    yield rounds
    warnings = CounterMetricFamily(
        "gsched_target_warnings",
        "Warnings about deadlines that mail_command has taken, and those that it has not.",
        labels=("result",),
    )
    for result in ("sent", "failed"):
        warnings.add_metric((result,), float(facts.warnings.get(result, 0)))
    yield warnings
