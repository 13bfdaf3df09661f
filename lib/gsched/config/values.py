"""Values as TOML has them, as the types of settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_path(value: Any) -> Path | None:
    path = Path(value).expanduser() if isinstance(value, str) else None
    return path if path and path.is_absolute() else None


def _as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _as_texts(value: Any) -> tuple[str, ...] | None:
    fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if fits else None


def _as_table_of_texts(value: Any) -> dict[str, str] | None:
    fits = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    return dict(value) if fits else None


def _as_numbers(value: Any) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    numbers = {name: _as_number(item) for name, item in value.items()}
    fitting = {name: item for name, item in numbers.items() if item is not None}
    return fitting if len(fitting) == len(numbers) else None


def _as_whole_numbers(value: Any) -> dict[str, int] | None:
    fits = isinstance(value, dict) and all(_as_int(item) is not None for item in value.values())
    return dict(value) if fits else None


KINDS: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    str: ("a text", _as_text),
    Path: ("an absolute path", _as_path),
    bool: ("true or false", _as_bool),
    int: ("a whole number", _as_int),
    float: ("a number", _as_number),
    tuple[str, ...]: ("a list of texts", _as_texts),
    dict[str, float]: ("a table of numbers", _as_numbers),
    dict[str, int]: ("a table of whole numbers", _as_whole_numbers),
    dict[str, str]: ("a table of texts", _as_table_of_texts),
}
"""Type of a setting → how it is called in a message, and its conversion (None = does not fit)."""
