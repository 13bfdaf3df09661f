"""`gsched ckpt prune`: old checkpoints away."""

from __future__ import annotations

import os

import click

from gsched_cli.ckpt_rows import COLUMNS, prune_document, prune_rows, reading
from gsched_cli.completion import files
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, memory, say


@click.command()
@click.argument("folder", metavar="FOLDER|JOB", shell_complete=files)
@click.option("--keep", type=click.IntRange(1), required=True, help="So many valid ones stay.")
@click.option("--set-aside", "with_set_aside", is_flag=True, help="Also what was set aside.")
@click.option("--apply", "does_it", is_flag=True, help="Remove; without it, show what would go.")
@json_option
def prune(folder: str, keep: int, with_set_aside: bool, does_it: bool, as_json: bool) -> int | None:
    """Remove all but the newest valid checkpoints of a folder. Shows what would go by default.

    The ones that stay are verified first, checksums and all, and looked at once more before each
    removal; the last valid one never goes, and where none is valid (exit code 4) nothing goes. Torn
    and given-up ones go where a valid one is newer. What stays in any case: foreign ones, those of
    other users, those whose names count no steps (best.pt, last.ckpt), and the one that Hugging
    Face's Trainer or Lightning counts as the best.

    \b
    Example:
      gsched ckpt prune --keep 3 runs/llama
      gsched ckpt prune --keep 3 --apply runs/llama

    \b
    JSON:
      folder, applied, bytes_removed, leftovers, set_aside, checkpoints
      checkpoints[]: action, why, path, kind, verdict, reason, step, bytes, created, checked,
        owner_uid
    """
    from gsched.app.checkpoints import changing, folder_of
    from gsched.ckpt.catalogue import Newest, none_valid
    from gsched.ckpt.faults import kill_where_asked
    from gsched.ckpt.prune import apply, plan

    path = folder_of(load_settings(), folder)
    with reading() as tell, changing(path):
        planned = plan(path, keep, with_set_aside=with_set_aside, tell=tell)
        hook = kill_where_asked(os.environ)
        gone = apply(planned, reached=hook) if does_it else planned.removed
    rows = prune_rows(planned, "removed" if does_it else "remove")
    num_bytes = sum(c.num_bytes for c in gone)
    if as_json:
        emit_json(prune_document(planned, rows, does_it, num_bytes))
    else:
        columns = [c for c in COLUMNS if c.name in ("step", "verdict", "kind", "size", "name")]
        heads = ["", *(column.heading for column in columns), "WHY"]
        emit_table(heads, [(a, *(c.cell(f) for c in columns), why) for a, f, why in rows])
        verb = "removed, of" if does_it else "would go with --apply:"
        say(f"{len(gone)} of {len(rows)} {verb} {memory(num_bytes)}")
    if not planned.kept:
        raise none_valid(path, Newest(None, tuple(c for _, c, _ in rows)))
    return None
