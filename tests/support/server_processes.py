"""Processes of database servers: as whom they run, how they start and end."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gsched.testbed.wait import wait_for

HOST = "127.0.0.1"
NOBODY = 65534
_FOLDER = "gsched-server-"
_OWNER = re.compile(rf"{_FOLDER}(\d+-\d+)-")


def postgres_programs() -> Path:
    """Debian's folder of the newest release; each has its own, none is on PATH."""
    found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    assert found, "PostgreSQL is missing: apt-get install postgresql"
    return max(found, key=lambda folder: int(folder.parent.name))


def fast_folder() -> str:
    """Memory, where there is enough: on a disk MariaDB waits for it at each of forty tables."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**30:
            return "/dev/shm"
    return "/tmp"


@contextlib.contextmanager
def server_folder(below: str) -> Iterator[Path]:
    """A folder for a server of this process. Those that dead processes have left are removed."""
    for left in Path(below).glob(f"{_FOLDER}*"):
        owner = _OWNER.match(left.name)
        if owner and not _is_alive(owner[1]):
            shutil.rmtree(left, ignore_errors=True)  # somebody else may be at it, or own it
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{_identity('self')}-", dir=below))
    try:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)


def _identity(process: str) -> str:
    """The pid of a process and when it started: pids are used again."""
    pid, _, rest = Path(f"/proc/{process}/stat").read_text().partition(" ")
    return f"{pid}-{rest.rpartition(')')[2].split()[19]}"


def _is_alive(identity: str) -> bool:
    try:
        return _identity(identity.partition("-")[0]) == identity
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment_of(folder: Path) -> dict[str, str]:
    """This process's, but for where temporary files go: the user without rights may write there."""
    return {**os.environ, "TMPDIR": str(folder)}


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def server_user() -> str:
    """Whom `unprivileged` runs programs as."""
    return pwd.getpwuid(NOBODY if os.geteuid() == 0 else os.geteuid()).pw_name


def unprivileged(*argv: Path | str) -> list[str]:
    """`argv` as a user without rights that dies with this process."""
    as_nobody = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    ids = as_nobody if os.geteuid() == 0 else ()
    return ["setpriv", *ids, "--pdeathsig=KILL", *(str(word) for word in argv)]


def private_file(path: Path, text: str) -> Path:
    """A file that the server's user alone can read."""
    path.write_text(text + "\n")
    return _owned(path)


def _owned(path: Path) -> Path:
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that the server has signed itself, and its key."""
    signed, key = folder / "server.crt", folder / "server.key"
    new = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    name = ("-subj", "/CN=test", "-addext", f"subjectAltName=IP:{HOST}")
    subprocess.run(
        ("openssl", "req", *new, *name, "-keyout", key, "-out", signed),
        check=True,
        capture_output=True,
    )
    return _owned(signed), _owned(key)


def spawn(argv: Sequence[Path | str], log: Path) -> subprocess.Popen[bytes]:
    """Start a server that writes to `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            unprivileged(*argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            env=environment_of(log.parent),
            start_new_session=True,  # Ctrl-C at the tests is not meant for it
        )


def wait_until_it_answers(
    ask: Callable[[], object],
    process: subprocess.Popen[bytes],
    refusal: type[Exception],
    log: Path,
) -> None:
    """Wait until `ask` raises no `refusal` any more."""

    def answers() -> bool:
        if process.poll() is not None:
            raise AssertionError(f"the server ended while starting: {log.read_text()}")
        with contextlib.suppress(refusal):
            ask()
            return True
        return False

    wait_for(answers, f"the server to answer, see {log}")


@contextlib.contextmanager
def standing_still(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGSTOP of a server and of its children during the block: the kernel alone answers."""
    pids = [process.pid, *_children(process)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _children(process: subprocess.Popen[bytes]) -> list[int]:
    """PostgreSQL's: one a connection, each a session of its own."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of a server and of its children."""
    pids = _children(process)
    process.kill()
    process.wait()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: _has_ended(pid), f"process {pid} to end")


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
