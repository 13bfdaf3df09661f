"""How a window of slurmdbd is asked for: as text or as JSON, with or without steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from gsched.errors import TryAgainError
from gsched.model.history import Batch
from gsched.slurm import accounting, parse_sacct
from gsched.slurm.accounting import Ask
from gsched.slurm.fields import new_separator
from gsched.slurm.records import AccountingFilter, SacctForm
from gsched.slurm.run import Run
from gsched.slurm.sacct_json import parse_sacct_json

_MOST_JSON = 64 * 2**20
"""Characters of one answer: parsed, they take some ten times as much memory."""


def asking(
    run: Run, chosen: AccountingFilter, form: SacctForm, counts_gpus: Callable[[], bool]
) -> Ask:
    """Asks sacct for the jobs of a window.

    `counts_gpus` tells whether the cluster accounts for GPUs; asked, once, only where a window has
    jobs and none of them has GPUs.
    """
    are_counted = cache(counts_gpus)
    read = _json if form.as_json else _text

    def ask(begin: int, end: int) -> Batch:
        understood = read(run, begin, end, chosen, form.keeps_steps)
        batch = understood(True)
        has_gpus = not batch.records or any(record.num_gpus for record in batch.records)
        if not has_gpus and not are_counted():
            batch = understood(False)
        return parse_sacct.with_names(batch, chosen.names)

    return ask


def _text(
    run: Run, begin: int, end: int, chosen: AccountingFilter, keeps_steps: bool
) -> Callable[[bool], Batch]:
    """What sacct says, to be understood with or without GPUs counted."""
    separator = new_separator()
    argv = parse_sacct.sacct_argv(begin, end, separator, chosen, keeps_steps=keeps_steps)
    text = accounting.sacct(run, *argv)
    return lambda counts_gpus: parse_sacct.parse_sacct(
        text, separator, counts_gpus=counts_gpus, keeps_steps=keeps_steps
    )


def _json(
    run: Run, begin: int, end: int, chosen: AccountingFilter, keeps_steps: bool
) -> Callable[[bool], Batch]:
    argv = parse_sacct.sacct_json_argv(begin, end, chosen, keeps_steps=keeps_steps)
    text = accounting.sacct(run, *argv)
    if len(text) > _MOST_JSON:  # a shorter window is asked for then
        raise TryAgainError(
            f"sacct --json gave more than {_MOST_JSON} characters for {end - begin} s",
            "read this time with --source sacct",
        )
    return lambda counts_gpus: parse_sacct_json(
        text, counts_gpus=counts_gpus, keeps_steps=keeps_steps
    )
