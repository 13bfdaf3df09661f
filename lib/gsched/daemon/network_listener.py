"""A bounded listener on the network, at an address that a setting names."""

from __future__ import annotations

import socket

from gsched.config.address import parse_address
from gsched.daemon.bounded_server import Answering, BoundedListener
from gsched.errors import UnavailableError


class NetworkListener(BoundedListener):
    """Listens at host:port."""

    allow_reuse_address = True

    def __init__(self, answering: Answering, address: str, setting: str) -> None:
        """`setting` is where the address comes from, for the one who reads the error.

        Raises UnavailableError when nobody can listen there.
        """
        parsed = parse_address(address)
        try:
            found = socket.getaddrinfo(*parsed, type=socket.SOCK_STREAM)[0]
            self.address_family = found[0]
            super().__init__(answering, (str(found[4][0]), parsed[1]))
        except OSError as error:
            raise UnavailableError(
                f"cannot listen at {address}: {error.strerror or error}",
                f"`ss -ltnp` shows who listens where; {setting} names the address",
            ) from None

    @property
    def address_text(self) -> str:
        """Where it listens, as host:port."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"[{host}]:{port}" if self.address_family is socket.AF_INET6 else f"{host}:{port}"
