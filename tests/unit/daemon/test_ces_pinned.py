"""Jobs that name their nodes: who they are is asked for once, and nobody else wakes for them."""

from __future__ import annotations

from support.queue import row
from support.saving import asleep

from gsched.daemon.ces_pinned import PinnedJobs
from gsched.errors import UnavailableError


class Squeue:
    """Says which jobs name nodes, or fails."""

    def __init__(self, *pinned: int) -> None:
        self.pinned = frozenset(pinned)
        self.asked = 0
        self.fails = False

    def read(self) -> frozenset[int]:
        self.asked += 1
        if self.fails:
            raise UnavailableError("no slurmctld")
        return self.pinned


def left(jobs: PinnedJobs, *rows) -> list[int]:
    return [each.raw_id for each in jobs.without(rows)]


def test_slurm_is_asked_only_where_a_job_is_new() -> None:
    squeue = Squeue(2, 3)
    jobs = PinnedJobs(squeue.read)
    assert left(jobs) == []
    held = row(3, reason="JobHeldUser")
    assert squeue.asked == 0
    assert left(jobs, row(1), row(2), held) == [1, 3]
    assert left(jobs, row(1), row(2)) == [1]
    assert left(jobs, row(2)) == []
    assert squeue.asked == 1
    assert left(jobs, row(4), row(2)) == [4]
    assert squeue.asked == 2


def test_where_slurm_does_not_answer_what_is_known_holds() -> None:
    squeue = Squeue(2)
    jobs = PinnedJobs(squeue.read)
    left(jobs, row(2))
    squeue.fails = True
    assert left(jobs, row(2), row(5)) == [5]
    squeue.fails, squeue.pinned = False, frozenset({2, 5})
    assert left(jobs, row(2), row(5)) == []


def test_nodes_do_not_wake_for_a_job_that_cannot_use_them() -> None:
    saving = asleep()
    number = saving.slurm.submit(nodes=3)
    squeue = Squeue(number)
    saving.read_pinned = squeue.read
    saving.restart()
    saving.saver.after_round(saving.slurm.look(), saving.slurm.config(), lambda: True)
    assert saving.pool["wanted"] == 0
    assert not [order for order in saving.told() if order[0] == "wake"]
    saving.read_pinned = frozenset
    saving.restart()
    saving.saver.after_round(saving.slurm.look(), saving.slurm.config(), lambda: True)
    assert saving.pool["wanted"] == 3
    assert [order for order in saving.told() if order[0] == "wake"]
