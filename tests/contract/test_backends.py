"""One body for every backend: the simulated cluster and a real Slurm keep the same promises."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import pytest
from support.requests import MemoryRequests
from support.sim import job, simulated
from support.site import Site, fresh_site

from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Backend
from gsched.engine.predictions import PredictionBook
from gsched.engine.round import RoundRunner
from gsched.model.cluster import ClusterState, Delta
from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.model.journal import ChangeState
from gsched.policy.base import Policy
from gsched.policy.fewest_gpus import FewestGpus
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.policy.scoped import Scoped
from gsched.sim.backend import SimBackend
from gsched.slurm.client import CommandClient

pytestmark = pytest.mark.slurm

WAITING = [("d300", 8), ("d5", 8), ("d70", 2), ("d900", 1)]
"""Names that tell the run time, and GPUs; in the order of their submission."""

EXPECTED = {
    Fifo: ["d300", "d5", "d70", "d900"],
    Qssf: ["d5", "d70", "d900", "d300"],
    FewestGpus: ["d900", "d70", "d300", "d5"],
}


class NamePredictor:
    """Reads the run time off the name."""

    model_id = "names"

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        return [
            Prediction(PredictionKind.DURATION, float(j.name[1:]), (), "name", "names", 1, now)
            if j.name.startswith("d")
            else None
            for j in jobs
        ]


class Harness(Protocol):
    """A backend with WAITING in its queue, and a look at the order that it would start them in."""

    backend: Backend
    partitions: frozenset[str]

    def now(self) -> int: ...

    def order(self) -> list[str]: ...

    def arrive(self) -> int:
        """One more job; returns its id, as the next two do."""
        ...

    def change_state(self) -> int: ...

    def depart(self) -> int: ...


class SimHarness:
    partitions = frozenset({"gpu"})

    def __init__(self) -> None:
        queue = [*WAITING, ("d1", 1)]
        jobs = [job(i, gpus, 1, i, name=name) for i, (name, gpus) in enumerate(queue, 1)]
        self.sim = SimBackend(*simulated(jobs))
        for _ in WAITING:
            self.sim.advance()
        self.backend: Backend = self.sim
        self._names = {j.view.key: j.view.name for j in jobs}

    def now(self) -> int:
        return self.sim.now

    def order(self) -> list[str]:
        return [self._names[key] for key in self.sim.pending_order()]

    def arrive(self) -> int:
        self.sim.advance()
        return len(WAITING) + 1

    def change_state(self) -> int:
        (started,) = self.sim.start_jobs()  # the first one takes all GPUs
        return started.job_id

    def depart(self) -> int:
        self.sim.advance()  # to its end
        return 1


class LiveHarness:
    def __init__(self, site: Site) -> None:
        client = CommandClient()
        config = client.config()
        settings = DaemonSettings(burst_interval_s=0.001)  # each round may write
        self.backend: Backend = SlurmBackend(
            client,
            config.cluster,
            scale_for(config, settings),
            settings,
            lambda rows: [r.submit_time for r in rows],
            self.now,
            RequestBook(MemoryRequests()),
        )
        self._site = site
        site.arm.fill()
        self._names = {site.submit(name, gpus): name for name, gpus in WAITING}
        self.partitions = frozenset(p.name for p in client.partitions())

    def now(self) -> int:
        return int(time.time())

    def order(self) -> list[str]:
        return [self._names[job] for job in self._site.by_priority()]

    def arrive(self) -> int:
        self._came = self._site.submit("d1", 1)
        return self._came

    def change_state(self) -> int:
        (running,) = [job for job, state in self._site.states().items() if state == "RUNNING"]
        self._site.slurm("scontrol", "suspend", str(running))
        return running

    def depart(self) -> int:
        self._site.slurm("scancel", str(self._came))
        return self._came


@pytest.fixture(params=["sim", "slurm"])
def harness(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimHarness | LiveHarness]:
    if request.param == "sim":
        yield SimHarness()
        return
    with fresh_site(num_nodes=1) as site:
        for name, value in site.bed.env().items():
            monkeypatch.setenv(name, value)
        yield LiveHarness(site)


def runner(harness: Harness, policy: Policy, journal: MemoryJournal | None = None) -> RoundRunner:
    numbers = itertools.count()
    return RoundRunner(
        harness.backend,
        policy,
        journal or MemoryJournal(),
        NamePredictor(),
        harness.now,
        lambda: f"{policy.name}-{next(numbers)}",
    )


def seen(harness: Harness) -> ClusterState:
    """What a look shows now."""
    harness.backend.look()
    return harness.backend.snapshot({})


@pytest.mark.parametrize("policy", EXPECTED, ids=lambda p: p.name)
def test_acting_gives_the_policys_order(harness: Harness, policy: type[Policy]) -> None:
    result = runner(harness, policy()).run(acting=True)
    assert harness.order() == EXPECTED[policy]
    assert result.problems == ()
    assert result.count(ChangeState.CONFIRMED) == len(result.changes) > 0


def test_several_policies_give_each_partition_its_order(harness: Harness) -> None:
    scoped = Scoped(Fifo(), {part: Qssf() for part in harness.partitions})
    result = runner(harness, scoped).run(acting=True)
    assert harness.order() == EXPECTED[Qssf]
    assert result.problems == ()


def test_changes_are_recognised_in_the_next_look(harness: Harness) -> None:
    """What was sent before the look and what was not; a process that was killed knows neither."""
    backend = harness.backend
    state = seen(harness)
    decision = Qssf().decide(_predicted(state), {}, harness.now())
    changes = backend.plan(decision, state, "killed").changes
    assert len(changes) >= 2
    sent, unsent = changes[0], changes[1]
    assert [o.accepted for o in backend.apply([sent])] == [True]
    before = {r.change_id: r for r in backend.looked_up([sent, unsent])}
    assert before[sent.change_id].value == sent.before  # still as of the last look
    backend.look()
    after = {r.change_id: r for r in backend.looked_up([sent, unsent])}
    assert (after[sent.change_id].present, after[sent.change_id].value) == (True, sent.after)
    assert (after[unsent.change_id].present, after[unsent.change_id].value) == (
        True,
        unsent.before,
    )


def _predicted(state: ClusterState) -> ClusterState:
    return PredictionBook().fill(state, NamePredictor(), MemoryJournal())


def test_observing_changes_nothing(harness: Harness) -> None:
    before = harness.order()
    result = runner(harness, Qssf()).run(acting=False)
    assert harness.order() == before == EXPECTED[Fifo]
    assert len(result.changes) > 0


def test_a_second_round_has_nothing_to_do(harness: Harness) -> None:
    rounds = runner(harness, Qssf())
    rounds.run(acting=True)
    assert rounds.run(acting=True).changes == ()


def test_another_policy_takes_over(harness: Harness) -> None:
    journal = MemoryJournal()
    runner(harness, Qssf(), journal).run(acting=True)
    runner(harness, FewestGpus(), journal).run(acting=True)
    assert harness.order() == EXPECTED[FewestGpus]


def test_snapshots_are_numbered_and_show_the_queue_and_the_gpus(harness: Harness) -> None:
    first, second = seen(harness), seen(harness)
    assert second.seq == first.seq + 1
    assert int(first.jobs.pending.sum()) == len(WAITING)
    assert first.jobs.keys == second.jobs.keys
    assert sum(n.num_gpus for n in first.nodes) == 8


def test_snapshots_tell_what_changed_since_the_one_before(harness: Harness) -> None:
    def changed() -> tuple[set[int], set[int], set[int]]:
        delta = seen(harness).changed
        arrived, departed, moved = (
            {key.job_id for key in keys} for keys in (delta.arrived, delta.departed, delta.changed)
        )
        return arrived, departed, moved

    first = seen(harness)
    assert first.changed == Delta(arrived=frozenset(first.jobs.keys))
    assert seen(harness).changed == Delta()
    came = harness.arrive()
    assert changed() == ({came}, set(), set())
    moved = harness.change_state()
    assert changed() == (set(), set(), {moved})
    gone = harness.depart()
    assert changed() == (set(), {gone}, set())
