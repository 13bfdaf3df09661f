"""A known_hosts file: read once, however many nodes there are, and looked up by host."""

from __future__ import annotations

import base64
import binascii
import hmac
from functools import lru_cache
from pathlib import Path

from gsched.power.own_files import OwnFileError
from gsched.secret_files import why_not_ours

_HASHED = "|1|"


class KnownHosts:
    """The lines of one file. Plain names are found at once, hashed ones one by one."""

    def __init__(self, path: Path, text: str) -> None:
        """Raises OwnFileError for lines that would not be heeded."""
        self._by_name: dict[str, list[tuple[int, str]]] = {}
        self._hashed: list[tuple[int, str, str]] = []
        for number, line in enumerate(map(str.strip, text.splitlines())):
            if line.startswith("@"):
                raise OwnFileError(
                    f"{path} has lines that begin with @ (@revoked, @cert-authority), which would "
                    "not be heeded",
                    "name a file of plain lines in power.backends",
                )
            if not line or line.startswith("#"):
                continue
            for name in line.split(None, 1)[0].split(","):
                if name.startswith(_HASHED):
                    self._hashed.append((number, name, line))
                else:
                    self._by_name.setdefault(name, []).append((number, line))

    def lines_of(self, name: str) -> list[str]:
        """The lines of a host, ``host`` or ``[host]:port``, in the order of the file."""
        found = dict(self._by_name.get(name, ()))
        found |= {number: line for number, hashed, line in self._hashed if _is(name, hashed)}
        return [found[number] for number in sorted(found)]


def _is(name: str, hashed: str) -> bool:
    salt, _, digest = hashed.removeprefix(_HASHED).partition("|")
    try:
        made = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
        return hmac.compare_digest(made, base64.b64decode(digest))
    except (binascii.Error, ValueError):
        return False


def known_hosts(path: Path) -> KnownHosts:
    """Raises OwnFileError for a file that cannot be read, or that others could have changed."""
    try:
        found = path.stat()
        if why := why_not_ours(found):
            raise OwnFileError(f"{path} decides which hosts are trusted, and {why}")
        return _parsed(path, (found.st_ino, found.st_mtime_ns, found.st_size))
    except OSError as error:
        raise OwnFileError(f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=8)
def _parsed(path: Path, _stamp: tuple[int, int, int]) -> KnownHosts:
    return KnownHosts(path, path.read_text(encoding="utf-8", errors="replace"))
