"""One line each way over a socket, of bounded length and within bounded time."""

from __future__ import annotations

import socket
import time

from gsched.errors import DataError, UnavailableError


def read_line(connection: socket.socket, max_bytes: int, timeout_s: float) -> str:
    """One line of ASCII, without its end.

    Raises UnavailableError when it does not come whole within `timeout_s` seconds in all, however
    slowly its bytes drip, DataError when it is longer than `max_bytes` or no ASCII.
    """
    until = time.monotonic() + timeout_s
    data = bytearray()
    while not data.endswith(b"\n"):
        left = until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            part = connection.recv(min(65536, max_bytes + 1 - len(data)))
        except OSError as error:
            raise UnavailableError(f"the other side fell silent: {_why(error)}") from None
        if not part:
            raise UnavailableError("the other side hung up")
        data += part
        if len(data) > max_bytes:
            raise DataError(f"a line of more than {max_bytes} bytes")
    try:
        return data.decode("ascii").rstrip("\n")
    except UnicodeDecodeError:
        raise DataError("a line that is no ASCII") from None


def send_line(connection: socket.socket, line: str, timeout_s: float) -> None:
    """Send a line. Raises UnavailableError when it is not taken within `timeout_s` seconds."""
    connection.settimeout(timeout_s)
    try:
        connection.sendall(line.encode("ascii") + b"\n")
    except OSError as error:
        raise UnavailableError(f"the other side does not listen: {_why(error)}") from None


def _why(error: OSError) -> str:
    return "time-out" if isinstance(error, TimeoutError) else error.strerror or str(error)
