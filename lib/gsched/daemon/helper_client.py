"""Asking ``gsched-helper`` for what needs a Slurm administrator."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.config.settings import Settings
from gsched.daemon.unix_client import ask
from gsched.errors import DataError
from gsched.model.hostlist import fold

UNTIL = "until"
"""A field of any request: the `clock` at which whoever asks has given up. Nothing is changed after
it: an order that was right when it was given need not be so any more."""

_MARGIN_S = 5.0
_COMMANDS = 3
"""Of Slurm, one after the other, that a request may take."""


def clock() -> float:
    """Seconds that all processes of this host count alike, whatever is done to its time of day."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: names of nodes, or the job's number.

    `already` were so before, of `failed` the value says why.
    """

    done: tuple[str, ...]
    already: tuple[str, ...]
    failed: Mapping[str, str]


class HelperClient:
    """The helper of this host. A request that got no answer may be sent again as it is.

    The helper carries nothing out of which the answer is not waited for any more.

    Every call raises UnavailableError when no helper runs, TryAgainError when it gives no answer in
    time, PermissionDeniedError for what it may not do or this user may not ask, DataError for a
    text or a name that it does not take.
    """

    def __init__(self, socket: Path, timeout_s: float) -> None:
        self._socket = socket
        self._timeout_s = timeout_s

    @classmethod
    def of(cls, settings: Settings) -> HelperClient:
        """The helper that the settings name."""
        timeout_s = _COMMANDS * settings.slurm.command_timeout_s + _MARGIN_S
        return cls(settings.helper_socket, timeout_s)

    def drain(self, nodes: Sequence[str], reason: str) -> Outcome:
        """Let the nodes take no more jobs; `reason` is one plain line."""
        return self._ask(verb="drain", nodes=fold(nodes), reason=reason)

    def resume(self, nodes: Sequence[str]) -> Outcome:
        """Take back a `drain`; what others have drained stays so."""
        return self._ask(verb="resume", nodes=fold(nodes))

    def power_down(self, nodes: Sequence[str]) -> Outcome:
        """Put the nodes to sleep; those that hold jobs are refused."""
        return self._ask(verb="power-down", nodes=fold(nodes))

    def power_up(self, nodes: Sequence[str]) -> Outcome:
        """Wake the nodes."""
        return self._ask(verb="power-up", nodes=fold(nodes))

    def admin_comment(self, raw_id: int, text: str) -> Outcome:
        """Set the AdminComment of a job on the helper's nodes; `text` is one plain line."""
        return self._ask(verb="admin-comment", job=str(raw_id), text=text)

    def _ask(self, **fields: str) -> Outcome:
        question = {**fields, UNTIL: clock() + self._timeout_s}
        found = ask(self._socket, question, timeout_s=self._timeout_s)
        try:
            return Outcome(tuple(found["done"]), tuple(found["already"]), dict(found["failed"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"the helper at {self._socket} gave an unknown answer") from None
