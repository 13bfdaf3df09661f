"""Keeping Slurm on 127.0.0.1.

Told not to listen on every interface, Slurm's daemons and srun listen on the address that the
machine's own name resolves to: 127.0.1.1 on a usual Debian, an outer address in a container, none
at all where nobody made the name known. Where it is not 127.0.0.1, libnss_wrapper (of the cwrap
project, made for such tests) tells them that the machine is called localhost.
"""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed.ports import LOOPBACK

PACKAGE = "libnss-wrapper"
LIBRARY = "libnss_wrapper.so"
_FOLDERS = ("usr/lib/*-linux-gnu", "usr/lib64", "usr/lib")


def variables() -> dict[str, str]:
    """What must stand in the environment of whatever may listen; {} where nothing is needed.

    Raises UnavailableError when the library is needed and not installed.
    """
    if is_local_name():
        return {}
    library = find_library()
    if library is None:
        raise UnavailableError(
            f"this machine's name does not resolve to {LOOPBACK}, so that Slurm would listen "
            f"elsewhere; {LIBRARY}, which helps, is not installed",
            f"apt-get install {PACKAGE}",
        )
    return {"LD_PRELOAD": str(library), "NSS_WRAPPER_HOSTNAME": "localhost"}


@functools.cache
def is_local_name() -> bool:
    """Whether the machine's own name resolves to 127.0.0.1."""
    try:
        # not socket.gethostname(): inside another testbed that is localhost already
        return socket.gethostbyname(os.uname().nodename) == LOOPBACK
    except OSError:
        return False


def find_library() -> Path | None:
    """Where libnss_wrapper lies; None when it is not installed."""
    found = (library for folder in _FOLDERS for library in Path("/").glob(f"{folder}/{LIBRARY}"))
    return next(found, None)
