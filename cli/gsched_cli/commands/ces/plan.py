"""`gsched ces plan`: what energy saving would do now, node by node."""

from __future__ import annotations

import click

from gsched_cli.ces_columns import NODE_COLUMNS, NODE_DEFAULT
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, say
from gsched_cli.tables import Layout, print_rows, table_options


@click.command()
@click.option(
    "--forecast/--no-forecast",
    "with_forecast",
    default=True,
    help="Learn the demand of each pool first, 20 s of processor time each [default]; without, "
    "nothing would be put to sleep.",
)
@table_options(NODE_COLUMNS, NODE_DEFAULT)
@json_option
def plan(with_forecast: bool, layout: Layout, as_json: bool) -> None:
    """Show what energy saving would do now, and why, node by node. Nothing is changed.

    Slurm and the history are asked here, without the daemon, and the daemon's own policy decides by
    [ces] of gsched.toml(5), whatever its mode: so it can be tried before anything is switched on.
    It is as at the next check of each pool (ces.period_s). The nodes that would go to sleep or wake
    come first. Whoever cannot read the history database gets no forecast, and what CES ordered
    lately is not known.

    \b
    Example:
      gsched ces plan
      gsched ces plan --json

    \b
    JSON:
      cluster, mode, looked_at, wake_failures, stopped, pools, nodes, notes
      pools[]: pool, nodes, running, idle, falling, asleep, waking, excluded, wanted, spare,
        wake_lead_s, wake, sleep, reason, reason_at, reason_text, forecast, forecast_made_at,
        forecast_text
      nodes[]: node, pool, power, running, idle_since, action, reason, reason_text
    """
    from gsched.app.ces.plan import plan as make

    found = make(load_settings(), with_forecast=with_forecast, tell=say)
    if as_json:
        emit_json(found)
        return
    for note in found["notes"]:
        say(note)
    for pool in found["pools"]:
        would = f"wake {pool['wake']}" if pool["wake"] else f"put {pool['sleep']} to sleep"
        words = would if pool["wake"] or pool["sleep"] else "change nothing"
        say(f"{pool['pool']}: {words}: {pool['reason_text']}")
    print_rows(layout, found["nodes"])
