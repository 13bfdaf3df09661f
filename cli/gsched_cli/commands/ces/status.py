"""`gsched ces status`: which nodes sleep, and what the daemon does about it."""

from __future__ import annotations

from typing import Any

import click

from gsched_cli.ces_columns import POOL_COLUMNS, POOL_DEFAULT
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import duration, emit_json, local_time, say
from gsched_cli.tables import Layout, print_rows, table_options


@click.command()
@table_options(POOL_COLUMNS, POOL_DEFAULT)
@json_option
def status(layout: Layout, as_json: bool) -> None:
    """Show which nodes sleep, pool by pool, and why not more or fewer.

    The daemon is asked, or its public file read: it tells of its newest look. A pool is a set of
    nodes alike in hardware and partitions. EXCLUDED nodes are not energy saving's to change
    (reserved, drained, down, failed lately, excluded by the site, switched by others) and in no
    other count; WANTED are nodes that jobs wait for. NEXT is what the newest check ordered, or
    would have, and REASON why, of the newest check that was due. FORECAST says where the forecast
    of demand is from, or why there is none; without one nothing is put to sleep.

    In the document, `why` says why nothing is ordered, `problem` why energy saving fails, `demand`
    how its forecasts fare (`left`: pools still being learnt), `kept` counts nodes by why they stay
    awake, `open_orders` are those not confirmed yet, `given_up` nodes whose orders come to nothing,
    `failed_nodes` those that did not wake lately.
    Only root and the daemon's user see what errors say.

    \b
    Example:
      gsched ces status
      gsched ces status -o +forecast

    \b
    JSON:
      mode, acting, why, problem, looked_at, next_check, wake_failures, failed_nodes, max_failures,
        stopped, look_s, decide_s, pools, kept, open_orders, given_up, demand, silent_s
      pools[]: pool, nodes, running, idle, falling, asleep, waking, excluded, wanted, spare,
        wake_lead_s, wake, sleep, reason, reason_at, reason_text, forecast, forecast_made_at,
        forecast_text
      open_orders[]: node, verb, state, since
      demand: made_at, pools, foreseen, left, cpu_s, pid, started, failures, problem
    """
    from gsched.app.ces.status import ces_status

    found = ces_status(load_settings())
    if as_json:
        emit_json(found)
        return
    for line in _lines(found):
        say(line)
    print_rows(layout, found["pools"])


def _lines(found: dict[str, Any]) -> list[str]:
    """What is to be said beside the table."""
    if found["mode"] == "off":
        return ['no energy is saved: [ces] mode = "off"']
    lines = []
    if found["silent_s"]:
        lines.append(f"the daemon has been silent for {duration(found['silent_s'])}")
    if found.get("problem"):
        lines.append(f"energy saving fails: {found['problem']}")
    elif not found.get("acting"):
        lines.append(f"nothing is ordered: {found.get('why') or 'not known'}")
    if found.get("stopped"):
        lines.append(f"gsched power suspends nothing: {found['stopped']}")
    if found.get("wake_failures"):
        names = ", ".join(found.get("failed_nodes") or ())
        lines.append(f"{found['wake_failures']} nodes did not wake lately: {names}".rstrip(": "))
    for node, why in (found.get("given_up") or {}).items():
        lines.append(f"{node}: {why}")
    demand = found.get("demand") or {}
    if demand.get("problem"):
        lines.append(f"no forecast of demand: {demand['problem']}")
    if demand.get("left"):
        lines.append(f"the demand of {demand['left']} pools is still being learnt")
    if found.get("looked_at"):
        lines.append(f"as of {local_time(found['looked_at'])}")
    return lines
