"""The file of an SQLite database: for one host and one user, on a local disk."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from pathlib import Path

from sqlalchemy import URL, Connection

from gsched.errors import ConfigError, PermissionDeniedError, UnavailableError
from gsched.files import give_to_owner_of_folder
from gsched_sql.machine import machine_id, systemd_machine_id
from gsched_sql.mounts import network_file_system

_EXAMPLE = "write sqlite:////var/lib/gsched/history.db"
_OTHERS = "use a PostgreSQL or MariaDB server where several users or hosts need the history"


def file_of(url: URL) -> Path:
    """The file that an SQLite URL names. Raises ConfigError when it names none, or options."""
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ConfigError("the history needs a database file", _EXAMPLE)
    if url.query:
        raise ConfigError(f"the URL of {name} has options: an SQLite URL takes none", _EXAMPLE)
    path = Path(name)
    if not path.is_absolute():
        raise ConfigError(f"the database file must be an absolute path, not {name}", _EXAMPLE)
    return path


def prepare(path: Path, create: bool) -> None:
    """See that there is a safe file. The whole folder counts: WAL keeps two more files there.

    Raises ConfigError for a missing file without `create`, for a network file system and for a
    file that anybody may write; PermissionDeniedError for another user's; UnavailableError.
    """
    try:
        if not path.exists():
            if not create:
                raise ConfigError(f"there is no job history at {path}", "run `gsched db init`")
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        kind = network_file_system(path)
        if kind:
            raise ConfigError(
                f"{path} is on {kind}, a network file system: SQLite loses data there",
                "put state_dir on a local disk, or use a PostgreSQL or MariaDB server",
            )
        if not path.exists():
            _make(path)
        found = path.stat()
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot use {path}: {e.strerror}", "run as the user that owns gsched's state_dir"
        ) from e
    except OSError as e:
        raise UnavailableError(f"cannot use {path}: {e.strerror}") from e
    _check_owner(path, found)


def _make(path: Path) -> None:
    """An empty file; never by a link that leads nowhere yet, which would make one elsewhere."""
    try:
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    except FileExistsError:
        return  # another process was quicker, or what is there has no file: `prepare` looks
    try:
        give_to_owner_of_folder(made, path.parent)
    finally:
        os.close(made)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is not a file", "set url in [database] or state_dir")
    if found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"anybody may write to {path}: its contents cannot be trusted", f"chmod o-w {path}"
        )
    if os.geteuid() not in (0, found.st_uid):
        owner = _name_of(found.st_uid)
        raise PermissionDeniedError(
            f"{path} belongs to {owner}: an SQLite history has one owner, who alone uses it",
            f"run as {owner}; or {_OTHERS}",
        )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


# A database knows the host that it is used on by a number in its header: two hosts that see one
# file, by a disk that no list of network file systems knows, would damage it.


def check_host(conn: Connection) -> None:
    """Raise ConfigError when the SQLite database is another host's."""
    mark = _host_mark()
    stored = conn.exec_driver_sql("PRAGMA user_version").scalar_one()
    if mark and stored and mark != stored:
        raise ConfigError(
            f"{conn.engine.url.database} is used by another host: SQLite is for one host alone",
            "where it has been moved here for good, run `gsched db init`, and never again use it "
            f"there; {_OTHERS}",
        )


def claim_for_host(conn: Connection) -> None:
    """Note that this host uses the SQLite database: no daemon of another one leads any more."""
    conn.exec_driver_sql(f"PRAGMA user_version = {_host_mark()}")
    conn.exec_driver_sql("UPDATE leaders SET released = 1 WHERE machine_id <> ?", (machine_id(),))


def _host_mark() -> int:
    """A number for this machine, 0 where nothing tells machines apart (in many containers)."""
    machine = systemd_machine_id()
    if not machine:
        return 0
    digest = hashlib.blake2b(machine.encode(), digest_size=4, person=b"gsched").digest()
    return int.from_bytes(digest, "big") >> 1 | 1
