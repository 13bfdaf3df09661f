"""`gsched ces orders`: which node was told what, when, why, and what came of it."""

from __future__ import annotations

import click

from gsched_cli.ces_columns import ORDER_COLUMNS, ORDER_DEFAULT
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json
from gsched_cli.tables import Layout, print_rows, table_options


@click.command()
@click.argument("nodes", metavar="[NODE]...", nargs=-1)
@click.option(
    "-S", "--since", metavar="T", default="1d", show_default=True, help="From then on (7d, …)."
)
@click.option("-E", "--until", metavar="T", help="Up to then [now].")
@table_options(ORDER_COLUMNS, ORDER_DEFAULT)
@json_option
def orders(
    nodes: tuple[str, ...], since: str, until: str | None, layout: Layout, as_json: bool
) -> None:
    """Show each order of energy saving to a node: when, which, why, and what came of it.

    NODE may be a host list like gn[01-04]; without one all nodes are shown. STATE is observed (said
    only, with [ces] mode = "observe"), intent (written down, not known to be sent), sent, confirmed
    (Slurm has shown it), void (it came to nothing) or rejected (by Slurm or by gsched-helper);
    DETAIL says why. The oldest come first. What Slurm does of its own accord, such as waking a node
    for a job, is no order: see gsched-ces-report(1).

    \b
    Example:
      gsched ces orders gn17 --since 12h

    \b
    JSON:
      list[]: node, pool, verb, decided_at, state, settled_at, detail, reason, reason_text
    """
    from gsched.app.ces.orders import orders as read
    from gsched.app.when import parse_when
    from gsched.app.wiring import now
    from gsched.errors import UsageError
    from gsched.model.hostlist import expand

    at = now()
    begin, end = parse_when(since, at), at + 1 if until is None else parse_when(until, at)
    if begin >= end:
        raise UsageError("there is no time between --since and --until")
    names = {name for host_list in nodes for name in expand(host_list)}
    found = read(load_settings(), begin, end, names)
    if as_json:
        emit_json(found)
        return
    print_rows(layout, found)
