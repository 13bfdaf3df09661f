"""`gsched predict eval`: the duration model and its rivals on a log, walking forward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.app.evaluation.inputs import PastFromFiles, read_past_jobs
from gsched.app.evaluation.statistics import (
    MIN_WEEK,
    Blocking,
    ContenderFigures,
    Value,
    contender_figures,
    share_with_interval,
    sources_of,
    weekly,
)
from gsched.app.trace_formats import TraceOptions
from gsched.app.wiring import open_history, slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.model.history import PastJob
from gsched.model.progress import Progress
from gsched.model.times import DAY_S
from gsched.predict.attributes import of_past
from gsched.predict.censoring import HistorySpan, span_of
from gsched.predict.rolling import QUANTILES
from gsched.predict.validation import Seconds, log_error, rank_correlation
from gsched.predict.walk import CONTENDERS, Fit, Walk, WalkOptions, walk

INTERVALS = ((0.1, 0.9), (0.02, 0.98), (0.25, 0.75))
"""Probabilities of the quantiles between which a job is said to end; the first is what is shown."""

UNITS = {"gpu": "GPU", "cpu": "CPU"}


@dataclass(frozen=True, slots=True)
class EvaluationOrder:
    """What to walk through: files of a format, or, without files, the history of `cluster`.

    Jobs submitted before `since` (epoch) are learnt from, and not judged.
    """

    files: Sequence[str]
    format: TraceOptions | None
    cluster: str | None
    since: int | None
    refit_s: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of `jobs` ended within the interval that was told to hold `nominal` of them.

    Slurm ends a job some seconds after its limit: such a job counts as ended at the limit.
    `worst_week` (begin, jobs, share) is that of the least share among weeks of MIN_WEEK jobs.
    """

    nominal: float
    jobs: int
    covered: Value
    worst_week: tuple[int, int, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        worst = self.worst_week
        return {
            "nominal": self.nominal,
            "jobs": self.jobs,
            "covered": self.covered.document(),
            "worst_week": worst and dict(zip(("begin", "jobs", "covered"), worst, strict=True)),
        }


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """The jobs whose rolling estimate came about by one rule; `covered` of the 80 % interval."""

    rule: str
    jobs: int
    rank_correlation: float
    log_error: float
    rolling_log_error: float
    covered: float | None


@dataclass(frozen=True, slots=True)
class WeekFigures:
    """One week since the first submission; of the model, and beside it of the rolling estimate."""

    begin: int
    jobs: int
    rank_correlation: float
    rolling_rank_correlation: float
    log_error: float
    covered: float | None


@dataclass(frozen=True, slots=True)
class KindEvaluation:
    """The jobs with GPUs, or those without: they queue apart, and have models of their own.

    `calibration` are (probability of a quantile, share of jobs that ended by it). `caution_jobs`
    had a caution above 1; with it, as queues are ordered, the model's rank correlation is
    `cautious_rank_correlation`.
    """

    kind: str
    jobs: int
    blocks: Blocking
    contenders: Sequence[ContenderFigures]
    coverage: Sequence[Coverage]
    calibration: Sequence[tuple[float, float]]
    rules: Sequence[RuleFigures]
    weeks: Sequence[WeekFigures]
    caution_jobs: int
    cautious_rank_correlation: float

    @property
    def worst_week(self) -> WeekFigures | None:
        """The week of the least rank correlation among those of MIN_WEEK jobs."""
        weeks = [week for week in self.weeks if week.jobs >= MIN_WEEK]
        return min(weeks, key=lambda week: week.rank_correlation, default=None)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        worst = self.worst_week
        return {
            "kind": self.kind,
            "jobs": self.jobs,
            "interval_unit": self.blocks.unit,
            "interval_blocks": self.blocks.count,
            "contenders": [_contender_document(figures) for figures in self.contenders],
            "coverage": [coverage.document() for coverage in self.coverage],
            "calibration": [list(pair) for pair in self.calibration],
            "rules": [asdict(rule) for rule in self.rules],
            "weeks": [asdict(week) for week in self.weeks],
            "worst_week": worst and asdict(worst),
            "caution_jobs": self.caution_jobs,
            "cautious_rank_correlation": self.cautious_rank_correlation,
        }


def _contender_document(figures: ContenderFigures) -> dict[str, Any]:
    return {
        name: value.document() if isinstance(value, Value) else value
        for name in ContenderFigures.__slots__
        for value in (getattr(figures, name),)
    }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The whole of it. `told` are the shares of the judged jobs with a user, a name, a limit.

    `span` is that of the whole log; `early_jobs` of the judged ones were submitted before the log
    had lasted as long as its long time limits.
    """

    source: str
    waits_known: bool
    options: WalkOptions
    since: int
    until: int
    left_out: Mapping[str, int]
    not_judged: int
    fits: Sequence[Fit]
    told: Mapping[str, float]
    span: HistorySpan
    early_jobs: int
    kinds: Sequence[KindEvaluation]

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds, shares parts of 1."""
        return {
            "source": self.source,
            "since": self.since,
            "until": self.until,
            "left_out": dict(self.left_out),
            "not_judged": self.not_judged,
            "waits_known": self.waits_known,
            "told": dict(self.told),
            "history_s": self.span.length_s,
            "long_limit_s": self.span.long_limit_s,
            "early_jobs": self.early_jobs,
            "refit_s": self.options.refit_s,
            "fits": [
                {"as_of": fit.as_of, "num_jobs": fit.num_jobs, "lambda": dict(fit.lam)}
                for fit in self.fits
            ],
            "kinds": [kind.document() for kind in self.kinds],
        }


def evaluate(order: EvaluationOrder, settings: Settings, told: Progress, now: int) -> Evaluation:
    """Read what `order` names and walk through it.

    Raises UsageError where files and format do not fit together, DataError where there is no job.
    """
    if bool(order.files) != (order.format is not None):
        raise UsageError(
            "files need --format, and --format needs files",
            "without both, the history database is walked through",
        )
    if order.format is not None:
        past = read_past_jobs(order.files, order.format, told)
        source = f"{order.format.format}: {', '.join(order.files)}"
    else:
        past, source = _of_history(settings, order.cluster, now)
    options = WalkOptions(
        refit_s=order.refit_s,
        history_s=settings.predict.history_days * DAY_S,
        min_jobs=settings.predict.min_jobs,
        default_duration_s=settings.predict.default_duration_s,
    )
    return judge(past, source, options, order.since, told)


def _of_history(settings: Settings, cluster: str | None, now: int) -> tuple[PastFromFiles, str]:
    name = cluster or slurm_client(settings).config().cluster
    with open_history(settings) as history:
        found = history.past_jobs(name, 0, now + 1)
    past = PastFromFiles(list(found.jobs))
    if found.left_out:
        past.left_out["incomplete-record"] = found.left_out
    if not past.jobs:
        raise DataError(
            f"the history has no finished job of cluster {name}",
            "bring it up to date with `gsched db ingest`, or name files and their --format",
        )
    return past, f"history database, cluster {name}"


def judge(
    past: PastFromFiles,
    source: str,
    options: WalkOptions,
    since: int | None = None,
    told: Progress = lambda *_: None,
) -> Evaluation:
    """Walk through past jobs and judge the predictions of those submitted from `since` on."""
    walked = walk(past.jobs, options, told)
    submit = np.array([job.submit_time for job in walked.jobs], dtype=np.int64)
    judged = np.flatnonzero(submit >= (since or 0))
    if not len(judged):
        raise DataError(f"{source}: no job to be judged", "choose an earlier --since")
    jobs = [walked.jobs[row] for row in judged.tolist()]
    kinds = np.array([of_past(job).kind for job in walked.jobs])
    told("judging, jobs", len(jobs))
    span = span_of(walked.jobs)
    return Evaluation(
        source=source,
        waits_known=past.waits_known,
        options=options,
        since=int(submit[judged].min()),
        until=int(submit[judged].max()),
        left_out=dict(sorted((past.left_out + walked.left_out).items())),
        not_judged=len(submit) - len(judged),
        fits=walked.fits,
        told=_told(jobs),
        span=span,
        early_jobs=sum(job.submit_time < span.begin + (span.long_limit_s or 0) for job in jobs),
        kinds=[
            kind_figures(kind, walked, judged[kinds[judged] == kind])
            for kind in UNITS
            if (kinds[judged] == kind).any()
        ],
    )


def _told(jobs: Sequence[PastJob]) -> dict[str, float]:
    """Where users and accounts are the same everywhere, accounts stand for users."""
    has_users = any(job.user != job.tenant for job in jobs)
    return {
        "users": sum(bool(job.user) for job in jobs) / len(jobs) if has_users else 0.0,
        "names": sum(bool(job.name) for job in jobs) / len(jobs),
        "limits": sum(of_past(job).time_limit_s is not None for job in jobs) / len(jobs),
    }


def kind_figures(kind: str, walked: Walk, rows: NDArray[np.int64]) -> KindEvaluation:
    """The figures of those jobs of a walk that `rows` name, all of one kind."""
    jobs = [of_past(walked.jobs[row]) for row in rows.tolist()]
    submit = np.array([job.submit_time for job in jobs], dtype=np.int64)
    units = np.array([job.num_units for job in jobs], dtype=np.float64)
    actual_s = walked.actual_s[rows]
    has_limits = any(job.time_limit_s is not None for job in jobs)
    names = [name for name in CONTENDERS if name != "time-limit" or has_limits]
    predicted_s = {name: walked.predicted_s[name][rows] for name in names}
    blocks = Blocking.of(submit)
    ended_s = np.minimum(actual_s, [job.within_limit(math.inf) for job in jobs])
    seen = _Seen(submit, units, actual_s, ended_s, predicted_s, walked.quantiles_s[rows])
    by_rule = sources_of([walked.sources[row] for row in rows.tolist()])
    return KindEvaluation(
        kind=kind,
        jobs=len(rows),
        blocks=blocks,
        contenders=contender_figures(predicted_s, actual_s, units, blocks),
        coverage=seen.coverages(),
        calibration=seen.calibration(),
        rules=[seen.rule(name, members) for name, members in by_rule.items()],
        weeks=[seen.week(begin, members) for begin, members in weekly(submit, int(submit.min()))],
        caution_jobs=int(np.count_nonzero(walked.mean_s[rows] > 1.0001 * predicted_s["model"])),
        cautious_rank_correlation=rank_correlation(walked.mean_s[rows] * units, actual_s * units),
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The jobs of one kind by column, ready to be looked at in parts.

    `ended_s` is how long they ran up to their time limit, which no quantile exceeds.
    """

    submit: NDArray[np.int64]
    units: Seconds
    actual_s: Seconds
    ended_s: Seconds
    predicted_s: Mapping[str, Seconds]
    quantiles_s: Seconds

    def _rank(self, name: str, rows: NDArray[np.int64]) -> float:
        units = self.units[rows]
        predicted = self.predicted_s[name][rows]
        return rank_correlation(predicted * units, self.actual_s[rows] * units)

    def _log_error(self, name: str, rows: NDArray[np.int64]) -> float:
        return log_error(self.predicted_s[name][rows], self.actual_s[rows])

    def _told(self) -> NDArray[np.bool_]:
        """Jobs of which quantiles were told: all of them, or none."""
        told: NDArray[np.bool_] = ~np.isnan(self.quantiles_s[:, 0])
        return told

    def _hits(self, low: float, high: float) -> NDArray[np.bool_]:
        begin, end = (self.quantiles_s[:, QUANTILES.index(p)] for p in (low, high))
        return np.logical_and(begin <= self.ended_s, self.ended_s <= end)

    def _covered(self, rows: NDArray[np.int64]) -> float | None:
        """The share within the interval that people are shown, of those that have one."""
        told = rows[self._told()[rows]]
        return float(self._hits(*INTERVALS[0])[told].mean()) if len(told) else None

    def coverages(self) -> list[Coverage]:
        told = np.flatnonzero(self._told())
        return [self._coverage(low, high, told) for low, high in INTERVALS if len(told)]

    def _coverage(self, low: float, high: float, told: NDArray[np.int64]) -> Coverage:
        hits, submit = self._hits(low, high)[told], self.submit[told]
        weeks = [
            (begin, len(rows), float(hits[rows].mean()))
            for begin, rows in weekly(submit, int(self.submit.min()))
            if len(rows) >= MIN_WEEK
        ]
        return Coverage(
            nominal=round(high - low, 4),
            jobs=len(told),
            covered=share_with_interval(hits, Blocking.of(submit)),
            worst_week=min(weeks, key=lambda week: week[2], default=None),
        )

    def calibration(self) -> list[tuple[float, float]]:
        told = self._told()
        if not told.any():
            return []
        ended = self.ended_s[told, None] <= self.quantiles_s[told]
        return list(zip(QUANTILES, ended.mean(axis=0).tolist(), strict=True))

    def rule(self, name: str, rows: NDArray[np.int64]) -> RuleFigures:
        return RuleFigures(
            rule=name,
            jobs=len(rows),
            rank_correlation=self._rank("model", rows),
            log_error=self._log_error("model", rows),
            rolling_log_error=self._log_error("rolling", rows),
            covered=self._covered(rows),
        )

    def week(self, begin: int, rows: NDArray[np.int64]) -> WeekFigures:
        return WeekFigures(
            begin=begin,
            jobs=len(rows),
            rank_correlation=self._rank("model", rows),
            rolling_rank_correlation=self._rank("rolling", rows),
            log_error=self._log_error("model", rows),
            covered=self._covered(rows),
        )
