"""Asking one of gsched's local sockets, see ``unix_server``."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gsched.daemon.lines import read_line, send_line
from gsched.errors import (
    EXIT_TRY_AGAIN,
    EXIT_USAGE,
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
    UsageError,
)

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_KINDS: dict[int, type[GschedError]] = {
    kind.exit_code: kind
    for kind in (
        UsageError,
        DataError,
        UnavailableError,
        TryAgainError,
        PermissionDeniedError,
        ConfigError,
    )
}


def ask(path: Path, question: Mapping[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """The answer to `question`.

    Raises UnavailableError when nobody serves the socket, PermissionDeniedError when it is closed
    to this user, TryAgainError when there is no answer within `timeout_s` seconds, DataError for
    one that makes no sense, and whatever GschedError the server answers.
    """
    until = time.monotonic() + timeout_s
    answer = _object(_exchange(path, json.dumps(question), until), path)
    if "error" in answer:
        raise _told(answer)
    found = answer.get("answer")
    if not isinstance(found, dict):
        raise DataError(f"what serves {path} gave an answer that makes no sense")
    return found


def _exchange(path: Path, line: str, until: float) -> str:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_left_s(until))
            connection.connect(str(path))
            with suppress(UnavailableError):  # refused before it was read: the answer says why
                send_line(connection, line, _left_s(until))
            return read_line(connection, MAX_ANSWER_BYTES, _left_s(until))
    except PermissionError as error:
        raise PermissionDeniedError(f"{path} is closed to you: {error.strerror}") from None
    except TimeoutError:
        raise _no_answer(path) from None
    except OSError as error:
        raise UnavailableError(f"nobody listens at {path}: {error.strerror or error}") from None
    except UnavailableError as error:
        if time.monotonic() >= until:
            raise _no_answer(path) from None
        raise UnavailableError(f"what serves {path} gave no answer: {error.message}") from None


def _no_answer(path: Path) -> TryAgainError:
    return TryAgainError(f"what serves {path} gave no answer in time")


def _object(line: str, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"what serves {path} gave an answer that is no JSON object")
    return found


def _told(answer: Mapping[str, Any]) -> GschedError:
    message, hint, code = (answer.get(key) for key in ("error", "hint", "exit_code"))
    if not isinstance(code, int) or not EXIT_USAGE <= code <= 125:
        code = EXIT_TRY_AGAIN
    return _KINDS.get(code, GschedError)(str(message), str(hint or ""), code)


def _left_s(until: float) -> float:
    """Seconds until then; never so few that a time-out would mean "do not wait at all"."""
    return max(0.05, until - time.monotonic())
