"""Password files of back-ends, and what of them must not be told on."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gsched.errors import ConfigError, PermissionDeniedError
from gsched.model.power import PowerBackend
from gsched.power.own_files import OwnFileError
from gsched.secret_files import read_secret

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_NOTHING = r"(?!)"
_SECRET_KEYS = ("password", "account")


@dataclass(frozen=True, slots=True)
class Password:
    """`text` is what a command gets in its environment, "" where it needs none."""

    text: str = ""
    secrets: re.Pattern[str] = re.compile(_NOTHING)
    """What they look like; by default nothing does."""

    def struck_from(self, words: str) -> str:
        """`words` without a secret, as it is or in base64, as HTTP sends it."""
        return self.secrets.sub("***", words)


def read_password(backend: PowerBackend) -> Password:
    """What the back-end's password file holds. Raises OwnFileError where it can hold none."""
    if not backend.password_file:
        return Password()
    try:
        text = read_secret(Path(backend.password_file))
    except (ConfigError, PermissionDeniedError) as error:
        raise OwnFileError(error.message, error.hint) from None
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if not lines:
        raise OwnFileError(f"{backend.password_file}, which should hold a password, is empty")
    first = text.splitlines()[0]
    passwords, users = {*lines, first}, {backend.user}
    if backend.kind == "redfish":
        words = [re.sub(r"\\(.)", r"\1", quoted) or bare for quoted, bare in _WORD.findall(text)]
        pairs = list(pairwise(words))
        users = {word for key, word in pairs if key == "login"}
        passwords = {word for key, word in pairs if key in _SECRET_KEYS} or passwords
    passwords.discard("")
    logins = {_basic(user, word) for user in users for word in passwords}
    plain = set(map(re.escape, passwords))
    longest_first = [*sorted(logins, key=len)[::-1], *sorted(plain, key=len)[::-1]]
    return Password(first, re.compile("|".join(longest_first) or _NOTHING))


def _basic(user: str, password: str) -> str:
    """What a login looks like as HTTP sends it, also where a line end follows in it."""
    login = f"{user}:{password}".encode()
    whole = base64.b64encode(login[: len(login) // 3 * 3]).decode()
    last = "[A-Za-z0-9+/=]{0,4}" if whole else base64.b64encode(login).decode()
    return re.escape(whole) + last
