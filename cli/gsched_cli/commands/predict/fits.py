"""`gsched predict fits`: the record of all fits."""

from __future__ import annotations

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time


@click.command()
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="So many at most."
)
@json_option
def fits(limit: int, as_json: bool) -> None:
    """Show the fits of the run-time model, the newest first, and what became of each.

    OUTCOME is adopted (it was put in use), pinned (another model was pinned, this one was kept) or
    interrupted (its process ended before the model was in use). A fit that gives the model of the
    one before it once more, for want of news, is left out. RANK-CORR is that of the model on
    jobs that the fit had not seen, with GPUs / without.

    \b
    Example:
      gsched predict fits

    \b
    JSON:
      cluster, fits
      fits[]: model_id, fitted_at, took_s, started_by, as_of, data_from, data_until, num_jobs,
        features, details, outcome, why
    """
    from gsched.app.model_lifecycle import fits_document, rank_correlations

    found = fits_document(load_settings(), limit)
    if as_json:
        emit_json(found)
        return
    emit_table(
        ["FITTED", "MODEL", "JOBS", "TOOK", "BY", "RANK-CORR", "OUTCOME"],
        [
            (
                local_time(fit["fitted_at"]),
                fit["model_id"],
                count(fit["num_jobs"]),
                duration(fit["took_s"]),
                fit["started_by"],
                rank_correlations(fit["details"]),
                f"{fit['outcome']}: {fit['why']}" if fit["why"] else fit["outcome"],
            )
            for fit in found["fits"]
        ],
        right={2, 3},
    )
