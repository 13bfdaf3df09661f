"""`gsched db`: the job-history database. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.db.backup import backup
from gsched_cli.commands.db.check import check
from gsched_cli.commands.db.import_ import import_
from gsched_cli.commands.db.ingest import ingest
from gsched_cli.commands.db.init import init
from gsched_cli.commands.db.prune import prune
from gsched_cli.commands.db.restore import restore
from gsched_cli.commands.db.stats import stats
from gsched_cli.commands.db.upgrade import upgrade


@click.group()
def db() -> None:
    """Set up, fill, inspect and look after the job-history database.

    \b
    Example:
      gsched db init
      gsched db ingest
    """


for _command in (
    init,
    upgrade,
    ingest,
    import_,
    stats,
    check,
    backup,
    restore,
    prune,
):
    db.add_command(_command)
