"""Asking the daemon over its local socket, see ``control_server``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsched.daemon.unix_client import ask
from gsched.errors import DataError

_RELOAD_TIMEOUT_S = 70.0
"""Longer than the daemon waits for a round to end: it says so itself."""


def status(path: Path) -> dict[str, Any]:
    """What the daemon does just now. Raises as ``unix_client.ask`` does, UnavailableError when
    none serves the socket.
    """
    return ask(path, {"verb": "status"}, timeout_s=5.0)


def reload(path: Path) -> dict[str, list[str]]:
    """Let the daemon read its configuration: the keys ``changed``, and ``needs_restart``.

    Raises the error for which the former configuration stays.
    """
    found = ask(path, {"verb": "reload"}, timeout_s=_RELOAD_TIMEOUT_S)
    return {key: _texts(found.get(key)) for key in ("changed", "needs_restart")}


def audit(path: Path, job: str | None, limit: int) -> list[dict[str, Any]]:
    """Rows of the audit, as `gsched daemon audit --json` shows them."""
    rows = ask(path, {"verb": "audit", "job": job, "limit": limit}, timeout_s=30.0).get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"what serves {path} gave an answer that makes no sense")
    return rows


def _texts(found: object) -> list[str]:
    return [str(item) for item in found] if isinstance(found, list) else []
