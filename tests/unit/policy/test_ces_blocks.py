"""Blocks of pending jobs: who is protected and who is woken for them, by hand."""

from __future__ import annotations

from gsched.model.decision import Reason
from gsched.policy import ces_choice as choice
from gsched.policy.ces_state import BlockNeed, CesNode, CesSettings, NodePower

NOW = 1_700_000_000
AWAKE, ASLEEP, WAKING = NodePower.AWAKE, NodePower.ASLEEP, NodePower.WAKING


def nodes(switch: str, number: int, power: NodePower = AWAKE, first: int = 0, **other: object):
    given = {"pool": "gpu", "idle_since": 0} | other
    return [
        CesNode(f"{switch}-{first + i}", given["pool"], power, switch=switch,
                idle_since=given["idle_since"], is_running=bool(given.get("is_running")))
        for i in range(number)
    ]  # fmt: skip


def woken(seen, number: int, *blocks: BlockNeed) -> list[tuple[str, str]]:
    changes = choice.to_wake(seen, "gpu", number, blocks)
    return [(change.node, change.reason.params["job"]) for change in changes]


def test_the_largest_block_is_placed_first():
    """Seven and four: the small job first would take half of the only switch for the large one."""
    seen = nodes("a", 4) + nodes("b", 7)
    told = choice.protected(seen, [BlockNeed("1", "gpu", 4), BlockNeed("2", "gpu", 7)])
    assert set(told.values()) == {"1", "2"}
    assert {name for name, job in told.items() if job == "2"} == {f"b-{i}" for i in range(7)}
    tight = choice.protected(nodes("b", 7), [BlockNeed("1", "gpu", 4), BlockNeed("2", "gpu", 7)])
    assert set(tight.values()) == {"2"}


def test_a_block_takes_only_nodes_of_its_pool():
    seen = nodes("a", 2) + nodes("a", 2, first=2, pool="cpu")
    assert set(choice.protected(seen, [BlockNeed("1", "gpu", 4)])) == {"a-0", "a-1"}
    asleep = nodes("a", 2, ASLEEP) + nodes("b", 3, ASLEEP)
    assert woken(asleep, 1, BlockNeed("1", "cpu", 3)) == [("a-0", "")]


def test_nodes_that_wake_are_part_of_the_block_that_is_completed():
    seen = nodes("a", 3, ASLEEP) + nodes("b", 2, WAKING) + nodes("b", 1, ASLEEP, first=2)
    assert woken(seen, 1, BlockNeed("1", "gpu", 3)) == [("b-2", "1")]


def test_nobody_wakes_for_a_block_that_a_switch_holds():
    seen = nodes("a", 4) + nodes("a", 2, ASLEEP, first=4) + nodes("b", 3, ASLEEP)
    assert woken(seen, 2, BlockNeed("1", "gpu", 3)) == [("a-4", ""), ("a-5", "")]
    whole = nodes("c", 3) + nodes("b", 3, ASLEEP)
    assert woken(whole, 1, BlockNeed("1", "gpu", 3)) == [("b-0", "")]


def test_two_blocks_do_not_count_on_the_same_nodes():
    seen = nodes("a", 3) + nodes("a", 5, ASLEEP, first=3)
    two = BlockNeed("1", "gpu", 4), BlockNeed("2", "gpu", 4)
    assert woken(seen, 5, *two) == [("a-3", "1"), *[(f"a-{i}", "2") for i in range(4, 8)]]
    held = nodes("a", 4) + nodes("a", 4, ASLEEP, first=4) + nodes("b", 4, ASLEEP)
    assert woken(held, 4, *two) == [(f"a-{i}", "2") for i in range(4, 8)]
    asleep = nodes("a", 4, ASLEEP) + nodes("b", 4, ASLEEP)
    assert [job for _, job in woken(asleep, 8, *two)] == ["1"] * 4 + ["2"] * 4


def slept(seen, number: int) -> list[str]:
    settings = CesSettings(sigma=0, min_idle_s=0)
    spare = choice.Spare(seen, (), settings)
    changes, kept = choice.to_sleep(seen, "gpu", number, spare, settings, NOW)
    assert all(kept[each.name] == Reason(choice.SPARE) for each in seen
               if each.pool == "gpu" and not each.is_running
               and each.name not in {change.node for change in changes})  # fmt: skip
    return [change.node for change in changes]


def test_among_switches_alike_in_jobs_the_one_with_fewer_idle_nodes_goes_dark_first():
    assert slept(nodes("a", 3) + nodes("b", 2), 2) == ["b-0", "b-1"]


def test_only_jobs_of_the_pool_itself_make_a_switch_full():
    seen = nodes("a", 2) + nodes("a", 1, first=9, is_running=True)
    seen += nodes("b", 2) + nodes("b", 1, first=9, pool="cpu", is_running=True)
    assert slept(seen, 2) == ["b-0", "b-1"]
