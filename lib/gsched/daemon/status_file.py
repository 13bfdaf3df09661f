"""The daemon's public answer: a file that every user may read, replaced whole each round.

No login node needs the database; ``gsched queue`` and ``gsched why`` read this file. It shows no
more than squeue(1) does: on clusters that hide other users' jobs (PrivateData=jobs) it has no jobs.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.files import write_atomically
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability, JobState, JobView, PredictionKind
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # the reader of the file needs no numpy
    from gsched.engine.round import RoundResult

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024


def describe(
    result: RoundResult, config: SlurmConfig, interval_s: float, halted: str | None
) -> dict[str, JsonValue]:
    """The document of one round (times epoch seconds, durations seconds)."""
    private = "jobs" in config.get("PrivateData")
    waiting = [v for v in result.state.jobs.views if v.state is JobState.PENDING]
    return {
        "version": VERSION,
        "cluster": result.info.cluster,
        "as_of": result.state.as_of,
        "interval_s": interval_s,
        "policy": result.info.policy,
        "acting": result.info.acting,
        "halted": halted,
        "model_id": result.info.model_id,
        "summary": result.summary,
        "private": private,
        "jobs": {}
        if private
        else {v.key.slurm_id: job_document(v, result.decision) for v in waiting},
    }


def job_document(view: JobView, decision: Decision) -> dict[str, JsonValue]:
    """What gsched says of one waiting job; `submit_time` names the attempt that it is about.

    What there is none of has no key: ``rank``, ``reason``, ``excluded``, ``duration_s``.
    """
    rank = decision.order.get(view.key)
    reason = decision.reasons.get(view.key)
    excluded = view.exclusion(Capability.REORDER)
    duration = view.prediction(PredictionKind.DURATION)
    job: dict[str, JsonValue] = {"submit_time": view.attempt}
    if rank:
        job["rank"] = {"queue": rank.queue, "position": rank.position, "of": rank.of}
    if reason:
        job["reason"] = {"code": reason.code, "params": dict(reason.params)}
    if excluded:
        job["excluded"] = {"code": excluded.code, "detail": excluded.detail}
    if duration:
        job["duration_s"] = {
            "mean": duration.mean,
            "quantiles": [[p, v] for p, v in duration.quantiles],
            "source": duration.source,
            "similar_jobs": duration.similar_jobs,
        }
    return job


def publish(path: Path, document: dict[str, JsonValue]) -> None:
    """Write the file for everybody to read."""
    write_atomically(path, json.dumps(document, allow_nan=False).encode(), mode=0o644)


def read_status(path: Path) -> dict[str, Any] | None:
    """The document; None when there is none that can be understood (no daemon, other version)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        document = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return None
    jobs = document.get("jobs")
    if not isinstance(jobs, dict) or not all(
        _is_number(document.get(key)) for key in ("as_of", "interval_s")
    ):
        return None
    document["jobs"] = {name: job for name, job in jobs.items() if _is_sound(job)}
    return document


def _is_sound(job: object) -> bool:
    """Whether a job's answer has the shape of `job_document`; one that has not is no answer."""
    if not isinstance(job, dict) or not _is_number(job.get("submit_time")):
        return False
    rank, reason = job.get("rank"), job.get("reason")
    excluded, duration = job.get("excluded"), job.get("duration_s")
    return (
        (rank is None or _has(rank, {"queue": str, "position": int, "of": int}))
        and (reason is None or _has(reason, {"code": str, "params": dict}))
        and (excluded is None or _has(excluded, {"code": str, "detail": str}))
        and (duration is None or _is_duration(duration))
    )


def _is_duration(duration: object) -> bool:
    shape = {"mean": (int, float), "quantiles": list, "similar_jobs": int}
    return (
        isinstance(duration, dict)
        and _has(duration, shape)
        and all(
            isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair))
            for pair in duration["quantiles"]
        )
    )


def _has(value: object, types: dict[str, Any]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), t) for k, t in types.items())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
