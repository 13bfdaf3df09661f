"""`gsched trace synth`: synthetic traces fitted to a real one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsched.errors import UsageError
from gsched.synth.shipped import SHIPPED
from gsched_cli.errors import EXIT_INTERRUPTED
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, emit_table, say
from gsched_cli.progress import ProgressLine
from gsched_cli.trace_options import trace_options

if TYPE_CHECKING:
    from gsched.app.synth_trace import Fitted
    from gsched.app.trace_formats import TraceOptions


@click.command()
@click.option(
    "--like", type=click.Choice(SHIPPED), help="Draw from a fit that gsched brings along."
)
@click.option(
    "--fit",
    "fit_file",
    metavar="FIT.json",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Draw from a fit that --save-fit has written.",
)
@partial(trace_options, required=False)
@click.option("--from-history", is_flag=True, help="Fit the own history; --cluster: one of it.")
@click.option(
    "--days", type=click.FloatRange(0, min_open=True), help="How long; default: as the source."
)
@click.option(
    "--jobs", type=click.IntRange(1), help="How many; with --days, that many in that time."
)
@click.option(
    "--start", metavar="T", help="When it begins (2026-01-05, …); default: as the source."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draw.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="NAME.csv or NAME.parquet, perhaps with .gz or .zst; -: CSV on standard output.",
)
@click.option(
    "--save-fit",
    metavar="FIT.json",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the fit: numbers and names of pools, no user, job name or row of the source.",
)
@click.option("--force", is_flag=True, help="Replace OUT and FIT.json where they exist.")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@json_option
def synth(
    like: str | None,
    fit_file: Path | None,
    told: TraceOptions | None,
    cluster: str | None,
    files: tuple[str, ...],
    from_history: bool,
    output: str | None,
    save_fit: Path | None,
    force: bool,
    as_json: bool,
    seed: int,
    **wanted: Any,
) -> int:
    """Draw a synthetic trace that is like a real one: shipped, in files, or the own history.

    A fit keeps when jobs arrive (by hour and weekday UTC, days and batches), their sizes and run
    times by pool, how users and job names come again and run alike, final states, time limits. The
    same fit, options and seed draw the same trace. Names of pools stay; users and job names are
    invented. What comes when is chance: draw several seeds. --cluster also names the drawn cluster.

    The table sets figures of the source beside those drawn, over all jobs that ran; a distance
    is between 0 (alike) and 1, and is told where the source has just been read.

    \b
    Example:
      gsched trace synth --like philly --days 14 --seed 1 -o two-weeks.parquet
      gsched trace synth -f sacct month.txt --save-fit site.json -o like-ours.csv.gz
      gsched sim run -f gsched two-weeks.parquet --policy qssf

    \b
    JSON:
      like, sources, seed, output, save_fit, cluster, jobs, facts, distances, notes
      facts: the name of each figure → source, drawn
      distances: the name of each distribution → number
    """
    from gsched.app.synth_trace import comparison, write_fit, write_trace
    from gsched.synth.draw import draw

    if output is None and save_fit is None:
        raise UsageError("name what to write: -o OUT, --save-fit FIT.json, or both")
    if output == "-" and as_json:
        raise UsageError("-o - and --json both print on standard output")
    wanted["start"] = _moment(wanted["start"])
    try:
        with ProgressLine() as line:
            fitted = _fitted(like, fit_file, told, cluster, files, from_history, line)
        made = fitted.fit
        drawn = draw(made, seed, **wanted)
        compared = comparison(fitted, drawn)
        name = cluster or f"synth-{made.name}-{seed}"
        if output is not None:
            write_trace(drawn, made, name, output, force=force)
        if save_fit is not None:
            write_fit(made, save_fit, force=force)
    except KeyboardInterrupt:
        say(f"interrupted: {output or save_fit} is not written")
        return EXIT_INTERRUPTED
    if as_json:
        emit_json(
            {
                "like": made.name,
                "sources": list(made.sources),
                "seed": seed,
                "output": output,
                "save_fit": None if save_fit is None else str(save_fit),
                "cluster": name,
                "jobs": len(drawn),
                **compared,
                "notes": list(fitted.notes),
            }
        )
    elif output != "-":
        _show(compared)
    for note in (*(f"source: {text}" for text in made.sources), *fitted.notes):
        say(note)
    return 0


def _fitted(
    like: str | None,
    fit_file: Path | None,
    told: TraceOptions | None,
    cluster: str | None,
    files: tuple[str, ...],
    from_history: bool,
    line: ProgressLine,
) -> Fitted:
    """What to draw from; exactly one source is named."""
    from gsched.app.synth_trace import Fitted, fit_files, fit_history, read_fit
    from gsched.synth.shipped import shipped

    named = [like is not None, fit_file is not None, told is not None, from_history]
    if sum(named) != 1 or (told is None) != (not files):
        raise UsageError(
            "name one source: --like, --fit, files and their --format, or --from-history",
            "gsched trace synth --like philly -o trace.csv.gz",
        )
    if like is not None:
        return Fitted(shipped(like))
    if fit_file is not None:
        return read_fit(fit_file)

    def shown(what: str, rows: int) -> None:
        line.show(f"{what}: {count(rows)}")

    if told is not None:
        return fit_files(files, told, shown)
    return fit_history(load_settings(), cluster, shown)


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    from gsched.app.when import parse_when
    from gsched.app.wiring import now

    return parse_when(text, now())


def _show(compared: dict[str, Any]) -> None:
    """The figures of source and drawn trace, then the distances."""
    emit_table(
        ["FIGURE", "SOURCE", "DRAWN"],
        [(name, *map(_figure, pair.values())) for name, pair in compared["facts"].items()],
        right={1, 2},
    )
    if compared["distances"] is not None:
        print()
        rows = [(name, f"{value:.3f}") for name, value in compared["distances"].items()]
        emit_table(["DISTRIBUTION", "DISTANCE"], rows, right={1})


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
