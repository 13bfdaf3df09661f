"""SSH to a real sshd: what goes over, what is refused, and that a host that hangs ends nothing."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.hostkeys import HostKeyEntry, HostKeys
from support.ssh_host import SshHost, make_key, running

from gsched.errors import ConfigError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.power.limits import Limits
from gsched.power.own_files import OwnFileError
from gsched.power.ssh import tell
from gsched.testbed.wait import wait_for

NODE = "127.0.0.1"
LIMITS = Limits(connect_s=5, auth_s=10, command_s=10, whole_s=30)
SHORT = Limits(connect_s=0.5, auth_s=0.5, command_s=0.5, whole_s=1.5)
PROGRAM = Path(__file__).parents[3] / "slurm_plugins" / "power" / "gsched-node-power"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshHost]:
    with running(tmp_path) as made:
        yield made


def test_a_host_of_the_node_gets_the_verb_and_another_the_node_as_well(host: SshHost) -> None:
    tell(host.backend(), "suspend", NODE, LIMITS)
    tell(host.backend(host="127.0.0.1"), "resume", "gn07", LIMITS)
    assert host.asked() == ["suspend", "resume gn07"]


def test_a_command_that_fails_is_told_in_its_own_words(host: SshHost) -> None:
    host.forced("echo not today >&2; exit 7")
    with pytest.raises(UnavailableError, match="'suspend' ended with exit status 7: not today"):
        tell(host.backend(), "suspend", NODE, LIMITS)


def test_a_node_that_is_gone_before_it_can_answer_has_obeyed(host: SshHost) -> None:
    host.forced("kill -9 $PPID")  # its sshd, as a power-off does
    tell(host.backend(), "suspend", NODE, LIMITS)
    with pytest.raises(UnavailableError, match="hung up without an answer to 'restart'"):
        tell(host.backend(), "restart", NODE, LIMITS)
    with pytest.raises(UnavailableError, match="hung up without an answer to 'suspend gn07'"):
        tell(host.backend(host="127.0.0.1"), "suspend", "gn07", LIMITS)


def test_another_host_key_is_refused_before_anything_is_told(host: SshHost, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    public = (tmp_path / "other.pub").read_text().rsplit(" ", 1)[0]
    host.known_hosts.write_text(f"[127.0.0.1]:{host.port} {public}\n")
    with pytest.raises(ConfigError, match="shows another host key"):
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert host.asked() == []
    assert "Accepted" not in (tmp_path / "sshd.log").read_text()


def test_an_unknown_host_is_refused_and_not_added(host: SshHost) -> None:
    host.known_hosts.write_text("")
    with pytest.raises(ConfigError, match=r"is not in .*known_hosts") as caught:
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert "ssh-ed25519 key" in caught.value.hint
    assert host.known_hosts.read_text() == ""
    assert host.asked() == []


def test_a_refused_key_is_told_and_nothing_else_is_tried(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "authorized_keys").write_text("")
    with pytest.raises(PermissionDeniedError, match="refuses the key"):
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert (tmp_path / "sshd.log").read_text().count("Failed") <= 1


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda h: h.key.chmod(0o640), "others than its owner can use"),
        (lambda h: h.key.unlink(), "cannot be read"),
        (lambda h: h.key.write_text("no key"), "is no private key"),
        (lambda h: h.known_hosts.chmod(0o666), "others may write it"),
        (lambda h: h.known_hosts.unlink(), "cannot be read"),
        (lambda h: h.known_hosts.write_text("@revoked * x y\n"), "begin with @"),
    ],
)
def test_files_that_are_not_kept_well_are_not_used(host: SshHost, spoil, says: str) -> None:
    spoil(host)
    with pytest.raises(ConfigError, match=says):
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert host.asked() == []


def test_what_is_wrong_with_our_own_files_is_no_fault_of_the_node(host: SshHost) -> None:
    host.key.chmod(0o640)
    with pytest.raises(OwnFileError):
        tell(host.backend(), "suspend", NODE, LIMITS)
    host.key.chmod(0o600)
    host.known_hosts.write_text("")  # this one says nothing of the others
    with pytest.raises(ConfigError) as caught:
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert not isinstance(caught.value, OwnFileError)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use another's key")
def test_root_can_use_slurm_users_key(host: SshHost) -> None:
    os.chown(host.key, pwd.getpwnam("games").pw_uid, -1)
    tell(host.backend(), "suspend", NODE, LIMITS)
    assert host.asked() == ["suspend"]


def test_a_host_among_thousands_costs_no_more_than_its_own_lines(
    host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, key_type, key = host.known_hosts.read_text().split()
    others = [f"gn{number:05d},10.0.0.{number} {key_type} {key}\n" for number in range(5000)]
    hashed = HostKeys.hash_host(names)
    host.known_hosts.write_text("# a note\n\n" + "".join(others) + f"{hashed} {key_type} {key}\n")
    read: list[str] = []
    plain = HostKeyEntry.from_line

    def from_line(line: str, number: int | None = None) -> HostKeyEntry | None:
        read.append(line)
        return plain(line, number)

    monkeypatch.setattr(HostKeyEntry, "from_line", from_line)
    for _ in range(3):
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert host.asked() == ["suspend"] * 3
    assert read == [f"{hashed} {key_type} {key}"] * 3


def test_a_key_with_a_passphrase_is_refused(host: SshHost) -> None:
    words = ("ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(host.key))
    subprocess.run(words, check=True)
    with pytest.raises(ConfigError, match="no private key that can be used") as caught:
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert "passphrase" in caught.value.hint


def test_a_stopped_sshd_costs_its_time_out_and_no_more(host: SshHost) -> None:
    os.kill(host.process.pid, signal.SIGSTOP)  # the kernel still takes connections for it
    with pytest.raises(UnavailableError):
        tell(host.backend(), "suspend", NODE, SHORT)
    os.kill(host.process.pid, signal.SIGCONT)
    assert host.asked() == []


def test_a_command_that_does_not_end_costs_its_time_out_and_no_more(host: SshHost) -> None:
    host.forced("cat")  # until the client has hung up
    with pytest.raises(TryAgainError, match="'suspend' did not end within 2 s"):
        tell(host.backend(), "suspend", NODE, replace(LIMITS, command_s=2))


def test_a_line_that_gsched_itself_has_cut_is_no_node_that_has_gone(host: SshHost) -> None:
    host.forced("cat")
    with pytest.raises(TryAgainError, match="not done when the call's time was up"):
        tell(host.backend(), "suspend", NODE, replace(LIMITS, whole_s=2, command_s=30))


def test_a_port_where_nobody_listens(host: SshHost) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        backend = host.backend(port=unused.getsockname()[1])
        with pytest.raises(UnavailableError, match="cannot be reached"):
            tell(backend, "suspend", NODE, LIMITS)


@pytest.mark.parametrize("drips", [False, True])
def test_a_host_that_accepts_and_says_nothing_sensible(host: SshHost, drips: bool) -> None:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def answer() -> None:
            line, _ = silent.accept()
            with line:
                while not ended.wait(0.1):
                    if drips:  # within every time-out, and for ever
                        try:
                            line.send(b"hello\r\n")
                        except OSError:
                            return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        backend = host.backend(port=silent.getsockname()[1])
        with pytest.raises(UnavailableError):
            tell(backend, "suspend", NODE, SHORT)
        ended.set()
        thread.join()


class NeverSaysYes(paramiko.ServerInterface):
    """Takes any key and any channel, and then neither takes nor refuses the command."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.ended.wait()
        return False


