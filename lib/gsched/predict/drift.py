"""Whether the model still predicts as well as the rolling estimate alone does (ours).

Each job that ends is held against what was predicted for it while it waited or ran: by the model,
by the rolling estimate and by the mean of its user's last two jobs, which needs no model. Where the
model is *worse* than the rolling estimate, jobs of that kind (with GPUs, without) are predicted by
the rolling estimate until the model, which goes on predicting unseen, is no longer worse.

Worse is a gap beyond MARGIN in the mean of \\|ln(predicted / actual)\\| or in the rank correlation
of GPU-time, more than MOST_ERRORS standard errors from 0. These come from a jackknife over blocks
of jobs that ended one after the other, since jobs of one user or array err together. It is no
longer worse when neither gap is beyond half the margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.model.history import PastJob
from gsched.model.job import JobKey
from gsched.model.names import masked
from gsched.predict.attributes import SHORTEST_S, JobAttributes

MODEL, ROLLING, NAIVE = "model", "rolling", "last-two"
CONTENDERS = (MODEL, ROLLING, NAIVE)

WINDOW = 200
"""Latest ended jobs of a kind that are looked at."""
MIN_JOBS = 40
"""Fewer say nothing. So many of the present model's own are looked at without its predecessors'."""
MOST_ALIKE = 20
"""Of one user's jobs of one (masked) name so many at most: an array would fill the window."""
MARGIN = 0.1
"""Natural logarithm (a tenth of the run time), and rank correlation."""
MOST_ERRORS = 5.0
NUM_BLOCKS = 20
MAX_OPEN = 50_000
"""Jobs that have not ended of which predictions are remembered, the latest."""

Values = NDArray[np.float64]


