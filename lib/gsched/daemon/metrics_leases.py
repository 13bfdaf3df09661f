"""The metrics of leases."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gsched.daemon.lease_facts import OF_SIGNAL, UNSAVED, LeaseFacts
from gsched.model.job import LeaseState


def lease_metrics(facts: LeaseFacts) -> Iterator[Metric]:
    """What Prometheus is told of leases."""
    standing = GaugeMetricFamily(
        "gsched_leases", "Leases that are not over, by state.", labels=("state",)
    )
    for state in LeaseState:
        if not state.is_over:
            standing.add_metric((state.value,), float(facts.standing.get(state.value, 0)))
    yield standing
    passed = CounterMetricFamily(
        "gsched_lease_transitions",
        "What leases have come to; unsaved: a job kept its GPUs, for it had not saved in time; "
        "ended_when_told: a job ended when it was told to save.",
        labels=("state",),
    )
    for name in (*(state.value for state in LeaseState), UNSAVED, OF_SIGNAL):
        passed.add_metric((name,), float(facts.transitions.get(name, 0)))
    yield passed
    if facts.length_s is not None:
        yield _seconds("lease_length", "Length of the leases that are granted.", facts.length_s)
    if facts.hand_over_s is not None:
        words = "What it costs to take GPUs from a job: to save, and until Slurm starts it again."
        yield _seconds("lease_hand_over", words, facts.hand_over_s)


def _seconds(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"gsched_{name}_seconds", documentation, value=float(value))
