"""The daemon's answer: a file that every user may read, replaced whole each round.

No login node needs the database; ``gsched queue`` and ``gsched why`` read this file. It shows no
more than squeue(1) does: on clusters that hide other users' jobs (PrivateData=jobs) it has no jobs,
and users ask for their own over the query socket (``query_server``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.daemon.request_answers import ACCEPTED, REFUSED, UNUSED, answer_document
from gsched.files import write_atomically
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability, JobState, JobView, PredictionKind
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # the reader of the file needs no numpy
    from gsched.daemon.requests import RequestBook
    from gsched.engine.round import RoundResult

VERSION = 1
_TOLD = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bulletin:
    """What one round has to say; never changed afterwards.

    `head` is about the round, `jobs` by Slurm's id about each waiting job and each running one,
    `owners` their users. `private`: the cluster hides users' jobs from each other.
    """

    head: Mapping[str, JsonValue]
    jobs: Mapping[str, dict[str, JsonValue]]
    owners: Mapping[str, str]
    private: bool

    def public(self) -> dict[str, JsonValue]:
        """The document for everybody."""
        return {**self.head, "jobs": {} if self.private else dict(self.jobs)}

    def visible_to(self, user: str, sees_all: bool) -> Mapping[str, dict[str, JsonValue]]:
        """The jobs that squeue would show to `user`."""
        if sees_all or not self.private:
            return self.jobs
        return {name: job for name, job in self.jobs.items() if self.owners[name] == user}


def describe(
    result: RoundResult,
    config: SlurmConfig,
    interval_s: float,
    halted: str | None,
    requests: RequestBook,
    query_address: str,
) -> Bulletin:
    """The bulletin of one round (times epoch seconds, durations seconds).

    `query_address` is where the query socket listens, '' for nowhere.
    """
    private = "jobs" in config.get("PrivateData").split(",")
    views = [v for v in result.state.jobs.views if v.state in _TOLD]
    head: dict[str, JsonValue] = {
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
        "query_address": query_address,
    }
    return Bulletin(
        head=head,
        jobs={v.key.slurm_id: _public_job(v, result, requests) for v in views},
        owners={v.key.slurm_id: v.user for v in views},
        private=private,
    )


def _public_job(view: JobView, result: RoundResult, requests: RequestBook) -> dict[str, JsonValue]:
    asked, problem = requests.of(view.key), requests.problem(view.key)
    info = result.info
    answer = answer_document(view, result.decision, info.policy, info.acting, asked, problem)
    return job_document(view, result.decision) | answer


def job_document(view: JobView, decision: Decision) -> dict[str, JsonValue]:
    """What gsched says of one job; `submit_time` names the attempt that it is about.

    What there is none of has no key: ``rank``, ``reason``, ``excluded``, ``duration_s``.
    """
    rank = decision.order.get(view.key)
    reason = decision.reasons.get(view.key)
    excluded = view.exclusion(Capability.REORDER)
    duration = view.prediction(PredictionKind.DURATION)
    job: dict[str, JsonValue] = {"submit_time": view.attempt, "state": view.state.value}
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


def publish(path: Path, bulletin: Bulletin) -> None:
    """Write the file for everybody to read."""
    text = json.dumps(bulletin.public(), allow_nan=False)
    write_atomically(path, text.encode(), mode=0o644)


def find_job(jobs: Mapping[str, dict[str, Any]], slurm_id: str) -> dict[str, Any] | None:
    """The job of that id; of an array or a het job that is listed by its parts the first one."""
    if slurm_id in jobs:
        return jobs[slurm_id]
    parts = (f"{slurm_id}_", f"{slurm_id}+")
    return next((job for name, job in jobs.items() if name.startswith(parts)), None)


def read_status(path: Path) -> dict[str, Any] | None:
    """The document; None when there is none that can be understood (no daemon, other version)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return parse_status(text)


def parse_status(text: str) -> dict[str, Any] | None:
    """A document as text; jobs in it that have not their shape are left out."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
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
        and _is_answer(job)
    )


def _is_answer(job: dict[str, Any]) -> bool:
    """Whether the part of ``answer_document`` has its shape."""
    outcomes = job.get("outcomes", [])
    return (
        isinstance(job.get("accepted", True), bool)
        and isinstance(job.get("request_problem", ""), str)
        and isinstance(job.get("request", {}), dict)
        and isinstance(outcomes, list)
        and all(_is_outcome(found) for found in outcomes)
    )


def _is_outcome(found: object) -> bool:
    return (
        isinstance(found, dict)
        and _has(found, {"want": str, "reason": str})
        and found.get("outcome") in (ACCEPTED, UNUSED, REFUSED)
        and all(_is_number(found.get(key, 0)) for key in ("earliest", "finish_time", "probability"))
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
