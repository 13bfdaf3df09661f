"""Faults of what the daemon keeps: its database, its disk, its status file, its model."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gsched.testbed.wait import wait_for
from gsched_sql.engine import SILENCE_LIMIT_S
from support.faults import Fault
from support.faults_site import FaultSite

FAILED = "round failed"
_MODEL = ("models", "duration.gsmodel")


def _wait_for_failure(site: FaultSite) -> None:
    wait_for(lambda: site.says(FAILED), f"a failed round; it said {site.said()[-3:]}")


class _Lock:
    """Another program's hold on the database file, as a backup or a shell may have it."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, site: FaultSite) -> None:
        taken = threading.Event()

        def hold() -> None:
            connection = sqlite3.connect(site.state / "history.db", timeout=60)
            connection.execute("BEGIN IMMEDIATE")
            taken.set()
            self._free.wait()
            connection.rollback()
            connection.close()

        self._free.clear()
        self._thread = threading.Thread(target=hold, daemon=True)
        self._thread.start()
        taken.wait()
        _wait_for_failure(site)

    def give_back(self, _site: FaultSite) -> None:
        self._free.set()
        if self._thread is not None:
            self._thread.join()


_lock = _Lock()


def _limit_files(site: FaultSite) -> None:
    """No file of the daemon may grow any more: writes fail as on a full disk."""
    assert site.runner is not None
    pid = site.runner.process.pid
    limit = (site.state / "status.json").stat().st_size + 2**16
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    site.enlarge()
    _wait_for_failure(site)


def _unlimit_files(site: FaultSite) -> None:
    assert site.runner is not None
    if not site.gone():
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(site.runner.process.pid, resource.RLIMIT_FSIZE, unlimited)


def _move_database(site: FaultSite) -> None:
    (site.state / "history.db").rename(site.state / "moved.db")
    _wait_for_failure(site)


def _move_back(site: FaultSite) -> None:
    (site.state / "moved.db").rename(site.state / "history.db")


def _replace_database(site: FaultSite) -> None:
    """By a copy, as a restore does that does not wait for the daemon's end."""
    assert site.runner is not None
    site.runner.signal(signal.SIGSTOP)
    copy = site.state / "copy.db"
    with sqlite3.connect(site.state / "history.db") as old, sqlite3.connect(copy) as new:
        old.backup(new)
    copy.chmod(0o640)
    copy.rename(site.state / "history.db")
    for name in ("history.db-wal", "history.db-shm"):
        (site.state / name).unlink(missing_ok=True)
    site.runner.signal(signal.SIGCONT)
    wait_for(lambda: site.says("opening it anew"), "the daemon to notice")


def _fill_disk(site: FaultSite) -> None:
    """Nothing is left on the file system of the state folder (setting `small-disk`)."""
    ballast = site.state / "ballast"
    with ballast.open("wb") as f:
        while True:
            try:
                f.write(b"x" * 65536)
                f.flush()
            except OSError:
                break
    site.enlarge()
    _wait_for_failure(site)


def _free_disk(site: FaultSite) -> None:
    (site.state / "ballast").unlink()


def _block_status_file(site: FaultSite) -> None:
    status = site.state / "status.json"
    status.unlink()
    status.mkdir()
    (status / "x").touch()
    wait_for(lambda: site.says("status.json"), "the daemon to say that it cannot write it")


def _unblock_status_file(site: FaultSite) -> None:
    (site.state / "status.json" / "x").unlink()
    (site.state / "status.json").rmdir()


def _close_folder(site: FaultSite) -> None:
    """The daemon's user loses the right to write into its state folder (setting `slurmdbd`)."""
    site.state.chmod(0o555)
    wait_for(lambda: site.says("cannot write") or site.gone(), "the daemon to say so")


def _open_folder(site: FaultSite) -> None:
    site.state.chmod(0o755)


def _model(site: FaultSite) -> Path:
    return site.state.joinpath(*_MODEL)


def _spoil(site: FaultSite, data: bytes) -> None:
    path = _model(site)
    path.with_suffix(".good").write_bytes(path.read_bytes())
    spoilt = path.with_suffix(".new")
    spoilt.write_bytes(data)
    spoilt.rename(path)
    wait_for(lambda: site.says("not brought up to date"), "a warning")


