"""What GPUs of different types are worth beside each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def worth_of(gpu_type: str, weights: Mapping[str, float]) -> float:
    """One GPU of a type; 1 where nobody says, as of a GPU whose type is not told (``""``)."""
    return weights.get(gpu_type, 1.0)


def weighted(gpus: Iterable[tuple[str, int]], weights: Mapping[str, float]) -> float:
    """The worth of (type, count)s together."""
    return sum(count * worth_of(gpu_type, weights) for gpu_type, count in gpus)
