"""Configuration and model keep their last good state, whatever becomes of the files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.history import attempt, batch
from support.jobs import T0, past_job

from gsched.app.daemon_model import DaemonModel, NoPredictor
from gsched.app.daemon_reload import Configuration
from gsched.app.daemon_upkeep import Upkeep
from gsched.app.refit import LONGEST_S, Refit
from gsched.config import loader
from gsched.config.settings import DaemonSettings, PredictSettings, Settings
from gsched.daemon.gate import Mode
from gsched.daemon.loop import ReplacedError
from gsched.daemon.situation import Board
from gsched.errors import (
    ConfigError,
    DataError,
    LostLeadershipError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.fit import FitOutcome
from gsched.predict import store
from gsched.predict.drift import DriftWatch
from gsched.predict.kept import KeptModels, Pin
from gsched.predict.model import DurationModel
from gsched.predict.watch_file import write_watch
from gsched.slurm.records import SlurmConfig
from gsched.testbed.wait import wait_for
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
        self.board = Board(T0, Mode.OBSERVE)

    def upkeep(self, refit: Refit | None = None) -> Upkeep:
        def alive() -> None:
            self.alive += 1

        nothing: Any = NothingNew()
        model = DaemonModel(self.settings, self.history, "c", lambda: T0, lambda: self.clock, refit)
        return Upkeep(model, nothing, nothing, alive, self.board)


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
    told = site.board.document(trusted=True)["model"]
    assert told["written_at"] is None
    assert "is no model file or is damaged" in told["problem"]
    public = site.board.document(trusted=False)["model"]
    assert public["problem"] == "it cannot be brought up to date"
    assert "model not up to date; see `gsched daemon status`" in site.board.line()
    trained(site)
    assert upkeep.before(NO_ACCOUNTING) is not None
    told = site.board.document(trusted=True)["model"]
    assert told["problem"] is None
    assert told["written_at"] == site.settings.model_file.stat().st_mtime_ns / 1e9
    assert "model not up to date" not in site.board.line()


def test_what_became_of_the_models_file_is_told_until_it_is_mended(site: Site) -> None:
    def told() -> tuple[float | None, str | None]:
        assert upkeep.before(NO_ACCOUNTING) is None
        model = site.board.document(trusted=True)["model"]
        return model["written_at"], model["problem"]

    trained(site)
    upkeep = site.upkeep()
    upkeep.first_predictor()
    before = told()
    assert before == (site.settings.model_file.stat().st_mtime_ns / 1e9, None)
    whole = site.settings.model_file.read_bytes()
    aside = site.settings.model_file.rename(site.settings.model_file.with_name("aside"))
    for contents in (None, b"", b"no model", whole[:1000], None):
        if contents is None:
            site.settings.model_file.unlink(missing_ok=True)
        else:
            site.settings.model_file.write_bytes(contents)
        for _ in range(3):
            written_at, problem = told()
            assert written_at == before[0]  # of the one that is in use still
            assert problem is not None
            assert ("gone" if contents is None else "damaged") in problem
    aside.rename(site.settings.model_file)
    assert upkeep.before(NO_ACCOUNTING) is not None
    assert told() == before


@pytest.mark.parametrize(
    ("daemon", "is_warned"),
    [
        (DaemonSettings(policy="fifo"), False),
        (DaemonSettings(policy="qssf"), True),
        (DaemonSettings(policy="fifo", policy_scope={"gpu": "qssf"}), True),
        (DaemonSettings(policy="chronus"), True),
    ],
    ids=["fifo", "qssf", "qssf in part", "chronus"],
)
def test_without_a_model_who_needs_one_is_warned(
    site: Site, caplog: pytest.LogCaptureFixture, daemon: DaemonSettings, is_warned: bool
) -> None:
    site.settings = replace(site.settings, daemon=replace(daemon, policy="fifo", policy_scope={}))
    upkeep = site.upkeep()
    upkeep.first_predictor()
    assert "no model yet" not in caplog.text
    upkeep.configure(replace(site.settings, daemon=daemon))  # a reload
    assert ("no model yet: jobs are ranked by their time limits" in caplog.text) is is_warned
    caplog.clear()
    site.settings = replace(site.settings, daemon=daemon)
    site.upkeep().first_predictor()
    assert ("no model yet: jobs are ranked by their time limits" in caplog.text) is is_warned


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


def trained(site: Site, *, at: int = T0, count: int = 40) -> str:
    """A model of `count` jobs is put in use; its id."""
    jobs = [past_job(i, 10 + i % 3, end=T0 - 1000 + i, gpus=1) for i in range(count)]
    model = DurationModel.fit(jobs, at, at)
    store.save(model, site.settings.model_file)
    return model.info.model_id


def test_a_model_that_is_put_in_use_is_taken_up(site: Site) -> None:
    upkeep = site.upkeep()
    first = upkeep.first_predictor()
    assert first.model_id == "cold-start"
    assert upkeep.before(NO_ACCOUNTING) is None
    model_id = trained(site)
    fresh = upkeep.before(NO_ACCOUNTING)
    assert fresh is not None
    assert fresh.model_id == model_id
    assert upkeep.before(NO_ACCOUNTING) is None
    assert site.alive >= 2  # the watchdog waits for a large file
    written_at = site.board.now.model["written_at"]
    assert written_at == site.settings.model_file.stat().st_mtime_ns / 1e9


def test_a_pin_and_a_fallback_are_told_to_everybody(site: Site) -> None:
    trained(site)
    KeptModels(site.settings.model_file).set_pin(Pin("duration-0", T0 - 5, "root"))
    watch = DriftWatch({"gpu": T0 - 7}, {"gpu": "duration-0"})
    write_watch(KeptModels(site.settings.model_file).watch_file, watch)
    upkeep = site.upkeep()
    assert upkeep.first_predictor().model_id.endswith("+rolling")
    upkeep.before(NO_ACCOUNTING)
    told = site.board.document(trusted=False)["model"]
    assert (told["pinned"], told["pinned_since"], told["fallback"]) == (
        "duration-0",
        T0 - 5,
        {"gpu": T0 - 7},
    )
    assert "model duration-0 is pinned" in site.board.line()
    assert "jobs with GPUs are predicted by the rolling estimate" in site.board.line()


def test_a_damaged_pin_stops_neither_model_nor_learning(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep = site.upkeep()
    upkeep.first_predictor()
    model_id = trained(site)
    (site.settings.model_file.parent / "pinned.json").write_text("{")
    fresh = upkeep.before(NO_ACCOUNTING)
    assert fresh is not None
    assert fresh.model_id == model_id
    upkeep.before(NO_ACCOUNTING)
    assert caplog.text.count("pinned.json is damaged") == 1
    told = site.board.document(trusted=True)["model"]
    assert "pinned.json is damaged" in told["problem"]
    assert told["written_at"] is not None
    KeptModels(site.settings.model_file).release()
    upkeep.before(NO_ACCOUNTING)
    assert site.board.document(trusted=True)["model"]["problem"] is None


# -- refits ----------------------------------------------------------------------------------------


@pytest.fixture
def refit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Refit]:
    """Fits in a real process, which finds a Slurm that only says its cluster's name."""
    program = tmp_path / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'ClusterName = c'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GSCHED_CONFIG", str(tmp_path / "gsched.toml"))
    (tmp_path / "gsched.toml").write_text('state_dir = "/nowhere"\n')  # the daemon knows better
    made = Refit()
    yield made
    made.end()


