"""Where gsched listens: the local sockets, the query socket and the metrics."""

from __future__ import annotations

import os
import pwd
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.config.address import parse_address
from gsched.daemon.locks import StateDir
from gsched.daemon.query_client import QueryClient

_FOR_ALL = 0o666


def check_query(walk: Walk) -> Iterator[Finding]:
    """Whether users on other hosts are answered, and whether they must be."""
    settings = walk.settings.daemon
    client = QueryClient.for_site(settings, walk.config)
    if client is not None:
        cluster = client.ask(timeout_s=walk.left_s).get("cluster")
        found = f"the daemon of {cluster} answers at {settings.query_address}"
        yield Finding("ok", "query-socket", "query socket", found)
    elif walk.config.hides("jobs"):
        yield Finding(
            "warn",
            "private-data",
            "query socket",
            "PrivateData hides jobs, so the status file names none: users see no predictions",
            "set query_listen and query_address in [daemon]: over that socket each user is told of "
            "their own jobs",
        )


def check_local(walk: Walk) -> Iterator[Finding]:
    """The socket of the daemon where that runs, and of the helper where it has something to do."""
    settings = walk.settings
    if StateDir(settings.state_dir).leader() is not None:
        yield from _local(settings.daemon_socket, "daemon", "restart the daemon")
    if settings.helper.verbs:
        start = "`systemctl enable --now gsched-helper`"
        yield from _local(settings.helper_socket, "helper", start)


def _local(path: Path, whose: str, start: str) -> Iterator[Finding]:
    what = f"{whose} socket"
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        gone = f"nobody listens at {path}"
        yield Finding("warn", f"{whose}-socket-absent", what, gone, start)
        return
    if not stat.S_ISSOCK(found):
        other = f"{path} is no socket"
        yield Finding("warn", f"{whose}-socket-absent", what, other, f"rm {path}; {start}")
    elif stat.S_IMODE(found) != _FOR_ALL:
        yield Finding(
            "warn",
            f"{whose}-socket-mode",
            what,
            f"{path} has mode {stat.S_IMODE(found):04o}: whom it serves is decided by the kernel's "
            "word for who asks, so that all must be able to connect",
            f"chmod 666 {path}",
        )
    elif not _answers(path):
        dead = f"nobody listens at {path} any more"
        yield Finding("warn", f"{whose}-socket-absent", what, dead, start)
    else:
        yield Finding("ok", f"{whose}-socket", what, str(path))


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(str(path)) == 0


def check_metrics(walk: Walk) -> Iterator[Finding]:
    """Whether Prometheus can read the metrics."""
    settings = walk.settings.daemon
    runs = StateDir(walk.settings.state_dir).leader() is not None
    for key, address in (
        ("metrics_listen", settings.metrics_listen),
        ("query_listen", settings.query_listen),
    ):
        if address and not runs and (problem := _taken(address)):
            yield Finding(
                "warn",
                "port-in-use",
                key,
                f"the daemon, which does not run, could not listen at {address}: {problem}",
                f"`ss -ltnp` shows who does; end it, or choose another port for {key}",
            )
    if settings.metrics_file:
        yield from _file(Path(settings.metrics_file), walk)


def _taken(address: str) -> str:
    """Why nobody can listen there, "" where one can."""
    host, port = parse_address(address)
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _file(path: Path, walk: Walk) -> Iterator[Finding]:
    folder = path.parent
    if not folder.is_dir():
        yield Finding(
            "warn",
            "metrics-folder",
            "metrics_file",
            f"{folder} does not exist",
            f"`install -d -m 755 -o {walk.daemon_user} {folder}`, or correct metrics_file",
        )
    elif not _may_write(folder, walk):
        yield Finding(
            "warn",
            "metrics-folder",
            "metrics_file",
            f"{walk.daemon_user} cannot make files in {folder}",
            f"chown {walk.daemon_user} {folder}",
        )
    else:
        yield Finding("ok", "metrics-file", "metrics_file", str(path))


def _may_write(folder: Path, walk: Walk) -> bool:
    """Whether the daemon's user may make files there, as far as modes tell."""
    try:
        entry = pwd.getpwnam(walk.daemon_user)
    except KeyError:
        return True  # not known here
    if entry.pw_uid == 0 or "system.posix_acl_access" in os.listxattr(folder):
        return True  # modes do not tell
    found = folder.stat()
    if found.st_uid == entry.pw_uid:
        needed = stat.S_IWUSR | stat.S_IXUSR
    elif found.st_gid in os.getgrouplist(entry.pw_name, entry.pw_gid):
        needed = stat.S_IWGRP | stat.S_IXGRP
    else:
        needed = stat.S_IWOTH | stat.S_IXOTH
    return found.st_mode & needed == needed
