"""The regression P_M: gradient-boosted trees on the logarithm of the duration.

Run times spread over many orders of magnitude; on the logarithm short jobs count as much as long
ones. scikit-learn takes over a second to import, so it is imported only where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsched.predict.attributes import SHORTEST_S, JobAttributes
from gsched.predict.features import CATEGORICAL, FEATURES, FeatureEncoder

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

NUM_TREES = 100
RANDOM_STATE = 0
MOST_PER_LEAF = 20
"""Jobs that a leaf needs in large histories; a twentieth of the jobs in small ones."""

_LONGEST_S = 10 * 366 * 86400.0  # no job is longer: bounds the exponential


class GbdtEstimator:
    """A fitted regression: attributes of jobs → durations in seconds."""

    def __init__(self, encoder: FeatureEncoder, regressor: HistGradientBoostingRegressor) -> None:
        self.encoder = encoder
        self.regressor = regressor

    @classmethod
    def fit(cls, jobs: Sequence[JobAttributes], durations_s: Sequence[float]) -> GbdtEstimator:
        """Learn from past jobs (at least one); the same input gives the same trees."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        encoder = FeatureEncoder.fit(jobs)
        regressor = HistGradientBoostingRegressor(
            max_iter=NUM_TREES,
            min_samples_leaf=max(2, min(MOST_PER_LEAF, len(jobs) // 20)),
            categorical_features=[FEATURES.index(name) for name in CATEGORICAL],
            early_stopping=False,
            random_state=RANDOM_STATE,
        )
        logs = np.log(np.maximum(np.asarray(durations_s, dtype=np.float64), SHORTEST_S))
        with _one_thread():
            regressor.fit(encoder.matrix(jobs), logs)
        return cls(encoder, regressor)

    def predict(self, jobs: Sequence[JobAttributes]) -> NDArray[np.float64]:
        """Seconds for each job, in order."""
        if not jobs:
            return np.zeros(0)
        with _one_thread():
            logs: NDArray[np.float64] = self.regressor.predict(self.encoder.matrix(jobs))
        return np.exp(np.minimum(np.maximum(logs, math.log(SHORTEST_S)), math.log(_LONGEST_S)))


def _one_thread() -> AbstractContextManager[object]:
    """Keeps the trees to one thread.

    OpenMP's threads spin while they wait for each other: on a busy host small fits took thirty
    times the CPU, and a head node has other work.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="openmp")
    return limits
