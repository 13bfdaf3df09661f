"""Deadlines that a policy promises or refuses, as a simulation notes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from support.sim_jobs import sim_jobs

from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Admit, Decision, Grant, JsonValue, Refuse
from gsched.model.job import Capability, JobState
from gsched.policy.base import OrderKind, Policy
from gsched.policy.chronus import Chronus
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.metrics import summarise
from gsched.sim.replay import run_rounds
from gsched.sim.result import ADMITTED, REFUSED
from gsched.sim.rules import Costs, SimRules
from gsched.sim.run import simulate
from gsched.sim.table import Records

ONE_GPU = SimCluster.uniform({"p": 1}, 1)
RULES = SimRules(sample_s=60.0)
KNOBS = {"lease_s": 60.0, "spot_lease_s": 60.0, "margin_s": 0.0, "profile_s": 0.0}


class Wavering(Policy):
    """Admits job 1 and takes it back, refuses job 2 and then admits it; job 3 has no answer."""

    name = "wavering"
    summary = "for tests"
    axes = Chronus.axes
    requires = frozenset({Capability.REORDER, Capability.PREEMPT, Capability.ADMIT})
    order_kind = OrderKind.STATE
    knobs = ()

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Another answer in each round after the first."""
        self.rounds += 1
        actions: list[Action] = []
        for view in state.jobs.views:
            base: dict[str, Any] = {
                "key": view.key,
                "attempt": view.attempt,
                "after_seq": state.seq,
                "valid_until": now + 60,
                "undo": "",
            }
            number = view.key.job_id
            if number < 3 and (self.rounds == 1) == (number == 1):
                told = Admit(**base, action_id=f"a{number}", finish_time=now, probability=0.9)
                actions.append(told)
            elif number < 3:
                actions.append(Refuse(**base, action_id=f"r{number}", earliest=None))
            if view.state is JobState.PENDING:
                actions.append(Grant(**base, action_id=f"g{number}", length_s=1000))
        return Decision({}, tuple(actions), {}, {}, None)


def three(**columns: object) -> SimJobs:
    return sim_jobs(
        [0, 0, 0], [100.0, 100.0, 100.0], predicted_duration_s=100.0, **columns
    )  # fmt: skip


def test_the_first_answer_holds() -> None:
    jobs = three(deadline_s=[500, 500, 500])
    result = run_rounds(jobs, ONE_GPU, Wavering(), RULES)
    assert result.answers is not None
    assert result.answers.tolist() == [ADMITTED, REFUSED, 0]


def test_who_is_refused_and_ends_in_time_has_not_missed() -> None:
    jobs = three(deadline_s=[500, 500, 50])
    told = summarise(run_rounds(jobs, ONE_GPU, Wavering(), RULES)).deadlines.document()
    assert told["jobs"] == 3
    assert (told["admitted"], told["admitted_missed"]) == (1, 0)
    assert (told["refused"], told["refused_missed"]) == (1, 0)
    assert told["missed"] == 1  # the third, which had no answer


def test_a_policy_that_answers_nobody_has_no_such_figures() -> None:
    told = summarise(simulate(three(deadline_s=[500, 500, 50]), ONE_GPU, load("edf"), RULES))
    assert told.deadlines.missed == 1
    assert told.deadlines.admitted is told.deadlines.refused is None
    assert told.deadlines.document()["refused_missed"] is None


def test_chronus_promises_what_it_can_keep_and_keeps_it() -> None:
    """One GPU: two of three jobs of 100 s can end by 250 s."""
    jobs = three(deadline_s=[250, 250, 250])
    result = simulate(jobs, ONE_GPU, Chronus(**KNOBS), RULES)
    found = summarise(result).deadlines
    assert result.path == "rounds"
    assert (found.admitted, found.admitted_missed) == (2, 0)
    assert (found.refused, found.refused_missed) == (1, 1)


def test_without_deadlines_nobody_is_answered() -> None:
    assert simulate(three(), ONE_GPU, Chronus(**KNOBS), RULES).answers is None


def test_soft_deadlines_reach_the_policy() -> None:
    jobs = replace(
        three(deadline_s=[50, np.nan, 400]),
        soft_deadlines={0: ((50.0, 100.0), (500.0, 20.0))},
    )
    records = Records(jobs, ONE_GPU, oracle=False)
    origin = jobs.origin
    assert records[0].wants.deadline is None
    assert records[0].wants.soft_deadlines == ((origin + 50, 100.0), (origin + 500, 20.0))
    assert records[1].wants == replace(records[1].wants, deadline=None, soft_deadlines=())
    assert (records[2].wants.deadline, records[2].wants.soft_deadlines) == (origin + 400, ())
    result = simulate(jobs, ONE_GPU, Chronus(**KNOBS), RULES)
    assert result.answers is not None  # its second deadline can be kept, its first cannot
    assert result.answers.tolist() == [ADMITTED, 0, ADMITTED]
    assert result.end_s[0] <= 500


def test_what_jobs_tell_of_themselves_is_heard() -> None:
    heard: list[int] = []

    def listening(state: ClusterState, policy: Policy) -> ClusterState:
        assert policy.name == "chronus"
        heard.append(state.as_of)
        return state

    rules = replace(RULES, costs=Costs(launch_s=5.0))
    run_rounds(three(), ONE_GPU, Chronus(**KNOBS), rules, progress=listening)
    assert len(heard) > 3
    assert heard == sorted(heard)
