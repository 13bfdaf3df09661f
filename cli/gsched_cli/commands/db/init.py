"""`gsched db init`: make the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, say

if TYPE_CHECKING:
    from gsched_sql import InitResult


@click.command()
@click.option(
    "--with-roles",
    is_flag=True,
    help="On a server, also make the roles for readers, auditors and writers.",
)
@json_option
def init(with_roles: bool, as_json: bool) -> None:
    """Make the database, or bring its schema up to date; data is kept.

    An SQLite database (the default) is for one user on one host. It has to lie on a local disk:
    network file systems are refused. Other users read their own jobs from Slurm, or from a
    database on a server, which its administrator makes (CREATE DATABASE gsched) for the user that
    runs this command.

    There --with-roles makes three roles. A gsched_reader sees what PrivateData would show: jobs of
    his own, found by his login, which has to be his user name in Slurm. A gsched_auditor (an
    operator, a coordinator) sees all. Neither can write. A gsched_writer (the daemon, cron's
    ingest) can write rows, but not change tables. Auditors and writers can also run gsched db
    backup and check. Running it again changes nothing.

    Roles are the whole server's: whoever has one has it in every gsched database there, so that a
    test database belongs on another server. The login that runs this makes the roles and grants
    them.

    On PostgreSQL it has to own the database and needs CREATEROLE. Readers there can confirm a
    guessed name or job id, and see how many rows there are, by EXPLAIN and the server's
    statistics: where that is too much, grant no gsched_reader.

    On MariaDB it needs CREATE USER on *.*, and ALL on gsched.* and gsched_reader.* WITH GRANT
    OPTION. Readers use that second database, whose views tell nothing of others. A role that was
    granted has to be made the login's default, too, by an administrator or the login itself.

    \b
    Example:
      gsched db init
      gsched db init --with-roles
      GRANT gsched_reader TO alice                        (in psql, as gsched's login)
      GRANT gsched_reader TO alice@'%'                    (in mariadb, as gsched's login)
      SET DEFAULT ROLE gsched_reader FOR alice@'%'        (in mariadb, as root)
      GRANT gsched_reader TO root@localhost WITH ADMIN OPTION   (so that root grants it, too)

    \b
    JSON:
      database, schema_before, schema, roles, reader_database
    """
    from gsched_sql import History

    settings = load_settings()
    made = History.create(
        settings.database_url, with_roles=with_roles, phase_rules=settings.phases.rules
    )
    if as_json:
        emit_json(
            {
                "database": made.location,
                "schema_before": made.before,
                "schema": made.revision,
                "roles": made.roles,
                "reader_database": made.reader_database,
            }
        )
    else:
        _tell(made)


def _tell(made: InitResult) -> None:
    if made.before is None:
        say(f"made {made.location} (schema {made.revision})")
    elif made.changed:
        say(f"brought {made.location} from schema {made.before} to {made.revision}")
    else:
        say(f"{made.location} is up to date (schema {made.revision})")
    if made.roles:
        say(f"roles: {', '.join(made.roles)}; readers use the database {made.reader_database}")
