"""The daemon's answer: a file that every user may read, replaced whole each round.

No login node needs the database; ``gsched queue`` and ``gsched why`` read this file. It shows no
more than squeue(1) does: on clusters that hide other users' jobs (PrivateData=jobs) it has no jobs,
and users ask for their own over the query socket (``query_server``).
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gsched.daemon.ces_facts import ces_for_everybody
from gsched.daemon.fairness_told import fairness_for_everybody
from gsched.daemon.forecast_book import NOTHING_FORESEEN, Edition
from gsched.daemon.request_answers import answer_document, promises_of
from gsched.daemon.shapes import is_number
from gsched.daemon.status_shapes import is_sound
from gsched.daemon.target_document import NOTHING_TOLD, TargetsTold, told_params
from gsched.files import read_bounded, write_atomically
from gsched.model.decision import Action, Decision, JsonValue
from gsched.model.job import Capability, JobState, JobView, PredictionKind
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # the reader of the file needs no numpy
    from gsched.daemon.requests import RequestBook
    from gsched.engine.round import RoundResult
    from gsched.model.jobtable import JobTable

VERSION = 1
_PART = re.compile(r"[_+].*", re.DOTALL)
_TOLD = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
_WAITS = JobState.PENDING.value
_SHOWN = (0.1, 0.5, 0.9)
"""The quantiles of a run time that are told: the median and an interval of 80 %."""
MAX_BYTES = 64 * 1024 * 1024
_STALE_ROUNDS = 10
"""A daemon that has been silent for so many of its rounds is taken for an absent one."""


class JobIndex:
    """Jobs by what a user may call them: their id, or that of their array or het job."""

    def __init__(self, names: Collection[str]) -> None:
        """`names` are Slurm's ids as the daemon lists them."""
        self._names = frozenset(names)
        self._first_parts: dict[str, str] = {}
        for name in names:
            whole = _PART.sub("", name)
            if whole != name:
                self._first_parts.setdefault(whole, name)

    def find(self, slurm_id: str) -> str | None:
        """The listed id; of an array or a het job that is listed by its parts the first one."""
        return slurm_id if slurm_id in self._names else self._first_parts.get(slurm_id)


