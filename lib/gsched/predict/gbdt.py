"""The regression P_M: gradient-boosted trees that add up on the logarithm of the duration.

Poisson deviance with its log link makes the result the expected duration, the same quantity as
P_R. (A least-squares fit of log-durations gives the typical one: on iu-mason-2017 its rank
correlation was 0.47 instead of 0.60, and mixed with P_R it queued worse.) scikit-learn takes over
a second to import, so it is imported only where it is used.
"""

from __future__ import annotations

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

_LONGEST_S = 10 * 366 * 86400.0  # no job is longer: bounds the exponential of the link


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
            loss="poisson",
            max_iter=NUM_TREES,
            min_samples_leaf=max(2, min(MOST_PER_LEAF, len(jobs) // 20)),
            categorical_features=[FEATURES.index(name) for name in CATEGORICAL],
            early_stopping=False,
            random_state=RANDOM_STATE,
        )
        targets = np.maximum(np.asarray(durations_s, dtype=np.float64), SHORTEST_S)
        with _one_thread():
            regressor.fit(encoder.matrix(jobs), targets)
        return cls(encoder, regressor)

    def predict(self, jobs: Sequence[JobAttributes]) -> NDArray[np.float64]:
        """Seconds for each job, in order."""
        if not jobs:
            return np.zeros(0)
        with _one_thread():
            seconds: NDArray[np.float64] = self.regressor.predict(self.encoder.matrix(jobs))
        return np.minimum(np.maximum(seconds, SHORTEST_S), _LONGEST_S)


def _one_thread() -> AbstractContextManager[object]:
    """Keeps the trees to one thread.

    OpenMP's threads spin while they wait for each other: on a busy host small fits took thirty
    times the CPU, and a head node has other work.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="openmp")
    return limits
