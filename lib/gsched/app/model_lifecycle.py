"""Which run-time model is in use: a new one put in use, an older one put back, one pinned.

The order of the steps is such that a kill between any two leaves whole models, a record of every
fit, and nothing that the next fit does not mend (``MODEL_POINTS`` of ``gsched.engine.faults``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gsched.app.daemon_parts import fault_hook
from gsched.app.user_names import user_name
from gsched.app.wiring import now, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.locks import StateDir
from gsched.engine.faults import FaultPoint
from gsched.errors import UsageError
from gsched.model.fit import Fit, FitOutcome
from gsched.predict.kept import KeptModel, KeptModels, Pin

if TYPE_CHECKING:
    from gsched.predict.model import DurationModel, ModelInfo
    from gsched_sql import History


@dataclass(frozen=True, slots=True)
class FitRun:
    """How a model was fitted beside what the model itself tells.

    `took_s` seconds; `by_timer`: a pinned model stays in use. `unknown_jobs` finished jobs in the
    history lack what the model has to know of a job.
    """

    cluster: str
    took_s: float
    by_timer: bool
    unknown_jobs: int


def adopt(settings: Settings, history: History, model: DurationModel, run: FitRun) -> Fit:
    """Keep `model`, record its fit, and put it in use unless another one is pinned.

    Another fit of the model that was recorded last is no news: it is not recorded, unless something
    else has become of it.
    Raises TryAgainError when somebody else changes the model for long, and what files and database
    raise: then what was in use stays.
    """
    kept, fits, fault = KeptModels(settings.model_file), history.fits(run.cluster), fault_hook()
    with StateDir(settings.state_dir).changing_model():
        in_use = kept.in_use_info()
        in_use_id = in_use.model_id if in_use else ""
        fits.settle_interrupted(in_use_id)
        last = {(fit.model_id, fit.outcome) for fit in fits.newest(1)}
        kept.keep_in_use()
        kept.keep(model)
        fault(FaultPoint.MODEL_KEPT)
        pin = kept.pin() if run.by_timer else None
        if pin is not None:
            why = f"{pin.by} has pinned {pin.model_id}"
            fit = _fit(model.info, run, FitOutcome.PINNED, why)
            if (fit.model_id, fit.outcome) not in last:
                fits.record(fit)
        else:
            fit = _fit(model.info, run, FitOutcome.ADOPTED, "")
            is_news = fit.model_id != in_use_id or (fit.model_id, fit.outcome) not in last
            row = fits.record(replace(fit, outcome=FitOutcome.ADOPTING)) if is_news else None
            fault(FaultPoint.MODEL_RECORDED)
            kept.release()  # before: a pin on another model than the one in use would be a lie
            kept.put_in_use(model.info.model_id)
            fault(FaultPoint.MODEL_IN_USE)
            if row is not None:
                fits.settle(row, fit.outcome, fit.why)
        kept.prune(settings.predict.keep_models)
    return fit


def _fit(info: ModelInfo, run: FitRun, outcome: FitOutcome, why: str) -> Fit:
    return Fit(
        cluster=run.cluster,
        model_id=info.model_id,
        fitted_at=info.trained_at,
        took_s=run.took_s,
        started_by="timer" if run.by_timer else "command",
        as_of=info.as_of,
        data_from=info.data_from,
        data_until=info.data_until,
        num_jobs=info.num_jobs,
        features=info.features,
        details={
            "kinds": kinds_document(info),
            "left_out": left_out(info, run),
            "versions": dict(info.versions),
            "default_duration_s": info.default_duration_s,
        },
        outcome=outcome,
        why=why,
    )


def left_out(info: ModelInfo, run: FitRun) -> dict[str, Any]:
    """How many finished jobs were not learnt from, by the reason."""
    return {**info.left_out, "incomplete-record": run.unknown_jobs}


def kinds_document(info: ModelInfo) -> dict[str, Any]:
    """What the fit says of jobs with GPUs and of those without, as JSON."""
    found = {}
    for kind, told in info.kinds.items():
        document = asdict(told)
        document["lambda"] = document.pop("lam")
        if document["validation"] is not None:
            del document["validation"]["lam"]
        found[kind] = document
    return found


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The model that is in use now, and the one that was before (None: none that could be read)."""

    model_id: str
    before: str | None
    pin: Pin

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds."""
        return {"model_id": self.model_id, "before": self.before, "pinned": asdict(self.pin)}


def rollback(settings: Settings, model_id: str | None) -> RollbackResult:
    """Put a kept model in use and pin it; None = the last one fitted before the one in use.

    Raises UsageError when there is no such model, DataError or ConfigError when it cannot be used.
    """
    kept = KeptModels(settings.model_file)
    with StateDir(settings.state_dir).changing_model():
        before = kept.in_use_info()
        kept.keep_in_use()
        chosen = model_id or _earlier(kept, before)
        kept.put_in_use(chosen)
        fault_hook()(FaultPoint.MODEL_IN_USE)  # not pinned yet: the next fit replaces it
        pin = Pin(chosen, now(), user_name(os.geteuid()))
        kept.set_pin(pin)
    return RollbackResult(chosen, before.model_id if before else None, pin)


def _earlier(kept: KeptModels, in_use: ModelInfo | None) -> str:
    candidates = kept.models()
    for candidate in candidates:
        if candidate.info is None:
            continue
        if in_use is None or candidate.info.trained_at < in_use.trained_at:
            return candidate.model_id
    if in_use is None:
        what = "every model that is kept is damaged" if candidates else "there is no model"
        raise UsageError(what, "fit one: `gsched predict train`")
    raise UsageError(
        "no model is kept that was fitted before the one in use",
        "`gsched predict rollback --list` shows which are kept",
    )


def release(settings: Settings) -> bool:
    """Let fits by timer replace the model in use again; False when none was pinned."""
    with StateDir(settings.state_dir).changing_model():
        return KeptModels(settings.model_file).release()


@dataclass(frozen=True, slots=True)
class KeptList:
    """The kept models, and which of them is in use and which pinned ('' = none).

    `problem` is why the file of the model in use cannot be used; `in_use` is '' then.
    """

    models: tuple[KeptModel, ...]
    in_use: str
    problem: str
    pin: Pin | None

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds."""
        return {
            "in_use": self.in_use or None,
            "problem": self.problem or None,
            "pinned": asdict(self.pin) if self.pin else None,
            "kept": [_kept_document(one) for one in self.models],
        }


