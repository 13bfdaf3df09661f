"""The option of `daemon run` and `daemon once`: write to Slurm, or only decide."""

from __future__ import annotations

import click

acting_option = click.option(
    "--act/--observe", "acting", default=False, help="Write to Slurm, or only decide [observe]."
)
