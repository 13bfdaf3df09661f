"""Deadlines as a daemon keeps them, over a real database and a queue that a test sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsched.app.daemon_targets import Targets
from gsched.config.deadlines import DeadlineSettings
from gsched.config.settings import Settings
from gsched.daemon.requests import RequestBook, Sighting
from gsched.daemon.status_file import RoundNews, describe, parse_status
from gsched.engine.faults import FaultHook, no_faults
from gsched.engine.round import RoundResult
from gsched.model.cluster import ClusterState
from gsched.model.decision import Admit, Alternative, Decision, PlannedRun, Reason, Refuse
from gsched.model.job import Capability, JobKey, JobState, JobView
from gsched.model.jobtable import JobTable
from gsched.model.journal import RoundInfo
from gsched.slurm.records import SlurmConfig
from gsched_sql import History
from support.history import CLUSTER, attempt, batch, url_of
from support.jobs import T0, view
from support.requests import MemoryRequests

DEADLINE = T0 + 10_000
ADMITS = frozenset({Capability.REORDER, Capability.ADMIT})
PRIVATE = SlurmConfig({"PrivateData": "jobs"})
NO_ROOM = Reason("chronus.refused-no-room", {"jobs": ["8", "9"], "needed_gpu_s": 40.0})
PLAN = (PlannedRun(T0 + 100, T0 + 300, 4), PlannedRun(T0 + 500, T0 + 800, 4))


class Site:
    """One daemon's record over a real database, and a queue that a test sets."""

    def __init__(self, path: Any, fence: int | None = None) -> None:
        self.now = T0
        self.settings = Settings(deadlines=DeadlineSettings(warn_probability=0.8))
        self.requests = RequestBook(MemoryRequests())
        self.history = History.open(url_of(path))
        self.views: list[JobView] = []
        self.fence = fence
        self.restart()

    def restart(self, on_point: FaultHook = no_faults) -> None:
        """The daemon has been killed and started anew."""
        self.targets = Targets(
            self.history, CLUSTER, self.fence, lambda: self.settings, self.requests,
            lambda: self.now, on_point,
        )  # fmt: skip

    def queue(self, *jobs: int, comment: str = f"gs1{{deadline={DEADLINE}}}", **facts: Any) -> None:
        """Jobs in the queue, which ask for a deadline."""
        self.views = []
        for number in jobs:
            job = view(number, **facts)
            job = replace(job, key=replace(job.key, cluster=CLUSTER))
            self.requests.look([Sighting(job.key, job.user, comment)], self.now)
            self.views.append(replace(job, wants=self.requests.wants(job.key)))

    def round(self, *actions: Any, reasons: Any = None, **facts: Any) -> Any:
        """A round that decides this; what is told."""
        keeps, config = facts.pop("requires", ADMITS), facts.pop("config", SlurmConfig({}))
        decision = Decision({}, actions, reasons or {}, facts.pop("memory", {}))
        table = JobTable.from_views(self.views)
        state = ClusterState(CLUSTER, self.now, 1, (), (), (), table)
        given = {"policy": "chronus", "acting": True, "model_id": "m"} | facts
        result = RoundResult(
            RoundInfo("r", CLUSTER, self.now, seq=1, **given), state, decision, (), (), {}, 0
        )
        told = self.targets.after_round(result, keeps, config)
        news = RoundNews(30.0, "act", targets=told)
        self.bulletin = describe(result, config, news, self.requests)
        return told

    def key(self, job: int) -> JobKey:
        return replace(view(job).key, cluster=CLUSTER)

    def admit(self, job: int = 7, **facts: Any) -> Admit:
        given = {"finish_time": T0 + 800, "probability": 0.95, "plan": PLAN, "budget_gpu_s": 2e3}
        given |= {"admitted_time": T0} | facts
        return Admit("a", self.key(job), T0, 0, T0 + 600, None, **given)

    def refuse(self, job: int = 7, **facts: Any) -> Refuse:
        options = (Alternative("fewer-gpus", T0 + 9000, 2, 0.91),)
        given = {"earliest": T0 + 20_000, "alternatives": options} | facts
        return Refuse("r", self.key(job), T0, 0, T0 + 600, None, **given)

    def record(self, job: int = 7) -> Any:
        return self.history.targets().latest(CLUSTER, [self.key(job)])[self.key(job)]

    def events(self, job: int = 7) -> list[str]:
        return [event.what for event in self.history.targets().events(self.record(job))]

    def leave(self, job: int = 7, end: int = 800, state: JobState = JobState.COMPLETED) -> None:
        """The job has left the queue, and the history knows."""
        self.views = [v for v in self.views if v.key != self.key(job)]
        ended = attempt(job, T0, start_time=T0 + 1, end_time=T0 + end, state=state)
        self.history.ingest(batch(ended), source_key=None)

    def told(self, job: int = 7) -> dict[str, Any]:
        """The job's entry as somebody reads it."""
        document = parse_status(self.bulletin.public())
        assert document is not None
        return dict(document["jobs"][str(job)])


@contextmanager
def opened(folder: Path, template: Path) -> Iterator[Site]:
    """A site in a folder of its own; `template` is a database without rows."""
    path = folder / "history.db"
    path.write_bytes(template.read_bytes())
    made = Site(path)
    yield made
    made.history.close()
