"""Values in job scripts: quoted for the shell, or for a ``#SBATCH`` line."""

from __future__ import annotations

import re
import shlex
from typing import Any

from markupsafe import Markup

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def for_shell(value: Any) -> Markup:
    """`value` as one word of a shell; what a template has marked as ``safe`` stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(shlex.quote(str(value)))  # noqa: S704 - and str() raises for an Undefined


def for_directive(value: object) -> Markup:
    """`value` as one word of a ``#SBATCH`` line, where a backslash counts in quotes as well.

    A line end, which no such line can hold, becomes a blank.
    """
    text = re.sub(r"[\n\r]", " ", str(value))
    if _PLAIN.fullmatch(text):
        return Markup(text)  # noqa: S704
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return Markup(f"'{escaped}'")  # noqa: S704
