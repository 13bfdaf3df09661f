"""Figures that clocks and overruns would turn negative."""

from __future__ import annotations

from support.history import attempt, batch

from gsched.app.measured import usage_of
from gsched.config.settings import Settings
from gsched.slurm.records import SlurmConfig
from gsched_sql import History


class Slurm:
    """A cluster without slurmdbd."""

    def config(self):
        return SlurmConfig({"ClusterName": "alpha"})

    def usage(self, _):
        from gsched.errors import NoAccountingError

        raise NoAccountingError("none")


def test_no_time_is_negative(monkeypatch, tmp_path):
    settings = Settings(state_dir=tmp_path)
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        overrun = attempt(7, 1000, start_time=1010, end_time=9000, time_limit_s=60)
        back = attempt(8, 1000, start_time=2000, end_time=1900)  # the clock was set back
        history.ingest(batch(overrun, back), source_key=None)
    monkeypatch.setattr("gsched.app.measured.slurm_client", lambda _: Slurm())
    (over,) = usage_of(settings, "7").jobs
    assert (over.unused_limit_s, over.last.elapsed_s) == (0, 7990)
    (set_back,) = usage_of(settings, "8").jobs
    assert set_back.last.elapsed_s == 0
