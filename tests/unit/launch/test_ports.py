"""MASTER_PORT: outside what the kernel gives away, and no other job's."""

import socket
from contextlib import ExitStack, closing

import pytest

from gsched.errors import UnavailableError
from gsched.launch.ports import lease_port


@pytest.fixture
def kernel(tmp_path):
    def told(ephemeral, reserved=""):
        (tmp_path / "ip_local_port_range").write_text(ephemeral)
        (tmp_path / "ip_local_reserved_ports").write_text(reserved + "\n")
        return tmp_path

    return told


def test_outside_the_ephemeral_range_and_what_an_admin_keeps(kernel):
    settings = kernel("10010\t65530", "10000-10003,10005,65531-65535")
    with ExitStack() as held:
        found = set()
        for attempt in range(1, 6):
            lease = lease_port("7", attempt, settings)
            held.enter_context(lease.held)
            found.add(lease.port)
        assert found == {10004, 10006, 10007, 10008, 10009}
        with pytest.raises(UnavailableError):
            lease_port("8", 1, settings)


def test_a_port_is_free_again_when_its_holder_has_ended(kernel):
    settings = kernel("10001 65535")
    with closing(lease_port("7", 1, settings).held), pytest.raises(UnavailableError):
        lease_port("8", 1, settings)
    with closing(lease_port("8", 1, settings).held) as held:
        assert held.fileno() >= 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_at_which_somebody_listens_is_not_given(kernel, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with closing(socket.socket(family)) as other:
        other.bind((address, 0))
        port = other.getsockname()[1]
        other.listen()
        rest = f"10000-{port - 1},{port + 1}-65535"
        with pytest.raises(UnavailableError):
            lease_port("7", 1, kernel("1 2", rest))


def test_nor_one_that_a_closed_connection_still_has(kernel):
    """The kernel keeps it a minute (TIME_WAIT), and rank 0 might not get it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port))) as client:
            accepted, _ = server.accept()
            accepted.close()  # who closes first keeps it
            assert client.recv(1) == b""
    rest = f"10000-{port - 1},{port + 1}-65535"
    with pytest.raises(UnavailableError):
        lease_port("7", 1, kernel("1 2", rest))


def test_where_the_kernel_does_not_tell_its_range_it_is_linuxs_own(tmp_path):
    for attempt in range(20):
        with closing(lease_port("7", attempt, tmp_path / "none").held) as held:
            port = int(held.getsockname().decode().rpartition("-")[2])
            assert not 32768 <= port <= 60999


def test_attempts_begin_at_different_ports(kernel):
    ports = set()
    for attempt in range(20):
        lease = lease_port("7", attempt, kernel("32768 60999"))
        lease.held.close()
        ports.add(lease.port)
    assert len(ports) > 15
    assert all(10000 <= port < 32768 or port > 60999 for port in ports)


def test_where_all_ports_are_ephemeral_one_of_them_is_taken(kernel):
    with closing(lease_port("7", 1, kernel("1024 65535")).held) as held:
        assert held.fileno() >= 0
