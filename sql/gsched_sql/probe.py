"""Whether a database can be written to, found out without writing anything."""

from __future__ import annotations

from gsched_sql.engine import open_engine, writing


def try_to_write(url: str, wait_s: float) -> None:
    """Take the writers' lock and give it back.

    Raises TryAgainError when somebody else holds it for `wait_s` seconds, PermissionDeniedError
    when this user may not write, and whatever else keeps one from writing.
    """
    engine = open_engine(url, busy_timeout_s=wait_s)
    try:
        with writing(engine):
            pass
    finally:
        engine.dispose()