def _flip_bytes(site: FaultSite) -> None:
    data = bytearray(_model(site).read_bytes())
    for at in site.rng.sample(range(len(data)), 40):
        data[at] ^= 0xFF
    _spoil(site, bytes(data))


def _begin_with_a_bad_model(site: FaultSite) -> None:
    site.stop()
    path = _model(site)
    path.rename(path.with_suffix(".good"))
    path.write_bytes(site.rng.randbytes(5000))
    site.start()


def _truncate_model(site: FaultSite) -> None:
    _spoil(site, _model(site).read_bytes()[:300])


def _delete_model(site: FaultSite) -> None:
    path = _model(site)
    path.with_suffix(".good").write_bytes(path.read_bytes())
    path.unlink()
    site.wait_for_round(site.status()["as_of"] + 1)


def _restore_model(site: FaultSite) -> None:
    _model(site).with_suffix(".good").rename(_model(site))


def _kill_server(site: FaultSite) -> None:
    SERVERS[str(site.bed.spec.root)][0].kill()
    _wait_for_failure(site)


def _start_server(site: FaultSite) -> None:
    SERVERS[str(site.bed.spec.root)][0].start()


class _Hang:
    """The database server stands still: its kernel answers, it does not."""

    def __init__(self) -> None:
        self._still = ExitStack()

    def begin(self, site: FaultSite) -> None:
        server = SERVERS[str(site.bed.spec.root)][0]
        self._still.enter_context(server.standing_still())
        most_s = 2 * SILENCE_LIMIT_S + 60
        wait_for(lambda: site.says(FAILED), "the daemon to give the server up", most_s)

    def end(self, _site: FaultSite) -> None:
        self._still.close()


_hang = _Hang()


SERVERS: dict[str, tuple[Any, str]] = {}
"""The database server and the database of each site that has them, by the root of its testbed."""


def mount_small_disk(folder: Path, mib: int) -> None:
    """A file system of that size over `folder`; needs root."""
    options = f"size={mib}m,mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)
    os.sync()


STORE_FAULTS = (
    Fault(
        "database-locked",
        "another program holds the write lock of the SQLite file until a round has failed",
        _lock.take,
        _lock.give_back,
    ),
    Fault(
        "database-full",
        "no file of the daemon can grow (RLIMIT_FSIZE)",
        _limit_files,
        _unlimit_files,
    ),
    Fault(
        "database-moved",
        "the SQLite file is moved away, and back after failed rounds",
        _move_database,
        _move_back,
    ),
    Fault(
        "database-replaced",
        "the SQLite file is replaced by a copy under the daemon",
        _replace_database,
    ),
    Fault(
        "status-file-blocked",
        "the status file cannot be replaced",
        _block_status_file,
        _unblock_status_file,
    ),
    Fault(
        "state-disk-full",
        "the file system of the state folder is full",
        _fill_disk,
        _free_disk,
        setting="small-disk",
    ),
    Fault(
        "state-folder-closed",
        "the daemon's user may no longer write into its state folder",
        _close_folder,
        _open_folder,
        setting="slurmdbd",
    ),
    Fault(
        "model-corrupted",
        "bytes of the model file are flipped under the daemon",
        _flip_bytes,
        _restore_model,
        setting="model",
    ),
    Fault(
        "model-truncated",
        "the model file is cut off under the daemon",
        _truncate_model,
        _restore_model,
        setting="model",
    ),
    Fault(
        "model-bad-at-start",
        "the daemon is started with a model of random bytes; it moves no job until that is mended",
        _begin_with_a_bad_model,
        _restore_model,
        setting="model",
    ),
    Fault(
        "model-deleted",
        "the model file is deleted under the daemon",
        _delete_model,
        _restore_model,
        setting="model",
    ),
    Fault(
        "database-server-down",
        "the PostgreSQL server is killed, and started again after failed rounds",
        _kill_server,
        _start_server,
        setting="postgres",
    ),
    Fault(
        "database-hung",
        "the PostgreSQL server is stopped by SIGSTOP, and continued after failed rounds",
        _hang.begin,
        _hang.end,
        setting="postgres",
    ),
)
