"""The regression P_M: gradient-boosted trees on the logarithm of the duration.

Run times spread over many orders of magnitude; on the logarithm short jobs count as much as long
ones. The trees learn by how much a job differs from the geometric mean of the latest runs behind
the rolling estimate (``typical_s``): a regression that starts from there needs no trees to say what
the user's last runs say, and follows them between two fits. scikit-learn takes over a second to
import, so it is imported only where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsched.one_thread import one_thread
from gsched.predict.attributes import SHORTEST_S
from gsched.predict.features import CATEGORICAL, FEATURES

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

NUM_TREES = 100
LEARNING_RATE = 0.05
RANDOM_STATE = 0
MOST_PER_LEAF = 50
"""Jobs that a leaf needs in large histories; a twentieth of the jobs in small ones."""

BACKGROUND_ROWS = 128

_LONGEST_S = 10 * 366 * 86400.0  # no job is longer: bounds the exponential
_TYPICAL = FEATURES.index("typical_s")


class GbdtEstimator:
    """A fitted regression: rows of features → seconds.

    `background` is a sample of the rows that it was fitted on, for comparison.
    """

    def __init__(
        self, regressor: HistGradientBoostingRegressor, background: NDArray[np.float64]
    ) -> None:
        self.regressor = regressor
        self.background = background

    @classmethod
    def fit(cls, rows: NDArray[np.float64], durations_s: Sequence[float]) -> GbdtEstimator:
        """Learn from past jobs (at least one); the same input gives the same trees."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        regressor = HistGradientBoostingRegressor(
            max_iter=NUM_TREES,
            learning_rate=LEARNING_RATE,
            min_samples_leaf=max(2, min(MOST_PER_LEAF, len(rows) // 20)),
            categorical_features=[FEATURES.index(name) for name in CATEGORICAL],
            early_stopping=False,
            random_state=RANDOM_STATE,
        )
        logs = np.log(np.maximum(np.asarray(durations_s, dtype=np.float64), SHORTEST_S))
        # a column of which nothing is known at all cannot be cut into bins
        known = np.where(np.isnan(rows).all(axis=0), 0.0, rows)
        with one_thread():
            regressor.fit(known, logs - _offsets(rows))
        chosen = np.random.default_rng(RANDOM_STATE).permutation(len(rows))[:BACKGROUND_ROWS]
        return cls(regressor, rows[np.sort(chosen)])

    def predict_logs(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Natural logarithm of the seconds of each row."""
        if not len(rows):
            return np.zeros(0)
        with one_thread():
            differences: NDArray[np.float64] = self.regressor.predict(rows)
        logs: NDArray[np.float64] = np.clip(
            differences + _offsets(rows), math.log(SHORTEST_S), math.log(_LONGEST_S)
        )
        return logs

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds of each row."""
        return np.exp(self.predict_logs(rows))


def _offsets(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the trees begin: the logarithm of the typical run, or of a second where none is known.

    A job of which nothing is known is not predicted by the regression.
    """
    return np.log(np.maximum(np.nan_to_num(rows[:, _TYPICAL], nan=SHORTEST_S), SHORTEST_S))
