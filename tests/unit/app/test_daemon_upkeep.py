"""Configuration and model keep their last good state, whatever becomes of the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gsched.app.daemon_reload import Configuration
from gsched.app.daemon_upkeep import NoPredictor, Upkeep
from gsched.config import loader
from gsched.config.settings import DaemonSettings, PredictSettings, Settings
from gsched.daemon.loop import ReplacedError
from gsched.errors import ConfigError, DataError, TryAgainError, UnavailableError
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

NO_ACCOUNTING = SlurmConfig({"ClusterName": "c", "AccountingStorageType": "(null)"})


class NothingNew:
    """A backend that has seen nothing since the last round."""

    def sightings(self) -> Any:
        raise TryAgainError("the database is locked")

    def sightings_kept(self) -> None:
        pytest.fail("nothing was kept")


class Site:
    """A history and a state folder; `clock` is the monotonic one."""

    def __init__(self, folder: Path, **predict: Any) -> None:
        settings = {"retrain_interval_s": 0, **predict}
        self.settings = Settings(state_dir=folder, predict=PredictSettings(**settings))
        History.create(self.settings.database_url)
        self.history = History.open(self.settings.database_url)
        self.clock = 1000.0
        self.alive = 0

    def upkeep(self) -> Upkeep:
        def alive() -> None:
            self.alive += 1

        nothing: Any = NothingNew()
        return Upkeep(self.settings, nothing, self.history, nothing, alive, lambda: self.clock)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def corrupt(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no model")


def test_a_damaged_model_at_the_start_moves_no_job(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    corrupt(site.settings.model_file)
    upkeep = site.upkeep()
    assert isinstance(upkeep.first_predictor(), NoPredictor)
    for _ in range(3):
        assert upkeep.before(NO_ACCOUNTING) is None
    assert caplog.text.count("model not brought up to date") == 1
    assert upkeep.failures["model"] == 1


@pytest.mark.parametrize(
    ("daemon", "is_warned"),
    [
        (DaemonSettings(policy="fifo"), False),
        (DaemonSettings(policy="qssf"), True),
        (DaemonSettings(policy="fifo", policy_scope={"gpu": "qssf"}), True),
    ],
    ids=["fifo", "qssf", "qssf in part"],
)
def test_without_a_model_who_needs_one_is_warned(
    site: Site, caplog: pytest.LogCaptureFixture, daemon: DaemonSettings, is_warned: bool
) -> None:
    site.settings = replace(site.settings, daemon=replace(daemon, policy="fifo", policy_scope={}))
    upkeep = site.upkeep()
    upkeep.first_predictor()
    assert "no model yet" not in caplog.text
    upkeep.configure(replace(site.settings, daemon=daemon))  # a reload
    assert ("no model yet, so no job is ranked" in caplog.text) is is_warned
    caplog.clear()
    site.settings = replace(site.settings, daemon=daemon)
    site.upkeep().first_predictor()
    assert ("no model yet, so no job is ranked" in caplog.text) is is_warned


def test_a_model_that_is_gone_stays_in_use(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    corrupt(site.settings.model_file)
    upkeep = site.upkeep()
    site.settings.model_file.unlink()
    for _ in range(3):
        assert upkeep.before(NO_ACCOUNTING) is None  # and no NoPredictor in its place
    assert caplog.text.count("is gone: the last model stays in use") == 1
    assert upkeep.failures["model"] == 3
    corrupt(site.settings.model_file)  # another file: it is looked at, and refused, once
    assert upkeep.before(NO_ACCOUNTING) is None
    assert upkeep.before(NO_ACCOUNTING) is None
    assert upkeep.failures["model"] == 4


def test_a_refit_comes_by_the_monotonic_clock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path, retrain_interval_s=3600)
    upkeep = site.upkeep()
    caplog.set_level("INFO")

    def fits() -> int:  # for lack of jobs, or of a Slurm to ask
        return upkeep.failures["model"] + caplog.text.count("no new model")

    upkeep.before(NO_ACCOUNTING)
    assert fits() == 0
    site.clock += 3601
    upkeep.before(NO_ACCOUNTING)
    upkeep.before(NO_ACCOUNTING)
    assert fits() == 1
    assert site.alive >= 1  # the watchdog waits for a fit


def test_a_history_that_cannot_take_in_what_was_seen_is_told_it_again(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep = site.upkeep()
    upkeep.after()
    upkeep.after()
    assert caplog.text.count("history not brought up to date: the database is locked") == 1
    assert upkeep.failures["ingest"] == 2


def test_a_database_that_was_moved_or_replaced(site: Site) -> None:
    upkeep = site.upkeep()
    path = site.settings.state_dir / "history.db"
    path.rename(path.with_name("moved.db"))
    with pytest.raises(UnavailableError, match="was moved or replaced") as error:
        upkeep.check()
    assert not isinstance(error.value, ReplacedError)
    History.create(site.settings.database_url)
    with pytest.raises(ReplacedError):
        upkeep.check()
    path.with_name("moved.db").rename(path)
    upkeep.check()


# -- reloads -------------------------------------------------------------------------------------


class Admin:
    """Edits the configuration file of a running daemon."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gsched.toml"
        self.applied: list[Settings] = []
        self.file.write_text("")
        self.configuration = Configuration(self.load(), self.load)
        self.configuration.apply = self.applied.append

    def load(self) -> Settings:
        return loader.load({"GSCHED_CONFIG": str(self.file)})


