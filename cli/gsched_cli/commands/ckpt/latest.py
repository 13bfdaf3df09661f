"""`gsched ckpt latest`: the newest valid checkpoint, for scripts."""

from __future__ import annotations

import click

from gsched_cli.ckpt_rows import document, reading
from gsched_cli.completion import files
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_path, warn


@click.command()
@click.argument("folder", metavar="FOLDER|JOB", shell_complete=files)
@click.option("--before", type=click.IntRange(1), metavar="STEP", help="Only of earlier steps.")
@json_option
def latest(folder: str, before: int | None, as_json: bool) -> None:
    """Print the path of the newest valid checkpoint: what the next start should load.

    It is read whole and compared with its checksums. Newer ones that are not valid are told on
    stderr. Pointers (latest, a link last.ckpt) are not believed.

    The exit code is 4 where there are checkpoints and none is valid, 66 where there are none: a
    first start.

    \b
    Example:
      python train.py --resume "$(gsched ckpt latest runs/llama)"
      gsched ckpt latest --before 41600 runs/llama

    \b
    JSON:
      checkpoint, passed_over
      passed_over[]: path, kind, verdict, reason, step, bytes, created, checked, owner_uid
    """
    from gsched.app.checkpoints import folder_of
    from gsched.ckpt.catalogue import newest_valid, none_valid

    path = folder_of(load_settings(), folder)
    with reading() as tell:
        at_most = None if before is None else before - 1
        found = newest_valid(path, at_most_step=at_most, tell=tell)
    if as_json and found.checkpoint is not None:
        emit_json(
            {
                "checkpoint": document(found.checkpoint),
                "passed_over": [document(c) for c in found.passed_over],
            }
        )
        return
    for passed in found.passed_over:
        warn(f"passed over {passed.path.name}, {passed.verdict}: {passed.reason}")
    if found.checkpoint is None:
        raise none_valid(path, found)
    emit_path(found.checkpoint.path.absolute())
