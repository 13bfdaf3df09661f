"""Whether a script, or what it starts, uses gsched's runtime, as far as can be seen from here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_FILES = 20
"""So many files are looked into, besides the script."""
MAX_BYTES = 1_000_000
"""Of each file, from its beginning."""

_RUNTIME = re.compile(r"gsched\.runtime|from\s+gsched\s+import\s+[^\n]*\bruntime\b")
_PYTHON_FILE = re.compile(r"[^\s'\"=;|&<>()`,:]+\.py\b")
_MODULE = re.compile(r"\s-m\s+([A-Za-z_][\w.]*)")


def unmentioned_in(text: str, arguments: Sequence[str], folder: Path) -> tuple[str, ...] | None:
    """The Python files that were looked into in vain; None where the runtime is mentioned.

    `text` is the script's; the files are those that it or its `arguments` name, below `folder`
    where their names are relative.
    """
    if _RUNTIME.search(text):
        return None
    looked: list[str] = []
    for name in _named(text, arguments):
        found = _beginning(folder / name)
        if found is None:
            continue
        if _RUNTIME.search(found):
            return None
        looked.append(name)
        if len(looked) == MAX_FILES:
            break
    return tuple(looked)


def _named(text: str, arguments: Sequence[str]) -> Iterator[str]:
    """Names of Python files, each once: ``train.py``, and of ``-m pkg.train`` the file it is in."""
    words = "\n".join([text, *arguments])
    names = [*_PYTHON_FILE.findall(words)]
    for module in _MODULE.findall(words):
        path = module.replace(".", "/")
        names += [f"{path}.py", f"{path}/__main__.py"]
    yield from dict.fromkeys(names)


def _beginning(path: Path) -> str | None:
    """Of a regular file; no pipe or device is opened."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):  # a name with a NUL
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        return os.read(file, MAX_BYTES).decode("utf-8", "replace") if is_file else None
    except OSError:
        return None
    finally:
        os.close(file)