def refitted(site: Site, upkeep: Upkeep, caplog: pytest.LogCaptureFixture, words: str) -> None:
    """Rounds until the log has the words."""

    def told() -> bool:
        upkeep.before(NO_ACCOUNTING)
        return words in caplog.text

    wait_for(told, words, timeout_s=60)


def test_a_refit_comes_by_the_monotonic_clock_and_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refit: Refit
) -> None:
    site = Site(tmp_path / "state", retrain_interval_s=3600, history_days=36500)
    caplog.set_level("INFO")
    old = trained(site)
    site.history.ingest(
        batch(*(attempt(n, T0 + n, cluster="c") for n in range(20))), source_key=None
    )
    upkeep = site.upkeep(refit)
    assert upkeep.first_predictor().model_id == old
    upkeep.before(NO_ACCOUNTING)
    assert not refit.is_running
    site.clock += 3601
    upkeep.before(NO_ACCOUNTING)
    assert refit.is_running
    refitted(site, upkeep, caplog, "refit: duration-")
    upkeep.before(NO_ACCOUNTING)
    assert "new model duration-" in caplog.text
    assert not refit.is_running
    (fit,) = site.history.fits("c").newest(5)
    assert (fit.outcome, fit.started_by, fit.num_jobs) == (FitOutcome.ADOPTED, "timer", 20)
    assert fit.model_id in caplog.text
    assert KeptModels(site.settings.model_file).models()[0].model_id == fit.model_id


