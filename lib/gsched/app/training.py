"""Train the duration model on the history."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.app.model_lifecycle import FitRun, adopt, kinds_document, left_out
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError
from gsched.explain.words import moment
from gsched.model.fit import Fit, FitOutcome
from gsched.model.times import DAY_S

if TYPE_CHECKING:
    from gsched.predict.censoring import HistorySpan
    from gsched.predict.model import ModelInfo
    from gsched_sql import History


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A model that has just been fitted, how that was done, and what became of it.

    `path` is the file of the model in use, which is this one unless `fit` says otherwise. `span`
    is that of the jobs that it learnt from.
    """

    path: Path
    info: ModelInfo
    run: FitRun
    fit: Fit
    span: HistorySpan

    @property
    def is_in_use(self) -> bool:
        """Whether the daemon predicts by this model now."""
        return self.fit.outcome is FitOutcome.ADOPTED

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, ``log_error`` a natural logarithm."""
        info = asdict(self.info)
        return {
            "file": str(self.path),
            "cluster": self.run.cluster,
            **info,
            "left_out": left_out(self.info, self.run),
            "kinds": kinds_document(self.info),
            "history_s": self.span.length_s,
            "long_limit_s": self.span.long_limit_s,
            "took_s": self.run.took_s,
            "in_use": self.is_in_use,
            "why": self.fit.why,
        }


def train(
    settings: Settings, history: History, until: int | None = None, *, by_timer: bool = False
) -> TrainingResult:
    """Fit a model on this cluster's jobs that ended before `until` and put it in use.

    None = all that have ended by now. `by_timer`: a pinned model stays in use. Raises DataError
    when the jobs are fewer than predict.min_jobs; what was in use stays then, as it does whenever
    writing fails.
    """
    from gsched.predict.attributes import select_jobs
    from gsched.predict.censoring import span_of
    from gsched.predict.model import DurationModel

    began = time.monotonic()
    cluster = slurm_client(settings).config().cluster
    trained_at = now()
    as_of = trained_at + 1 if until is None else until
    days = settings.predict.history_days
    past = history.past_jobs(cluster, as_of - days * DAY_S, as_of)
    usable = select_jobs(past.jobs, as_of)[0]
    if len(usable) < settings.predict.min_jobs:
        when = f"last {days} days" if until is None else f"{days} days before {moment(until)}"
        raise DataError(
            f"{len(usable)} finished jobs of cluster {cluster} in the {when} are too few "
            f"to learn from (predict.min_jobs is {settings.predict.min_jobs})",
            "bring the history up to date with `gsched db ingest`, or wait for more jobs to end"
            if until is None
            else "name another time for --until; predict.history_days is how far back it looks",
        )
    model = DurationModel.fit(past.jobs, as_of, trained_at, settings.predict.default_duration_s)
    run = FitRun(cluster, round(time.monotonic() - began, 3), by_timer, past.left_out)
    fit = adopt(settings, history, model, run)
    return TrainingResult(settings.model_file, model.info, run, fit, span_of(usable))
