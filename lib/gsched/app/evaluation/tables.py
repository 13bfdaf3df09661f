"""An evaluation of run-time predictions as tables and sentences: on a terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gsched.app.evaluation.evaluate import UNITS, Coverage, Evaluation, KindEvaluation, WeekFigures
from gsched.app.evaluation.inputs import LEFT_OUT
from gsched.app.evaluation.statistics import MIN_WEEK, Value
from gsched.app.sim.tables import UNKNOWN, Table
from gsched.explain.words import moment, percent, short_time
from gsched.predict.censoring import SHARE
from gsched.resampling import CONFIDENCE, MIN_DAYS, RESAMPLES

CONTENDER_WORDS = {
    "model": "what gsched predicts: λ · rolling + (1 − λ) · regression, λ chosen at each fit",
    "rolling": "the user's last runs that were like this one, alone",
    "regression": "the boosted trees alone",
    "user-mean": "the mean run time of the user's jobs that had ended",
    "last-two": "the mean of the user's last two to end (Tsafrir, Etsion, Feitelson 2007)",
    "mean": "the mean run time of all jobs that had ended",
    "time-limit": "the time limit, as Slurm's backfill has it",
}
_LEFT_OUT = {
    **LEFT_OUT,
    "incomplete-record": "jobs of which the history lacks the user, the GPUs or the end",
    "ended-by-cluster": "jobs that the cluster ended (node failure, preemption, requeue)",
    "ended-later": "jobs that ended after the end of the log",
}
_INTERVAL = f"{percent(CONFIDENCE)} INTERVAL"


def tables(evaluation: Evaluation) -> Iterator[Table]:
    """All tables, by kind of job."""
    for kind in evaluation.kinds:
        yield order_table(kind)
        yield error_table(kind)
        if kind.coverage:
            yield coverage_table(kind)
        yield rule_table(kind)


def order_table(kind: KindEvaluation) -> Table:
    """How near each contender's order of the jobs is to the true one; the model first."""
    unit = UNITS[kind.kind]
    return Table(
        f"{kind.jobs:,} jobs {'with' if kind.kind == 'gpu' else 'without'} GPUs: their order by "
        f"{unit}-time",
        ("CONTENDER", "RANK-CORR", _INTERVAL, "MODEL'S GAIN", _INTERVAL, "OF RUN TIMES"),
        [
            (
                figures.name,
                f"{figures.rank_correlation.value:.3f}",
                _interval(figures.rank_correlation),
                *_gain(figures.model_gain),
                f"{figures.rank_correlation_duration.value:.3f}",
            )
            for figures in kind.contenders
        ],
    )


def _gain(gain: Value | None) -> tuple[str, str]:
    if gain is None:
        return UNKNOWN, UNKNOWN
    return f"{gain.value:+.3f}", _interval(gain, "+.3f")


def error_table(kind: KindEvaluation) -> Table:
    """How far each contender's run times are from the true ones."""
    headings = ("WITHIN ×2", "ACCURACY", "MEDIAN ERROR", "MEAN ERROR", "TOO SHORT")
    return Table(
        "Their run times",
        ("CONTENDER", "OFF-BY", _INTERVAL, *headings),
        [
            (
                figures.name,
                f"×{figures.off_by:.2f}",
                _factors(figures.log_error),
                percent(figures.within_factor_2),
                f"{figures.accuracy:.2f}",
                short_time(figures.median_abs_error_s),
                short_time(figures.mean_abs_error_s),
                percent(figures.short_share),
            )
            for figures in kind.contenders
        ],
    )


def coverage_table(kind: KindEvaluation) -> Table:
    """A row an interval: how many jobs shall, and do, end within it."""
    return Table(
        "Intervals of the model",
        ("NOMINAL", "JOBS", "COVERED", _INTERVAL, "WORST WEEK", "ITS JOBS", "COVERED"),
        [_coverage_row(coverage) for coverage in kind.coverage],
    )


