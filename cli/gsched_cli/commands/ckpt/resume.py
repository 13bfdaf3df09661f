"""`gsched ckpt resume`: choose what the next start loads."""

from __future__ import annotations

import click

from gsched_cli.ckpt_rows import document, reading
from gsched_cli.completion import files
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_path, say


@click.command()
@click.argument("folder", metavar="FOLDER|JOB", shell_complete=files)
@click.option("--step", type=click.IntRange(0), help="Go on from this one; else the newest valid.")
@click.option("--undo", "is_undo", is_flag=True, help="Bring back what was set aside last.")
@click.option("--dry-run", is_flag=True, help="Show what would move, and move nothing.")
@json_option
def resume(folder: str, step: int | None, is_undo: bool, dry_run: bool, as_json: bool) -> None:
    """Make one checkpoint the one that the next start loads; prints its path.

    A start loads the newest valid one, so later ones are set aside (to .set-aside in the folder),
    torn ones too. The chosen one is verified first. Do so while no job trains in the folder. --undo
    brings the later ones back, unless others of the same steps were written since (exit code 3).

    \b
    Example:
      gsched ckpt resume runs/llama --step 18240
      gsched ckpt resume runs/llama --undo

    \b
    JSON:
      checkpoint, set_aside_in, applied, moved
      moved[]: path, kind, verdict, reason, step, bytes, created, checked, owner_uid
    """
    from gsched.app.checkpoints import changing, folder_of
    from gsched.ckpt import resume as resuming

    if is_undo and (step is not None or dry_run):
        raise click.UsageError("--undo goes with neither --step nor --dry-run")
    path = folder_of(load_settings(), folder)
    with reading() as tell, changing(path):
        back = resuming.undo(path) if is_undo else ()
        planned = resuming.plan(path, step, tell)
        moves = () if is_undo else planned.later
        batch = resuming.apply(planned) if moves and not dry_run else None
    for here in back:
        say(f"back: {here.name}")
    for checkpoint in moves:
        say(f"{'would be ' if dry_run else ''}set aside: {checkpoint.path.name}")
    if as_json:
        emit_json(
            {
                "checkpoint": document(planned.target),
                "set_aside_in": str(batch.absolute()) if batch else None,
                "applied": not dry_run,
                "moved": [document(c) for c in moves],
            }
        )
    else:
        emit_path(planned.target.path.absolute())
