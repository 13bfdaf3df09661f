"""The job script of a submission: where sbatch finds it, what stands in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gsched.app.sbatch_words import has, value
from gsched.jobscript.command_line import Kind, Word

STDIN = 0
_NO_FILE = 0
_OPEN_FILE = re.compile(r"/dev/fd/(\d{1,9})|/proc/self/fd/(\d{1,9})|/dev/(stdin)", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobScript:
    """A job script: its name for messages ('' for none), its text when it can be read, and the
    path of a file by a name ('' for none).
    """

    name: str = ""
    path: str = ""
    text: str | None = None
    piped: tuple[int, bytes] | None = None
    is_unseen: bool = False

    @classmethod
    def find(
        cls,
        words: Sequence[Word],
        environ: Mapping[str, str],
        read_open_file: Callable[[int], bytes],
    ) -> JobScript:
        """The script that the command line names; without a name it is on standard input."""
        name = next((word.name for word in words if word.kind is Kind.OPERAND), None)
        if name is None and has(words, "wrap"):
            return cls()
        number = STDIN if name is None else _open_file(name)
        if number is not None:
            data = read_open_file(number)
            shown = "standard input" if number == STDIN else name or ""
            return cls(shown, "", data.decode("utf-8", "surrogateescape"), (number, data))
        path = find_script(name or "", value(words, "chdir"), environ)
        mode = _mode(path)
        text = None
        if stat.S_ISREG(mode):
            with suppress(OSError):
                text = path.read_bytes().decode("utf-8", "surrogateescape")
        is_unseen = mode != _NO_FILE and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
        return cls(name or "", str(path.absolute()), text, is_unseen=is_unseen)

    def replaced(self, data: bytes) -> JobScript:
        """The script `data` in its place, on standard input."""
        text = data.decode("utf-8", "surrogateescape")
        return replace(self, text=text, piped=(STDIN, data))


def find_script(name: str, chdir: str | None, environ: Mapping[str, str]) -> Path:
    """The file that sbatch takes for `name`: in the job's folder, on PATH, then the name itself."""
    if not name.startswith(("/", ".")):
        for folder in (chdir or ".", *environ.get("PATH", "").split(":")):
            path = Path(folder, name)
            if stat.S_ISREG(_mode(path)) and os.access(path, os.R_OK):
                return path
    return Path(name)


def _mode(path: Path) -> int:
    """The file's type and mode; _NO_FILE for one that cannot be seen, for whatever reason.

    A closed folder on PATH, a name that is too long, a dead file system: sbatch says what it thinks
    of them.
    """
    try:
        return path.stat().st_mode
    except OSError:
        return _NO_FILE


def _open_file(name: str) -> int | None:
    """The number of the pipe that `name` stands for, None for any other file."""
    match = _OPEN_FILE.fullmatch(name)
    if match is None:
        return None
    number = STDIN if match[3] else int(match[1] or match[2])
    try:
        return number if stat.S_ISFIFO(os.fstat(number).st_mode) else None
    except OSError:
        return None


def read_open_file(number: int) -> bytes:
    """All that is left in an open file; nothing of one that is not open."""
    try:
        with open(number, "rb", closefd=False) as stream:
            return stream.read()
    except OSError:
        return b""


def offer_again(number: int, data: bytes) -> None:
    """Let whoever inherits this process's open files read `data` from file `number`."""
    file = os.memfd_create("job script")
    with open(file, "wb", closefd=False) as stream:
        stream.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    if file == number:  # it was closed until now
        os.set_inheritable(file, True)
    else:
        os.dup2(file, number)
        os.close(file)
