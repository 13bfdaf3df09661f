"""Which nodes: emptiest switches, least worn, never a pending block, never below what must stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.decision import Reason
from gsched.model.demand_forecast import constant_forecast
from gsched.policy import ces_choice as choice
from gsched.policy.ces import NO_DEMAND, Ces
from gsched.policy.ces_state import (
    BlockNeed,
    CesMemory,
    CesNode,
    CesSettings,
    CesState,
    NodeExclusion,
    NodePower,
    PoolDemand,
)

NOW = 1_700_000_000
LONG_AGO = NOW - 99_999
SETTINGS = CesSettings(sigma=1, wake_sigma=0, xi_h=0, xi_p=0, min_idle_s=600, max_sleep=0)
AWAKE, ASLEEP, WAKING = NodePower.AWAKE, NodePower.ASLEEP, NodePower.WAKING


def node(name: str, switch: str = "s1", **other: object) -> CesNode:
    given = {"power": AWAKE, "idle_since": LONG_AGO, "partitions": ("main",)} | other
    return CesNode(name, given.pop("pool", "gpu"), switch=switch, **given)


def demand(running: int, wanted: int = 0, forecast: bool = True) -> PoolDemand:
    told = constant_forecast(running, NOW, 600, 36, "test") if forecast else None
    return PoolDemand(wanted, (running + 5.0,) * 6 + (float(running),), 600, told, Reason("why"))


def decide(nodes, demands, settings=SETTINGS, memory=None, **state):
    seen = CesState(NOW, nodes, demands, **state)
    return Ces(settings).decide(seen, memory or CesMemory())


def names(changes) -> list[str]:
    return [change.node for change in changes]


def test_the_emptiest_switch_goes_dark_first_and_the_least_worn_of_equals():
    nodes = [
        node("a1", "s1", is_running=True),
        node("a2", "s1"),
        node("b1", "s2", power_cycles=9),
        node("b2", "s2", power_cycles=1),
        node("b3", "s2", power_cycles=4),
    ]
    told = decide(nodes, {"gpu": demand(1)}, replace(SETTINGS, sigma=2))
    assert names(told.sleep) == ["b2", "b3"]
    assert told.kept["b1"].code == choice.SPARE
    assert told.kept["a1"].code == choice.RUNNING
    whole = decide(nodes, {"gpu": demand(1)}, replace(SETTINGS, sigma=0))
    assert names(whole.sleep) == ["b2", "b3", "b1", "a2"]
    assert whole.sleep[0].reason.params == {"switch": "s2", "running_there": 0, "power_cycles": 1}


@pytest.mark.parametrize("exclusion", NodeExclusion)
def test_an_excluded_node_is_neither_slept_nor_woken_and_does_not_count(exclusion):
    nodes = [node("a1", exclusion=exclusion), node("a2"), node("a3")]
    told = decide(nodes, {"gpu": demand(0)})
    assert len(told.sleep) == 1
    assert told.kept["a1"] == Reason(choice.EXCLUDED, {"exclusion": exclusion.value})
    asleep = [replace(nodes[0], power=ASLEEP), node("b1", power=ASLEEP)]
    assert names(decide(asleep, {"gpu": demand(0, wanted=2)}).wake) == ["b1"]


def test_a_node_sleeps_only_when_it_has_been_idle_for_long():
    nodes = [node("a1", idle_since=NOW - 599), node("a2", idle_since=NOW - 600), node("a3")]
    told = decide(nodes, {"gpu": demand(0)}, replace(SETTINGS, sigma=0))
    assert sorted(names(told.sleep)) == ["a2", "a3"]
    assert told.kept["a1"].code == choice.SHORT_IDLE
    unknown = decide([node("a1", idle_since=None)], {"gpu": demand(0)}, replace(SETTINGS, sigma=0))
    assert not unknown.sleep


def test_a_partition_keeps_its_idle_nodes_also_where_the_pool_has_enough():
    nodes = [node(f"a{i}", partitions=("main",)) for i in range(4)]
    nodes += [node(f"b{i}", partitions=("debug", "main")) for i in range(2)]
    settings = replace(SETTINGS, sigma=0, least_idle_in_partition={"debug": 2, "main": 3})
    told = decide(nodes, {"gpu": demand(0)}, settings)
    assert names(told.sleep) == ["a0", "a1", "a2"]
    assert told.kept["b0"] == Reason(choice.PARTITION, {"partition": "debug", "least": 2})
    assert told.kept["a3"].code == choice.PARTITION


def test_a_pool_keeps_its_idle_nodes_by_type():
    nodes = [node(f"a{i}") for i in range(4)] + [node(f"v{i}", pool="v100") for i in range(4)]
    settings = replace(SETTINGS, sigma=0, least_idle={"v100": 3})
    told = decide(nodes, {"gpu": demand(0), "v100": demand(0)}, settings)
    assert Counter(change.pool for change in told.sleep) == {"gpu": 4, "v100": 1}


def test_the_block_of_a_large_pending_job_is_not_split():
    nodes = [node(f"a{i}", "s1") for i in range(3)] + [node(f"b{i}", "s2") for i in range(6)]
    settings = replace(SETTINGS, sigma=0)
    demands = {"gpu": demand(0)}
    for size, keeps in ((3, {"a0", "a1", "a2"}), (4, {"b0", "b1", "b2", "b3"})):
        told = decide(nodes, demands, settings, blocks=[BlockNeed("job 7", "gpu", size)])
        kept = {name for name, why in told.kept.items() if why.code == choice.BLOCK}
        assert kept == keeps
        assert not kept & set(names(told.sleep))
        assert told.kept[min(keeps)].params == {"job": "job 7"}
    two = [BlockNeed("small", "gpu", 3), BlockNeed("large", "gpu", 6)]
    assert not decide(nodes, demands, settings, blocks=two).sleep
    elsewhere = decide(nodes, demands, settings, blocks=[BlockNeed("x", "v100", 3)])
    assert len(elsewhere.sleep) == 9


def test_a_block_that_no_switch_holds_keeps_the_largest_ones():
    nodes = [node(f"a{i}", "s1") for i in range(2)] + [node(f"b{i}", "s2") for i in range(4)]
    told = choice.protected(nodes, [BlockNeed("job", "gpu", 5)])
    assert set(told) == {"b0", "b1", "b2", "b3", "a0"}


def test_waking_completes_the_block_where_the_fewest_have_to_wake():
    nodes = [
        node("a0", "s1"),
        *(node(f"a{i}", "s1", power=ASLEEP) for i in (1, 2, 3)),
        *(node(f"a{i}", "s1", is_running=True) for i in (4, 5, 6)),
        *(node(f"b{i}", "s2") for i in (0, 1)),
        *(node(f"b{i}", "s2", power=ASLEEP) for i in (2, 3)),
    ]
    block = [BlockNeed("job 9", "gpu", 4)]
    told = decide(nodes, {"gpu": demand(3, wanted=5)}, blocks=block)
    assert names(told.wake) == ["b2", "b3"]
    assert told.wake[0].reason.params["job"] == "job 9"


def test_waking_goes_to_switches_that_are_awake_and_spares_worn_nodes():
    nodes = [
        node("a0", "s1", power=ASLEEP),
        node("b0", "s2", is_running=True),
        node("b1", "s2", power=ASLEEP, power_cycles=8),
        node("b2", "s2", power=ASLEEP, power_cycles=2),
    ]
    told = decide(nodes, {"gpu": demand(1, wanted=2)})
    assert names(told.wake) == ["b2", "b1"]


def test_nodes_that_wake_already_are_waited_for():
    nodes = [node("a0", power=WAKING), node("a1", power=ASLEEP)]
    assert not decide(nodes, {"gpu": demand(0, wanted=1)}).wake
    assert names(decide(nodes, {"gpu": demand(0, wanted=2)}).wake) == ["a1"]


def test_caps_hold_for_all_pools_together_and_the_greatest_shortage_comes_first():
    nodes = [node(f"a{i}", power=ASLEEP) for i in range(5)]
    nodes += [node(f"v{i}", pool="v100", power=ASLEEP) for i in range(5)]
    demands = {"gpu": demand(0, wanted=2), "v100": demand(0, wanted=4)}
    told = decide(nodes, demands, replace(SETTINGS, max_wake=5))
    assert Counter(change.pool for change in told.wake) == {"v100": 4, "gpu": 1}
    assert told.memory.owed == {"gpu": 1}
    assert told.next_check == NOW + SETTINGS.stagger_s
    idle = [replace(each, power=AWAKE) for each in nodes]
    calm = {"gpu": demand(0), "v100": demand(0)}
    assert len(decide(idle, calm, replace(SETTINGS, max_sleep=5)).sleep) == 5


def test_a_pool_whose_demand_is_not_known_is_left_as_it_is():
    told = decide([node("a0"), node("a1")], {})
    assert not told.sleep
    assert not told.wake
    assert told.verdicts[0].reason.code == NO_DEMAND


def test_a_decision_can_be_repeated_and_tells_when_to_ask_again():
    nodes = [node(f"a{i}") for i in range(6)]
    first = decide(nodes, {"gpu": demand(0)})
    assert first == decide(list(reversed(nodes)), {"gpu": demand(0)})
    assert first.next_check == NOW + SETTINGS.period_s
    again = decide(nodes, {"gpu": demand(0)}, memory=first.memory)
    assert not again.sleep  # not due yet


powers = st.sampled_from(list(NodePower))
drawn_nodes = st.lists(
    st.builds(
        lambda i, pool, switch, power, running, old, parts, excluded: CesNode(
            f"n{i:04}", pool, power, running and power is AWAKE, NOW - old, parts, switch,
            i % 7, excluded,
        ),
        st.integers(0, 9999), st.sampled_from(["a", "b"]), st.sampled_from(["s1", "s2", "s3"]),
        powers, st.booleans(), st.integers(0, 2000),
        st.sampled_from([("p",), ("p", "q"), ()]),
        st.none() | st.sampled_from(list(NodeExclusion)),
    ),
    max_size=40, unique_by=lambda each: each.name,
)  # fmt: skip


@given(drawn_nodes, st.integers(0, 12), st.integers(0, 12), st.integers(0, 8), st.integers(0, 5))
def test_whatever_the_cluster_looks_like_nothing_is_split_or_used_up(
    nodes, wanted, block, least, sigma
):
    settings = replace(SETTINGS, sigma=sigma, least_idle_in_partition={"q": least})
    blocks = [BlockNeed("job", "a", block)] if block else []
    told = decide(nodes, {"a": demand(0, wanted), "b": demand(0)}, settings, blocks=blocks)
    by_name = {each.name: each for each in nodes}
    slept, woken = ([by_name[name] for name in names(x)] for x in (told.sleep, told.wake))
    assert len(set(names(told.sleep)) | set(names(told.wake))) == len(slept) + len(woken)
    assert all(each.power is ASLEEP and each.exclusion is None for each in woken)
    for each in slept:
        assert each.power is AWAKE
        assert not each.is_running
        assert each.exclusion is None
        assert NOW - each.idle_since >= settings.min_idle_s
    free = [n for n in nodes if n.power is AWAKE and not n.is_running and n.exclusion is None]
    left = [each for each in free if each not in slept]
    in_q = [sum("q" in each.partitions for each in group) for group in (free, left)]
    assert in_q[1] >= min(least, in_q[0])
    if block:
        before, after = (_holds(group, block) for group in (free, left))
        assert after or not before
    for verdict in told.verdicts:
        changed = [
            Counter(x.pool for x in group)[verdict.pool] for group in (told.sleep, told.wake)
        ]
        assert changed[0] <= verdict.sleep
        assert changed[1] == verdict.wake
        if not block and not least:  # nothing forbids what the numbers say
            assert changed[0] == verdict.sleep
    awake = {n.name for n in nodes if n.power is not ASLEEP}
    assert awake == set(told.kept) | set(names(told.sleep))


def _holds(free, number: int) -> bool:
    """Whether a switch has so many free nodes of pool a."""
    counts = Counter(each.switch for each in free if each.pool == "a")
    return max(counts.values(), default=0) >= number


def test_a_node_that_wakes_for_a_job_runs_and_is_nobody_elses():
    nodes = [
        node("a1", power=WAKING, is_running=True),
        node("a2", power=NodePower.FALLING, is_running=True),
        node("a3", power=WAKING),
        node("a4", power=ASLEEP),
    ]
    seen = Ces(SETTINGS).look(CesState(NOW, nodes, {}), "gpu")
    assert (seen.running, seen.waking, seen.idle, seen.asleep) == (2, 1, 0, 1)
    assert names(decide(nodes, {"gpu": demand(2, wanted=2)}).wake) == ["a4"]


def test_excluded_nodes_with_jobs_are_told_apart():
    other = node("a2", is_running=True, exclusion=NodeExclusion.SITE)
    nodes = [node("a1", is_running=True), other]
    seen = Ces(SETTINGS).look(CesState(NOW, nodes, {}), "gpu")
    assert (seen.running, seen.busy_excluded) == (1, 1)


def test_a_node_that_is_kept_counts_and_is_left_as_it_is():
    why = Reason(choice.PLANNED)
    nodes = [node("a1", keep=why), node("a2"), node("b1", power=ASLEEP, keep=why)]
    told = decide(nodes, {"gpu": demand(0)}, replace(SETTINGS, sigma=0))
    assert (names(told.sleep), told.kept["a1"]) == (["a2"], why)
    assert Ces(SETTINGS).look(CesState(NOW, nodes, {}), "gpu").asleep == 0
    assert not decide(nodes, {"gpu": demand(0, wanted=3)}).wake


def test_a_node_that_is_due_wakes_whatever_its_pool_needs():
    why = Reason(choice.RESERVED, {"reservation": "course"})
    held = {"power": ASLEEP, "exclusion": NodeExclusion.RESERVED, "due": why}
    nodes = [node(f"a{i}", **held) for i in range(3)]
    told = decide(nodes, {"gpu": demand(0)})
    assert [(change.node, change.reason) for change in told.wake] == [
        ("a0", why), ("a1", why), ("a2", why)
    ]  # fmt: skip
    assert len(decide(nodes, {"gpu": demand(0)}, replace(SETTINGS, max_wake=2)).wake) == 2
    assert not decide([node("a0", **held | {"power": WAKING})], {"gpu": demand(0)}).wake


def test_a_stop_is_told_of_every_pool():
    told = decide([node("a1"), node("a2")], {"gpu": demand(0)}, stopped="5 failures")
    assert not told.sleep
    assert told.verdicts[0].reason.code == "ces.suspending-stopped"
