"""`gsched ckpt`: the checkpoints of training runs. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.ckpt.latest import latest
from gsched_cli.commands.ckpt.list_ import list_
from gsched_cli.commands.ckpt.prune import prune
from gsched_cli.commands.ckpt.resume import resume
from gsched_cli.commands.ckpt.verify import verify


@click.group()
def ckpt() -> None:
    """List, verify and prune checkpoints; say which one the next start loads.

    The checkpoints may be gsched's own, or those of torch.distributed.checkpoint (DCP), Hugging
    Face's Trainer, Lightning and torch.save. Nothing is loaded: no code in a checkpoint runs.

    \b
    Example:
      gsched ckpt list runs/llama
      gsched ckpt verify runs/llama
      gsched ckpt prune --keep 3 runs/llama
      gsched ckpt prune --keep 3 --apply runs/llama
    """


for _command in (list_, verify, latest, prune, resume):
    ckpt.add_command(_command)
