"""`gsched daemon reload`: the daemon reads its configuration again."""

from __future__ import annotations

import click

from gsched_cli.options import json_option, load_settings_to_ask
from gsched_cli.output import emit_json, say, warn


@click.command()
@json_option
def reload(as_json: bool) -> None:
    """Let the running daemon read its configuration again, and wait until it is in force.

    A configuration that is wrong changes nothing: the command fails with its error, and the daemon
    goes on with the former one. Policy, knobs, scope, exclusions, windows, intervals and predictor
    change between two rounds; what only a restart changes is told. root and the daemon's own user
    may do this. Environment variables stay those with which the daemon was started.

    \b
    Example:
      gsched daemon reload

    \b
    JSON:
      changed, needs_restart
    """
    from gsched.daemon import control_client
    from gsched.errors import UnavailableError

    settings, wrong = load_settings_to_ask()
    try:
        done = control_client.reload(settings.daemon_socket)
    except UnavailableError as error:
        raise wrong or error from None
    if as_json:
        emit_json(done)
    else:
        say(f"in force now: {', '.join(done['changed']) or 'nothing had changed'}")
    if done["needs_restart"]:
        warn(f"only a restart puts in force: {', '.join(done['needs_restart'])}")