def test_a_host_that_never_takes_the_command_costs_its_time_out(host: SshHost) -> None:
    server, errors = NeverSaysYes(), []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        host.known_hosts.write_text(
            host.known_hosts.read_text().replace(f":{host.port} ", f":{port} ")
        )

        def ask() -> None:
            try:
                tell(host.backend(port=port), "suspend", NODE, replace(LIMITS, auth_s=1))
            except UnavailableError as error:
                errors.append(error.message)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        line, _ = listening.accept()
        transport = paramiko.Transport(line)
        transport.add_server_key(paramiko.PKey.from_path(host.folder / "host_key"))
        transport.start_server(server=server)
        wait_for(lambda: errors, "the host to be given up", timeout_s=15)
        server.ended.set()
        transport.close()
        asking.join()


def test_the_nodes_own_program_does_what_it_may_and_nothing_else(
    host: SshHost, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/done\n')
    (tools / "pgrep").write_text(f"#!/bin/sh\n[ -e {tmp_path}/job ]\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    host.forced(f"PATH={tools}:/usr/bin:/bin {PROGRAM}")
    tell(host.backend(), "suspend", NODE, LIMITS)
    tell(host.backend(), "restart", NODE, LIMITS)
    with pytest.raises(UnavailableError, match="exit status 64"):
        tell(host.backend(), "resume", NODE, LIMITS)
    (tmp_path / "job").touch()
    with pytest.raises(UnavailableError, match=r"exit status 75: .*a job runs on this node"):
        tell(host.backend(), "suspend", NODE, LIMITS)
    assert (tmp_path / "done").read_text().splitlines() == [
        "--no-block poweroff",
        "--no-block reboot",
    ]


@pytest.mark.parametrize("pgrep", [None, "exit 2", "exit 3"])
def test_a_node_that_cannot_tell_whether_a_job_runs_stays_on(
    tmp_path: Path, pgrep: str | None
) -> None:
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ntouch {tmp_path}/done\n")
    if pgrep is not None:
        (tmp_path / "pgrep").write_text(f"#!/bin/sh\n{pgrep}\n")
    for tool in tmp_path.iterdir():
        tool.chmod(0o755)
    environ = {"PATH": str(tmp_path), "SSH_ORIGINAL_COMMAND": "suspend"}
    ended = subprocess.run(("/bin/sh", str(PROGRAM)), env=environ, capture_output=True, text=True)
    assert ended.returncode == 69
    assert "cannot tell whether a job runs" in ended.stderr
    assert not (tmp_path / "done").exists()
