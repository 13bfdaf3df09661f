"""`gsched deadlines`: which deadlines were promised, and which of those were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched.errors import UsageError
from gsched_cli import completion as complete
from gsched_cli.deadline_columns import COLUMNS, DEFAULT
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, say
from gsched_cli.tables import Layout, print_rows, table_options

if TYPE_CHECKING:
    from gsched.app.past_targets import PastTargets


@click.command()
@click.option("-u", "--user", metavar="NAME", shell_complete=complete.users, help="Only this user.")
@click.option("--me", "own", is_flag=True, help="Only your own.")
@click.option(
    "-S",
    "--since",
    metavar="T",
    default="7d",
    show_default=True,
    help="Asked for from then on (30d, 6h, 2026-11-29).",
)
@click.option("-E", "--until", metavar="T", help="Asked for before then [now].")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Show the newest so many; all are counted.",
)
@table_options(COLUMNS, DEFAULT)
@json_option
def deadlines(
    user: str | None,
    own: bool,
    since: str,
    until: str | None,
    limit: int,
    layout: Layout,
    as_json: bool,
) -> None:
    """List the deadlines that were asked for, and say how many promises were kept.

    A line is one request of one job, the newest first. STATE is standing (promised, the job has not
    ended), refused, kept (the job ended by its last deadline), missed, withdrawn (the job was
    cancelled before, or asked for something else), failed (its own program failed, or came to its
    time limit, before the deadline) or unknown (nobody has told how it ended). PROMISED_END and
    PROBABILITY are those of the answer; WHY is why a deadline was refused. REWARD is what the end
    was worth: 100 for the first deadline, less for a later soft one, 1 after the last.

    It is read from the history database, which is the administrator's: who may not read it ends
    with 77. Everybody has `gsched queue --plan` and `gsched why`, which show the promises that
    stand; of a job that has ended `gsched why` says whether its deadline was met, while Slurm knows
    the job. See gsched-deadlines(7).

    \b
    Example:
      gsched deadlines --me
      gsched deadlines --since 30d -P -o jobid,state,deadline,end

    \b
    JSON:
      cluster, since, until, is_whole, counts, targets
      counts: asked, refused, promised, standing, kept, missed, withdrawn, failed, unknown
      targets[]: job, user, num_gpus, asked_time, deadlines, state, since, promised, finish_time,
        probability, end_time, reward, earliest, why, alternatives, warned, warned_time

    standing to unknown are of those that were promised. deadlines have time and reward; promised
    has time, finish_time, probability and budget_gpu_s, finish_time and probability are those of
    the last plan; alternatives have kind (later, fewer-gpus, soft), finish_time, num_gpus and
    probability. is_whole is false where so many were asked for that the oldest are left out.
    """
    from gsched.app.past_targets import past_targets
    from gsched.app.queue_filter import own_name
    from gsched.app.when import parse_when
    from gsched.app.wiring import now

    at = now()
    begin, end = parse_when(since, at), at + 1 if until is None else parse_when(until, at)
    if begin >= end:
        raise UsageError("there is no time between --since and --until")
    if own and user is not None:
        raise UsageError("--me and --user exclude each other")
    found = past_targets(load_settings(), begin, end, own_name() if own else user)
    if as_json:
        emit_json(found.document(limit))
        return
    print_rows(layout, found.records[:limit])
    for line in _words(found, limit):
        say(line)


def _words(found: PastTargets, limit: int) -> list[str]:
    """The sums, and what the table leaves out."""
    counts = found.counts()
    if not counts["asked"]:
        return ["no deadline was asked for in this time"]
    others = ", ".join(
        f"{counts[name]} {name}"
        for name in ("missed", "standing", "withdrawn", "failed", "unknown")
        if counts[name]
    )
    words = f"{counts['kept']} of {counts['promised']} promises kept"
    words += f" ({others})" if others else ""
    lines = [f"{words}; {counts['refused']} of {counts['asked']} requests refused"]
    if counts["asked"] > limit:
        lines.append(f"there are more: --limit {limit * 2} shows more")
    if not found.is_whole:
        lines.append(f"older ones are left out: only {counts['asked']} are looked at")
    return lines
