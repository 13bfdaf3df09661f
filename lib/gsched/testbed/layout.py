"""The folder of a testbed: its paths, its record, and whether it is safe to work in.

Everything that a testbed has lies below one root. A record, `testbed.json`, says that the folder
is a testbed, what it was started with and whose it is; without it nothing is touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsched.errors import DataError, PermissionDeniedError, TryAgainError, UsageError
from gsched.testbed.spec import TestbedSpec

RECORD_FORMAT = 1
TEMPORARY_PREFIX = "run-"
_FOLDERS = ("etc", "munge", "state", "spool", "log", "run", "dev", "jobcomp", "home", "gsched")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the root."""

    root: Path

    @property
    def etc(self) -> Path:
        """Folder of slurm.conf and its companions."""
        return self.root / "etc"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF names."""
        return self.etc / "slurm.conf"

    @property
    def gsched_toml(self) -> Path:
        """What GSCHED_CONFIG names."""
        return self.etc / "gsched.toml"

    @property
    def log(self) -> Path:
        """Folder of the daemons' logs."""
        return self.root / "log"

    @property
    def run(self) -> Path:
        """Folder of pid files."""
        return self.root / "run"

    @property
    def munge(self) -> Path:
        """Folder of munge's key and socket."""
        return self.root / "munge"

    @property
    def munge_socket(self) -> Path:
        """Where munged listens."""
        return self.munge / "munge.sock"

    @property
    def mysql(self) -> Path:
        """MariaDB's data and its socket; closed to others."""
        return self.root / "mysql"

    @property
    def jobcomp_file(self) -> Path:
        """The record of finished jobs that jobcomp/filetxt writes."""
        return self.root / "jobcomp" / "jobcomp.txt"

    @property
    def gsched_state(self) -> Path:
        """gsched's own state folder."""
        return self.root / "gsched"

    @property
    def record(self) -> Path:
        """The mark that says: this folder is a testbed."""
        return self.root / "testbed.json"

    def home(self, user: str) -> Path:
        """Where a test user's commands run and jobs write."""
        return self.root / "home" / user

    def make_folders(self) -> None:
        """Create what is missing. Others may read, none but the owner may write."""
        for name in _FOLDERS:
            folder = self.root / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that a testbed must not outlive. Its start time guards against a reused pid."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Record:
    """What `testbed.json` holds."""

    spec: TestbedSpec
    base_port: int
    is_up: bool
    """The start had been completed when this was written."""
    owner: Owner | None = None
    """None: it stays until somebody stops it."""
    is_temporary: bool = False
    """The folder goes with the testbed."""


def base_folder() -> Path:
    """The folder of this user's testbeds."""
    return Path(f"/var/tmp/gsched-testbed-{os.getuid()}")  # noqa: S108  checked by claim()


def default_root(name: str) -> Path:
    """Root of the testbed called `name`. Raises UsageError for a name that is no plain word."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise UsageError(f"testbed name {name!r} may hold letters, digits, - and _ only")
    if name.startswith(TEMPORARY_PREFIX):
        raise UsageError(f"testbed names with {TEMPORARY_PREFIX} are kept for temporary ones")
    return base_folder() / name


def temporary_root() -> Path:
    """A folder that does not exist yet, for a testbed that goes away with its process."""
    return base_folder() / f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}"


def claim(root: Path) -> Layout:
    """Make `root` a safe folder of our own, or refuse it.

    Raises UsageError when it holds something else, PermissionDeniedError when it or a folder above
    it belongs to somebody who could then change what we execute.
    """
    if root.parent == base_folder():
        _make_own_folder(root.parent)
    _check_parents(root)
    _make_own_folder(root)
    layout = Layout(root)
    if not layout.record.exists() and any(root.iterdir()):
        raise UsageError(
            f"{root} holds files and is not a testbed",
            "name a folder that is empty or does not exist",
        )
    root.chmod(0o755)
    return layout


def read_record(layout: Layout) -> Record | None:
    """The record of a testbed in `layout`; None when there is none. Raises DataError."""
    try:
        _check_own(layout.root)
        values: dict[str, Any] = json.loads(layout.record.read_text(encoding="utf-8"))
        if values["format"] != RECORD_FORMAT:
            raise DataError(
                f"{layout.record} was written by another release (format {values['format']})"
            )
        owner = values["owner"]
        return Record(
            spec=TestbedSpec.from_json(values["spec"]),
            base_port=int(values["base_port"]),
            is_up=bool(values["is_up"]),
            owner=Owner(**owner) if owner else None,
            is_temporary=bool(values["is_temporary"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{layout.record} is damaged: {error}") from None


def write_record(layout: Layout, record: Record) -> None:
    """Write the record whole or not at all."""
    text = json.dumps(
        {
            "format": RECORD_FORMAT,
            "spec": record.spec.to_json(),
            "base_port": record.base_port,
            "is_up": record.is_up,
            "owner": (
                {"pid": record.owner.pid, "start_ticks": record.owner.start_ticks}
                if record.owner
                else None
            ),
            "is_temporary": record.is_temporary,
        },
        indent=2,
    )
    draft = layout.record.with_suffix(".new")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(layout.record)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone may read, at no moment anybody else."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)


def remove(layout: Layout) -> None:
    """Delete a testbed's folder. Raises UsageError when it is not one."""
    if read_record(layout) is None:
        raise UsageError(f"{layout.root} is not a testbed")
    shutil.rmtree(layout.root)


@contextmanager
def exclusive(layout: Layout) -> Iterator[None]:
    """Only one process starts or stops a testbed at a time. Raises TryAgainError at once."""
    descriptor = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TryAgainError(
                f"another gsched is starting or stopping the testbed {layout.root}"
            ) from None
        yield
    finally:
        os.close(descriptor)


def check_reachable(root: Path) -> None:
    """Raise UsageError when other users could not reach `root`, as their jobs must."""
    for folder in (root, *root.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise UsageError(
                f"other users cannot enter {folder}, so the testbed {root} would not work for them",
                "choose a root below /var/tmp",
            )


def _make_own_folder(folder: Path) -> None:
    try:
        folder.mkdir()
        folder.chmod(0o755)
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise UsageError(f"the folder {folder.parent} does not exist") from None
    except PermissionError:
        raise PermissionDeniedError(f"cannot create {folder}: permission denied") from None
    _check_own(folder)


def _check_own(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{folder} is not a folder")
    if status.st_uid != os.getuid():
        raise PermissionDeniedError(f"{folder} belongs to user {status.st_uid}, not to us")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionDeniedError(f"{folder} can be written by others")


def _check_parents(root: Path) -> None:
    for folder in root.parents:
        try:
            status = folder.stat()
        except FileNotFoundError:
            raise UsageError(f"the folder {folder} does not exist") from None
        shared = (
            status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        )
        if shared or status.st_uid not in (0, os.getuid()):
            raise PermissionDeniedError(
                f"{folder} can be changed by others, who could then change the testbed {root}",
                "choose a root below /var/tmp",
            )
