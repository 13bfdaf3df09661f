"""PostgreSQL servers that hang: libpq would wait for their answer for ever.

The kernel of a server that stands still goes on acknowledging, so neither keepalives nor
``tcp_user_timeout`` notice it, and ``statement_timeout`` is the server's own. So the client keeps
the time between two signs of the server while it waits.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, event

if TYPE_CHECKING:
    from psycopg import Connection


def limit_silence(engine: Engine, limit_s: float) -> None:
    """Let the engine's connections end when the server is silent for `limit_s` seconds.

    Whoever waits then gets psycopg's OperationalError. Raises ModuleNotFoundError without psycopg.
    """
    kind = _bounded(limit_s)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: tuple[Any, ...], options: Any) -> Any:
        return kind.connect(*args, **options)


def _bounded(limit_s: float) -> type[Connection[Any]]:
    import psycopg
    from psycopg.waiting import Ready

    class BoundedConnection(psycopg.Connection[Any]):
        """Gives up a server that sends nothing for `limit_s` seconds."""

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._heard(gen), *args, **options)

        def _heard(self, gen: Any) -> Generator[Any, Any, Any]:
            """Goes between the driver and the generator that tells it what to wait for."""
            heard_at = time.monotonic()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready != Ready.NONE:
                        heard_at = time.monotonic()
                    elif time.monotonic() - heard_at > limit_s:
                        self.pgconn.finish()  # whatever it answers later is nobody's
                        raise psycopg.OperationalError(f"the server was silent for {limit_s:g} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return BoundedConnection
