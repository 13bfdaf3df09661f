"""What is asked of Slurm before a node's power is cut: whether a job may run on it.

Slurm's own calls are for nodes that it has powered down, and its word is good without an answer; a
call that began late, and an administrator's order, are looked at. Nothing here holds up a resume:
without an answer an administrator's becomes a plain one, which cuts no power.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MEMORY_S = 3.0
"""So long one answer of Slurm's serves for all nodes."""
_OFF = frozenset({"powering_down", "powered_down"})


@dataclass(frozen=True, slots=True)
class Seen:
    """A node's state as Slurm shows it, in lower case: idle, and powered_down among the flags."""

    state: str
    flags: frozenset[str]

    @property
    def text(self) -> str:
        """As scontrol(1) writes it."""
        return "+".join([self.state, *sorted(self.flags)]).upper()

    @property
    def is_off(self) -> bool:
        """Whether Slurm has powered it down, and not woken it since."""
        return bool(self.flags & _OFF) and "powering_up" not in self.flags

    @property
    def is_without_jobs(self) -> bool:
        """Whether Slurm runs nothing there, and starts nothing before the node has booted."""
        is_drained = self.state == "idle" and "drain" in self.flags
        is_down = self.state == "down" or (is_drained and "completing" not in self.flags)
        return is_down or bool(self.flags & {*_OFF, "powering_up"})


Look = Callable[[], Mapping[str, Seen] | None]
"""All nodes as Slurm shows them now; None where it gives no answer in time."""


class Guard:
    """Judges the orders of one call. For several threads."""

    def __init__(
        self, look: Look, *, is_by_hand: bool, is_late: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_late` says whether Slurm's call is too old to be believed without an answer."""
        self._look = look
        self._is_by_hand = is_by_hand
        self._is_late = is_late
        self._lock = threading.Lock()
        self._seen: Mapping[str, Seen] | None = None
        self._seen_at = -MEMORY_S
        self._is_mute = False

    def why_not_suspend(self, node: str) -> str:
        """Why a node is not switched off, "" where it may be."""
        nodes = self.seen()
        if nodes is None:
            if self._is_by_hand:
                return "Slurm does not say whether a job runs on it"
            return "the call began too long ago, and Slurm does not answer" * self._is_late()
        found = nodes.get(node)
        if found is None:
            return ""
        return "" if found.is_off else f"Slurm has not powered it down: it is {found.text}"

    def why_not_restart(self, node: str) -> str:
        """Why a node is not switched off and on, "" where it may be."""
        nodes = self.seen()
        if nodes is None:
            return "Slurm does not say whether a job runs on it" * self._is_by_hand
        found = nodes.get(node)
        if found is None or found.is_without_jobs:
            return ""
        return f"jobs may run on it: it is {found.text}"

    def seen(self) -> Mapping[str, Seen] | None:
        """What Slurm shows; not asked again in a call that has once got no answer."""
        with self._lock:
            if not self._is_mute and time.monotonic() - self._seen_at >= MEMORY_S:
                self._seen, self._seen_at = self._look(), time.monotonic()
                self._is_mute = self._seen is None
            return self._seen


def unguarded() -> Guard:
    """One that lets everything pass: --force."""
    return Guard(lambda: {}, is_by_hand=True)
