"""Blocks of ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gsched.errors import UnavailableError
from gsched.testbed import ports


def listening(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


def test_a_block_lies_below_the_ephemeral_range_and_is_free() -> None:
    with ports.reserve(10) as reservation:
        base = reservation.ports.base
        first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        assert base >= ports.FIRST_BLOCK
        assert base + ports.BLOCK_SIZE <= max(first_ephemeral, ports.DEFAULT_EPHEMERAL_FIRST)
        for port in range(base, base + 10):
            listening(port).close()


def test_a_reserved_block_is_given_to_nobody_else_until_it_is_released() -> None:
    with ports.reserve(10) as first:
        with ports.reserve(10) as second:
            assert abs(first.ports.base - second.ports.base) >= ports.BLOCK_SIZE
        with pytest.raises(UnavailableError, match="just starting on port"):
            ports.reserve(10, first.ports.base)
    with ports.reserve(10, first.ports.base) as again:
        assert again.ports == first.ports


def test_a_block_with_one_port_in_use_is_passed_over_and_named_when_wanted() -> None:
    with ports.reserve(10) as free:
        base = free.ports.base
    with listening(base + 9):
        with ports.reserve(10) as other:
            assert other.ports.base != base
        with pytest.raises(UnavailableError, match=f"port {base + 9} on 127.0.0.1 is in use"):
            ports.reserve(10, base)
        with ports.reserve(9, base) as smaller:
            assert smaller.ports.base == base


def test_the_ports_of_the_daemons_do_not_meet() -> None:
    block = ports.Ports(3000)
    assert [block.slurmctld, block.slurmdbd, block.mariadb, block.slurmd_first] == [
        3000,
        3001,
        3002,
        3003,
    ]
