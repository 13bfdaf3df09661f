"""``--gs-runtime NAME,key=value,…``: which template wraps a script, and with what values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gsched.errors import UsageError

_ITEM = re.compile(r"(?:[^,\\]|\\.)*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The template `name` ('' = the one for requeued jobs, or for arrays) with texts for its keys.

    `asks_checkpoints`: by ``--gs-checkpoint``; `every_s` is its value. `place` stands before what
    is wrong with it.
    """

    name: str = ""
    values: dict[str, str] = field(default_factory=dict)
    asks_checkpoints: bool = False
    every_s: float | None = None
    place: str = field(default="", compare=False)


def parse_runtime(text: str) -> tuple[str, dict[str, str]]:
    """The name and the values of ``NAME[,key=value…]``; a backslash takes ``,`` as it is.

    Raises UsageError.
    """
    items: list[str] = []
    at = 0
    while at <= len(text):
        found = _ITEM.match(text, at)
        end = found.end() if found else at
        if end < len(text) and text[end] == "\\":
            raise UsageError("it ends with a backslash that nothing follows")
        items.append(_ESCAPED.sub(r"\1", text[at:end]))
        at = end + 1
    name, *pairs = items
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{pair!r} is no key=value", "a comma in a value is written \\,")
        if key in values:
            raise UsageError(f"{key} is given twice")
        values[key] = value
    if not name:
        raise UsageError("no template is named", "`gsched jobscript list` has their names")
    return name, values
