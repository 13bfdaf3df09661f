"""Telling a host by SSH what to do with a node. The only place that knows paramiko.

The host must be in the known_hosts file with the key that it shows; nothing is ever added there.
No agent, no other key and no password is tried. What goes over is one or two plain words: the
host's own forced command decides what they mean. Each step has its time-out, and a watch on the
clock closes the connection of a host that keeps within each of them and yet never ends.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry

from gsched.errors import ConfigError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.model.power import PowerBackend, Verb
from gsched.power.known_hosts import known_hosts
from gsched.power.limits import Limits
from gsched.power.own_files import OwnFileError
from gsched.secret_files import why_not_ours

_MOST_BYTES = 4096
_SSH_PORT = 22
_READ_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what fails is raised as well


def tell(backend: PowerBackend, verb: Verb, node: str, limits: Limits) -> None:
    """Let the node's host carry out `verb`; returns when it has said that it has.

    Raises ConfigError or PermissionDeniedError for what another try would not mend (a host key that
    is unknown or another, a key that is refused, files that are not as they must be),
    UnavailableError or TryAgainError for what it might. Of the first, OwnFileError is for files of
    this host's.
    """
    host = backend.host_of(node)
    key = _private_key(Path(backend.key_file))
    words = verb if backend.is_host_of_node else f"{verb} {node}"
    with _connected(backend, host, key, limits) as client:
        status, said = _carried_out(client, words, limits)
    if status is None:
        if verb == "suspend" and backend.is_host_of_node:
            return  # the node took the word and was gone before it could answer
        raise UnavailableError(f"{host} hung up without an answer to {words!r}")
    if status:
        what = f": {said}" if said else ""
        raise UnavailableError(f"{host}: {words!r} ended with exit status {status}{what}")


@contextlib.contextmanager
def _connected(
    backend: PowerBackend, host: str, key: paramiko.PKey, limits: Limits
) -> Iterator[paramiko.SSHClient]:
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_NeverAdded(backend.known_hosts))
    name = host if backend.port == _SSH_PORT else f"[{host}]:{backend.port}"
    _keep_keys(client, name, Path(backend.known_hosts))
    began = time.monotonic()
    try:
        line = socket.create_connection((host, backend.port), limits.connect_s)
    except TimeoutError:
        raise TryAgainError(f"{host} took no connection within {limits.connect_s:g} s") from None
    except OSError as error:
        raise UnavailableError(f"{host} cannot be reached: {error.strerror or error}") from None
    left_s = max(0.0, limits.whole_s - (time.monotonic() - began))
    try:
        with _watched(line, left_s) as is_over, _as_ours(host):
            client.connect(
                host,
                backend.port,
                backend.user,
                pkey=key,
                timeout=limits.connect_s,
                banner_timeout=limits.connect_s,
                auth_timeout=limits.auth_s,
                channel_timeout=limits.auth_s,
                allow_agent=False,
                look_for_keys=False,
                sock=line,
            )
            yield client
        if is_over.is_set():  # it was not the host that hung up
            raise TryAgainError(f"{host} was not done when the call's time was up")
    finally:
        _hang_up(line)  # first: a host that reads nothing would hold up an orderly farewell
        client.close()
        line.close()


@contextlib.contextmanager
def _watched(line: socket.socket, limit_s: float) -> Iterator[threading.Event]:
    """Hang up when the block takes longer, which the event tells."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        _hang_up(line)

    watch = threading.Timer(limit_s, end)
    watch.daemon = True
    watch.start()
    try:
        yield is_over
    finally:
        watch.cancel()


def _hang_up(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _as_ours(host: str) -> Iterator[None]:
    """paramiko's errors as gsched's."""
    try:
        yield
    except paramiko.BadHostKeyException:
        raise ConfigError(
            f"{host} shows another host key than known_hosts has: it may be another host",
            "look who answers there; if the host is new, correct its line in known_hosts",
        ) from None
    except paramiko.AuthenticationException as error:
        raise PermissionDeniedError(
            f"{host} refuses the key: {error}", "put the key's public part into authorized_keys"
        ) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise UnavailableError(f"{host}: {error or 'hung up'}") from None


class _NeverAdded(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # it has no types
    def __init__(self, known_hosts: str) -> None:
        self._known_hosts = known_hosts

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Refuse the host."""
        raise ConfigError(
            f"{hostname} is not in {self._known_hosts}",
            f"add its {key.get_name()} key after comparing it on the host",
        )


def _carried_out(client: paramiko.SSHClient, words: str, limits: Limits) -> tuple[int | None, str]:
    """Exit status, None without one, and the beginning of what was said."""
    transport = client.get_transport()
    if transport is None:
        raise UnavailableError("the connection has ended")
    channel = transport.open_session(timeout=limits.auth_s)
    channel.set_combine_stderr(True)
    with _watched(transport.sock, limits.auth_s):  # no time-out of its own
        channel.exec_command(words)
    deadline = time.monotonic() + limits.command_s
    said = b""
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            channel.settimeout(left_s)
            piece = channel.recv(_MOST_BYTES)
            said = (said + piece)[:_MOST_BYTES]
            if not piece:
                break
        channel.status_event.wait(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        pass
    if not channel.status_event.is_set() and transport.is_active():
        raise TryAgainError(f"{words!r} did not end within {limits.command_s:g} s")
    status = channel.exit_status if channel.exit_status >= 0 else None
    return status, " ".join(said.decode("utf-8", "replace").split())


def _private_key(path: Path) -> paramiko.PKey:
    try:
        check_private(path)
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise OwnFileError(f"{path} cannot be read: {error.strerror}") from None
    except (paramiko.SSHException, ValueError, TypeError) as error:
        raise OwnFileError(
            f"{path} is no private key that can be used: {error}",
            "it must have no passphrase: nobody is there to type it",
        ) from None


def check_private(path: Path) -> None:
    """Raise OwnFileError for a key file that others than its owner can read, or whose it is not."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OwnFileError(f"{path}, which should be a private key, is no file")
    if found.st_mode & _READ_BY_OTHERS:
        raise OwnFileError(
            f"{path} is a private key that others than its owner can use", f"chmod 600 {path}"
        )
    if why := why_not_ours(found):
        raise OwnFileError(f"{path} is a private key, and {why}")


def _keep_keys(client: paramiko.SSHClient, name: str, path: Path) -> None:
    """Let the client know the host's own lines, and no more: paramiko compares each with each."""
    kept = client.get_host_keys()
    for line in known_hosts(path).lines_of(name):
        with contextlib.suppress(paramiko.SSHException, ValueError):
            entry = HostKeyEntry.from_line(line)
            if entry is not None and entry.key.get_name() not in (kept.lookup(name) or {}):
                kept.add(name, entry.key.get_name(), entry.key)
