"""How far forecasts were from what came true, by distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from gsched.demand.series import DemandSeries, Floats
from gsched.demand.walk import Walk


@dataclass(frozen=True, slots=True)
class Score:
    """Errors at one distance, over `pairs` of a forecast and a truth, both of them known.

    `rmse` and `mae` in the series' unit. `smape_pct` is 200·|f−y|/(|f|+|y|) on average over the
    `smape_pairs` in which not both are 0. Where nothing was wanted it is 200 for any forecast
    but 0, however near; `smape_nonzero_pct` leaves out those `zero_truths`.
    """

    ahead_s: int
    pairs: int
    smape_pairs: int
    zero_truths: int
    rmse: float | None
    mae: float | None
    smape_pct: float | None
    smape_nonzero_pct: float | None

    def document(self) -> dict[str, float | int | None]:
        """With the names of the fields as keys."""
        return asdict(self)


def score(ahead_s: int, forecast: Floats, truth: Floats) -> Score:
    """Compare two columns; pairs with a NaN are left out."""
    known = ~np.isnan(forecast) & ~np.isnan(truth)
    told, came = forecast[known], truth[known]
    error = np.abs(told - came)
    terms = smape_terms(told, came)
    return Score(
        ahead_s=ahead_s,
        pairs=len(error),
        smape_pairs=int((~np.isnan(terms)).sum()),
        zero_truths=int((came == 0).sum()),
        rmse=float(np.sqrt(np.mean(error**2))) if len(error) else None,
        mae=_mean(error),
        smape_pct=_mean(terms[~np.isnan(terms)]),
        smape_nonzero_pct=_mean(terms[came > 0]),
    )


def smape_terms(forecast: Floats, truth: Floats) -> Floats:
    """200·|f−y|/(|f|+|y|) of each pair; NaN where both are 0 or one is not known."""
    size = np.abs(forecast) + np.abs(truth)
    return 200 * np.abs(forecast - truth) / np.where(size == 0, np.nan, size)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def compare(
    walks: Mapping[str, Walk],
    series: DemandSeries,
    distances_s: Sequence[int],
    since: float,
    until: float,
) -> dict[str, list[Score]]:
    """One score a distance for each walk, over the steps that begin in [since, until).

    Every walk is judged by the same pairs: by the steps of which all of them had told something.
    Of `smape_pct` that is not quite so: where nothing was wanted, whoever told 0 is left out there,
    and whoever told more is not. Walks are compared by `smape_nonzero_pct`.
    """
    found: dict[str, list[Score]] = {name: [] for name in walks}
    rows = np.arange(series.row_before(since + series.step_s), series.row_before(until) + 1)
    for ahead_s in distances_s:
        steps = ahead_s // series.step_s
        told = {name: walk.told_of(rows, steps) for name, walk in walks.items()}
        missing = np.isnan(np.stack(list(told.values()))).any(axis=0)
        truth = np.where(missing, np.nan, series.values[rows])
        for name, column in told.items():
            found[name].append(score(ahead_s, column, truth))
    return found