@dataclass(frozen=True, eq=False)
class JobAnswers:
    """What one round says of jobs: `jobs` by Slurm's id about each waiting one and each running
    one, `owners` their users. Rounds that change nothing say the same: what is made of it is kept.
    """

    jobs: Mapping[str, dict[str, JsonValue]]
    owners: Mapping[str, str]
    index: JobIndex = field(init=False, repr=False)
    by_owner: Mapping[str, Sequence[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """What questions are looked up in."""
        by_owner: defaultdict[str, list[str]] = defaultdict(list)
        waiting_first = sorted(self.jobs, key=lambda name: self.jobs[name].get("state") != _WAITS)
        for name in waiting_first:
            by_owner[self.owners[name]].append(name)
        object.__setattr__(self, "index", JobIndex(self.jobs))
        object.__setattr__(self, "by_owner", dict(by_owner))

    @cached_property
    def text(self) -> str:
        """The jobs as JSON."""
        return json.dumps(dict(self.jobs), allow_nan=False)


class _Basis(NamedTuple):
    """`requests` is the edition of the requests, `forecast` the number of the forecast."""

    jobs: JobTable
    decision: Decision
    requests: int
    forecast: int
    leases: Mapping[str, dict[str, JsonValue]]
    targets: TargetsTold


@dataclass(frozen=True, slots=True)
class Bulletin:
    """What one round has to say; never changed afterwards.

    `head` is about the round, `answers` about jobs. `private`: the cluster hides users' jobs from
    each other. `basis` is what the answers were made of.
    """

    head: Mapping[str, JsonValue]
    answers: JobAnswers
    private: bool
    basis: _Basis | None = field(default=None, repr=False, compare=False)

    @property
    def jobs(self) -> Mapping[str, dict[str, JsonValue]]:
        """The answers by Slurm's id."""
        return self.answers.jobs

    def public(self) -> str:
        """The document for everybody, as JSON."""
        head = json.dumps(dict(self.head), allow_nan=False)
        return f'{head[:-1]}, "jobs": {"{}" if self.private else self.answers.text}}}'

    def is_hidden(self, name: str, user: str) -> bool:
        """Whether squeue hides this job from `user`, unless they may see all."""
        return self.private and self.answers.owners[name] != user


@dataclass(frozen=True, slots=True)
class RoundNews:
    """What is told of a round beside its result.

    `mode` is the gate's, `why` its reason. `query_address` is where the query socket listens, ''
    for nowhere; `query_problem` why it does not listen where it should. `ces` is what energy saving
    has told after the round before, `fairness` how accounts stood when the last hour was closed,
    `leases` what is to be told of jobs' leases, by Slurm's id, `targets` of their deadlines.
    """

    interval_s: float
    mode: str
    why: str = ""
    query_address: str = ""
    query_problem: str = ""
    ces: Mapping[str, JsonValue] = field(default_factory=dict)
    fairness: Mapping[str, JsonValue] = field(default_factory=dict)
    leases: Mapping[str, dict[str, JsonValue]] = field(default_factory=dict)
    targets: TargetsTold = NOTHING_TOLD


def describe(
    result: RoundResult,
    config: SlurmConfig,
    news: RoundNews,
    requests: RequestBook,
    before: Bulletin | None = None,
    forecast: Edition = NOTHING_FORESEEN,
) -> Bulletin:
    """The bulletin of one round (times epoch seconds, durations seconds).

    `before` is that of the round before: where neither jobs nor order nor requests nor `forecast`
    have changed, what it says of them is said again.
    """
    private = config.hides("jobs")
    head: dict[str, JsonValue] = {
        "version": VERSION,
        "cluster": result.info.cluster,
        "as_of": result.state.as_of,
        "interval_s": news.interval_s,
        "policy": result.info.policy,
        "acting": result.info.acting,
        "mode": news.mode,
        "why": news.why,
        "halted": news.why if news.mode == "halted" else None,
        "model_id": result.info.model_id,
        "summary": result.summary,
        "private": private,
        "query_address": news.query_address,
        "query_problem": news.query_problem,
        "ces": ces_for_everybody(news.ces),
        "fairness": fairness_for_everybody(news.fairness, config),
        "targets": dict(news.targets.head),
    }
    decision, told = result.decision, news.targets
    basis = _Basis(
        result.state.jobs, decision, requests.edition, forecast.number, news.leases, told
    )
    if before is not None and _says_the_same(before, head, basis):
        return replace(before, head=head, private=private)
    views = [v for v in result.state.jobs.views if v.state in _TOLD]
    promises = promises_of(decision)
    answers = JobAnswers(
        jobs={
            v.key.slurm_id: _public_job(
                v, result, requests, forecast, promises.get(v.key, ()), private, told
            )
            for v in views
        },
        owners={v.key.slurm_id: v.user for v in views},
    )
    for what, documents in (("lease", news.leases), ("target", told.jobs)):
        for name, document in documents.items():
            if name in answers.jobs:
                answers.jobs[name][what] = {**document}
    return Bulletin(head, answers, private, basis)


def _says_the_same(before: Bulletin, head: Mapping[str, JsonValue], basis: _Basis) -> bool:
    """Whether this round says of jobs what the one before said: a steady queue costs little."""
    was = before.basis
    if was is None or was.jobs is not basis.jobs or was[2:] != basis[2:]:
        return False
    from gsched.daemon.same_answers import same_decision

    about = ("policy", "acting", "model_id", "private")
    return all(before.head.get(key) == head[key] for key in about) and same_decision(
        was.decision, basis.decision
    )


def _public_job(
    view: JobView,
    result: RoundResult,
    requests: RequestBook,
    forecast: Edition,
    promises: tuple[Action, ...],
    private: bool,
    told: TargetsTold,
) -> dict[str, JsonValue]:
    asked, problem = requests.of(view.key), requests.problem(view.key)
    info = result.info
    decision = replace(result.decision, actions=promises)  # few: not all are looked through
    refusal = told.answers.get(view.key.slurm_id, {})
    keeps = bool(told.head)
    answer = answer_document(
        view, decision, info.policy, info.acting, asked, problem, refusal, keeps_deadlines=keeps
    )
    said = job_document(view, result.decision, private=private) | answer
    if view.state is not JobState.PENDING:
        return said
    return {**said, **forecast.of((view.key.slurm_id, view.attempt))}


def job_document(
    view: JobView, decision: Decision, *, private: bool = False
) -> dict[str, JsonValue]:
    """What gsched says of one job; `submit_time` names the attempt that it is about.

    What there is none of has no key: ``rank``, ``reason``, ``excluded``, ``duration_s``. On a
    `private` cluster nobody is told of another's job.
    """
    rank = decision.order.get(view.key)
    reason = decision.reasons.get(view.key)
    excluded = view.exclusion(Capability.REORDER)
    duration = view.prediction(PredictionKind.DURATION)
    job: dict[str, JsonValue] = {"submit_time": view.attempt, "state": view.state.value}
    if rank:
        job["rank"] = {"queue": rank.queue, "position": rank.position, "of": rank.of}
    if reason:
        job["reason"] = {"code": reason.code, "params": told_params(reason.params, private)}
    if excluded:
        job["excluded"] = {"code": excluded.code, "detail": excluded.detail}
    if duration:
        caution: dict[str, JsonValue] = {}
        if duration.caution > 1:
            caution["caution"] = round(duration.caution, 2)
        job["duration_s"] = {
            "mean": duration.mean,
            "quantiles": [[p, v] for p, v in duration.quantiles if p in _SHOWN],
            "source": duration.source,
            "similar_jobs": duration.similar_jobs,
            **caution,
        }
    return job


def publish(path: Path, bulletin: Bulletin) -> None:
    """Write the file for everybody to read."""
    write_atomically(path, bulletin.public().encode(), mode=0o644)


def read_status(path: Path) -> dict[str, Any] | None:
    """The document; None when there is none that can be understood (no daemon, other version)."""
    try:
        data = read_bounded(path, MAX_BYTES + 1)
    except OSError:
        return None
    return parse_status(data.decode(errors="replace")) if len(data) <= MAX_BYTES else None


def parse_status(text: str) -> dict[str, Any] | None:
    """A document as text; jobs in it that have not their shape are left out."""
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return None
    jobs = document.get("jobs")
    if not isinstance(jobs, dict) or not all(
        is_number(document.get(key)) for key in ("as_of", "interval_s")
    ):
        return None
    document["jobs"] = {name: job for name, job in jobs.items() if is_sound(job)}
    return document


def silent_s(status: Mapping[str, Any], at: float) -> float:
    """For how long at the time `at` the daemon has missed its rounds; 0 for one that has not."""
    age_s = at - float(status["as_of"])
    return age_s if age_s > _STALE_ROUNDS * float(status["interval_s"]) else 0.0


def _finite(text: str) -> float:
    """A number of a document. Raises ValueError for one that no document of ours can print."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value
