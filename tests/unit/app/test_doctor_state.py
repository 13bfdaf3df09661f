"""Every misconfiguration of what gsched keeps and runs: planted, found, mended as doctor says."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import old_history
from support.jobs import T0, past_job
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.paper_site import PaperSite, carry_out

from gsched.app.doctor import Finding, Walk, examine_state, forecasts, state_folder, units
from gsched.app.doctor.findings import guarded
from gsched.config.loader import load
from gsched.config.settings import Settings
from gsched.daemon.locks import StateDir
from gsched.daemon.unix_server import Asker, UnixServer
from gsched.errors import TryAgainError
from gsched.predict import store
from gsched.predict.drift import DriftWatch, Ended
from gsched.predict.kept import KeptModels, Pin
from gsched.predict.model import DurationModel
from gsched.predict.watch_file import write_watch
from gsched_sql.engine import open_engine

NOBODY = 65534
GAMES = pwd.getpwnam("games").pw_uid


@pytest.fixture
def site(tmp_path: Path) -> PaperSite:
    return PaperSite(tmp_path)


def found(site: PaperSite, code: str, level: str) -> Finding:
    finding = site.complaints()[code]
    assert (finding.level, bool(finding.mend)) == (level, True)
    return finding


def test_whatever_a_check_runs_into_is_a_finding() -> None:
    def busy() -> Iterator[Finding]:
        yield Finding("ok", "x", "x", "half of it")
        raise TryAgainError("busy", "wait")

    def broken() -> Iterator[Finding]:
        raise OSError(5, "Input/output error", "/file")

    assert guarded("c", "x", busy) == [Finding("warn", "c", "x", "busy", "wait")]
    (finding,) = guarded("c", "x", broken)
    assert (finding.level, finding.found) == (
        "warn",
        "cannot look: [Errno 5] Input/output error: '/file'",
    )


# -- the configuration --------------------------------------------------------------------------


def test_a_variable_and_a_key_that_there_is_not(site: PaperSite) -> None:
    site.environ["GSCHED_DAEMON_POLICE"] = "fifo"
    finding = found(site, "configuration", "fail")
    assert finding.found == "unknown environment variable GSCHED_DAEMON_POLICE"
    assert finding.mend == "did you mean GSCHED_DAEMON_POLICY?"
    del site.environ["GSCHED_DAEMON_POLICE"]
    site.configure("daemon", freeze='["Fri 25:00-Mon 08:00"]')
    assert "25:00" in found(site, "configuration", "fail").found
    site.configure("daemon", freeze="[]")
    assert site.complaints() == {}


def test_a_configuration_that_others_can_change(site: PaperSite) -> None:
    site.examine()
    (site.folder / "gsched.toml").chmod(0o664)
    carry_out(found(site, "configuration-writable", "warn").mend)
    assert site.complaints() == {}


def test_a_policy_or_a_knob_that_there_is_not(site: PaperSite) -> None:
    site.configure("daemon", policy='"qsff"')
    assert "known policies" in found(site, "policy", "fail").mend
    site.configure("daemon", policy='"fifo"')
    site.configure("daemon.policy_scope", gpu='"qsff"')
    assert "daemon.policy_scope.gpu" in found(site, "policy", "fail").found
    site.configure("daemon.policy_scope", gpu='"qssf"')
    site.configure("daemon.knobs", speed="3")
    assert "speed" in found(site, "policy", "fail").found
    del site.settings["daemon.knobs"]
    assert site.complaints() == {}


def test_a_time_zone_that_there_is_not(site: PaperSite) -> None:
    site.environ["TZ"] = "Europe/Berlim"
    assert "in UTC" in found(site, "time-zone", "warn").found
    for sound in ("Europe/Berlin", "CET-1CEST", ":Europe/Berlin", "", "<+03>-3"):
        site.environ["TZ"] = sound
        assert site.complaints() == {}


# -- the state folder ---------------------------------------------------------------------------


def test_a_folder_that_is_not_there(site: PaperSite) -> None:
    site.state.rename(site.folder / "elsewhere")
    finding = found(site, "state-folder-absent", "warn")
    assert "gsched db init" in finding.mend
    assert site.complaints()["database-absent"].mend == "run `gsched db init`"
    (site.folder / "elsewhere").rename(site.state)
    assert site.complaints() == {}


def test_a_folder_that_others_can_write_to(site: PaperSite) -> None:
    site.state.chmod(0o777)
    carry_out(found(site, "state-folder-writable", "fail").mend)
    assert stat.S_IMODE(site.state.stat().st_mode) == 0o755
    assert site.complaints() == {}


def test_files_of_another_owner_than_the_folders(site: PaperSite) -> None:
    os.chown(site.state / "history.db", GAMES, -1)
    finding = found(site, "state-folder-owner", "fail")
    assert "history.db is games's" in finding.found
    carry_out(finding.mend)
    assert site.complaints() == {}


@pytest.mark.skipif(not has_mount_namespaces(), reason=NO_NAMESPACES)
def test_a_disk_without_room(site: PaperSite) -> None:
    script = (
        "import sys; from gsched.app.doctor import examine; import json, dataclasses;"
        "print(json.dumps([dataclasses.asdict(f) for f in examine()]))"
    )
    site.examine()
    mount = f'mount -t tmpfs -o size=32m none "{site.state}" && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", script]
    environ = {**os.environ, **site.environ, "GSCHED_CONFIG": str(site.folder / "gsched.toml")}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    levels = {f["code"]: f["level"] for f in json.loads(done.stdout)}
    assert levels["disk-full"] == "fail"


def test_room_is_enough_or_low(site: PaperSite) -> None:
    free = os.statvfs(site.state)
    is_low = free.f_bavail * free.f_frsize < state_folder.LOW_BYTES
    assert ("disk-full" in site.complaints()) == is_low


@contextmanager
def as_somebody_else(folder: Path) -> Iterator[None]:
    """Closes the state folder to the process, which is not root for so long."""
    was_root = os.geteuid() == 0
    folder.chmod(0)
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_of_a_closed_folder_it_is_said_that_it_is_closed(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    settings.state_dir.mkdir()
    examine_state(Walk(settings))  # what is imported on the way may lie where nobody may look
    with as_somebody_else(settings.state_dir):
        findings = examine_state(Walk(settings))
    said = {f.what: f for f in findings if f.what in {"history database", "duration model"}}
    assert set(said) == {"history database", "duration model"}
    assert all("ermission denied" in f.found for f in findings if f.level != "ok")


def test_a_folder_with_an_impossible_name(tmp_path: Path) -> None:
    findings = examine_state(Walk(Settings(state_dir=tmp_path / ("x" * 300))))
    assert {f.level for f in findings if f.what in {"daemon", "duration model"}} <= {"warn", "ok"}


# -- the database -------------------------------------------------------------------------------


def test_a_database_of_an_older_gsched(site: PaperSite, tmp_path: Path) -> None:
    path = site.state / "history.db"
    path.unlink()
    engine = open_engine(f"sqlite:///{path}", create=True)
    old_history.make(engine, "0001")
    engine.dispose()
    finding = found(site, "database-schema", "fail")
    assert "older gsched" in finding.found
    assert "gsched db upgrade" in finding.mend


def test_a_database_that_is_none(site: PaperSite) -> None:
    path = site.state / "history.db"
    kept = path.read_bytes()
    path.write_bytes(b"garbage" * 1000)
    finding = found(site, "database-damaged", "fail")
    assert "gsched db" in finding.mend
    path.write_bytes(kept)
    assert site.complaints() == {}


def test_a_database_in_which_somebody_writes_and_writes(site: PaperSite) -> None:
    writer = sqlite3.connect(site.state / "history.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert "locked" in found(site, "database-locked", "warn").found
    writer.close()
    assert site.complaints() == {}


def test_a_server_that_does_not_answer(site: PaperSite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    site.configure("database", url=f'"postgresql://u@127.0.0.1:{port}/d"')
    assert "cannot be reached" in found(site, "database-down", "fail").found


# -- the model ----------------------------------------------------------------------------------


def model_file(site: PaperSite) -> Path:
    """A trained model, and the settings that use it."""
    path = site.state / "models" / "duration.gsmodel"
    jobs = [past_job(i, 10 + i % 3, end=T0 + i, name="train", gpus=1) for i in range(40)]
    store.save(DurationModel.fit(jobs, as_of=T0 + 100, trained_at=T0 + 100), path)
    return path


def test_a_model_that_is_missing_damaged_or_old(site: PaperSite) -> None:
    site.configure("predict", estimator='"model"')
    assert "gsched predict train" in found(site, "model-missing", "warn").mend
    site.configure("daemon", policy='"chronus"', leases="true")  # which promises by them
    assert "time limits" in found(site, "model-missing", "warn").found
    site.configure("daemon", policy='"fifo"', leases="false")  # which ranks without
    assert "does without" in found(site, "model-missing", "note").found
    site.configure("daemon", policy='"qssf"')
    path = model_file(site)
    assert site.complaints() == {}
    long_ago = time.time() - 30 * 86400
    os.utime(path, (long_ago, long_ago))
    assert "720 hours old" in found(site, "model-old", "warn").found
    site.configure("predict", retrain_interval_s="0")  # then nobody expects a newer one
    assert site.complaints() == {}
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "gsched predict train" in found(site, "model-damaged", "fail").mend


def test_a_model_that_is_pinned_or_has_become_worse(site: PaperSite) -> None:
    site.configure("predict", estimator='"model"', retrain_interval_s="0")
    kept = KeptModels(model_file(site))
    kept.set_pin(Pin("duration-0", int(time.time()) - 3 * 86400, "root"))
    pinned = found(site, "model-pinned", "note")
    assert "root has pinned duration-0 3 days ago" in pinned.found
    assert "rollback --release" in pinned.mend
    kept.release()
    # Of sixty users' jobs the model was ten times off, the rolling estimate not at all.
    jobs = [Ended(T0 + n, f"user{n}", 1, 60.0 + n, "m", (9.0, 60.0 + n, 50.0)) for n in range(60)]
    write_watch(kept.watch_file, DriftWatch({"gpu": T0}, {"gpu": "older"}, windows={"gpu": jobs}))
    worse = found(site, "model-fallback", "warn")
    assert "for 60 ended jobs with GPUs, predictions are off by model ×9" in worse.found
    write_watch(kept.watch_file, DriftWatch(windows={"gpu": jobs}))
    assert "last two jobs predicts better" in found(site, "model-naive", "warn").found
    kept.watch_file.write_text("{")
    assert "begins anew" in found(site, "drift-damaged", "note").mend


def test_a_table_that_is_none(site: PaperSite) -> None:
    site.configure("predict", estimator='"table"')
    assert "predict.table" in found(site, "estimator", "fail").mend


# -- the daemon ---------------------------------------------------------------------------------


def status(site: PaperSite, as_of: float) -> None:
    document = {"version": 1, "as_of": as_of, "interval_s": 30.0, "jobs": {}}
    (site.state / "status.json").write_text(json.dumps(document))


def nothing(_question: dict[str, Any], _asker: Asker) -> dict[str, Any]:
    return {}


@contextmanager
def leading(site: PaperSite) -> Iterator[None]:
    """This process is the daemon, as far as the folder tells."""
    path = site.state / "daemon.sock"
    with (
        StateDir(site.state).leading({"mode": "observe"}),
        UnixServer(nothing).listening(path),
    ):
        yield


def test_a_daemon_that_lives_but_does_nothing(site: PaperSite) -> None:
    with leading(site):
        status(site, time.time())
        assert site.complaints() == {}
        status(site, time.time() - 3600)
        finding = found(site, "daemon-hung", "fail")
    assert f"process {os.getpid()} lives" in finding.found
    assert f"kill -9 {os.getpid()}" in finding.mend
    assert site.complaints() == {}  # not running is no fault


def test_halt_kill_switch_and_freeze(site: PaperSite) -> None:
    StateDir(site.state).halt("a test")
    assert found(site, "halt", "warn").found == "acting is halted by a test"
    StateDir(site.state).lift_halt()
    switch = site.folder / "off"
    site.configure("daemon", kill_switch=f'"{switch}"')
    switch.write_text("power cut\n")
    finding = found(site, "kill-switch", "warn")
    assert "power cut" in finding.found
    carry_out(finding.mend)
    site.configure("daemon", freeze='["2020-01-01T00:00/2090-01-01T00:00"]')
    assert "until 2090" in found(site, "frozen", "note").found
    site.configure("daemon", freeze="[]")
    assert site.complaints() == {}


# -- sockets and metrics ------------------------------------------------------------------------


def test_a_daemon_without_its_socket_or_with_a_closed_one(site: PaperSite) -> None:
    with StateDir(site.state).leading({"mode": "observe"}):
        assert "restart" in found(site, "daemon-socket-absent", "warn").mend
        path = site.state / "daemon.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        path.chmod(0o666)
        assert "any more" in found(site, "daemon-socket-absent", "warn").found
        path.unlink()
    with leading(site):
        (site.state / "daemon.sock").chmod(0o600)
        finding = found(site, "daemon-socket-mode", "warn")
        assert "0600" in finding.found
        carry_out(finding.mend)
        assert site.complaints() == {}


def test_a_helper_that_is_wanted_but_not_there(site: PaperSite) -> None:
    site.configure("helper", verbs='["drain"]', nodes='["gn01"]', user='"root"')
    assert "gsched-helper" in found(site, "helper-socket-absent", "warn").mend
    with UnixServer(nothing).listening(site.state / "helper.sock"):
        assert site.complaints() == {}


@pytest.mark.parametrize("key", ["metrics_listen", "query_listen"])
def test_a_port_that_somebody_else_has(site: PaperSite, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f'"127.0.0.1:{other.getsockname()[1]}"'
        site.configure("daemon", **{key: address})
        assert "Address already in use" in found(site, "port-in-use", "warn").found
    assert site.complaints() == {}


def test_a_metrics_file_that_cannot_be_written(site: PaperSite) -> None:
    folder = site.folder / "textfiles"
    site.configure("daemon", metrics_file=f'"{folder}/gsched.prom"')
    carry_out(found(site, "metrics-folder", "warn").mend)
    assert site.complaints() == {}
    for path in (site.state, *site.state.rglob("*")):
        os.chown(path, GAMES, -1)
    finding = found(site, "metrics-folder", "warn")
    assert finding.found.startswith("games cannot make files")
    carry_out(finding.mend)
    assert "metrics-folder" not in site.complaints()


# -- the unit -----------------------------------------------------------------------------------


def test_a_unit_that_runs_as_another_than_the_folders_owner(site: PaperSite) -> None:
    site.examine()
    folders = [site.folder / "etc-units", site.folder / "lib-units"]
    for folder in folders:
        folder.mkdir()
    unit = "[Service]\nExecStart=/usr/bin/gsched daemon run --observe\nUser=games\n"
    (folders[1] / "gsched-daemon.service").write_text(unit)
    (folders[1] / "gsched-helper.service").write_text("[Service]\nExecStart=/usr/bin/gsched-helper")
    walk = Walk(load({**site.environ, "GSCHED_CONFIG": str(site.folder / "gsched.toml")}))

    def look() -> Finding:
        (finding,) = units.check(Walk(walk.settings), folders)
        return finding

    assert (look().code, look().level) == ("unit-user", "warn")
    carry_out(look().mend)
    assert look().level == "ok"
    shared = folders[1] / "gsched-.service.d"
    shared.mkdir()
    (shared / "10-user.conf").write_text("[Service]\nUser=mail\n")
    assert "as mail" in look().found
    drop_in = folders[0] / "gsched-daemon.service.d"
    drop_in.mkdir()
    (drop_in / "user.conf").write_text("[Service]\nUser=news\n")
    assert "as news" in look().found
    (folders[0] / "gsched-daemon.service").write_text(unit.replace("games", "backup"))
    (drop_in / "user.conf").unlink()
    (shared / "10-user.conf").unlink()
    assert "as backup" in look().found
    assert list(units.check(walk, folders[1:1])) == []


# -- forecasts -----------------------------------------------------------------------------------


@contextmanager
def daemon_that_says(site: PaperSite, forecast: dict[str, Any]) -> Iterator[None]:
    """A control socket whose daemon fares so."""
    path = site.state / "daemon.sock"

    def answer(_question: dict[str, Any], _asker: Asker) -> dict[str, Any]:
        return {"forecast": forecast}

    with UnixServer(answer).listening(path, 0o666):
        yield


def test_forecasts_that_come_to_nothing_are_found(site: PaperSite) -> None:
    now = time.time()
    told = {"as_of": now - 5, "jobs": 7, "problem": "", "failures": 0}
    with daemon_that_says(site, told):
        assert "forecast-failing" not in site.complaints()
        assert any(f.what == "forecasts" and "7 jobs" in f.found for f in site.examine())
    for wrong, words in (
        ({"problem": "it died (signal 9)"}, "signal 9"),
        ({"as_of": now - 3600}, "takes long"),
        ({"as_of": None, "problem": "it died"}, "none yet"),
    ):
        with daemon_that_says(site, told | wrong):
            assert words in found(site, "forecast-failing", "warn").found
    site.configure("forecast", enabled="false")
    with daemon_that_says(site, told | {"problem": "it died"}):
        assert "forecast-failing" not in site.complaints()


def test_a_unit_that_lets_nothing_be_compiled_is_found(site: PaperSite, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    for drop_in in ("gsched-.service.d", "gsched-daemon.service.d"):
        (folder / drop_in).mkdir(parents=True)
    (folder / "gsched-daemon.service").write_text("[Service]\nExecStart=gsched daemon run\n")
    sandbox = folder / "gsched-.service.d" / "10-sandbox.conf"
    sandbox.write_text("[Service]\nMemoryDenyWriteExecute=yes\n")
    site.examine()
    walk = Walk(load({**site.environ, "GSCHED_CONFIG": str(site.folder / "gsched.toml")}))

    def codes() -> list[str]:
        return [finding.code for finding in forecasts.check(walk, (folder,))]

    assert codes() == ["forecast-sandbox"]
    more = folder / "gsched-daemon.service.d" / "20-forecast.conf"
    more.write_text("[Service]\nMemoryDenyWriteExecute=no\n")
    assert codes() == []
