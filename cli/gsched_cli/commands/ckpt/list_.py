"""`gsched ckpt list`: the checkpoints of a folder or a job."""

from __future__ import annotations

import click

from gsched_cli.ckpt_rows import COLUMNS, DEFAULT, document, exit_code
from gsched_cli.completion import files
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, say
from gsched_cli.tables import Layout, print_rows, table_options


@click.command("list")
@click.argument("folder", metavar="FOLDER|JOB", shell_complete=files)
@table_options(COLUMNS, DEFAULT)
@json_option
def list_(folder: str, layout: Layout, as_json: bool) -> int:
    """List the checkpoints of a folder, or of a job that tells its folder, the newest first.

    VERDICT is whole; torn (damaged, or not all there); uncommitted (it is being written, or its
    writer was killed); or foreign (it looks like a checkpoint, and cannot be judged). REASON says
    why one is not whole. Files, lengths and tables are looked at, not all bytes: gsched ckpt verify
    reads those.

    The exit code is 0 where one seems to be whole, 4 where there are some and none is, 66 where
    there are none. A folder called like a number is ./4711.

    \b
    Example:
      gsched ckpt list runs/llama
      gsched ckpt list 4711 -o +path

    \b
    JSON:
      folder, checkpoints, other_entries
      checkpoints[]: path, kind, verdict, reason, step, bytes, created, checked, owner_uid
    """
    from gsched.app.checkpoints import folder_of
    from gsched.ckpt.catalogue import scan

    found = scan(folder_of(load_settings(), folder))
    if as_json:
        emit_json(
            {
                "folder": str(found.folder.absolute()),
                "checkpoints": [document(c) for c in found.checkpoints],
                "other_entries": found.num_others,
            }
        )
    else:
        print_rows(layout, found.checkpoints)
        if not found.checkpoints:
            others = f"; {count(found.num_others)} other entries" if found.num_others else ""
            say(f"there is no checkpoint in {found.folder}{others}")
    return exit_code(found.checkpoints, all_must_be_whole=False)