def _kept_document(kept: KeptModel) -> Mapping[str, Any]:
    info = kept.info
    return {
        "model_id": kept.model_id,
        "fitted_at": info.trained_at if info else None,
        "data_from": info.data_from if info else None,
        "data_until": info.data_until if info else None,
        "num_jobs": info.num_jobs if info else None,
        "size_bytes": kept.size_bytes,
        "problem": kept.problem,
    }


def kept_list(settings: Settings) -> KeptList:
    """What `rollback` can choose from."""
    kept = KeptModels(settings.model_file)
    info, problem = kept.look_in_use()
    return KeptList(tuple(kept.models()), info.model_id if info else "", problem, kept.pin())


def fits_document(settings: Settings, limit: int) -> dict[str, Any]:
    """The newest fits of this cluster's model, as JSON; times epoch seconds."""
    cluster = slurm_client(settings).config().cluster
    with open_history(settings) as history:
        fits = history.fits(cluster).newest(limit)
    documents = []
    for fit in fits:
        document = {**asdict(fit), "outcome": fit.outcome.value}
        del document["cluster"]
        documents.append(document)
    return {"cluster": cluster, "fits": documents}


def score_rows(kinds: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row an estimator out of `kinds_document`: kind, name, rank correlation, factor."""
    return [
        (kind, name, f"{score['rank_correlation']:.2f}", f"×{math.exp(score['log_error']):.2f}")
        for kind, told in kinds.items()
        for name, score in (told["validation"] or {}).get("scores", {}).items()
    ]


def rank_correlations(details: Mapping[str, Any]) -> str:
    """Those of a fit's model, of jobs with GPUs / without; - where it was not tested."""
    found = []
    for kind in ("gpu", "cpu"):
        validation = details["kinds"].get(kind, {}).get("validation")
        score = validation and validation["scores"]["model"]["rank_correlation"]
        found.append("-" if validation is None else f"{score:.2f}")
    return " / ".join(found)
