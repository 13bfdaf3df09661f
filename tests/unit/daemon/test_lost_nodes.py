"""A lost node is looked for as soon as a job has lost its own, and not at every such job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.slurm_bench import Bench

from gsched.daemon.look import DESCRIPTION_LIFE_S, NODES_LIFE_S
from gsched.errors import UnavailableError
from gsched.model.cluster import NodeView
from gsched.model.job import JobState


class LosingSlurm:
    """A bench whose one node a test takes down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = Bench(1, 2, 3)
        self.node = "idle"
        self.num_reads = 0
        self.fails = False
        monkeypatch.setattr(self.bench.client, "nodes", self._nodes)

    def _nodes(self) -> tuple[NodeView, ...]:
        if self.fails:
            raise UnavailableError("slurmctld does not answer")
        self.num_reads += 1
        return (NodeView("gn01", self.node, (), 8, 1 << 30, (("", 2),), ("gpu",)),)

    def change(self, job: int, **facts: object) -> None:
        rows = self.bench.client.rows
        rows[job] = replace(rows[job], **facts)  # type: ignore[arg-type]

    def seen(self, after_s: float = 1.0) -> bool:
        """Whether the node is seen to be usable, so many seconds later."""
        self.bench.seconds += after_s
        (node,) = self.bench.snapshot().nodes
        return node.is_usable


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> LosingSlurm:
    made = LosingSlurm(monkeypatch)
    assert made.seen()
    made.node = "down"
    assert made.seen(NODES_LIFE_S)  # no job tells of it
    return made


@pytest.mark.parametrize(
    "lost",
    [
        {"state": JobState.NODE_FAIL, "state_text": "NODE_FAIL"},
        {"state": JobState.PENDING, "restarts": 1},
        {"state": JobState.RUNNING, "restarts": 1},  # and was started elsewhere since
    ],
    ids=["failed", "requeued", "started again"],
)
def test_a_job_that_lost_its_node_has_nodes_looked_at(
    slurm: LosingSlurm, lost: dict[str, object]
) -> None:
    slurm.change(2, **lost)
    assert not slurm.seen()
    assert slurm.num_reads == 2
    assert not slurm.seen(NODES_LIFE_S)
    assert slurm.num_reads == 2  # it tells nothing new


def test_many_such_jobs_have_them_looked_at_now_and_then(slurm: LosingSlurm) -> None:
    reads, span_s = slurm.num_reads, 40
    for restarts in range(1, span_s + 1):
        slurm.change(2, restarts=restarts)
        slurm.seen()
    assert slurm.num_reads - reads <= span_s / NODES_LIFE_S + 1


def test_who_loses_its_node_right_after_a_look_at_nodes_is_not_forgotten(
    slurm: LosingSlurm,
) -> None:
    slurm.change(2, restarts=1)
    slurm.node = "idle"
    assert slurm.seen()
    slurm.node = "down"
    slurm.change(3, restarts=1)
    assert slurm.seen(1)
    assert not slurm.seen(NODES_LIFE_S)


def test_a_question_that_failed_is_asked_again(slurm: LosingSlurm) -> None:
    slurm.change(2, restarts=1)
    slurm.fails = True
    with pytest.raises(UnavailableError):
        slurm.seen()
    slurm.fails = False
    assert not slurm.seen()


def test_after_a_minute_all_is_read_whatever_jobs_tell(slurm: LosingSlurm) -> None:
    assert not slurm.seen(DESCRIPTION_LIFE_S)