def _coverage_row(coverage: Coverage) -> tuple[str, ...]:
    low, high = coverage.covered.low, coverage.covered.high
    begin, jobs, covered = coverage.worst_week or (None, 0, 0.0)
    return (
        percent(coverage.nominal),
        f"{coverage.jobs:,}",
        _tenths(coverage.covered.value),
        UNKNOWN if low is None or high is None else f"{_tenths(low)} to {_tenths(high)}",
        *((UNKNOWN,) * 3 if begin is None else (_day(begin), f"{jobs:,}", _tenths(covered))),
    )


def rule_table(kind: KindEvaluation) -> Table:
    """A row a rule of the rolling estimate: where names or users are not known, it falls back."""
    return Table(
        "By the rule behind the rolling estimate",
        ("RULE", "JOBS", "SHARE", "RANK-CORR", "OFF-BY", "ROLLING ALONE", "80 % COVERED"),
        [
            (
                rule.rule,
                f"{rule.jobs:,}",
                _tenths(rule.jobs / kind.jobs),
                f"{rule.rank_correlation:.3f}",
                f"×{math.exp(rule.log_error):.2f}",
                f"×{math.exp(rule.rolling_log_error):.2f}",
                UNKNOWN if rule.covered is None else _tenths(rule.covered),
            )
            for rule in kind.rules
        ],
    )


def week_table(kind: KindEvaluation) -> Table:
    """A row a week since the first submission."""
    return Table(
        "By week",
        ("FROM", "JOBS", "RANK-CORR", "ROLLING ALONE", "OFF-BY", "80 % COVERED"),
        [(_day(week.begin), f"{week.jobs:,}", *_week_figures(week)) for week in kind.weeks],
    )


def _week_figures(week: WeekFigures) -> tuple[str, ...]:
    return (
        f"{week.rank_correlation:.3f}",
        f"{week.rolling_rank_correlation:.3f}",
        f"×{math.exp(week.log_error):.2f}",
        UNKNOWN if week.covered is None else _tenths(week.covered),
    )


def lines(evaluation: Evaluation) -> Iterator[str]:
    """What the figures are of, and what they mean, a sentence or two a line."""
    yield from _inputs(evaluation)
    yield from _log_lacks(evaluation)
    yield from _span(evaluation)
    for kind in evaluation.kinds:
        yield from _of_kind(kind)
    yield (
        "An interval covers a job that ended within it. Slurm ends a job some seconds after its "
        "time limit, which no interval exceeds: such a job counts as ended at the limit."
    )
    yield (
        "RANK-CORR is Spearman's rank correlation of predicted with true GPU-time (CPU-time of "
        "jobs without GPUs), by which a queue is ordered; OF RUN TIMES that of run times alone. "
        "MODEL'S GAIN is the model's less this one's. OFF-BY: half of the predictions are off by "
        "no more than this factor. ACCURACY is the mean of the smaller over the larger of both "
        "times. TOO SHORT are jobs that ran longer than was predicted."
    )
    for name in (figures.name for figures in evaluation.kinds[0].contenders):
        yield f"{name}: {CONTENDER_WORDS[name]}."
    yield (
        "No contender knows more of a job than its submission told, and of others more than those "
        "that had ended before; none predicts more than the time limit. user-mean takes the time "
        "limit for a user without an ended job, last-two for one with fewer than two; without a "
        "limit it is the mean of all."
    )


