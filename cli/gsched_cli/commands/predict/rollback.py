"""`gsched predict rollback`: an earlier model in use again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.app.model_lifecycle import KeptList


@click.command()
@click.argument("model_id", required=False)
@click.option("--list", "listing", is_flag=True, help="Show the models that are kept.")
@click.option("--release", is_flag=True, help="Let refits replace the model in use again.")
@json_option
def rollback(model_id: str | None, listing: bool, release: bool, as_json: bool) -> None:
    """Put an earlier model in use, and pin it there.

    MODEL_ID is one of `gsched predict rollback --list`; without it, it is the last one that was
    fitted before the one in use. A running daemon takes it up at its next round. Refits by timer go
    on but do not replace it, until --release or `gsched predict train`. The newest
    predict.keep_models models are kept.

    \b
    Example:
      gsched predict rollback --list
      gsched predict rollback
      gsched predict rollback --release

    \b
    JSON:
      in_use, problem, pinned, kept
      kept[]: model_id, fitted_at, data_from, data_until, num_jobs, size_bytes, problem
    """
    from gsched.app import model_lifecycle

    if sum((model_id is not None, listing, release)) > 1:
        raise click.UsageError("give one of MODEL_ID, --list and --release")
    settings = load_settings()
    if release:
        was_pinned = model_lifecycle.release(settings)
        say("the next refit replaces the model" if was_pinned else "no model was pinned")
    elif not listing:
        done = model_lifecycle.rollback(settings, model_id)
        say(f"{done.model_id} is in use and pinned; before, it was {done.before or 'none'}")
    found = model_lifecycle.kept_list(settings)
    if as_json:
        emit_json(found.document())
    elif listing:
        _print_kept(found, settings.model_file.name)


def _print_kept(found: KeptList, in_use: str) -> None:
    rows = [(in_use, "-", "-", "-", f"in use; {found.problem}")] if found.problem else []
    for kept in found.models:
        marks = ["in use"] if kept.model_id == found.in_use else []
        marks += ["pinned"] if found.pin and kept.model_id == found.pin.model_id else []
        told = ("-", "-", "-")
        if kept.info:
            until, num_jobs = local_time(kept.info.data_until), count(kept.info.num_jobs)
            told = (local_time(kept.info.trained_at), until, num_jobs)
        rows.append((kept.model_id, *told, kept.problem or ", ".join(marks) or "-"))
    emit_table(["MODEL", "FITTED", "ENDED-UNTIL", "JOBS", "IS"], rows, right={3})
