"""`gsched ckpt verify`: all bytes of checkpoints against their checksums."""

from __future__ import annotations

import click

from gsched_cli.ckpt_rows import COLUMNS, VERIFY_DEFAULT, document, exit_code, reading
from gsched_cli.completion import files
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, warn
from gsched_cli.tables import Layout, print_rows, table_options


@click.command()
@click.argument(
    "places", metavar="FOLDER|CHECKPOINT|JOB...", nargs=-1, required=True, shell_complete=files
)
@table_options(COLUMNS, VERIFY_DEFAULT)
@json_option
def verify(places: tuple[str, ...], layout: Layout, as_json: bool) -> int:
    """Read checkpoints whole, and compare them with their checksums.

    Whatever a place holds is verified. CHECKED says what a verdict rests on: checksums, or only
    lengths, where the format has no checksums (safetensors, so most of Hugging Face's weights, and
    torch.save where it was told to leave them out).

    The exit code is 0 where all are whole, 65 where one is damaged or cannot be read, 4 where none
    is whole, 66 where there are none.

    \b
    Example:
      gsched ckpt verify runs/llama
      gsched ckpt verify runs/llama/step-000000018240

    \b
    JSON:
      checkpoints
      checkpoints[]: path, kind, verdict, reason, step, bytes, created, checked, owner_uid
    """
    from gsched.app.checkpoints import folder_of
    from gsched.ckpt.catalogue import scan
    from gsched.ckpt.found import Depth

    settings = load_settings()
    folders = [folder_of(settings, place) for place in places]
    with reading() as tell:
        found = [c for path in folders for c in scan(path, Depth.CHECKSUMS, tell=tell).checkpoints]
    if as_json:
        emit_json({"checkpoints": [document(c) for c in found]})
    else:
        print_rows(layout, found)
        for checkpoint in found:
            if not checkpoint.is_whole:  # in full: a table gives way to a narrow terminal
                warn(f"{checkpoint.path.name} is {checkpoint.verdict}: {checkpoint.reason}")
    return exit_code(found, all_must_be_whole=True)
