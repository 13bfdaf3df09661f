"""Column types that keep what users write and work on SQLite, PostgreSQL and MariaDB alike."""

from __future__ import annotations

import hashlib
import re

from sqlalchemy import BigInteger, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

_ESCAPE = "\ue000"  # a private-use character: stands before four hexadecimal digits
_UNSTORABLE = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED = re.compile("\ue000([0-9a-f]{4})")
_MAX_TEXT = 2**24 - 1  # MariaDB makes MEDIUMTEXT of it; the others have no limit and take no length

RowId = BigInteger().with_variant(Integer, "sqlite")
"""Surrogate keys: SQLite numbers rows by itself only in a column declared INTEGER."""


class KeptText(TypeDecorator[str]):
    """Text of any length and content; what goes in comes out.

    PostgreSQL takes no NUL and no engine takes lone surrogates, so that these (and the escape
    itself) are stored as U+E000 and their code in hexadecimal.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """The engine's type for text without a limit."""
        is_mariadb = dialect.name in ("mariadb", "mysql")
        return dialect.type_descriptor(Text(_MAX_TEXT) if is_mariadb else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape what an engine would refuse."""
        return stored_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Give the text back as it came."""
        if value is None or _ESCAPE not in value:
            return value
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)


def stored_text(value: str | None) -> str | None:
    """A text as a KeptText column holds it."""
    if value is None or not _UNSTORABLE.search(value):
        return value
    return _UNSTORABLE.sub(lambda match: f"{_ESCAPE}{ord(match[0]):04x}", value)


def text_digest(*texts: str) -> str:
    """A key of fixed length for texts of any length: no engine indexes those themselves."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
