"""`gsched ces status`: what the daemon tells of nodes that sleep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.daemon import control_client
from gsched.daemon.status_file import read_status, silent_s
from gsched.errors import DataError, GschedError, UnavailableError
from gsched.explain.ces_reasons import ces_reason

STATES = ("running", "idle", "falling", "asleep", "waking", "excluded", "wanted")
_NOT_YET = (
    "the daemon has looked at no node yet (it has just begun, or is a standby, or was not reloaded)"
)
_NO_DAEMON = "no daemon tells of nodes that sleep"


def ces_status(settings: Settings) -> dict[str, Any]:
    """The newest look's document with its reasons in words (times epoch seconds).

    The daemon is asked; where it does not answer, its public file tells. ``mode`` is ``off`` where
    nothing is saved, ``silent_s`` for how long the daemon has missed its rounds. Raises
    UnavailableError where there is no daemon, DataError for a document that is none.
    """
    told, silent = _told(settings)
    if not isinstance(told, dict):
        raise DataError("the daemon told of sleeping nodes what cannot be understood")
    if not told:
        none = {"mode": settings.ces.mode, "silent_s": silent, "pools": []}
        if settings.ces.mode == "off":
            return none
        return {**none, "acting": False, "why": _NOT_YET}
    return {**told, "silent_s": silent, "pools": [in_words(pool) for pool in pools_of(told)]}


def _told(settings: Settings) -> tuple[Any, float]:
    problem: GschedError | None = None
    try:
        return control_client.status(settings.daemon_socket).get("ces") or {}, 0.0
    except GschedError as error:
        problem = error
    last = read_status(settings.status_file)
    if last is None:
        raise UnavailableError(f"{_NO_DAEMON}: {problem.message}", problem.hint)
    return last.get("ces") or {}, silent_s(last, now())


def pools_of(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pools of a document. Raises DataError for what are none."""
    pools = told.get("pools", [])
    if not isinstance(pools, list) or not all(map(_is_pool, pools)):
        raise DataError("the daemon told of pools of nodes what cannot be understood")
    return pools


def _is_pool(pool: object) -> bool:
    return (
        isinstance(pool, dict)
        and isinstance(pool.get("pool"), str)
        and all(type(pool.get(state)) is int for state in (*STATES, "nodes", "wake", "sleep"))
        and all(_is_reason(pool.get(key)) for key in ("reason", "forecast"))
    )


def _is_reason(reason: object) -> bool:
    if reason is None:
        return True
    return (
        isinstance(reason, dict)
        and isinstance(reason.get("code"), str)
        and isinstance(reason.get("params"), dict)
    )


def in_words(pool: Mapping[str, Any]) -> dict[str, Any]:
    """A pool of a document with its reasons in words."""
    return {
        **pool,
        "reason_text": reason_text(pool.get("reason")),
        "forecast_text": reason_text(pool.get("forecast")),
    }


def reason_text(reason: dict[str, Any] | None) -> str:
    """A reason as a document has it, in words; "" for none."""
    return "" if reason is None else ces_reason(reason["code"], reason["params"])
