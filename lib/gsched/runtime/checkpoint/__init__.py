"""Checkpoints of a training run: see `Checkpointer` and gsched-checkpointing(7)."""

from __future__ import annotations

from gsched.runtime.checkpoint.checkpointer import Checkpointer
from gsched.runtime.checkpoint.stop_signals import DEFAULT_SIGNALS, SignalAction

__all__ = ["DEFAULT_SIGNALS", "Checkpointer", "SignalAction"]
