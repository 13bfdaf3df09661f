"""From revision 0002 to 0003: jobs and attempts, their texts interned, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Row,
    Table,
    case,
    column,
    func,
    insert,
    inspect,
    literal,
    select,
    table,
    text,
    update,
)

from gsched.errors import DataError
from gsched.model.hostlist import expand
from gsched.model.names import masked
from gsched_sql.columns import KeptText, text_digest
from gsched_sql.migrations import form_0003 as form

ROWS_A_PIECE = 5000
_KEPT = {table.name for table in form.KEPT}
OLD_TABLES = ("attempt_tres", "attempts_0002", "jobs_0002")
"""In the order in which they can be dropped."""

_AS_BEFORE = (
    "id",
    *form.SLOT,
    "user_id",
    "tenant_id",
    "state",
    "start_time",
    "end_time",
    "time_limit_s",
    "num_nodes",
    "num_cpus",
    "num_gpus",
)
_TEXTS = {"partition": form.partitions, "qos": form.qos, "name": form.job_names}
_JOB_AS_BEFORE = ("epoch", "num_attempts", "queueing_s", "duration_s", "gpu_time_s")
_ATTEMPT_AS_BEFORE = (
    "logical_job",
    "submit_time",
    "eligible_time",
    "exit_code",
    "exit_signal",
    "restarts",
    "claim",
)


def _old(name: str, numbers: Iterable[str], texts: Iterable[str]) -> Any:
    return table(
        name,
        *(column(n, BigInteger) for n in numbers if n != "state"),
        *(column(n, KeptText) for n in ("state", *texts)),
    )


_old_jobs = _old("jobs_0002", (*_AS_BEFORE, *_JOB_AS_BEFORE), (*_TEXTS, "state_text"))
_old_attempts = _old(
    "attempts_0002",
    (*_AS_BEFORE, *_ATTEMPT_AS_BEFORE),
    (*_TEXTS, "state_text", "source", "node_list", "claims"),
)
_old_tres = table(
    "attempt_tres",
    column("attempt_id", BigInteger),
    column("kind", KeptText),
    column("position", BigInteger),
    column("name", KeptText),
    column("count", BigInteger),
)


def set_aside(conn: Connection) -> None:
    """Rename the old tables, and what of theirs has a name that the new ones need."""
    for name in ("jobs", "attempts"):
        found = inspect(conn)
        is_old = found.has_table(name) and "partition" in _columns(conn, name)
        if is_old and not found.has_table(f"{name}_0002"):
            conn.execute(text(f"ALTER TABLE {name} RENAME TO {name}_0002"))
    found = inspect(conn)
    for name in filter(found.has_table, OLD_TABLES):
        for statement in _freeing(conn, name):
            conn.execute(text(statement))


def _columns(conn: Connection, name: str) -> set[str]:
    return {found["name"] for found in inspect(conn).get_columns(name)}


def _freeing(conn: Connection, name: str) -> Iterator[str]:
    """Names of constraints are a table's own on SQLite; MariaDB's of indexes are, too."""
    found = inspect(conn)
    engine = conn.dialect.name
    if engine != "sqlite":
        drop = "CONSTRAINT" if engine == "postgresql" else "FOREIGN KEY"
        for key in found.get_foreign_keys(name):
            yield f"ALTER TABLE {name} DROP {drop} {key['name']}"
    if engine == "postgresql" and name != "attempt_tres":
        kept = [found.get_pk_constraint(name), *found.get_unique_constraints(name)]
        for constraint in kept:
            old = str(constraint["name"])
            if not old.endswith("_0002"):
                yield f"ALTER TABLE {name} RENAME CONSTRAINT {old} TO {old}_0002"
    if engine in ("sqlite", "postgresql"):
        for index in found.get_indexes(name):
            if not index.get("duplicates_constraint"):
                yield f"DROP INDEX {index['name']}"


def alter_kept(conn: Connection) -> None:
    """What is new in tables that stay."""
    if conn.dialect.name in ("mariadb", "mysql"):
        _collate_anew(conn)
    found = inspect(conn)
    if "updated_at" not in _columns(conn, "ingest_cursors"):
        conn.execute(text("ALTER TABLE ingest_cursors ADD COLUMN updated_at BIGINT"))
    for name in ("actions", "audit_events"):
        index = f"ix_{name}_round_id"
        if all(i["name"] != index for i in found.get_indexes(name)):
            conn.execute(text(f"CREATE INDEX {index} ON {name} (round_id)"))


_TEXT_KEYS = (
    ("actions", "round_id", "rounds"),
    ("audit_events", "round_id", "rounds"),
    ("audit_events", "change_id", "actions"),
    ("policy_memory", "round_id", "rounds"),
)
"""Foreign keys that are texts: MariaDB changes no such column while they stand."""


def _collate_anew(conn: Connection) -> None:
    """Text that compares as it is written, blanks at its end, too."""
    for name, key, *_ in _TEXT_KEYS:
        conn.execute(text(f"ALTER TABLE {name} DROP FOREIGN KEY IF EXISTS fk_{name}_{key}"))
    for name in inspect(conn).get_table_names():
        if (name not in OLD_TABLES and name not in form.metadata.tables) or name in _KEPT:
            conn.execute(
                text(
                    f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
                )
            )
    for name, key, parent in _TEXT_KEYS:
        conn.execute(
            text(
                f"ALTER TABLE {name} ADD CONSTRAINT fk_{name}_{key} "
                f"FOREIGN KEY IF NOT EXISTS ({key}) REFERENCES {parent} ({key})"
            )
        )


def drop_old(conn: Connection) -> None:
    """Drop the old tables."""
    for name in filter(inspect(conn).has_table, OLD_TABLES):
        conn.execute(text(f"DROP TABLE {name}"))


def copy_jobs(conn: Connection) -> None:
    """Copy `jobs`."""

    def rows(piece: Sequence[Row[Any]]) -> Iterator[dict[str, Any]]:
        ids = _text_ids(conn, piece)
        for row in piece:
            yield _common(row, ids) | {name: getattr(row, name) for name in _JOB_AS_BEFORE}

    _copy(conn, _old_jobs, form.jobs, rows)


def copy_attempts(conn: Connection) -> None:
    """Copy `attempts` with their lists of resources, then sum up the CPU-time of each job."""

    def rows(piece: Sequence[Row[Any]]) -> Iterator[dict[str, Any]]:
        ids = _text_ids(conn, piece)
        node_lists = _intern(conn, form.node_lists, {row.node_list for row in piece})
        tres = _tres_texts(conn, piece[0].id, piece[-1].id)
        tres_ids = _intern(conn, form.tres_lists, set(tres.values()))
        for row in piece:
            yield _common(row, ids) | {
                **{name: getattr(row, name) for name in _ATTEMPT_AS_BEFORE},
                "source": row.source[:64],
                "node_list_id": node_lists.get(row.node_list),
                "requested_id": tres_ids.get(tres.get((row.id, "requested"))),
                "allocated_id": tres_ids.get(tres.get((row.id, "allocated"))),
                "claims": row.claims or None,
            }

    if _copy(conn, _old_attempts, form.attempts, rows):
        _fill_cpu_time(conn)


def _copy(
    conn: Connection,
    old: Any,
    new: Table,
    rows: Callable[[Sequence[Row[Any]]], Iterator[dict[str, Any]]],
) -> bool:
    """Copy in the order of the row numbers, behind what is there; False: there is no old table."""
    if not inspect(conn).has_table(old.name):
        return False
    last = conn.execute(select(func.max(new.c.id))).scalar() or 0
    while True:
        query = select(old).where(old.c.id > last).order_by(old.c.id).limit(ROWS_A_PIECE)
        piece = conn.execute(query).all()
        if not piece:
            break
        conn.execute(insert(new), list(rows(piece)))
        last = piece[-1].id
    if conn.dialect.name == "postgresql" and last:
        sequence = func.pg_get_serial_sequence(literal(new.name), literal("id"))
        conn.execute(select(func.setval(sequence, last)))
    return True


def _common(row: Row[Any], ids: Mapping[str, Mapping[str | None, int]]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _AS_BEFORE}
    values |= {f"{name}_id": ids[name].get(getattr(row, name)) for name in _TEXTS}
    values["state_text"] = None if row.state_text == row.state else row.state_text
    return values


def _text_ids(conn: Connection, piece: Sequence[Row[Any]]) -> dict[str, dict[str | None, int]]:
    return {
        name: _intern(conn, texts, {getattr(row, name) for row in piece})
        for name, texts in _TEXTS.items()
    }


def _tres_texts(conn: Connection, first: int, last: int) -> dict[tuple[int, str], str | None]:
    """Lists of resources by attempt and kind, as one text each."""
    t = _old_tres.c
    query = select(_old_tres).where(t.attempt_id >= first, t.attempt_id <= last)
    found: dict[tuple[int, str], list[str]] = {}
    for row in conn.execute(query.order_by(t.attempt_id, t.kind, t.position)):
        name = row.name.replace("%", "%25").replace(",", "%2C").replace("=", "%3D")
        found.setdefault((row.attempt_id, row.kind), []).append(f"{name}={row.count}")
    return {key: ",".join(items) for key, items in found.items()}


def _intern(conn: Connection, texts: Table, names: set[str | None]) -> dict[str | None, int]:
    """Rows of `names` (at most ROWS_A_PIECE twice), made where there is none yet."""
    digests = {text_digest(name): name for name in names if name is not None}
    found = _rows_of(conn, texts, digests)
    new = {digest: name for digest, name in digests.items() if name not in found}
    if not new:
        return found
    rows: list[dict[str, Any]] = [{"name_digest": d, "name": n} for d, n in sorted(new.items())]
    if texts is form.job_names:
        groups = _intern(conn, form.name_groups, {masked(name) for name in new.values()})
        rows = [{**row, "group_id": groups[masked(row["name"])]} for row in rows]
    conn.execute(insert(texts), rows)
    made = _rows_of(conn, texts, new)
    if texts is form.node_lists:
        _add_members(conn, made)
    elif texts is form.tres_lists:
        _add_counts(conn, made)
    return found | made


def _rows_of(conn: Connection, texts: Table, digests: Mapping[str, str]) -> dict[str | None, int]:
    wanted = list(digests)
    found: dict[str | None, int] = {}
    for start in range(0, len(wanted), ROWS_A_PIECE):
        some = texts.c.name_digest.in_(wanted[start : start + ROWS_A_PIECE])
        rows = conn.execute(select(texts.c.name_digest, texts.c.id).where(some))
        found |= {digests[row.name_digest]: row.id for row in rows}
    return found


def _add_members(conn: Connection, node_lists: Mapping[str | None, int]) -> None:
    for listed, number in node_lists.items():
        try:
            names = set(expand(str(listed)))
        except DataError:
            continue
        node_ids = _intern(conn, form.nodes, set(names))
        rows = [{"node_list_id": number, "node_id": node_ids[name]} for name in names]
        if rows:
            conn.execute(insert(form.node_list_members), rows)


def _add_counts(conn: Connection, tres_lists: Mapping[str | None, int]) -> None:
    rows = []
    for listed, number in tres_lists.items():
        for position, item in enumerate(str(listed).split(",")):
            name, count = item.split("=")
            name = name.replace("%3D", "=").replace("%2C", ",").replace("%25", "%")
            values = (number, position, name, int(count))
            rows.append(dict(zip(form.tres_counts.c.keys(), values, strict=True)))
    conn.execute(insert(form.tres_counts), rows)


def _fill_cpu_time(conn: Connection) -> None:
    """CPUs times seconds over all attempts of each ended job, NULL where any of it is not known."""
    a, j = form.attempts.c, form.jobs.c
    seconds = case(
        (a.end_time.is_(None), None),
        (a.start_time.is_(None), 0),
        (a.end_time < a.start_time, None),
        else_=a.end_time - a.start_time,
    )
    cpu_time = case((seconds == 0, 0), else_=seconds * func.coalesce(a.num_cpus, j.num_cpus))
    total = case((func.count() == func.count(cpu_time), func.sum(cpu_time)), else_=None)
    mine = select(total).where(a.logical_job == j.id).correlate(form.jobs).scalar_subquery()
    conn.execute(update(form.jobs).where(j.end_time.is_not(None)).values(cpu_time_s=mine))
