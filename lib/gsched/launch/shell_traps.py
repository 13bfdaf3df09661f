"""Whether a shell that catches a signal does so for a trap of its user's.

A bash with a trap for EXIT catches all signals that would end it, to run that trap before it ends:
to send it one of them ends it. So its script, and the files that this sources, are read for a trap
of the signal itself. A trap whose signals are computed may be one for it and counts as one: a
notice that is lost is worse than an end that the shell has asked for. What cannot be read (`eval`
of something computed, a file whose name is) may hold one as well, but seldom does.
"""

from __future__ import annotations

import enum
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gsched.launch.processes import Process
from gsched.launch.signals import name_of

_CAUGHT_FOR_EXIT = frozenset(
    {
        *(signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
        *(signal.SIGABRT, signal.SIGALRM, signal.SIGPIPE, signal.SIGSYS, signal.SIGTRAP),
        *(signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV),
        *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGVTALRM),
    }
)
"""What bash catches as soon as it has a trap for EXIT."""
_NEVER_TRAPPED = (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSYS)

_MAX_FILES = 16
_MAX_BYTES = 1 << 20
_COMMAND = r"(?:^|[;&|({]|\b(?:then|do|else))[ \t]*(?:(?:builtin|command)[ \t]+)?"
_WORD = r"""(?:'[^']*+'|"(?:[^"\\$]|\\.|\$\([^()]*+\)|\$)*+"|\\.|[^\s;|&'"\\])++"""
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_TRAP = re.compile(
    rf"\btrap\s+(?:--\s+)?(?!\#)(?P<action>{_WORD})\s+(?P<signals>[^\n;&|\#]*)", re.DOTALL
)
_NO_ACTION = frozenset({"-", "''", '""'})
_EVAL = re.compile(rf"{_COMMAND}eval(?P<what>(?:[ \t]+{_WORD})+)", re.MULTILINE)
_SOURCE = re.compile(rf"{_COMMAND}(?:\.|source)[ \t]+(?P<file>{_WORD})", re.MULTILINE)
_COMPUTED = re.compile(r"[$`{*?\[]")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_QUOTES = str.maketrans("", "", "'\"\\")


class Trap(enum.Enum):
    """Whether a shell has a trap for a signal."""

    NONE = enum.auto()
    PERHAPS = enum.auto()
    """It is in nothing that could be read, but not all could be."""
    SET = enum.auto()


def trap_of(shell: Process, number: int) -> Trap:
    """What the signal, which `shell` catches, is caught for."""
    if number not in _CAUGHT_FOR_EXIT or not all(map(shell.catches, _NEVER_TRAPPED)):
        return Trap.SET
    return _Reader(shell.pid).trap(number)


def trap_in(text: str, number: int) -> Trap:
    """What a script says of the signal, but for what it sources."""
    name = name_of(number)
    wanted = {name, name.removeprefix("SIG"), str(number)}
    text = _plain(text)
    for match in _TRAP.finditer(text):
        if match["action"] in _NO_ACTION:
            continue
        words = re.split(r"[\s()]+", match["signals"].translate(_QUOTES).upper())
        if wanted & set(words) or _COMPUTED.search(match["signals"]):
            return Trap.SET
    computed = (_COMPUTED.search(match["what"]) for match in _EVAL.finditer(text))
    return Trap.PERHAPS if any(computed) else Trap.NONE


class _Reader:
    """The script of a shell and what that sources, as far as it can be read from outside."""

    def __init__(self, pid: int) -> None:
        self._words: list[str] = []
        self._environ: dict[str, str] = {}
        self._folder = Path("/")
        with suppress(OSError):  # it is ending
            folder = Path(f"/proc/{pid}")
            words = (folder / "cmdline").read_bytes().split(b"\0")[1:-1]
            self._words = [word.decode("utf-8", "surrogateescape") for word in words]
            for entry in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = entry.decode("utf-8", "surrogateescape").partition("=")
                self._environ[name] = value
            self._folder = (folder / "cwd").readlink()
        self._num_files = 0

    def trap(self, number: int) -> Trap:
        text = self._script()
        if not text:
            return Trap.PERHAPS
        found, texts = trap_in(text, number), [text]
        while texts and found is not Trap.SET:
            for word in _sourced(texts.pop()):
                sourced = self._read(self._path(word))
                if not sourced:
                    found = Trap.PERHAPS
                elif trap_in(sourced, number) is Trap.SET:
                    return Trap.SET
                else:
                    texts.append(sourced)
        return found

    def _script(self) -> str:
        """The file that it runs, or its `-c` text; "" when that cannot be told."""
        for i, word in enumerate(self._words):
            if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
                return self._words[i + 1] if i + 1 < len(self._words) else ""
            if not word.startswith(("-", "+")):
                return self._read(self._folder / word)
        return ""

    def _path(self, word: str) -> Path | None:
        """The file that a word after `source` names."""
        name = _VARIABLE.sub(lambda m: self._environ.get(m[1] or m[2], "$"), word)
        name = name.translate(_QUOTES)
        if name.startswith("~/"):
            name = self._environ.get("HOME", "$") + name[1:]
        if _COMPUTED.search(name):
            return None
        places = [] if "/" in name else self._environ.get("PATH", "").split(":")
        found = (self._folder / place / name for place in (*places, ""))
        return next(filter(os.path.isfile, found), None)

    def _read(self, path: Path | None) -> str:
        """The text of a regular file; nothing waits for a FIFO's other end."""
        self._num_files += 1
        if path is None or self._num_files > _MAX_FILES:
            return ""
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return file.read(_MAX_BYTES).decode("utf-8", "surrogateescape")
        return ""


def _plain(text: str) -> str:
    """Without lines of comment, and each continued line as one."""
    return _COMMENT.sub("", text).replace("\\\n", " ")


def _sourced(text: str) -> Iterator[str]:
    for match in _SOURCE.finditer(_plain(text)):
        yield match["file"]
