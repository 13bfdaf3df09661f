"""The keys of a JSON document, written as the manual pages write them."""

from __future__ import annotations

import textwrap
from typing import Any

_WIDTH = 88


def shape(document: Any) -> list[str]:
    """`a, b, c` for an object, then `b[]: x, y` for each list of objects in it."""
    if isinstance(document, list):
        return [f"[]: {', '.join(_keys(document))}"]
    lines = [", ".join(document)]
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{key}[]: {', '.join(_keys(value))}")
    return lines


def _keys(items: list[Any]) -> list[str]:
    return list(dict.fromkeys(key for item in items for key in item))


def block(document: Any, heading: str = "JSON") -> str:
    """The JSON section of a command's help."""
    lines = [part for line in shape(document) for part in _wrapped(line)]
    return "\n".join(["\b", f"{heading}:", *(f"  {line}" for line in lines)])


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
