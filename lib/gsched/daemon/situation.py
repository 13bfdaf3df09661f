"""What the daemon is doing, for `gsched daemon status` and `systemctl status`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gsched.daemon.ces_facts import ces_for_everybody
from gsched.daemon.gate import Mode
from gsched.daemon.model_facts import model_words
from gsched.model.decision import JsonValue

_MOST_ERRORS = 5
_NO_ROUNDS = {
    Mode.STANDBY: "another host's daemon leads",
    Mode.WAITING: "what rounds need does not answer",
}
"""Why there are none, for everybody."""
_NO_SOCKET = "it cannot be opened"
_NO_FORECAST = "the process that makes them does not answer"
_NO_UPDATE = "it cannot be brought up to date"
_WORDS = {
    Mode.ACT: "acting",
    Mode.OBSERVE: "observing",
    Mode.FROZEN: "frozen, observing",
    Mode.HALTED: "halted, observing",
    Mode.OFF: "switched off, observing",
    Mode.CONTROL: "control interval, observing",
    Mode.STANDBY: "standby",
    Mode.WAITING: "waiting",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment of the daemon (times epoch seconds). A new one takes its place at each change.

    `problem` is why rounds fail now, '' while they succeed; `failures` how many have failed in a
    row. `config_problem` is why the newest configuration is not in force. `model` is the document
    of ``model_facts``, `forecast` that of ``forecast_facts``, `ces`
    that of ``ces_document``.
    """

    started_at: int
    mode: Mode
    why: str = ""
    policy: str = ""
    interval_s: float = 0.0
    fence: int | None = None
    last_round_s: float | None = None
    timings_s: Mapping[str, float] = field(default_factory=dict)
    summary: Mapping[str, JsonValue] = field(default_factory=dict)
    next_round_at: float | None = None
    failures: int = 0
    problem: str = ""
    config_read_at: int | None = None
    config_problem: str = ""
    needs_restart: tuple[str, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()
    listeners: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    model: Mapping[str, JsonValue] = field(default_factory=dict)
    forecast: Mapping[str, JsonValue] = field(default_factory=dict)
    ces: Mapping[str, JsonValue] = field(default_factory=dict)


class Board:
    """Where the present situation is posted by the main thread; any thread may read it."""

    def __init__(self, started_at: int, mode: Mode) -> None:
        self.now = Situation(started_at, mode)
        self._began = time.monotonic()

    def post(self, **changes: Any) -> None:
        """Replace these fields of the situation."""
        self.now = replace(self.now, **changes)

    def post_failure(self, at: int, message: str, failures: int) -> None:
        """A round has failed, the `failures`-th in a row."""
        errors = ((at, message), *self.now.errors)[:_MOST_ERRORS]
        self.post(problem=message, failures=failures, errors=errors)

    def document(self, trusted: bool) -> dict[str, Any]:
        """Plain values. What errors say may name jobs and paths: it is for `trusted` eyes only."""
        now = self.now
        why = now.why if trusted else _NO_ROUNDS.get(now.mode, now.why)
        return {
            "pid": os.getpid(),
            "started_at": now.started_at,
            "uptime_s": round(time.monotonic() - self._began, 1),
            "mode": now.mode.value,
            "why": why,
            "policy": now.policy,
            "interval_s": now.interval_s,
            "fence": now.fence,
            "last_round_s": now.last_round_s,
            "timings_s": dict(now.timings_s),
            "summary": dict(now.summary),
            "next_round_at": now.next_round_at,
            "failures": now.failures,
            "config_read_at": now.config_read_at,
            "config_in_force": not now.config_problem,
            "needs_restart": list(now.needs_restart),
            "model": _told(now.model, trusted, _NO_UPDATE),
            "forecast": _told(now.forecast, trusted, _NO_FORECAST),
            "ces": dict(now.ces) if trusted else ces_for_everybody(now.ces),
            "problem": now.problem if trusted else None,
            "config_problem": now.config_problem if trusted else None,
            "last_errors": [{"at": at, "message": m} for at, m in now.errors] if trusted else None,
            "listeners": {
                what: {
                    "address": address,
                    "problem": problem if trusted else problem and _NO_SOCKET,
                }
                for what, (address, problem) in now.listeners.items()
            },
        }

    def line(self) -> str:
        """One line for the service manager, which shows it to everybody: not what errors say."""
        now = self.now
        why = _NO_ROUNDS.get(now.mode, now.why)
        words = [_WORDS[now.mode] + (f" ({why})" if why and now.mode is not Mode.OBSERVE else "")]
        if now.config_problem:
            words.append("new configuration not in force")
        if now.problem:
            words.append(f"{now.failures} rounds failed")
        elif now.last_round_s is not None and now.mode not in _NO_ROUNDS:
            counts = ", ".join(f"{k} {now.summary[k]}" for k in _COUNTS if now.summary.get(k))
            words.append(
                f"policy {now.policy}, round {now.last_round_s:.2f} s, {counts or 'no jobs'}"
            )
        if told := model_words(now.model):
            words.append(told)
        if model_problem := now.model.get("problem"):
            words.append("model not up to date")
        if now.config_problem or now.problem or model_problem or now.mode in _NO_ROUNDS:
            words.append("see `gsched daemon status`, or the log")
        return "; ".join(words)


def _told(told: Mapping[str, JsonValue], trusted: bool, for_others: str) -> dict[str, JsonValue]:
    """With its problem in words for everybody, unless for `trusted` eyes."""
    if trusted or not told.get("problem"):
        return dict(told)
    return {**told, "problem": for_others}


_COUNTS = ("pending", "ranked", "changes", "postponed")
