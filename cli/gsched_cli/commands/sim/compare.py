"""`gsched sim compare`: several policies over the same past jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched.errors import UsageError
from gsched_cli.sim_options import sim_options
from gsched_cli.sim_rows import emit_simulated, simulated

if TYPE_CHECKING:
    from gsched.app.sim.compare import SimOrder


@click.command()
@click.option(
    "-P",
    "--policy",
    metavar="NAME[:KNOB=VALUE]...,...",
    multiple=True,
    default=("fifo,multifactor,qssf,sjf",),
    show_default=True,
    help="Policies, with commas or repeated; the first is what the others are compared with.",
)
@sim_options
def compare(order: SimOrder, as_json: bool) -> int:
    """Simulate several policies on the same past jobs and compare them.

    Jobs, nodes, predictions and costs are the same for all policies; see `gsched sim run --help`
    for where they come from and what is left out. Differences are those from the first policy, with
    intervals over days of submission, or over seeds where chance is simulated (--seeds).

    Do this with the site's own last month before the daemon acts: `gsched db ingest` keeps the
    history, `--live` takes the nodes of this Slurm, `--slurm` starts jobs much as Slurm would.

    \b
    Example:
      gsched sim compare --since 30d --live --slurm --policy multifactor,qssf,fifo
      gsched sim compare --format philly philly.csv.gz --html out
      sacct -aPD -S 2026-11-01 -o ALL | gsched sim compare --format sacct -

    \b
    JSON:
      source, cluster, assumptions, left_out, notes, interrupted, policies, baseline,
        confidence, interval_unit, differences
      left_out[]: reason, jobs, gpu_time_s, examples
      policies[]: label, policy, knobs, oracle, preempts, misfit, needs_prediction, estimates,
        runs, ended_under_both
      differences[]: label, metric, value, low, high, baseline

    A difference is the policy label's figure less that of the baseline, which is baseline over the
    same jobs: where jobs are given up after failures, figures of jobs are compared over those that
    ended under both, ended_under_both of each run. All else is as for `gsched sim run`.
    """
    from gsched.app.sim.tables import comparison, difference_table

    if len(order.policies) < 2:
        raise UsageError(
            "one policy alone is not compared", "name several: -P fifo,sjf; or `gsched sim run`"
        )
    done = simulated(order)
    shown = () if done.report is None else (comparison(done.report), difference_table(done.report))
    return emit_simulated(done, shown, as_json)
