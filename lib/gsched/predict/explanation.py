"""Why a job is predicted to run as long as it is: by what, and by how much, it differs from others.

The duration model mixes a rolling estimate and a regression; both are explained together. What is
compared with are the jobs that the regression keeps as its background.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.predict.attributes import SHORTEST_S
from gsched.predict.contributions import Contribution, shapley
from gsched.predict.features import FEATURES
from gsched.predict.memory import Look
from gsched.predict.model import DurationModel

GROUPS = {
    "similar-jobs": (
        *("rule", "rolling_s", "typical_s", "spread", "shortest_s", "longest_s", "num_similar"),
    ),
    "last-jobs": ("last_s", "last_two_s", "idle_s"),
    "same-request": ("same_request_s", "num_same_request"),
    "user": ("user",),
    "account": ("tenant",),
    "partition": ("partition",),
    "name": ("name_cluster",),
    "gpus": ("num_gpus",),
    "cpus": ("num_cpus",),
    "nodes": ("num_nodes",),
    "time-limit": ("time_limit_s",),
    "submitted-at": ("month", "weekday", "hour", "minute"),
}
"""What is told together → the features behind it; each feature is in one group."""

_COLUMNS = {name: [FEATURES.index(f) for f in features] for name, features in GROUPS.items()}
_ROLLING, _LIMIT = FEATURES.index("rolling_s"), FEATURES.index("time_limit_s")


@dataclass(frozen=True, slots=True)
class Explanation:
    """`typical_s`, times the factors of all `contributions`, is `predicted_s`, in seconds.

    `typical_s` is what the model predicts on average (geometric mean) for the jobs that it is
    compared with. Caution is not in it: that comes on top.
    """

    typical_s: float
    contributions: tuple[Contribution, ...]
    predicted_s: float


def explain(model: DurationModel, look: Look) -> Explanation | None:
    """What makes the prediction at `look`; None where the rolling estimate alone makes it.

    Then its past runs explain it. The largest contribution comes first.
    """
    kind = look.job.kind
    lam = 1.0 if kind in model.rolling_only else model.lam(kind)
    if lam == 1.0 or np.isnan(model.parts_of([look])["regression"][0]):
        return None
    regression = model.regressions[kind]

    def log_seconds(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        limits = np.nan_to_num(rows[:, _LIMIT], nan=math.inf)
        regressed = np.minimum(np.exp(regression.predict_logs(rows)), limits)
        blended = lam * np.minimum(rows[:, _ROLLING], limits) + (1 - lam) * regressed
        logs: NDArray[np.float64] = np.log(np.maximum(blended, SHORTEST_S))
        return logs

    row: Sequence[float] = model.rows([look])[0].tolist()
    base, contributions = shapley(log_seconds, row, regression.background, _COLUMNS)
    total = base + sum(contribution.log_s for contribution in contributions)
    return Explanation(math.exp(base), tuple(contributions), math.exp(total))
