"""What the log says of a run's end: which step is saved, and where something is not, why."""

from __future__ import annotations

import logging


def stop_words(
    *, step: int, saved: int | None, loaded: int | None, why_not: str
) -> tuple[int, str]:
    """The level and the words for a run that a signal has ended after `step`.

    `saved` is the newest step that this run has written, `loaded` the one that it went on from;
    None where there is none. `why_not` tells why `step` is not saved, where it is not.
    """
    if saved == step:
        return logging.INFO, f"the checkpoint is that of step {step:,}"
    if saved is not None:
        return (
            logging.WARNING,
            f"the checkpoint is that of step {saved:,}; step {step:,} is not saved: {why_not}",
        )
    if loaded == step:
        return logging.INFO, f"nothing was done since step {step:,}, which stays saved"
    if loaded is not None:
        return (
            logging.ERROR,
            f"NOTHING that was done since step {loaded:,} is saved: {why_not}",
        )
    return logging.ERROR, f"NOTHING is saved: {why_not}"


def failure_words(*, newest: int, saved: int | None, is_flushed: bool) -> tuple[int, str]:
    """The level and the words for a rank of several that an exception has ended.

    `newest` is the step of its newest snapshot. `is_flushed`: the writers have brought to the disk
    what all ranks had.
    """
    if is_flushed:
        return logging.INFO, f"the training failed; step {saved:,} is saved"
    before = "no step" if saved is None else f"step {saved:,}"
    return (
        logging.WARNING,
        f"the training failed; {before} is saved, and the writers may still save step {newest:,}, "
        "or the newest that all ranks have in memory",
    )
