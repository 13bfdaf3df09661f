"""``#SBATCH`` and ``#GSCHED`` lines of a job script, read as sbatch reads its own.

They count until the first command. Words are split at blanks; quotes, backslashes and comments
after ``#`` work as in sbatch, nothing is expanded. What sbatch(1) leaves open was seen with 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gsched.errors import UsageError

SBATCH_MARK = "#SBATCH"
GSCHED_MARK = "#GSCHED"
HET_SEPARATORS = ("hetjob", "packjob")

_BLANKS = " \t\v\f\r"
"""What isspace(3) takes for blank: sbatch reads bytes, so that no other blank of Unicode counts."""
_MARK = re.compile(rf"{SBATCH_MARK}|{GSCHED_MARK}(?!\w)")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*[\"'\\]?([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Directive:
    """One word of a ``#GSCHED`` line and where it stands (lines count from 1)."""

    line: int
    word: str


@dataclass(slots=True)
class Directives:
    """What a script asks for.

    `sbatch` has the words of all ``#SBATCH`` lines, one list a heterogeneous component; what
    `gsched` has counts for the whole job, in whichever component it stands. `late` are (line, mark)
    after the first command at `first_command`: without effect.
    """

    sbatch: list[list[str]] = field(default_factory=lambda: [[]])
    gsched: list[Directive] = field(default_factory=list)
    first_command: int | None = None
    late: list[tuple[int, str]] = field(default_factory=list)


def read_directives(text: str, name: str) -> Directives:
    """The directives of a script. Raises UsageError for an unclosed quote in a ``#GSCHED`` line."""
    found = Directives()
    for number, line in _script_lines(text):
        mark = _MARK.match(line)
        if mark is None:
            if line.strip(_BLANKS) and not line.lstrip(_BLANKS).startswith("#"):
                found.first_command = found.first_command or number
        elif found.first_command is not None:
            found.late.append((number, mark[0]))
        elif mark[0] == SBATCH_MARK:
            _add_sbatch(found.sbatch, line[mark.end() :])
        else:
            words, is_closed = split_words(line[mark.end() :])
            if not is_closed:
                raise UsageError(f"{name} line {number}: unclosed quote after {GSCHED_MARK}")
            found.gsched += [Directive(number, word) for word, _ in words]
    return found


def _script_lines(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a script without the text of its here-documents, which may well be
    another job's script.
    """
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        yield index + 1, lines[index]
        is_command = not lines[index].lstrip(_BLANKS).startswith("#")
        opened = _HERE_DOCUMENT.search(lines[index]) if is_command else None
        index += 1
        if opened:
            ends = (at for at in range(index, len(lines)) if lines[at].strip() == opened[1])
            index = next(ends, index)  # without an end it was none: `$((1 << n))`


def _add_sbatch(sections: list[list[str]], rest: str) -> None:
    """sbatch drops what follows ``hetjob``, which begins a component only as the first word."""
    words, _ = split_words(rest)  # sbatch itself refuses an unclosed quote
    for index, (word, source) in enumerate(words):
        if source in HET_SEPARATORS:
            if index == 0:
                sections.append([])
            return
        sections[-1].append(word)


def split_words(line: str) -> tuple[list[tuple[str, str]], bool]:
    """The words of a directive line, each with its source text, and whether all quotes are closed.

    A backslash makes the next character plain, within quotes as well, but a blank outside of
    quotes ends a word all the same; an empty word (``''``) ends the line.
    """
    words: list[tuple[str, str]] = []
    word, start = "", 0
    quote = ""
    is_escaped = False
    for index, char in enumerate(line + " "):
        if not quote and (char in _BLANKS or (char == "#" and not is_escaped)):
            source = line[start:index]
            if source and not word:
                break
            words += [(word, source)] if source else []
            word, start, is_escaped = "", index + 1, False
            if char == "#":
                break
        elif is_escaped:
            word += char
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            word += char
    return words, not quote
