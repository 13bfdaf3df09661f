"""The duration model."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.config.settings import DaemonSettings, Settings
from gsched.errors import ConfigError, DataError, PermissionDeniedError
from gsched.policy.registry import load_scoped

_WHAT = "duration model"
OLD_REFITS = 24
"""A model that has missed so many refits is old."""


def check(walk: Walk) -> Iterator[Finding]:
    """Whether it is there, can be read, and is being refitted."""
    settings = walk.settings
    uses_model = settings.predict.estimator == "model"
    if uses_model and not settings.model_file.exists():
        yield _missing(settings)
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
            "warn" if _is_needed(settings.daemon) else "note",
            "model-old",
            _WHAT,
            f"{settings.model_file} is {age_s / 3600:.0f} hours old, though it should be refitted "
            f"every {interval_s} s",
            "`gsched predict train` says why not; a daemon that runs refits by itself",
        )
        return
    yield Finding("ok", "model", _WHAT, f"{settings.predict.estimator} {model_id}")


def _missing(settings: Settings) -> Finding:
    mend = "run `gsched predict train` once there is a history"
    if _is_needed(settings.daemon):
        found = f"none at {settings.model_file}: no job is ranked"
        return Finding("warn", "model-missing", _WHAT, found, mend)
    found = (
        f"none at {settings.model_file}: no run time is predicted, which the policy does without"
    )
    return Finding("note", "model-missing", _WHAT, found, mend)


def _is_needed(daemon: DaemonSettings) -> bool:
    """Whether the policy ranks by predictions; so does one that cannot be loaded, for all that is
    known.
    """
    try:
        policy = load_scoped(daemon.policy, daemon.policy_scope, daemon.knobs)
    except ConfigError:
        return True
    return policy.needs_prediction