@pytest.fixture
def admin(tmp_path: Path) -> Admin:
    return Admin(tmp_path)


def test_what_changed_and_what_needs_a_restart(admin: Admin) -> None:
    admin.file.write_text(
        'state_dir = "/elsewhere"\n[daemon]\npolicy = "fifo"\nfreeze = ["22:00-06:00"]\n'
        'socket = "/elsewhere/sock"\nquery_user = "somebody"\n'
        "[slurm]\ncommand_timeout_s = 5\n[helper]\nnodes = ['gn01']\n"
    )
    done = admin.configuration.reload()
    assert set(done.changed) == {"daemon.policy", "daemon.freeze"}
    assert set(done.needs_restart) == {"state_dir", "daemon.socket", "slurm.command_timeout_s"}
    now = admin.configuration.settings
    assert (now.daemon.policy, now.daemon.socket, now.state_dir) == (
        "fifo",
        "",
        Settings().state_dir,
    )
    assert admin.applied == [now]
    assert admin.configuration.reload().changed == ()  # said again is only what needs a restart


@pytest.mark.parametrize(
    "text", ["[daemon", "[daemon]\nfreeze = ['never']\n", "[daemon]\npolcy = 'x'\n", "\x00"]
)
def test_a_wrong_file_keeps_the_settings(admin: Admin, text: str) -> None:
    before = admin.configuration.settings
    admin.file.write_text(text)
    with pytest.raises(ConfigError):
        admin.configuration.reload()
    assert admin.configuration.settings is before
    assert admin.applied == []


def test_what_cannot_be_put_in_force_keeps_the_settings(admin: Admin) -> None:
    before = admin.configuration.settings

    def refuse(_: Settings) -> None:
        raise DataError("no such policy")

    admin.configuration.apply = refuse
    admin.file.write_text("[daemon]\npolicy = 'nonsense'\n")
    with pytest.raises(DataError):
        admin.configuration.reload()
    assert admin.configuration.settings is before


def test_a_table_is_read_again_at_a_reload_and_a_bad_one_refused(tmp_path: Path) -> None:
    table = tmp_path / "durations.csv"
    table.write_text("user,name,duration_s\ngames,x,5\n")
    site = Site(tmp_path, estimator="table", table=str(table))
    upkeep = site.upkeep()
    first = upkeep.first_predictor()
    table.write_text("user,name,duration_s\ngames,x,7\n")
    upkeep.configure(site.settings)
    second = upkeep.before(NO_ACCOUNTING)
    assert second is not None
    assert second.model_id != first.model_id
    table.write_text("nonsense")
    with pytest.raises(DataError):
        upkeep.configure(replace(site.settings))
    assert upkeep.before(NO_ACCOUNTING) is None
