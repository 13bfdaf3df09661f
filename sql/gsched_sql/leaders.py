"""One daemon leads a cluster, wherever it runs: leadership with a fence, in the database.

Each daemon that takes over gets a *fence*, a number that only rises. Every transaction of a journal
that was opened with a fence looks at the newest one first, under the writer's lock, and raises
LostLeadershipError when it is another's. So a daemon that stood still (SIGSTOP, a suspended virtual
machine) and was taken over from can record no intent any more, and whatever has no intent is not
sent.

What the fence cannot exclude: a daemon that stands still *between* its intent's commit and the call
of scontrol sends when it goes on, for Slurm knows of no fence. It sends one chunk at most: the next
settling tells it, and what is past its `Change.valid_until` it drops. The new leader has judged
these intents VOID by its look, and their values stay such that Slurm may show: a late one is
gsched's own to the next round, which corrects it. Only where another change of the same job has
been confirmed in between, a late value is taken for another hand's and left alone.

Whose clock: the database server's, one for all hosts. A daemon of another host is taken for gone
when it was not renewed for its `ttl_s` by that clock. When that clock jumps by more, forward or
back, a living leader may lose its place to another; but there are never two, as only the newest
fence can write. SQLite is of one host, whose clock is told by the caller as `at`.

A killed daemon is taken over from at once by one of the same host, which sees that its process is
gone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, insert, select, text, update

from gsched.errors import AnotherLeadsError, ConfigError, LostLeadershipError
from gsched.model.journal import Leader
from gsched_sql import schema
from gsched_sql.engine import reading, writing
from gsched_sql.machine import is_here, lives
from gsched_sql.names import cluster_id, intern
from gsched_sql.schema import leaders

_CLOCKS = {
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)",
    "mariadb": "SELECT UNIX_TIMESTAMP(SYSDATE())",
}


class SqlLeadership:
    """Who leads one cluster. Every call is a transaction of its own."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine = engine
        self._cluster = cluster

    def take(self, host: str, machine_id: str, pid: int, ttl_s: int, at: int) -> int:
        """Lead from now on, until `release` or until `renew` is not called for `ttl_s` seconds.

        `host`, `machine_id` (``gsched_sql.machine_id``) and `pid` say who asks; `at` is the time
        (epoch) on SQLite. Returns the fence. Raises AnotherLeadsError while another daemon leads,
        and ConfigError where an SQLite file is another machine's.
        """
        with writing(self._engine) as conn:
            now = _now(conn, at)
            cluster = intern(conn, schema.clusters, [self._cluster])[self._cluster]
            row = _row(conn, cluster)
            if row is not None and not row.released:
                if conn.dialect.name == "sqlite" and row.machine_id != machine_id:
                    raise _another_machine(conn, row)
                is_mine = (row.host, row.machine_id, row.pid) == (host, machine_id, pid)
                if _is_held(row, now) and not is_mine:  # mine: of this process, or of this number
                    raise AnotherLeadsError(
                        f"the gsched daemon of host {row.host} (pid {row.pid}) leads cluster "
                        f"{self._cluster}",
                        "one daemon a cluster; this one can take over when that one has ended, or "
                        f"gave no sign of life for {row.ttl_s} s",
                    )
            fence: int = 1 if row is None else row.fence + 1
            values = {
                "fence": fence,
                "host": host,
                "machine_id": machine_id,
                "pid": pid,
                "since": now,
                "renewed_at": now,
                "ttl_s": ttl_s,
                "released": False,
            }
            if row is None:
                conn.execute(insert(leaders), [{"cluster_id": cluster, **values}])
            else:
                conn.execute(update(leaders).where(leaders.c.cluster_id == cluster).values(values))
        return fence

    def renew(self, fence: int, ttl_s: int, at: int) -> None:
        """Tell that the daemon with this fence lives, and for how long that counts from now on.

        Raises LostLeadershipError when it is past. One that was late, but that nobody has taken
        over from, leads on.
        """
        with writing(self._engine) as conn:
            cluster = cluster_id(conn, self._cluster)
            check_fence(conn, cluster, fence)
            mine = leaders.c.cluster_id == cluster
            renewed = {"renewed_at": _now(conn, at), "ttl_s": ttl_s}
            conn.execute(update(leaders).where(mine).values(renewed))

    def release(self, fence: int, at: int) -> None:
        """Lead no more, so that another can at once. What is another's already stays so."""
        with writing(self._engine) as conn:
            mine = leaders.c.cluster_id == cluster_id(conn, self._cluster)
            ended = {"released": True, "renewed_at": _now(conn, at)}
            conn.execute(update(leaders).where(mine, leaders.c.fence == fence).values(ended))

    def holder(self, at: int) -> Leader | None:
        """The daemon that leads now, None when none does."""
        with reading(self._engine) as conn:
            row = _row(conn, cluster_id(conn, self._cluster))
            if row is None or row.released or not _is_held(row, _now(conn, at)):
                return None
        return Leader(
            row.fence, row.host, row.machine_id, row.pid, row.since, row.renewed_at, row.ttl_s
        )


def check_fence(conn: Connection, cluster: int | None, fence: int | None) -> None:
    """Raise LostLeadershipError unless `fence` is the newest of the cluster (a row of `clusters`).

    To be called in the transaction that writes. None stands for a writer that is not fenced.
    """
    if fence is None:
        return
    row = _row(conn, cluster)
    if row is not None and row.fence == fence and not row.released:
        return
    if row is None or row.fence == fence:
        raise LostLeadershipError(f"this daemon (fence {fence}) leads the cluster no more")
    raise LostLeadershipError(
        f"the gsched daemon of host {row.host} (pid {row.pid}) has taken over the cluster: its "
        f"fence is {row.fence}, that of this one {fence}",
        "this daemon was not heard of for too long; started again it waits for its turn",
    )


def _row(conn: Connection, cluster: int | None) -> Any:
    return conn.execute(select(leaders).where(leaders.c.cluster_id == cluster)).one_or_none()


def _now(conn: Connection, at: int) -> int:
    clock = _CLOCKS.get(conn.dialect.name)
    return at if clock is None else int(conn.execute(text(clock)).scalar_one())


def _is_held(row: Any, now: int) -> bool:
    """Whether a leader that has not released lives, as far as can be told.

    A time in the future tells of a clock that was set back: it holds nobody up for longer.
    """
    if is_here(row.host, row.machine_id) and not lives(row.pid):
        return False
    return bool(abs(now - row.renewed_at) <= row.ttl_s)


def _another_machine(conn: Connection, row: Any) -> ConfigError:
    return ConfigError(
        f"{conn.engine.url.database} is that of the gsched daemon of host {row.host}, another "
        "machine: SQLite is for one host alone",
        "where that daemon is gone for good, run `gsched db init` here; or use a PostgreSQL or "
        "MariaDB server",
    )