class Ended(NamedTuple):
    """One ended job and what was predicted for it, in seconds, in the order of CONTENDERS."""

    end_time: int
    alike: str
    num_units: int
    actual_s: float
    model_id: str
    predicted_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """How much worse the model is than another contender (negative: better), and its error."""

    value: float
    standard_error: float

    @property
    def is_worse(self) -> bool:
        """Beyond the margin, and not by chance."""
        return self.value > max(MARGIN, MOST_ERRORS * self.standard_error)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of `num_jobs` ended jobs of one kind. `off_by` are medians of the factor between predicted
    and actual run time, `rank_correlations` those of GPU-time (CPU-time of jobs without GPUs), both
    by contender; the gaps are those of the model to the rolling estimate and to the naive mean.
    """

    num_jobs: int
    off_by: Mapping[str, float]
    rank_correlations: Mapping[str, float]
    error_gap: Gap
    rank_gap: Gap
    naive_gap: Gap

    @property
    def is_worse(self) -> bool:
        """Whether the model is worse than the rolling estimate."""
        return self.error_gap.is_worse or self.rank_gap.is_worse

    @property
    def is_no_longer_worse(self) -> bool:
        """What ends a fallback; between the two nothing changes."""
        return max(self.error_gap.value, self.rank_gap.value) <= MARGIN / 2


@dataclass(frozen=True, slots=True)
class Turn:
    """The rolling estimate takes over the jobs of a kind (`falls_back`), or gives them back."""

    kind: str
    falls_back: bool
    judgement: Judgement


class _Open(NamedTuple):
    """What has been predicted for a job that has not ended."""

    kind: str
    alike: str
    num_units: int
    model_id: str
    predicted_s: tuple[float, ...]


@dataclass(slots=True)
class DriftWatch:
    """Ended jobs against their predictions; `fallen` are the kinds that the rolling estimate
    predicts, and since when (epoch), `fallen_models` the models that had become worse.
    `judgements` are the last ones, by kind.
    """

    fallen: dict[str, int] = field(default_factory=dict)
    fallen_models: dict[str, str] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    windows: dict[str, list[Ended]] = field(default_factory=dict)
    _open: dict[JobKey, _Open] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def note(
        self, key: JobKey, job: JobAttributes, model_id: str, predicted_s: Mapping[str, float]
    ) -> None:
        """Remember what was predicted for a job that has not ended: by a model the first time."""
        known = self._open.pop(key, None)
        if known is None or known.model_id != model_id:
            told = tuple(float(predicted_s[name]) for name in CONTENDERS)
            if not all(map(math.isfinite, told)):  # nothing has ended yet that could tell
                return
            known = _Open(job.kind, _alike(job.user, job.name), job.num_units, model_id, told)
        self._open[key] = known
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def ended(self, job: PastJob) -> None:
        """Hold a job that has ended, by itself, against its predictions.

        The tasks of an array that Slurm had not split yet have the predictions of the array.
        """
        key = JobKey(job.cluster, job.job_id, job.array_task, job.het_offset, job.submit_time)
        known = self._open.pop(key, None)
        if known is None and job.array_task is not None:
            known = self._open.get(
                JobKey(job.cluster, job.job_id, None, job.het_offset, job.submit_time)
            )
        if known is None:
            return
        ended = Ended(
            job.end_time,
            known.alike,
            known.num_units,
            max(SHORTEST_S, float(job.duration_s)),
            known.model_id,
            known.predicted_s,
        )
        window = self.windows.setdefault(known.kind, [])
        window.append(ended)
        alike = [i for i, one in enumerate(window) if one.alike == ended.alike]
        if len(alike) > MOST_ALIKE:
            del window[alike[0]]
        del window[:-WINDOW]
        self._changed.add(known.kind)

    def judge(self, model_id: str, now: int) -> list[Turn]:
        """Judge the kinds of which jobs have ended since the last time; what that turns."""
        turns = []
        for kind in sorted(self._changed):
            found = self._judgement(kind, model_id)
            if found is None:
                continue
            self.judgements[kind] = found
            if kind not in self.fallen and found.is_worse:
                self.fallen[kind], self.fallen_models[kind] = now, model_id
                turns.append(Turn(kind, True, found))
            elif kind in self.fallen and found.is_no_longer_worse:
                del self.fallen[kind], self.fallen_models[kind]
                turns.append(Turn(kind, False, found))
        self._changed.clear()
        return turns

    def _judgement(self, kind: str, model_id: str) -> Judgement | None:
        """By the present model's own jobs once they are MIN_JOBS; before, its predecessors' count.

        A refit an hour would have few of its own on a small cluster. What a model has predicted
        that fell says nothing of its successors.
        """
        window = self.windows[kind]
        own = [one for one in window if one.model_id == model_id]
        if len(own) >= MIN_JOBS:
            return judgement(own)
        fell = self.fallen_models.get(kind, model_id)
        return judgement([one for one in window if fell == model_id or one.model_id != fell])

    def to_json(self) -> dict[str, Any]:
        """What a restart has to know: not the open jobs, which are predicted anew."""
        return {
            "fallen": self.fallen,
            "fallen_models": self.fallen_models,
            "windows": self.windows,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], model_id: str) -> DriftWatch:
        """The watch that `to_json` described. Raises KeyError, TypeError or ValueError."""
        windows = {
            str(kind): [_ended(row) for row in rows] for kind, rows in _items(stored["windows"])
        }
        fallen = {str(kind): int(since) for kind, since in _items(stored["fallen"])}
        models = {str(kind): str(name) for kind, name in _items(stored["fallen_models"])}
        if fallen.keys() != models.keys():
            raise ValueError("it is not told which models have become worse")
        watch = cls(fallen, models, windows=windows)
        for kind in windows:
            found = watch._judgement(kind, model_id)
            if found is not None:
                watch.judgements[kind] = found
        return watch


def judgement(jobs: Sequence[Ended]) -> Judgement | None:
    """The judgement on ended jobs, in the order in which they ended; None on too few."""
    if len(jobs) < MIN_JOBS:
        return None
    actual_s = np.array([one.actual_s for one in jobs])
    units = np.array([one.num_units for one in jobs], dtype=np.float64)
    columns = np.array([one.predicted_s for one in jobs]).T
    predicted = dict(zip(CONTENDERS, columns, strict=True))
    errors = {name: _abs_log(seconds, actual_s) for name, seconds in predicted.items()}
    actual_rank = _ranks(actual_s * units)
    ranks = {name: _ranks(seconds * units) for name, seconds in predicted.items()}
    return Judgement(
        num_jobs=len(jobs),
        off_by={name: math.exp(float(np.median(errors[name]))) for name in CONTENDERS},
        rank_correlations={name: _correlation(ranks[name], actual_rank) for name in CONTENDERS},
        error_gap=_gap(np.mean, errors[MODEL] - errors[ROLLING]),
        rank_gap=_gap(_closeness, ranks[ROLLING], ranks[MODEL], actual_rank),
        naive_gap=_gap(np.mean, errors[MODEL] - errors[NAIVE]),
    )


def _gap(statistic: Callable[..., Any], *columns: Values) -> Gap:
    """A statistic of all jobs, and its jackknife error over blocks of them in their order."""
    num_jobs = len(columns[0])
    block = np.arange(num_jobs) * NUM_BLOCKS // num_jobs
    kept = [block != i for i in range(NUM_BLOCKS)]
    without = np.array([statistic(*(column[rows] for column in columns)) for rows in kept])
    spread = float(((without - without.mean()) ** 2).sum())
    error = math.sqrt((NUM_BLOCKS - 1) / NUM_BLOCKS * spread)
    return Gap(float(statistic(*columns)), error)


def _closeness(better: Values, worse: Values, actual: Values) -> float:
    """How much closer the order `better` is to the actual one than `worse` is."""
    return _correlation(better, actual) - _correlation(worse, actual)


def _ranks(values: Values) -> Values:
    """From 0 on; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    ranks: Values = (last - (counts - 1) / 2)[inverse]
    return ranks


def _correlation(one: Values, other: Values) -> float:
    """Of ranks: Spearman's. 0 when all values of either are equal."""
    a, b = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else 0.0


def _abs_log(predicted_s: Values, actual_s: Values) -> Values:
    ratio: Values = np.abs(np.log(np.maximum(predicted_s, SHORTEST_S) / actual_s))
    return ratio


def _alike(user: str, name: str) -> str:
    return f"{user}\n{masked(name)}"


def _items(stored: Any) -> Iterable[tuple[Any, Any]]:
    return dict(stored).items()


def _ended(row: Sequence[Any]) -> Ended:
    end_time, alike, num_units, actual_s, model_id, predicted_s = row
    seconds = tuple(float(value) for value in predicted_s)
    if len(seconds) != len(CONTENDERS) or not all(map(math.isfinite, (actual_s, *seconds))):
        raise ValueError("predictions are incomplete")
    if min(actual_s, num_units) <= 0:
        raise ValueError("an ended job has no size")
    return Ended(int(end_time), str(alike), int(num_units), float(actual_s), str(model_id), seconds)
