"""`gsched db restore`: a backup into an empty database."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gsched_cli.long_work import long_work
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, local_time, say


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
def restore(file: Path, as_json: bool) -> None:
    """Put a backup into the database, which must be empty; a missing one is made.

    All or nothing: each row is checked on the way in, and each table is read back and compared
    with the backup before the end. A backup of an older gsched is brought up to date.

    The database is the configured one. To move a history to another engine, back it up, name the
    other in [database] url (or GSCHED_DATABASE_URL) and restore.

    \b
    Example:
      gsched db restore /backup/history-2026-11-29.gsb

    \b
    JSON:
      location, path, schema, made_at, tables, rows, size_bytes
    """
    from gsched_sql import maintenance

    with long_work() as tell:
        done = maintenance.restore(load_settings().database_url, file, on_progress=tell)
    if as_json:
        emit_json(asdict(done))
    else:
        say(
            f"restored and verified {count(done.rows)} rows of {local_time(done.made_at)} "
            f"(schema {done.schema}) into {done.location}"
        )
