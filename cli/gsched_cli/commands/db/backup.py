"""`gsched db backup`: the database into one file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gsched_cli.long_work import long_work
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, memory, say


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
@json_option
def backup(file: Path, force: bool, as_json: bool) -> None:
    """Write one state of the database into FILE, while others go on using it.

    FILE is a zip archive of packed JSON, of no engine: `gsched db restore` puts it into SQLite,
    PostgreSQL or MariaDB. Only its owner can read it. It is there whole or not at all; a
    .FILE.* beside it is what a kill -9 has left and may be deleted. On a server, the owner of the
    tables, auditors and writers can make one; readers, who see their own rows only, cannot.

    \b
    Example:
      gsched db backup /backup/history-$(date +%F).gsb

    \b
    JSON:
      location, path, schema, made_at, tables, rows, size_bytes
    """
    from gsched_sql import maintenance

    with long_work() as tell:
        made = maintenance.backup(
            load_settings().database_url, file, replace=force, on_progress=tell
        )
    if as_json:
        emit_json(asdict(made))
    else:
        say(
            f"backed up {count(made.rows)} rows of {made.location} (schema {made.schema}) "
            f"to {made.path}, {memory(made.size_bytes)}"
        )
