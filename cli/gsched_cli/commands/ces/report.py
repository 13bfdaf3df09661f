"""`gsched ces report`: what sleeping nodes have saved, and whom they delayed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsched.errors import UsageError
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, json_text, safe_text, say

if TYPE_CHECKING:
    from gsched.app.ces_report.report import CesReport

_FOLDER = click.Path(path_type=Path, file_okay=False)
_MODE = 0o644


@click.command()
@click.option(
    "-S", "--since", metavar="T", default="30d", show_default=True, help="From then on (7d, …)."
)
@click.option("-E", "--until", metavar="T", help="Up to then [now].")
@click.option("--pool", "pools", metavar="NAME", multiple=True, help="Only this pool; repeatable.")
@click.option("--html", type=_FOLDER, metavar="DIR", help="Write a page: DIR/index.html.")
@click.option("--figures", type=_FOLDER, metavar="DIR", help="Write figures, PNG and SVG.")
@click.option(
    "--json-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the JSON document as well.",
)
@json_option
def report(
    since: str,
    until: str | None,
    pools: tuple[str, ...],
    html: Path | None,
    figures: Path | None,
    json_out: Path | None,
    as_json: bool,
) -> None:
    """Show what sleeping nodes saved, and whom they delayed.

    Nodes asleep and how well the others were used, wake-ups and how they ended, jobs that waited
    for their nodes to wake, and energy, money and CO2 by what [energy] of gsched.toml(5) assumes:
    nothing is metered. It is made from what the daemon has seen and done with [ces] mode = "act" or
    "observe"; of times at which it did not look nothing is known, and the known share is told. Who
    reads the database in the role of a reader sees delays of the own jobs alone.

    A pool is a set of nodes alike in hardware and partitions, with a name like a100x8@gpu. Files
    that are there are replaced, each as a whole.

    \b
    Example:
      gsched ces report --since 30d
      gsched ces report --since 2026-11-01 --until 2026-12-01 --html out

    \b
    JSON:
      cluster, since, until, did, known_s, known_share, max_gap_s, overall, pools, asleep,
        wake_ups, woken_because, slept_because, orders, delayed, energy, days, course
      pools[]: pool, known_s, total_nodes, running_nodes, idle_nodes, falling_nodes,
        asleep_nodes, waking_nodes, excluded_nodes, wanted_nodes, most_asleep_nodes,
        asleep_node_hours, utilisation_share, awake_utilisation_share
      asleep[]: cause, node_hours
      wake_ups[]: cause, wake_ups, nodes, outcomes, wake_median_s, wake_p90_s, wake_ups_a_day,
        nodes_a_day
      orders[]: verb, state, orders
      days[]: begin, known_share, asleep_node_hours, kwh, wake_ups, nodes_woken, jobs_delayed

    did is acted, observed or nothing. overall is as one of pools; their nodes are means over known
    time, null where nothing is known. total_nodes were not excluded; of them running_nodes had jobs
    (those that woke for one among them). utilisation_share is running of all,
    awake_utilisation_share running of those not asleep. cause is ces, slurm (its own SuspendTime,
    or a job that it woke nodes for) or others. outcomes count nodes: awake, failed, unknown,
    still-waking. woken_because and slept_because count decisions by their reason's code. delayed
    has jobs, gone_jobs (ended before their nodes were awake), jobs_started (of the whole cluster,
    null with --pool), delayed_share, median_s, p99_s and max_s of delayed jobs, total_s,
    mean_of_all_s; without of_all_users all of that is of the asker's own jobs. energy has
    asleep_node_hours and nodes_woken of nodes that CES put to sleep, kwh, waking_kwh (already taken
    off), money, co2_kg, assumptions, wake_s_is_seen. days (UTC) have asleep_node_hours and kwh of
    CES alone; nodes_woken by cause. course has begin, step_s and lists of running_nodes,
    awake_nodes and total_nodes. Times are epoch seconds, shares parts of 1.
    """
    from gsched.app.ces_report.records import CesQuery
    from gsched.app.ces_report.report import ces_report
    from gsched.app.when import parse_when
    from gsched.app.wiring import now

    at = now()
    query = CesQuery(
        since=parse_when(since, at),
        until=at if until is None else min(parse_when(until, at), at),
        pools=pools,
    )
    if query.since >= query.until:
        raise UsageError("there is no time between --since and --until")
    found = ces_report(load_settings(), query)
    if as_json:
        emit_json(found.document())
    else:
        _print(found)
    _write(found, html, figures, json_out)


def _print(found: CesReport) -> None:
    from gsched.app.ces_report.tables import tables
    from gsched.app.ces_report.words import report_lines

    for table in tables(found):
        print(safe_text(f"{table.title}:"))
        emit_table(table.headings, table.rows, right=range(table.num_names, len(table.headings)))
        print()
    for line in report_lines(found):
        print(f"- {safe_text(line)}")


def _write(
    found: CesReport, html: Path | None, figures: Path | None, json_out: Path | None
) -> None:
    """Write what was asked for, and say where."""
    written: list[Path] = []
    if json_out is not None:
        from gsched.files import write_atomically

        write_atomically(json_out, f"{json_text(found.document())}\n".encode(), _MODE)
        written.append(json_out)
    if html is not None:
        from gsched.app.ces_report.page import write_page

        written.append(write_page(html, found))
    if figures is not None:
        from gsched.app.ces_report.figures import write_figures

        written += write_figures(figures, found)
    for path in written:
        say(f"{path} is written")
