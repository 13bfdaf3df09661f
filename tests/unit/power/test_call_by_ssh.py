"""A whole call by SSH: hosts that obey, hang, refuse or are others, side by side."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.ssh_host import SshHost, running

from gsched.config.node_settings import PowerSettings
from gsched.model.power import PowerBackends
from gsched.power.orders import Call
from gsched.power.state import Store

GOOD = "127.0.0.1"
HANGING = [f"127.0.0.{number}" for number in range(2, 22)]


@contextmanager
def silent(addresses: list[str], port: int) -> Iterator[None]:
    """Hosts whose kernel takes connections and on which nothing answers."""
    with ExitStack() as open_sockets:
        for address in addresses:
            open_sockets.enter_context(socket.create_server((address, port)))
        yield


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshHost]:
    with running(tmp_path) as made:
        yield made


def call(host: SshHost, names: list[str], **values: object):
    nodes = PowerBackends((host.backend(nodes=("127.0.*", "localhost")),))
    settings = PowerSettings(backends=nodes, connect_timeout_s=0.5, backoff_s=0.1, **values)
    return Call(settings, Store(host.folder / "state")).carry_out("suspend", names)


def test_hosts_that_hang_hold_up_no_other_and_are_given_up(host: SshHost):
    with silent(HANGING, host.port):
        result = call(host, [*HANGING, GOOD], parallel=4, tries=2)
    assert result.done == [GOOD]
    assert set(result.failed) == set(HANGING)
    assert host.asked() == ["suspend"]
    state = Store(host.folder / "state").read()
    assert {failure.tries for failure in state.failures} == {2}
    assert state.stopped is not None


def test_a_call_ends_at_its_limit_with_hosts_that_nobody_has_come_to(host: SshHost):
    with silent(HANGING, host.port):
        result = call(host, HANGING, parallel=1, suspend_limit_s=1.2)
    assert set(result.failed) == set(HANGING)
    assert result.failed[HANGING[-1]].startswith("not tried: ")  # and so not the node's fault
    failed = Store(host.folder / "state").read().failed_nodes
    assert HANGING[0] in failed
    assert HANGING[-1] not in failed


def test_a_host_that_is_refused_is_not_tried_again(host: SshHost):
    result = call(host, ["localhost"])  # the same sshd, by a name that known_hosts does not have
    assert "is not in" in result.failed["localhost"]
    (failure,) = Store(host.folder / "state").read().failures
    assert failure.tries == 1
    assert host.asked() == []


def test_a_fault_of_our_own_files_is_no_failure_of_a_node(host: SshHost):
    host.key.chmod(0o640)
    result = call(host, [GOOD, *HANGING], stop_after=1)
    assert set(result.failed) == {GOOD, *HANGING}
    state = Store(host.folder / "state").read()
    assert (state.failures, state.stopped) == ((), None)
    host.key.chmod(0o600)
    assert call(host, [GOOD]).done == [GOOD]
