"""What the writer tells, for the log, the cadence and the heartbeat."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.present import TakenOverError
from gsched.ckpt.writer.messages import Notice, Outcome
from gsched.errors import TryAgainError
from gsched.runtime.checkpoint.cadence import Cadence

_log = logging.getLogger("gsched.checkpoint")


class Outcomes:
    """Keeps the last commit, and says each failure once until there is a commit again."""

    def __init__(self, cadence: Cadence, *, is_first_rank: bool) -> None:
        self._cadence = cadence
        self._level = logging.INFO if is_first_rank else logging.DEBUG
        self._told: set[tuple[str, str]] = set()
        self.committed: Committed | None = None
        """The last commit of this run."""
        self.failed: Failed | None = None
        """The last failure since the last commit."""
        self.loaded_step: int | None = None
        """What the run went on from; None for a first start."""

    @property
    def saved_step(self) -> int | None:
        """The newest step that this run has written; None before the first."""
        return None if self.committed is None else self.committed.step

    @property
    def valid_step(self) -> int | None:
        """The newest step on the disk, written or loaded by this run; None where there is none."""
        return self.loaded_step if self.saved_step is None else self.saved_step

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Note them."""
        for outcome in outcomes:
            if isinstance(outcome, Committed):
                self._commit(outcome)
            elif isinstance(outcome, Failed):
                self._failure(outcome)
            elif isinstance(outcome, Notice):
                _log.warning("%s", outcome.message)

    def check_folder(self) -> None:
        """Raise TryAgainError where the folder is a later attempt's: this one has been ended."""
        if self.failed is not None and self.failed.error == TakenOverError.error:
            raise TryAgainError(
                self.failed.message,
                "nothing: Slurm has started the job again, and lost this attempt, which ends here",
            )

    def _commit(self, commit: Committed) -> None:
        self._told.clear()
        self.failed = None
        if self.committed is None or commit.step >= self.committed.step:
            self.committed = commit
        seconds = commit.write_s + commit.fsync_s + commit.peers_s
        if commit.num_bytes:
            self._cadence.write_s.add(seconds)
        size = _size_words(commit.num_bytes) if commit.num_bytes else "it was there"
        why = "" if commit.reason is Reason.INTERVAL else f" ({commit.reason})"
        _log.log(
            self._level,
            "checkpoint of step %s%s: %s in %.2f s",
            f"{commit.step:,}",
            why,
            size,
            seconds,
        )

    def _failure(self, failure: Failed) -> None:
        self.failed = failure
        key = (failure.error, failure.message)
        if key in self._told:
            return
        self._told.add(key)
        what = f"the checkpoint of step {failure.step:,}" if failure.step >= 0 else "a checkpoint"
        older = self.valid_step
        stays = "there is none yet" if older is None else f"that of step {older:,} stays"
        _log.error("%s was not written: %s (%s)", what, failure.message, stays)


def _size_words(num_bytes: int) -> str:
    """In the largest unit that leaves at least one: ``12.3 kB``, ``1.2 GB``."""
    size, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"


def show_log() -> None:
    """Let a plain script's standard error show the log, unless the script has set up logging."""
    _log.setLevel(logging.INFO if _log.level == logging.NOTSET else _log.level)
    if not _log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("gsched: %(message)s"))
        _log.addHandler(handler)