def test_without_a_model_the_first_refit_comes_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refit: Refit
) -> None:
    site = Site(tmp_path / "state", retrain_interval_s=3600)
    caplog.set_level("INFO")
    upkeep = site.upkeep(refit)
    upkeep.first_predictor()
    upkeep.before(NO_ACCOUNTING)
    assert refit.is_running
    refitted(site, upkeep, caplog, "no new model: 0 finished jobs of cluster c")
    assert upkeep.failures["model"] == 0
    upkeep.before(NO_ACCOUNTING)
    assert not refit.is_running  # the next one by the clock


def test_a_refit_that_is_killed_is_told_and_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refit: Refit
) -> None:
    site = Site(tmp_path / "state", retrain_interval_s=3600)
    upkeep = site.upkeep(refit)
    upkeep.first_predictor()
    upkeep.before(NO_ACCOUNTING)
    assert refit.pid is not None
    os.kill(refit.pid, signal.SIGKILL)
    refitted(site, upkeep, caplog, "the refit failed: its process ended without a word (signal 9)")
    assert upkeep.failures["model"] == 1
    upkeep.before(NO_ACCOUNTING)
    assert "the refit failed" in site.board.document(trusted=True)["model"]["problem"]
    site.clock += 3601
    upkeep.before(NO_ACCOUNTING)
    assert refit.is_running
    caplog.set_level("INFO")
    refitted(site, upkeep, caplog, "no new model: 0 finished jobs")
    assert site.board.document(trusted=True)["model"]["problem"] is None


@pytest.mark.usefixtures("refit")  # for its Slurm
def test_a_refit_that_hangs_is_killed_and_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path / "state", retrain_interval_s=86400)
    refit = Refit(lambda: site.clock)
    upkeep = site.upkeep(refit)
    upkeep.first_predictor()
    upkeep.before(NO_ACCOUNTING)
    assert refit.pid is not None
    os.kill(refit.pid, signal.SIGSTOP)
    site.clock += LONGEST_S - 1
    upkeep.before(NO_ACCOUNTING)
    assert refit.is_running
    pid = refit.pid
    site.clock += 2
    for _ in range(3):
        upkeep.before(NO_ACCOUNTING)
        assert not refit.is_running
    assert not Path(f"/proc/{pid}").exists()
    assert caplog.text.count("the refit failed: it had not ended after 3600 s: killed") == 1
    assert upkeep.failures["model"] == 1
    told = site.board.document(trusted=True)["model"]
    assert told["problem"] == "the refit failed: it had not ended after 3600 s: killed"
    site.clock += 86400
    upkeep.before(NO_ACCOUNTING)
    assert refit.is_running
    refit.end()


def test_where_one_round_is_run_there_are_no_refits(tmp_path: Path) -> None:
    site = Site(tmp_path, retrain_interval_s=1)
    upkeep = site.upkeep(None)
    upkeep.first_predictor()
    site.clock += 10
    assert upkeep.before(NO_ACCOUNTING) is None
    assert upkeep.failures["model"] == 0


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


# -- the ledger of tenants -------------------------------------------------------------------------


