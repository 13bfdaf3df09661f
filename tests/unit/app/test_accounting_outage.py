"""While slurmdbd is away jobs go on ending: the model learns of all of them when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.history import attempt, batch
from support.jobs import T0, past_job, view

from gsched.app.daemon_model import DaemonModel
from gsched.app.daemon_upkeep import Upkeep
from gsched.app.watched_model import LATE_S
from gsched.config.settings import PredictSettings, Settings
from gsched.daemon.gate import Mode
from gsched.daemon.situation import Board
from gsched.errors import UnavailableError
from gsched.model.history import Batch
from gsched.predict import store
from gsched.predict.model import DurationModel
from gsched.slurm.parse_node_events import NodeEvents
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

ACCOUNTING = SlurmConfig(
    {"ClusterName": "c", "AccountingStorageType": "accounting_storage/slurmdbd"}
)
AWAY_S = 15 * 60


class Accounting:
    """A slurmdbd that can be away; `batches` are what it tells next."""

    def __init__(self) -> None:
        self.is_away = False
        self.batches: list[Batch] = []

    def accounting_chunks(self, *_: Any) -> Iterator[Batch]:
        if self.is_away:
            raise UnavailableError("slurmdbd does not answer")
        told, self.batches = self.batches, []
        return iter(told)

    def node_events(self, since: int) -> NodeEvents:
        del since
        return NodeEvents((), ())


class Site:
    """A daemon's upkeep with a model of jobs that took some ten seconds; `now` is the clock."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(state_dir=folder, predict=PredictSettings(retrain_interval_s=0))
        History.create(settings.database_url)
        jobs = [past_job(i, 10 + i % 3, end=T0 - 1000 + i, gpus=1) for i in range(40)]
        store.save(DurationModel.fit(jobs, T0, T0), settings.model_file)
        self.now = T0
        self.accounting = Accounting()
        self.history = History.open(settings.database_url)
        model = DaemonModel(settings, self.history, "c", lambda: self.now)
        client: Any = self.accounting
        unused: Any = None
        self.upkeep = Upkeep(model, client, unused, lambda: None, Board(T0, Mode.OBSERVE))
        self.predictor = self.upkeep.first_predictor()

    def rounds(self, seconds: int) -> None:
        """One a minute."""
        for _ in range(seconds // 60):
            self.now += 60
            self.upkeep.before(ACCOUNTING)

    def predicted_s(self, user: str) -> float:
        job = view(999, submit=self.now, user=user, name="sweep", gpus=1)
        (found,) = self.predictor.predict([job], self.now)
        assert found is not None
        return found.mean


def ended(user: str, at: int) -> Batch:
    """A job of an hour, as sacct tells it."""
    job = attempt(
        5000, at - 3700, cluster="c", user=user, name="sweep", num_gpus=1,
        start_time=at - 3600, end_time=at, time_limit_s=None,
    )  # fmt: skip
    return batch(job, cursor=str(at))


def test_what_ended_while_slurmdbd_was_away_is_learnt_from(tmp_path: Path) -> None:
    assert AWAY_S > LATE_S
    site = Site(tmp_path)
    site.rounds(60)
    site.accounting.is_away = True
    end = site.now + 30
    site.rounds(AWAY_S)
    assert site.upkeep.failures["ingest"] == AWAY_S // 60
    assert site.predicted_s("new") < 60  # as the others' jobs
    site.accounting.is_away = False
    site.accounting.batches = [ended("new", end)]
    site.rounds(60)
    assert site.predicted_s("new") > 1800
