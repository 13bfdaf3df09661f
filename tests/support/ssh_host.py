"""A real sshd on loopback that takes one key and runs one forced command."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gsched.model.power import PowerBackend
from gsched.testbed.environment import own_user
from gsched.testbed.wait import wait_for

SSHD = "/usr/sbin/sshd"  # it must be called by its path

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
LoginGraceTime 60
MaxStartups 100
"""


@dataclass(frozen=True)
class SshHost:
    """One that runs, and a client's files that fit it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def key(self) -> Path:
        return self.folder / "client_key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def backend(self, **changes: object) -> PowerBackend:
        """A back-end that reaches it as host %n, the node's name being 127.0.0.1."""
        values: dict[str, object] = {
            "nodes": ("127.0.0.1",),
            "kind": "ssh",
            "verbs": ("suspend", "resume", "restart"),
            "host": "%n",
            "port": self.port,
            "user": own_user(),
            "key_file": str(self.key),
            "known_hosts": str(self.known_hosts),
        }
        return PowerBackend(**{**values, **changes})  # type: ignore[arg-type]

    def forced(self, command: str) -> None:
        """Let the key run this command, and nothing else."""
        public = (self.folder / "client_key.pub").read_text()
        options = f'restrict,command="{command}"'
        (self.folder / "authorized_keys").write_text(f"{options} {public}")

    def asked(self) -> list[str]:
        """What has come over, a line each; the default command writes it down."""
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


def make_key(path: Path) -> None:
    """A new key pair without a passphrase."""
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path))
    subprocess.run(words, check=True)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def running(folder: Path) -> Iterator[SshHost]:
    """An sshd that writes down what it is asked."""
    assert shutil.which(SSHD), "no sshd: apt-get install openssh-server"
    port = free_port()
    for name in ("host_key", "client_key"):
        make_key(folder / name)
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    public = (folder / "host_key.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # empty, and wanted by an sshd of root's
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            (SSHD, "-D", "-e", "-f", str(folder / "config")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        host = SshHost(folder, port, process)
        host.forced(f"echo $SSH_ORIGINAL_COMMAND >>{folder}/asked")
        wait_for(lambda: "listening" in (folder / "sshd.log").read_text(), "sshd to listen")
        yield host
    finally:
        process.kill()
        process.wait()