class Ledger:
    """Remembers what it is asked; `errors` by call are raised."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.errors: dict[str, Exception] = {}

    def note_quotas(self) -> None:
        self._called("quotas")

    def close_hours(self, told_until: int | None) -> None:
        self._called("hours", told_until)

    def configure(self, settings: Settings) -> None:
        self._called("settings", settings)

    def _called(self, name: str, *of: Any) -> None:
        self.calls.append((name, *of))
        if name in self.errors:
            raise self.errors[name]


class Sighted:
    """A backend whose look can be kept, unless there is an `error`."""

    def __init__(self) -> None:
        self.kept = 0
        self.error: Exception | None = None

    def sightings(self) -> Any:
        if self.error is not None:
            raise self.error
        return batch()

    def sightings_kept(self) -> None:
        self.kept += 1


class Kept:
    """An upkeep with a ledger. Its history takes in what Slurm tells, unless `error` is set."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger, self.backend = Ledger(), Sighted()
        self.error: Exception | None = None
        monkeypatch.setattr("gsched.app.daemon_upkeep.ingest", self._ingest)
        model = DaemonModel(site.settings, site.history, "c", lambda: T0, lambda: 0.0, None)
        backend, ledger, client = self.backend, self.ledger, None
        parts: Any = (client, backend, lambda: None, site.board, ledger)
        self.upkeep = Upkeep(model, *parts)
        self.upkeep.first_predictor()

    def _ingest(self, *_of: Any, **_more: Any) -> None:
        if self.error is not None:
            raise self.error

    def round(self) -> None:
        self.upkeep.before(NO_ACCOUNTING)


@pytest.fixture
def kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(site, monkeypatch)


def test_each_round_notes_quotas_and_closes_what_is_told(kept: Kept) -> None:
    kept.error = TryAgainError("slurmdbd is away")
    kept.round()
    assert kept.ledger.calls == [("quotas",), ("hours", None)]  # nothing is told yet
    kept.error = None
    kept.round()
    assert kept.ledger.calls[2:] == [("quotas",), ("hours", T0)]
    kept.error = TryAgainError("slurmdbd is away")
    kept.round()
    assert kept.ledger.calls[4:] == [("quotas",), ("hours", T0)]
    assert kept.upkeep.failures["fairness"] == 0


@pytest.mark.parametrize("call", ["quotas", "hours"])
def test_a_daemon_that_no_longer_leads_ends_its_round_at_the_ledger(kept: Kept, call: str) -> None:
    kept.ledger.errors[call] = LostLeadershipError("another daemon has taken over")
    with pytest.raises(LostLeadershipError):
        kept.round()
    assert kept.upkeep.failures["fairness"] == 0


def test_a_ledger_that_fails_stops_no_round_and_is_told_once(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [m.rpartition(": ")[2] for m in caplog.messages if m.startswith("accounts of")]

    kept.ledger.errors = {"quotas": TryAgainError("no sacctmgr"), "hours": TryAgainError("locked")}
    for _ in range(2):
        kept.round()
    assert told() == ["no sacctmgr", "locked"]
    assert kept.upkeep.failures["fairness"] == 4
    assert len(kept.ledger.calls) == 4  # hours are closed whatever becomes of quotas
    kept.ledger.errors = {}
    kept.round()
    kept.ledger.errors = {"hours": TryAgainError("locked")}
    kept.round()
    assert told()[2:] == ["locked"]  # it had been mended meanwhile


def test_the_ledger_follows_a_reload(kept: Kept, site: Site) -> None:
    other = replace(site.settings, predict=replace(site.settings.predict, history_days=9))
    kept.upkeep.configure(other)
    assert kept.ledger.calls == [("settings", other)]


def test_the_history_is_told_once_it_has_ended_jobs_and_the_last_look(kept: Kept) -> None:
    """A policy that began by less would forget what tenants received."""
    upkeep, backend = kept.upkeep, kept.backend
    assert (upkeep.is_told(), backend.kept) == (False, 0)
    kept.error = TryAgainError("slurmdbd is away")
    kept.round()
    assert (upkeep.is_told(), backend.kept) == (False, 0)
    kept.error = None
    kept.round()
    backend.error = TryAgainError("the database is locked")
    assert (upkeep.is_told(), backend.kept) == (False, 0)
    backend.error = None
    assert not upkeep.is_told()  # until a round has taken in all again
    kept.round()
    assert (upkeep.is_told(), backend.kept) == (True, 1)
    kept.error = TryAgainError("slurmdbd is away")
    kept.round()
    assert (upkeep.is_told(), backend.kept) == (False, 1)


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
