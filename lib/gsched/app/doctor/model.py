"""The duration model."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.errors import ConfigError, DataError, PermissionDeniedError

_WHAT = "duration model"
OLD_REFITS = 24
"""A model that has missed so many refits is old."""


def check(walk: Walk) -> Iterator[Finding]:
    """Whether it is there, can be read, and is being refitted."""
    settings = walk.settings
    uses_model = settings.predict.estimator == "model"
    if uses_model and not settings.model_file.exists():
        yield Finding(
            "warn",
            "model-missing",
            _WHAT,
            f"none at {settings.model_file}: no job is ranked",
            "run `gsched predict train` once there is a history",
        )
        return
    from gsched.predict.estimators import load_estimator

    try:
        model_id = load_estimator(settings).model_id
    except PermissionDeniedError as error:
        yield Finding("note", "model-unreadable", _WHAT, error.message, "only the daemon reads it")
        return
    except (DataError, ConfigError) as error:
        code = "model-damaged" if uses_model else "estimator"
        yield Finding("fail", code, _WHAT, error.message, error.hint)
        return
    age_s = walk.clock() - settings.model_file.stat().st_mtime if uses_model else 0
    interval_s = settings.predict.retrain_interval_s
    if interval_s and age_s > OLD_REFITS * interval_s:
        yield Finding(
            "warn",
            "model-old",
            _WHAT,
            f"{settings.model_file} is {age_s / 3600:.0f} hours old, though it should be refitted "
            f"every {interval_s} s",
            "`gsched predict train` says why not; a daemon that runs refits by itself",
        )
        return
    yield Finding("ok", "model", _WHAT, f"{settings.predict.estimator} {model_id}")
