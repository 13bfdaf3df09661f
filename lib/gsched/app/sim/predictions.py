"""Run times as they could have been predicted when each job was submitted.

An estimator (``sim_estimates``) learns from each job when it has ended both as recorded (where the
trace tells that) and under FIFO on the simulated cluster, which may be busier than the recorded
one. So predictions are the same whatever policy is simulated, and know nothing that had not
happened there; a policy that holds a job back for longer than FIFO may meet a prediction that has
learnt from it already.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.cluster import Fitted
from gsched.app.sim.estimates import MODEL, Estimates, by_model, by_rolling
from gsched.app.sim.past_jobs import past_jobs
from gsched.app.sim.rows import PastColumns, Real
from gsched.config.settings import PredictSettings
from gsched.errors import DataError, UnavailableError
from gsched.explain.words import count
from gsched.files import read_bounded
from gsched.model.history import PastJob
from gsched.model.progress import Progress
from gsched.policy.fifo import Fifo
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

HEADER = ("job", "predicted_duration_s")

_UNPREDICTED = " and are ordered as if they had the median key of the others"
_MAX_BYTES = 1 << 30


def predicted(
    fitted: Fitted,
    earlier: Iterable[PastJob],
    rules: SimRules,
    predict: PredictSettings,
    estimator: str,
    told: Progress,
) -> tuple[Real, str]:
    """Predicted seconds of each job, NaN while there is nothing to learn from; and how, in words.

    `earlier` jobs, in the order in which they ended, ended before all of them were submitted.
    `estimator` is MODEL or ROLLING.
    """
    past = fitted.chosen.past
    fifo = simulate(fitted.jobs, fitted.cluster, Fifo(), SimRules(placement=rules.placement), told)
    if fifo.interrupted:
        raise KeyboardInterrupt
    under_fifo = np.ceil(fifo.end_s).astype(np.int64) + fitted.jobs.origin
    is_later = past.start_assumed | (under_fifo > past.end_time)
    ends = np.where(is_later, under_fifo, past.end_time)
    teaching, jobs = list(earlier), list(past_jobs(past, ends))
    if estimator == MODEL:
        found = by_model(teaching, jobs, predict, told)
    else:
        found = by_rolling(teaching, jobs, told)
    return found.seconds, _words(past, found, _ended(past, is_later), len(teaching))


def read_predictions(path: Path, fitted: Fitted) -> tuple[Real, str]:
    """Predicted seconds from a CSV file with the columns job and predicted_duration_s.

    Raises DataError naming the line for what is no such file, or where it has none of the jobs,
    UnavailableError where it cannot be read.
    """
    try:
        text = read_bounded(path, _MAX_BYTES).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if missing := set(HEADER) - set(rows.fieldnames or ()):
            raise DataError(f"{path}: no column {', '.join(sorted(missing))}")
        found: dict[str, float] = {}
        for row in rows:
            found[row["job"]] = _seconds(row["predicted_duration_s"], path, rows.line_num)
    except OSError as error:
        raise UnavailableError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}") from error
    ids = fitted.jobs.ids
    values = np.array([found.get(job, math.nan) for job in ids], dtype=np.float64)
    missing_jobs = int(np.isnan(values).sum())
    if missing_jobs == len(values):
        named = f"a job is {next(iter(found))[:60]!r}" if found else "there is no job"
        raise DataError(
            f"{path} predicts none of the {len(values):,} jobs",
            f"in the file {named}, and those simulated are called as {ids[0][:60]!r} is",
        )
    words = f"Predictions: {path}; {missing_jobs:,} of {len(values):,} jobs have none"
    return values, f"{words}{_UNPREDICTED if missing_jobs else ''}."


def _seconds(text: str | None, path: Path, line: int) -> float:
    try:
        seconds = float(text or "")
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise DataError(f"{path}, line {line}: {str(text)[:40]!r} is no number of seconds")
    return seconds


def _ended(past: PastColumns, is_later: NDArray[np.bool_]) -> str:
    """What counts as the end of a job that is learnt from."""
    if past.start_assumed.all():
        return "under FIFO on this cluster"
    return (
        "as recorded and under FIFO on this cluster, the later of both: FIFO's for "
        f"{int(is_later.sum()):,} of {len(past):,} jobs"
    )


def _words(past: PastColumns, found: Estimates, ended: str, num_earlier: int) -> str:
    """How the predictions came about, with the number of jobs by rule."""
    by_rule = ", ".join(f"{rule} {jobs:,}" for rule, jobs in found.sources.most_common())
    words = (
        f"Predictions: {found.how}; of jobs that had ended ({ended}; a policy that holds a job "
        f"back for longer may meet what was learnt from it); by rule: {by_rule}"
    )
    if nothing := found.sources["nothing"]:
        words += f"; {nothing:,} have none{_UNPREDICTED}"
    if num_earlier:
        words += f"; {count(num_earlier, 'job')} that ended before the window taught it"
    if (past.user.codes < 0).all():
        words += "; the trace tells no users: accounts stand for them"
    if (past.name.codes < 0).all():
        words += "; it tells no names: jobs of the same size count as alike"
    return f"{words}."
