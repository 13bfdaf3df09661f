"""`gsched db upgrade`: the schema and what is derived, as this gsched has them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gsched_cli.long_work import long_work
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, say

_NO_BACKUP = ": no new backup was made, the one from before it is the way back"


@click.command()
@click.option(
    "--backup",
    "backup_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Back the database up into this file first.",
)
@json_option
def upgrade(backup_file: Path | None, as_json: bool) -> None:
    """Bring a database of an older gsched up to date, and jobs' phases to the rules in force.

    Data is kept. There is no way back but a backup: make one first (--backup). Phases and groups
    of job names are derived again when the rules have changed.

    An upgrade that was broken off (kill -9, a power cut) is finished by running it again. Where
    the server is a MariaDB, no new backup is made then: the one made before it stays the way back.

    \b
    Example:
      gsched db upgrade --backup /backup/before-upgrade.gsb

    \b
    JSON:
      location, before, schema, derived, backup, is_resumed
    """
    from gsched_sql import maintenance

    settings = load_settings()
    with long_work() as tell:
        done = maintenance.upgrade(settings.database_url, settings.phases.rules, backup_file, tell)
    if as_json:
        emit_json(asdict(done))
        return
    if done.is_resumed:
        say("this finished an upgrade that had been broken off" + _NO_BACKUP * bool(backup_file))
    if done.backup:
        say(f"backed up {count(done.backup.rows)} rows to {done.backup.path}")
    if done.before == done.schema:
        say(f"{done.location} is up to date (schema {done.schema})")
    else:
        say(f"brought {done.location} from schema {done.before} to {done.schema}")
    for column, rows in done.derived.items():
        say(f"derived {column} again: {count(rows)} rows have changed")
