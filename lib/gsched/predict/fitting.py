"""From past jobs to the parts of a model: one walk through the history, λ and trees by kind.

The walk looks at each job as it was submitted, at what had ended by then, so that no row that the
regression learns from knows of anything later. In long histories the newest MAX_ROWS jobs of a kind
(with GPUs, without) teach its regression and its λ; the rolling estimate learns from all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsched.model.history import PastJob
from gsched.predict.attributes import KINDS, of_past
from gsched.predict.baselines import Baselines
from gsched.predict.features import FeatureEncoder
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.memory import Look, Memory, walk
from gsched.predict.validation import (
    EVERY_FIFTH,
    FOLDS,
    LAST_FIFTH,
    MIN_JOBS,
    MIN_WINDOW,
    Validation,
    compare,
    hold_out_every_fifth,
    judge,
)

MAX_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class KindInfo:
    """How jobs with GPUs, or those without, are predicted.

    `num_rows` of `num_jobs` taught the regression; `lam` (λ) weighs the rolling estimate.
    `validation` is None when there were too few jobs: then λ is 1.
    """

    num_jobs: int
    num_rows: int
    lam: float
    validation: Validation | None


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gives; `kinds` and `regressions` by ``gpu`` and ``cpu``, where there are such."""

    memory: Memory
    encoder: FeatureEncoder
    kinds: Mapping[str, KindInfo]
    regressions: Mapping[str, GbdtEstimator]


_Ask = tuple[int, int]
"""The epoch time at which a job is looked at, and its index."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The jobs of one kind that teach, and the last of them, which are held out for λ.

    `held_out` is empty in a small history. Who had been submitted before the rest had ended is
    looked at once more, at that moment.
    """

    num_jobs: int
    all: Sequence[_Ask]
    train: Sequence[_Ask]
    held_out: Sequence[_Ask]


def fit(jobs: Sequence[PastJob]) -> Fitted:
    """Learn from `jobs`, at least one, in the order in which they ended."""
    rows = _rows_by_kind(jobs)
    asked = sorted({ask for r in rows.values() for ask in (*r.all, *r.held_out)})
    memory, answers = walk(jobs, asked)
    looks = dict(zip(asked, answers, strict=True))
    naive = _naive(jobs, sorted(ask for r in rows.values() for ask in r.held_out))
    known = {k: [ask for ask in r.all if looks[ask].source] for k, r in rows.items()}
    encoder = FeatureEncoder.fit([looks[ask].job for asks in known.values() for ask in asks])
    kinds, regressions = {}, {}
    for kind, r in rows.items():
        validation = _validate(jobs, r, looks, naive)
        has_regression = len(known[kind]) >= MIN_JOBS
        lam = validation.lam if validation and has_regression else 1.0
        kinds[kind] = KindInfo(r.num_jobs, len(known[kind]), lam, validation)
        if has_regression:
            regressions[kind] = GbdtEstimator.fit(
                encoder.matrix([looks[ask] for ask in known[kind]]), _durations(jobs, known[kind])
            )
    return Fitted(memory, encoder, kinds, regressions)


def _rows_by_kind(jobs: Sequence[PastJob]) -> dict[str, _Rows]:
    indices: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for index, job in enumerate(jobs):
        indices[of_past(job).kind].append(index)
    return {kind: _rows(jobs, found) for kind, found in indices.items() if found}


def _rows(jobs: Sequence[PastJob], indices: Sequence[int]) -> _Rows:
    newest = indices[-MAX_ROWS:]
    rows = [(jobs[i].submit_time, i) for i in newest]
    since = jobs[newest[len(newest) * (FOLDS - 1) // FOLDS]].end_time
    train = [ask for ask in rows if jobs[ask[1]].end_time < since]
    held_out = [(max(ask[0], since), ask[1]) for ask in rows[len(train) :]]
    if not train or len(held_out) < MIN_WINDOW:
        return _Rows(len(indices), rows, rows, ())
    return _Rows(len(indices), rows, train, held_out)


def _validate(
    jobs: Sequence[PastJob],
    rows: _Rows,
    looks: Mapping[_Ask, Look],
    naive: Mapping[_Ask, Mapping[str, float]],
) -> Validation | None:
    if len(rows.all) < MIN_JOBS:
        return None
    if not rows.held_out:
        return judge(hold_out_every_fifth([jobs[i] for _, i in rows.all]), EVERY_FIFTH)
    comparison = compare(
        [looks[ask] for ask in rows.train],
        _durations(jobs, rows.train),
        [looks[ask] for ask in rows.held_out],
        _durations(jobs, rows.held_out),
        [naive[ask] for ask in rows.held_out],
    )
    return judge(comparison, LAST_FIFTH)


def _naive(jobs: Sequence[PastJob], asked: Sequence[_Ask]) -> dict[_Ask, Mapping[str, float]]:
    """What the predictors without a model say, each at its moment; `asked` in order of time."""
    baselines = Baselines()
    told: dict[_Ask, Mapping[str, float]] = {}
    ended = 0
    for ask in asked:
        while ended < len(jobs) and jobs[ended].end_time < ask[0]:
            baselines.observe(jobs[ended])
            ended += 1
        told[ask] = baselines.durations_s(of_past(jobs[ask[1]]))
    return told


def _durations(jobs: Sequence[PastJob], asks: Sequence[_Ask]) -> list[int]:
    return [jobs[index].duration_s for _, index in asks]
