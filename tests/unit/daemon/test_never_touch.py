"""Every write to Slurm passes the one list of jobs that are left alone, whatever a policy says."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from support.slurm_bench import EXCLUDED, Bench

import gsched.slurm.exclusions as exclusions_module
from gsched.app.daemon_model import NoPredictor
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import RoundRunner
from gsched.model.cluster import ClusterState
from gsched.model.decision import (
    Admit,
    Decision,
    JsonValue,
    Place,
    Rank,
    Reason,
    Resize,
    Revoke,
    Share,
)
from gsched.model.job import Capability
from gsched.model.jobtable import FloatColumn, JobTable
from gsched.policy.base import OrderKind, Policy


class Malicious(Policy):
    """Ranks every pending job first and does everything to everybody."""

    name = "malicious"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def static_key(self, jobs: JobTable) -> FloatColumn:
        raise NotImplementedError

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        keys = [v.key for v in state.jobs.views]
        base = {"after_seq": 0, "valid_until": now, "undo": None}
        actions: list[Any] = []
        for v in state.jobs.views:
            given = {**base, "action_id": v.key.slurm_id, "key": v.key, "attempt": v.attempt}
            actions += [
                Revoke(**given, grace_s=0, beneficiary=None),
                Place(**given, nodes=("n1",), binding=True),
                Resize(**given, num_gpus=1),
                Share(**given, mode="mps", group=tuple(keys)),
                Admit(**given, finish_time=now, probability=1.0),
            ]
        ranks = {key: Rank("gpu", 1, 1, 0.0, 1.0) for key in keys}
        return Decision(ranks, tuple(actions), {key: Reason("x") for key in keys}, {})


@pytest.mark.parametrize("code", EXCLUDED)
def test_whatever_a_policy_says_an_excluded_job_is_not_touched(code: str) -> None:
    bench = Bench(1, 2, partitions=("gpu",), exclude_users=("carol",), exclude_accounts=("lab9",))
    client = bench.client
    bench.exclude(2, code)
    before = client.factors[2]
    numbers = itertools.count()
    runner = RoundRunner(
        bench.backend,
        Malicious(),
        MemoryJournal(),
        NoPredictor(),
        lambda: bench.now,
        lambda: f"r{next(numbers)}",
    )
    result = runner.run(acting=True)
    touched = {c.key.job_id for c in result.changes}
    assert touched == {1}
    assert client.factors[1] > 0
    assert client.factors[2] == before
    (key,) = [v.key for v in result.state.jobs.views if v.key.job_id == 2]
    assert code in {e.code for e in result.state.jobs.view(key).exclusions}
    assert key not in result.decision.order
    # what this backend can do besides reordering: promise; not for jobs left alone for good
    promised = {a.key.job_id for a in result.decision.actions}
    assert {type(a) for a in result.decision.actions} == {Admit}
    may_promise = code in {"unsplit-array", "held", "manual-priority", "foreign-site-factor"}
    assert promised == ({1, 2} if may_promise else {1})


def test_the_table_above_is_the_whole_list() -> None:
    source = inspect.getsource(exclusions_module)
    assert {*EXCLUDED, "no-requeue", "no-checkpoint"} == set(
        re.findall(r'yield "([a-z-]+)"', source)
    )
