"""An answer of squeue that cannot be the queue ends the round."""

from __future__ import annotations

import pytest
from support.slurm_bench import Bench

from gsched.errors import UnavailableError
from gsched.model.cluster import NodeView
from gsched.slurm.records import QueueListing


@pytest.mark.parametrize(("shown", "is_refused"), [(0, True), (3, True), (6, False), (9, False)])
def test_jobs_that_sprio_lists_do_not_vanish_by_the_dozen(
    monkeypatch: pytest.MonkeyPatch, shown: int, is_refused: bool
) -> None:
    bench = Bench(*range(1, 10))
    whole = bench.client.queue("all", with_texts=True)
    part = QueueListing(whole.rows[:shown], (), whole.texts)
    monkeypatch.setattr(bench.client, "queue", lambda *_, **__: part)
    if is_refused:
        with pytest.raises(UnavailableError, match=f"left out {9 - shown} of the 9 waiting jobs"):
            bench.backend.look()
    else:
        bench.backend.look()


def test_a_few_may_have_left_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(1, 2, 3)
    monkeypatch.setattr(bench.client, "queue", lambda *_, **__: QueueListing((), ()))
    bench.backend.look()


def test_nodes_that_slurmctld_still_finds_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right after its start; they would count as lost for a minute."""
    bench, state = Bench(1), ["unknown"]

    def nodes() -> tuple[NodeView, ...]:
        return (NodeView("gn01", state[0], (), 8, 1 << 30, (("", 2),), ("gpu",)),)

    monkeypatch.setattr(bench.client, "nodes", nodes)
    assert [node.is_usable for node in bench.snapshot().nodes] == [False]
    state[0] = "idle"
    assert [node.is_usable for node in bench.snapshot().nodes] == [True]
    state[0] = "down"
    assert [node.is_usable for node in bench.snapshot().nodes] == [True]
