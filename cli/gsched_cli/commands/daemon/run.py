"""`gsched daemon run`: rounds until a signal."""

from __future__ import annotations

import click

from gsched_cli.commands.daemon.acting import acting_option
from gsched_cli.options import load_settings


@click.command()
@acting_option
@click.option("--interval", type=click.FloatRange(min=0.1), help="Seconds between rounds.")
def run(acting: bool, interval: float | None) -> None:
    """Run rounds until SIGTERM or SIGINT, which let a round in progress end; a second one does not.

    SIGHUP reads the configuration again, as `gsched daemon reload` does. Acting pauses while there
    is a file /etc/gsched/off (daemon.kill_switch), in freeze windows (daemon.freeze), after
    `gsched daemon clear`, and in control intervals (daemon.control_interval_s). Until Slurm and the
    database answer, and while another host's daemon leads the cluster, it stands by. What it wrote
    stands while the database does not answer, also with that file there; `gsched daemon clear
    --all` takes it back then. A database server that is silent for a minute counts as gone.

    Under systemd it tells READY, STATUS and WATCHDOG, and writes its log with the journal's levels;
    gsched-daemon.service is the unit for it.

    \b
    Example:
      gsched daemon run --observe --interval 30
    """
    import logging

    from gsched.app.run_daemon import open_service
    from gsched.daemon.log import set_up

    set_up(logging.INFO)
    with open_service(load_settings(), acting, interval) as service:
        service.run()
