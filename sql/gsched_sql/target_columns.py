"""A request for a deadline as a row of `targets`, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gsched.model.decision import Alternative, PlannedRun
from gsched.model.merge import part_of
from gsched.model.target_records import Promise, PromiseUse, Risk, TargetRecord, TargetState
from gsched.model.targets import Steps
from gsched_sql.attempt_rows import job_key


def columns_of(record: TargetRecord, user_id: int) -> dict[str, Any]:
    """The columns of a record but its row and its cluster."""
    key, promise, used = record.key, record.promise, record.used
    part = part_of(key.job_id, key.array_task, key.het_offset)
    return {
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": key.epoch,
        "asked_time": record.asked_time,
        "user_id": user_id,
        "deadlines": json.dumps([*zip(record.steps.times, record.steps.rewards, strict=True)]),
        "num_gpus": record.num_gpus,
        "state": record.state.value,
        "state_since": record.since,
        "admitted_time": None if promise is None else promise.time,
        "promised_finish_time": None if promise is None else promise.finish_time,
        "promised_probability": None if promise is None else promise.probability,
        "budget_gpu_s": None if promise is None else promise.budget_gpu_s,
        "restarts": None if promise is None else promise.restarts,
        "used_gpu_s": None if used is None else used.gpu_s,
        "used_attempt": None if used is None else used.attempt,
        "used_attempt_gpu_s": None if used is None else used.attempt_gpu_s,
        "finish_time": record.finish_time,
        "probability": record.probability,
        "risk": record.risk.value,
        "earliest": record.earliest,
        "why": record.why,
        "answer": _answer(record),
        "end_time": record.end_time,
        "reward": record.reward,
        "warned": record.warned.value,
        "warned_time": record.warned_time,
        "gone_time": record.gone_time,
    }


def _answer(record: TargetRecord) -> str | None:
    """Params and alternatives of a refusal, as JSON."""
    if not record.why and not record.alternatives:
        return None
    alternatives = [[a.kind, a.finish_time, a.num_gpus, a.probability] for a in record.alternatives]
    return json.dumps({"params": dict(record.params), "alternatives": alternatives})


def record_of(cluster: str, row: Any, runs: Iterable[Any]) -> TargetRecord:
    """A row of `targets` with its user's name, and rows of its plan, as a record."""
    pairs = json.loads(row.deadlines)
    answer = {} if row.answer is None else json.loads(row.answer)
    return TargetRecord(
        key=job_key(cluster, row),
        asked_time=row.asked_time,
        user=row.user,
        steps=Steps(tuple(int(t) for t, _ in pairs), tuple(float(r) for _, r in pairs)),
        num_gpus=row.num_gpus,
        state=TargetState(row.state),
        since=row.state_since,
        promise=_promise(row),
        finish_time=row.finish_time,
        probability=row.probability,
        risk=Risk(row.risk),
        plan=tuple(PlannedRun(run.start_time, run.end_time, run.num_gpus) for run in runs),
        earliest=row.earliest,
        why=row.why,
        params=answer.get("params", {}),
        alternatives=tuple(Alternative(*a) for a in answer.get("alternatives", [])),
        end_time=row.end_time,
        reward=row.reward,
        warned=Risk(row.warned),
        warned_time=row.warned_time,
        used=_used(row),
        gone_time=row.gone_time,
    )


def _promise(row: Any) -> Promise | None:
    if row.admitted_time is None:
        return None
    return Promise(
        row.admitted_time,
        row.promised_finish_time,
        row.promised_probability,
        row.budget_gpu_s or 0.0,
        row.restarts or 0,
    )


def _used(row: Any) -> PromiseUse | None:
    if row.used_gpu_s is None:
        return None
    return PromiseUse(row.used_gpu_s, row.used_attempt or 0, row.used_attempt_gpu_s or 0.0)