def _inputs(evaluation: Evaluation) -> Iterator[str]:
    judged = sum(kind.jobs for kind in evaluation.kinds)
    told = f"{judged:,} jobs of {evaluation.source}, submitted from "
    told += f"{_day(evaluation.since)} to {_day(evaluation.until)}"
    if evaluation.not_judged:
        told += f"; {evaluation.not_judged:,} earlier ones were learnt from and are not judged"
    yield f"{told}."
    if evaluation.left_out:
        counted = (f"{n:,} {_LEFT_OUT[reason]}" for reason, n in evaluation.left_out.items())
        yield f"Left out: {'; '.join(counted)}."
    days = evaluation.options.refit_s / 86_400
    told = f"The model was fitted {len(evaluation.fits)} times on the way: at first when "
    told += f"{evaluation.options.min_jobs} jobs had ended, then after {days:g} days or when twice "
    yield f"{told}as many had ended; the rolling estimate learnt from each job as it ended."
    for kind, unit in UNITS.items():
        shares = [fit.lam[kind] for fit in evaluation.fits if kind in fit.lam]
        if shares:
            told = ", ".join(f"{share:.1f}" for share in shares)
            yield f"λ of {unit} jobs, fit by fit: {told} (1: the rolling estimate alone)."


def _log_lacks(evaluation: Evaluation) -> Iterator[str]:
    """What the log does not tell, and so what is judged instead."""
    if not evaluation.waits_known:
        yield "The log does not tell when jobs began to wait: start is taken to be submission."
    if not evaluation.told["users"]:
        yield "The log tells no users: accounts (virtual clusters) stand for them."
    if not evaluation.told["names"]:
        yield (
            "The log tells no job names: what is judged is the fallback without names (rules "
            "user-gpus, user, gpus)."
        )
    limits = evaluation.told["limits"]
    if not limits:
        yield "The log tells no time limits: that contender is absent."
    elif limits < 1:
        yield f"{percent(limits)} of the jobs have a time limit; the mean of all stands for others."


def _span(evaluation: Evaluation) -> Iterator[str]:
    """A job that still runs teaches nothing yet."""
    span = evaluation.span
    if span.long_limit_s is None:
        return
    told = f"The log lasts {short_time(span.length_s)} from its first submission to its last end; "
    yield f"{told}{percent(SHARE)} of its time limits are {short_time(span.long_limit_s)} or less."
    if evaluation.early_jobs:
        judged = sum(kind.jobs for kind in evaluation.kinds)
        yield (
            f"{evaluation.early_jobs:,} of the {judged:,} jobs were submitted before the log had "
            "lasted as long: what ran for long had not ended by then, so that intervals are too "
            "narrow until the history outlasts the limits."
        )


def _of_kind(kind: KindEvaluation) -> Iterator[str]:
    what = f"{UNITS[kind.kind]} jobs"
    blocks = f"{kind.blocks.count} {kind.blocks.unit}s"
    if kind.blocks.count < MIN_DAYS:
        yield f"{what}: no intervals, for {blocks} are fewer than {MIN_DAYS}."
    else:
        yield (
            f"{what}: intervals are by {RESAMPLES:,} resamples of {blocks}, with all the jobs "
            "submitted in each, the same for all contenders."
        )
    worst = kind.worst_week
    if worst is not None:
        counted = sum(week.jobs >= MIN_WEEK for week in kind.weeks)
        yield (
            f"{what}: the worst of {counted} weeks with {MIN_WEEK} jobs or more was that from "
            f"{_day(worst.begin)}: rank correlation {worst.rank_correlation:.3f} on "
            f"{worst.jobs:,} jobs (rolling alone {worst.rolling_rank_correlation:.3f})."
        )
    if kind.caution_jobs:
        yield (
            f"{what}: {kind.caution_jobs:,} had a caution above 1, by which they are ordered as "
            "longer than predicted; the figures are without it. With it, as queues are ordered, "
            f"the model's rank correlation is {kind.cautious_rank_correlation:.3f}."
        )


def _interval(value: Value, form: str = ".3f") -> str:
    if value.low is None or value.high is None:
        return UNKNOWN
    return f"{value.low:{form}} to {value.high:{form}}"


def _factors(log_error: Value) -> str:
    if log_error.low is None or log_error.high is None:
        return UNKNOWN
    return f"×{math.exp(log_error.low):.2f} to ×{math.exp(log_error.high):.2f}"


def _tenths(share: float) -> str:
    return f"{100 * share:.1f} %"


def _day(epoch: int) -> str:
    return moment(epoch)[:10]
