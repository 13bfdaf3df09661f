"""What `chronus` answers to requests: a promise, or a refusal, in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsched.model.decision import Admit, PlannedRun, Refuse
from gsched.model.job import Capability, JobView
from gsched.policy.preemption import REVOKE_LIFE_S

if TYPE_CHECKING:
    from gsched.policy.chronus_round import Round


def answers(round_: Round) -> list[Admit | Refuse]:
    """For each job with a request that has been judged, but for those that are left alone."""
    return [*_admits(round_), *_refuses(round_)]


def _base(round_: Round, view: JobView, verb: str) -> dict[str, Any]:
    name = f"{view.key.slurm_id}/{view.attempt}/{round_.now}"
    return {
        "action_id": f"{round_.policy.name}/{verb}/{name}",
        "key": view.key,
        "attempt": view.attempt,
        "after_seq": round_.state.seq,
        "valid_until": round_.now + REVOKE_LIFE_S,
        "undo": None,
    }


def _admits(round_: Round) -> list[Admit]:
    found = []
    for one in round_.standing.values():
        view = round_.state.jobs.views[one.row]
        if view.exclusion(Capability.ADMIT) is not None:
            continue
        spans, gpus = round_.spans_of(one), view.request.gpus.minimum
        found.append(
            Admit(
                **_base(round_, view, "admit"),
                finish_time=round_.finish_time(one),
                probability=round_.probability(one),
                plan=tuple([PlannedRun(start, end, gpus) for start, end in spans]),
                budget_gpu_s=one.target.budget_gpu_s,
                admitted_time=one.target.admitted_time,
            )
        )
    return found


def _refuses(round_: Round) -> list[Refuse]:
    found = []
    for row in round_.steps:
        view = round_.state.jobs.views[row]
        refusal = round_.refusal(view.key)
        if refusal is None or view.exclusion(Capability.ADMIT) is not None:
            continue
        found.append(
            Refuse(
                **_base(round_, view, "refuse"),
                earliest=refusal.earliest,
                alternatives=refusal.alternatives,
            )
        )
    return found
