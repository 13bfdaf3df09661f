"""Runs a command under the system-call filter of a systemd unit, as systemd would.

``python -m support.sandbox FILTER-FILE COMMAND…``: FILTER-FILE is what `filter_text` gives: the
names of allowed system calls; all others fail with EPERM. Besides, no new privileges, and, where
the unit says so, no memory that is writable and executable. Needs libseccomp, as systemd does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_MDWE = 65
_PR_MDWE_REFUSE_EXEC_GAIN = 1
_SCMP_ACT_ALLOW = 0x7FFF0000
_SCMP_ACT_ERRNO = 0x00050000


_MDWE = "MemoryDenyWriteExecute=yes"


def filter_text(unit_files: list[Path]) -> str:
    """What these files, in the order in which systemd reads them, allow."""
    lines = [line for path in unit_files for line in path.read_text().splitlines()]
    denials = [line for line in lines if line.startswith(_MDWE.partition("=")[0])]
    return "\n".join([*denials[-1:], *allowed_calls(unit_files)])


def allowed_calls(unit_files: list[Path]) -> list[str]:
    """What SystemCallFilter= of these files allows, its lines taken in order."""
    allowed: set[str] = set()
    for path in unit_files:
        for line in path.read_text().splitlines():
            if line.startswith("SystemCallFilter="):
                words = line.partition("=")[2]
                names = {n for word in words.removeprefix("~").split() for n in _expanded(word)}
                allowed = allowed - names if words.startswith("~") else allowed | names
    return sorted(allowed)


def _expanded(word: str) -> set[str]:
    """The names in a group (``@system-service``), or the name itself."""
    if not word.startswith("@"):
        return {word}
    told = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
    )
    found = [line.strip() for line in told.stdout.splitlines()[1:]]
    return {n for w in found if w and not w.startswith("#") for n in _expanded(w)}


def _confine(names: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
    ]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(_SCMP_ACT_ERRNO | errno.EPERM)
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # below: of other architectures
            library.seccomp_rule_add(context, _SCMP_ACT_ALLOW, number, 0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if _MDWE in names:
        libc.prctl(_PR_SET_MDWE, _PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)  # not before kernel 6.3
    if library.seccomp_load(context) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter")


if __name__ == "__main__":
    _confine(Path(sys.argv[1]).read_text().split())
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted
