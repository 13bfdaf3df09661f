"""The duration model."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.model_facts import KINDS
from gsched.errors import ConfigError, DataError, PermissionDeniedError
from gsched.model.times import DAY_S
from gsched.policy.registry import load_scoped

_WHAT = "duration model"
OLD_REFITS = 24
"""A model that has missed so many refits is old."""


def check(walk: Walk) -> Iterator[Finding]:
    """Whether it is there, can be read, is being refitted, and is as good as it was."""
    settings = walk.settings
    uses_model = settings.predict.estimator == "model"
    if uses_model and not settings.model_file.exists():
        yield _missing(settings)
        return
    from gsched.predict.estimators import load_estimator

    try:
        model_id = load_estimator(settings).model_id
        others = [*_pinned(walk), *_drifted(settings, model_id)] if uses_model else []
    except PermissionDeniedError as error:
        yield Finding("note", "model-unreadable", _WHAT, error.message, "only the daemon reads it")
        return
    except (DataError, ConfigError) as error:
        code = "model-damaged" if uses_model else "estimator"
        yield Finding("fail", code, _WHAT, error.message, error.hint)
        return
    if uses_model:
        others += _old(walk)
    yield from others
    if not any(finding.level == "warn" for finding in others):
        yield Finding("ok", "model", _WHAT, f"{settings.predict.estimator} {model_id}")


def _old(walk: Walk) -> Iterator[Finding]:
    settings = walk.settings
    age_s = walk.clock() - settings.model_file.stat().st_mtime
    interval_s = settings.predict.retrain_interval_s
    if interval_s and age_s > OLD_REFITS * interval_s:
        yield Finding(
            "warn" if _is_needed(settings.daemon) else "note",
            "model-old",
            _WHAT,
            f"{settings.model_file} is {age_s / 3600:.0f} hours old, though it should be refitted "
            f"every {interval_s} s",
            "`gsched predict train` says why not, unless a model is pinned; a daemon that runs "
            "refits by itself",
        )


def _pinned(walk: Walk) -> Iterator[Finding]:
    from gsched.predict.kept import KeptModels

    pin = KeptModels(walk.settings.model_file).pin()
    if pin is not None:
        days = (walk.clock() - pin.since) / DAY_S
        yield Finding(
            "note",
            "model-pinned",
            _WHAT,
            f"{pin.by} has pinned {pin.model_id} {days:.0f} days ago: refits are not put in use",
            "`gsched predict rollback --release` when the reason is gone",
        )


def _drifted(settings: Settings, model_id: str) -> Iterator[Finding]:
    """What the daemon has found when it compared predictions with ended jobs."""
    from gsched.predict.drift import MODEL, NAIVE, ROLLING
    from gsched.predict.kept import KeptModels
    from gsched.predict.watch_file import read_watch

    try:
        watch = read_watch(KeptModels(settings.model_file).watch_file, model_id)
    except DataError as error:
        yield Finding("note", "drift-damaged", _WHAT, error.message, error.hint)
        return
    for kind, name in KINDS.items():
        judged = watch.judgements.get(kind)
        told = ""
        if judged is not None:
            factors = ", ".join(f"{n} ×{judged.off_by[n]:.2f}" for n in (MODEL, ROLLING, NAIVE))
            told = f": for {judged.num_jobs} ended {name}, predictions are off by {factors}"
        if kind in watch.fallen:
            yield Finding(
                "warn",
                "model-fallback",
                _WHAT,
                f"it has become worse for {name}, which the rolling estimate predicts{told}",
                "`gsched predict train` learns what has changed, `gsched predict rollback` puts an "
                "earlier model in use; the daemon goes back by itself when it is no longer worse",
            )
        elif judged is not None and judged.naive_gap.is_worse:
            yield Finding(
                "warn",
                "model-naive",
                _WHAT,
                f"the mean of a user's last two jobs predicts better than it{told}",
                "`gsched predict eval` judges all estimators on the history",
            )


def _missing(settings: Settings) -> Finding:
    mend = "run `gsched predict train` once there is a history"
    if _is_needed(settings.daemon):
        found = f"none at {settings.model_file}: jobs count with their time limits"
        return Finding("warn", "model-missing", _WHAT, found, mend)
    found = (
        f"none at {settings.model_file}: no run time is predicted, which the policy does without"
    )
    return Finding("note", "model-missing", _WHAT, found, mend)


def _is_needed(daemon: DaemonSettings) -> bool:
    """Whether the policy goes by predictions, as those do that promise deadlines by what remains of
    a job; so does one that cannot be loaded, for all that is known.
    """
    try:
        policy = load_scoped(daemon.policy, daemon.policy_scope, daemon.knobs)
    except ConfigError:
        return True
    return policy.needs_prediction or policy.reads_progress
