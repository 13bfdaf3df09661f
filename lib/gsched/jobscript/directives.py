"""``#SBATCH`` and ``#GSCHED`` lines of a job script, read as sbatch reads its own.

They count until the first command. Words are split at blanks; quotes, backslashes and comments
after ``#`` work as in sbatch(1), nothing is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gsched.errors import UsageError

SBATCH_MARK = "#SBATCH"
GSCHED_MARK = "#GSCHED"
HET_SEPARATORS = ("hetjob", "packjob")

_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*[\"'\\]?([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Directive:
    """One word of a ``#GSCHED`` line and where it stands (lines count from 1)."""

    line: int
    word: str


@dataclass(slots=True)
class Directives:
    """What a script asks for.

    `sbatch` has the words of all ``#SBATCH`` lines, one list a heterogeneous component. `late` are
    (line, mark) after the first command at `first_command`: without effect.
    """

    sbatch: list[list[str]] = field(default_factory=lambda: [[]])
    gsched: list[Directive] = field(default_factory=list)
    first_command: int | None = None
    late: list[tuple[int, str]] = field(default_factory=list)


def read_directives(text: str, name: str) -> Directives:
    """The directives of a script. Raises UsageError for an unclosed quote in a ``#GSCHED`` line."""
    found = Directives()
    here_end: str | None = None  # the line that closes a here-document: its text is no script
    for number, line in enumerate(text.split("\n"), start=1):
        if here_end is not None:
            here_end = None if line.strip() == here_end else here_end
            continue
        mark = _mark(line)
        if mark is None:
            if line.strip() and not line.lstrip().startswith("#"):
                found.first_command = found.first_command or number
                opened = _HERE_DOCUMENT.search(line)
                here_end = opened[1] if opened else None
        elif found.first_command is not None:
            found.late.append((number, mark))
        elif mark == SBATCH_MARK:
            _add_sbatch(found.sbatch, line.removeprefix(mark))
        else:
            words, is_closed = split_words(line.removeprefix(mark))
            if not is_closed:
                raise UsageError(f"{name} line {number}: unclosed quote after {GSCHED_MARK}")
            found.gsched += [Directive(number, word) for word in words]
    return found


def _mark(line: str) -> str | None:
    """The mark that a directive line begins with. As in sbatch, ``#SBATCH-N1`` is one too."""
    if line.startswith(SBATCH_MARK):
        return SBATCH_MARK
    return GSCHED_MARK if line.split(maxsplit=1)[:1] == [GSCHED_MARK] and line[0] == "#" else None


def _add_sbatch(sections: list[list[str]], rest: str) -> None:
    words, _ = split_words(rest)  # sbatch itself refuses an unclosed quote
    for word in words:
        if word in HET_SEPARATORS:
            sections.append([])
        else:
            sections[-1].append(word)


def split_words(line: str) -> tuple[list[str], bool]:
    """The words of a directive line, and whether all quotes are closed."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    escaped = False
    for char in line:
        if escaped:
            word = (word or "") + char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
            word = word or ""
        elif not quote and char == "#":
            break
        elif not quote and char.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + char
    words += [] if word is None else [word]
    return words, not quote
