"""The estimator ``table``: durations from a CSV file that the site keeps.

Header ``user,name,duration_s``. A row without a user holds for every user who has no row of that
name.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path

from gsched.errors import ConfigError, DataError
from gsched.model.job import JobView, Prediction, PredictionKind

HEADER = ("user", "name", "duration_s")


class TableEstimator:
    """Predicts what the table says of (user, name), else of (any user, name), else nothing."""

    def __init__(self, durations_s: dict[tuple[str, str], float], model_id: str) -> None:
        self.model_id = model_id
        self._durations_s = durations_s

    @classmethod
    def read(cls, path: Path) -> TableEstimator:
        """Read the file. Raises ConfigError when it cannot be read, DataError naming bad rows."""
        try:
            data = path.read_bytes()
        except OSError as e:
            raise ConfigError(
                f"cannot read predict.table {path}: {e.strerror}",
                f"it has to be a CSV file with the header {','.join(HEADER)}",
            ) from e
        digest = hashlib.sha256(data).hexdigest()
        return cls(_parse(data, path), f"table-{digest[:12]}")

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """What the table says of each job, None where it says nothing."""
        return [self._predict(job, now) for job in jobs]

    def _predict(self, job: JobView, now: int) -> Prediction | None:
        duration_s = self._durations_s.get((job.user, job.name))
        if duration_s is None:
            duration_s = self._durations_s.get(("", job.name))
        if duration_s is None:
            return None
        return Prediction(
            kind=PredictionKind.DURATION,
            mean=duration_s,
            quantiles=(),
            source="table",
            model_id=self.model_id,
            similar_jobs=0,
            as_of=now,
        )


def _parse(data: bytes, path: Path) -> dict[tuple[str, str], float]:
    text = data.decode("utf-8-sig", errors="replace")
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    durations_s: dict[tuple[str, str], float] = {}
    try:
        header = next(rows, [])
        if tuple(cell.strip() for cell in header) != HEADER:
            raise DataError(f"{path} line 1: the header is not {','.join(HEADER)}")
        for row in rows:
            if not row:
                continue
            if len(row) != len(HEADER):
                raise DataError(f"{path} line {rows.line_num}: {len(row)} fields, not 3")
            key = (row[0].strip(), row[1])
            if key in durations_s:
                raise DataError(f"{path} line {rows.line_num}: this user and name came before")
            durations_s[key] = _seconds(row[2], f"{path} line {rows.line_num}")
    except csv.Error as e:
        raise DataError(f"{path} line {rows.line_num}: {e}") from e
    return durations_s


def _seconds(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{where}: duration_s {text[:40]!r} is no number") from None
    if not math.isfinite(value) or value < 0:
        raise DataError(f"{where}: duration_s {text[:40]!r} is no duration in seconds")
    return value
