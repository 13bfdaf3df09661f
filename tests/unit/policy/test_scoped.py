"""One policy made of several: each ranks what is its, and nobody is ranked twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.errors import ConfigError
from gsched.model.cluster import ClusterState, Delta
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import Allocation, Capability, Exclusion, JobState
from gsched.policy.base import OrderKind
from gsched.policy.fair_tree import FairTree
from gsched.policy.fewest_gpus import FewestGpus
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.policy.registry import check, load, load_scoped
from gsched.policy.scoped import SEVERAL, Scoped

BARRED = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)
PARTITIONS = [("gpu",), ("debug",), ("gpu", "long"), ("debug", "test"), ("gpu", "debug"), ()]


@st.composite
def job_views(draw):
    return [
        view(
            number,
            gpus=draw(st.integers(0, 3)),
            duration_s=draw(st.none() | st.floats(1, 1e5)),
            submit=T0 + draw(st.integers(0, 9)),
            state=draw(st.sampled_from([JobState.PENDING] * 3 + [JobState.RUNNING])),
            exclusions=draw(st.sampled_from([(), (), BARRED])),
            partitions=draw(st.sampled_from(PARTITIONS)),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


def whose(job):
    names = {"fifo" if part in ("debug", "test") else "qssf" for part in job.partitions}
    return names or {"qssf"}


@given(views=job_views())
def test_each_policy_ranks_its_jobs_as_if_there_were_no_others(views):
    policy = Scoped(Qssf(), {"debug": Fifo(), "test": Fifo()})
    state = snapshot(views)
    decision = policy.decide(state, {}, T0 + 10)
    movable = {v.key for v in views if v.state is JobState.PENDING and not v.exclusions}
    expected = {}
    for own in (Qssf(), Fifo()):
        mine = [v for v in views if whose(v) == {own.name}]
        alone = own.decide(snapshot(mine), {}, T0 + 10)
        expected |= {key: (r.key, r.level, r.queue) for key, r in alone.order.items()}
        assert {k: r for k, r in decision.reasons.items() if r.code.startswith(own.name)} == dict(
            alone.reasons
        )
    assert {k: (r.key, r.level, r.queue) for k, r in decision.order.items()} == expected
    several = {v.key for v in views if len(whose(v)) > 1} & movable
    assert {k for k, r in decision.reasons.items() if r.code == SEVERAL} == several
    assert set(decision.reasons) == movable
    for queue in ("gpu", "cpu"):
        ordered = sorted(
            (r for r in decision.order.values() if r.queue == queue), key=lambda r: r.position
        )
        assert [r.position for r in ordered] == list(range(1, len(ordered) + 1))
        assert [r.level for r in ordered] == sorted((r.level for r in ordered), reverse=True)
        assert {r.of for r in ordered} <= {len(ordered)}


@given(views=job_views(), order=st.randoms())
def test_the_order_of_the_input_rows_changes_nothing(views, order):
    policy = Scoped(Qssf(), {"debug": Fifo()})
    first = policy.decide(snapshot(views), {}, T0)
    order.shuffle(views)
    second = policy.decide(snapshot(views), {}, T0)
    assert (first.order, first.reasons, first.memory) == (
        second.order,
        second.reasons,
        second.memory,
    )


def test_a_job_in_partitions_of_several_policies_is_told_so():
    policy = Scoped(Qssf(), {"debug": Fifo(), "small": FewestGpus()})
    job = view(1, duration_s=5.0, partitions=("small", "gpu", "debug"))
    decision = policy.decide(snapshot([job]), {}, T0)
    assert decision.order == {}
    assert decision.reasons == {job.key: Reason(SEVERAL, {"policies": "qssf, fifo, fewest-gpus"})}


def test_each_policy_has_a_memory_of_its_own():
    policy = Scoped(Qssf(), {"debug": FewestGpus()})
    first = [view(1, duration_s=8.0), view(2, gpus=4, partitions=("debug",))]
    memory = policy.decide(snapshot(first), {}, T0).memory
    assert memory == {
        "version": 1,
        "policies": {
            "qssf": {"version": 1, "reference": {"gpu": 8.0}},
            "fewest-gpus": {"version": 1, "reference": {"gpu": 4.0}},
        },
    }
    later = [view(3, duration_s=16.0), view(4, gpus=2, partitions=("debug",))]
    again = policy.decide(snapshot(later), json.loads(json.dumps(memory)), T0)
    assert again.memory == memory
    levels = {key.job_id: rank.level for key, rank in again.order.items()}
    assert levels == {3: -1 / 8, 4: 1 / 8}


@pytest.mark.parametrize("memory", [{"version": 9}, {"version": 1, "policies": 3}, {"a": []}])
def test_strange_memory_is_forgotten(memory):
    policy = Scoped(Qssf(), {"debug": Fifo()})
    state = snapshot([view(1, duration_s=8.0)])
    assert policy.decide(state, memory, T0).memory == policy.decide(state, {}, T0).memory


def test_a_policy_sees_its_own_jobs_alone():
    seen = []

    class Watching(Fifo):
        name = "watching"

        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            seen.append(state)
            ranks = {key: Rank("gpu", 1, 1, 0.0, 0.25) for key in state.jobs.keys}
            return Decision(ranks, (), {key: Reason("x") for key in ranks}, {}, next_wakeup=T0 + 7)

    mine, other = view(1, partitions=("debug",)), view(2, duration_s=5.0)
    gone = view(3).key
    both = frozenset({mine.key, other.key})
    delta = Delta(arrived=both, departed=frozenset({gone}), changed=both)
    state = replace(snapshot([other, mine]), changed=delta, requests=(other.key, mine.key))
    decision = Scoped(Qssf(), {"debug": Watching()}).decide(state, {}, T0)
    (given,) = seen
    assert given.jobs.keys == (mine.key,)
    own = frozenset({mine.key})
    assert given.changed == Delta(arrived=own, departed=frozenset({gone}), changed=own)
    assert given.requests == (mine.key,)
    assert {key: rank.level for key, rank in decision.order.items()} == {
        mine.key: 0.25,
        other.key: 0.0,
    }
    assert decision.reasons[mine.key] == Reason("x")
    assert decision.next_wakeup == T0 + 7


def test_each_policy_counts_what_its_own_jobs_have_received():
    mine = replace(view(1, partitions=("debug",)), tenant="a")
    gone = [
        replace(view(n, partitions=(part,)), tenant="a", allocation=Allocation(("n",), (1,), T0))
        for n, part in ((2, "debug"), (3, "gpu"))
    ]
    policy = Scoped(Qssf(), {"debug": FairTree()})
    first = policy.decide(snapshot([mine]), {}, T0)
    later = replace(snapshot([mine]), as_of=T0 + 100, ended=tuple(gone))
    memory = policy.decide(later, first.memory, T0 + 100).memory
    received = memory["policies"]["fair-tree"]["received_gpu_s"]["a"]
    assert received == pytest.approx(100, rel=1e-3)


def test_several_policies_have_no_form_together():
    jobs = snapshot([view(1, duration_s=5.0)]).jobs
    assert Scoped(Qssf(), {"debug": FewestGpus()}).order_form(jobs) is None
    assert Qssf().order_form(jobs).is_static


def test_keys_are_those_of_each_jobs_policy():
    jobs = snapshot(
        [view(1, duration_s=5.0), view(2, partitions=("debug",)), view(3, partitions=PARTITIONS[4])]
    ).jobs
    keys = Scoped(Qssf(), {"debug": Fifo()}).static_key(jobs).tolist()
    assert keys[:2] == [5.0, T0]
    assert keys[2] != keys[2]  # NaN


# -- from the settings ------------------------------------------------------------------------


def test_without_a_scope_it_is_the_policy_itself():
    assert isinstance(load_scoped("fifo", {}, {}), Fifo)
    same = load_scoped("qssf", {"debug": "qssf"}, {"span_octaves": 4})
    assert isinstance(same, Qssf)
    assert same.knob_values == {"span_octaves": 4}


def test_what_it_needs_and_depends_on_is_what_any_of_them_does():
    policy = load_scoped("qssf", {"debug": "fifo", "test": "fifo", "small": "fewest-gpus"}, {})
    assert policy.name == "qssf+fifo+fewest-gpus"
    assert policy.summary == "qssf; fifo in debug, fifo in test, fewest-gpus in small"
    assert policy.order_kind is OrderKind.STATE
    assert policy.needs_prediction
    assert policy.requires == {Capability.REORDER}
    check(policy, {Capability.REORDER})
    with pytest.raises(ConfigError, match=r"qssf\+fifo\+fewest-gpus needs reorder"):
        check(policy, set())
    assert load_scoped("fewest-gpus", {"a": "fewest-gpus", "b": "qssf"}, {}).order_kind is (
        OrderKind.STATIC
    )
    assert not load_scoped("fifo", {"a": "fewest-gpus"}, {}).needs_prediction


def test_a_knob_goes_to_those_that_have_it():
    policy = load_scoped("fifo", {"a": "qssf", "b": "fewest-gpus"}, {"span_octaves": 3})
    assert isinstance(policy, Scoped)
    assert [p.knob_values for p in policy.policies] == [
        {},
        {"span_octaves": 3},
        {"span_octaves": 3},
    ]
    with pytest.raises(ConfigError, match="none of the policies fifo, qssf has a knob 'span'"):
        load_scoped("fifo", {"a": "qssf"}, {"span": 3})
    with pytest.raises(ConfigError, match="span_octaves"):
        load_scoped("fifo", {"a": "qssf"}, {"span_octaves": 99})
    with pytest.raises(ConfigError, match="'qsfs'"):
        load_scoped("fifo", {"a": "qsfs"}, {})
    assert load("fifo").knob_values == {}
