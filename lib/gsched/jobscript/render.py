"""A job script with gsched beside it, from a template and the user's own script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from markupsafe import Markup

from gsched.errors import UsageError
from gsched.jobscript.directives import HET_SEPARATORS, SBATCH_MARK, read_directives, split_words
from gsched.jobscript.here_document import delimiter
from gsched.jobscript.notice import notice_s, told_s
from gsched.jobscript.templates import CODE_ERRORS, SUFFIX, Library, Template, Value, faulty, whole

_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_SHEBANG = "#!"


@dataclass(frozen=True, slots=True)
class UserScript:
    """A script as it was submitted: its name as Slurm would call the job, its text (bytes that are
    no UTF-8 as surrogates), and its path ('' for none).
    """

    name: str
    text: str
    path: str = ""

    @classmethod
    def of_wrap(cls, command: str) -> UserScript:
        """What sbatch makes of ``--wrap``."""
        made = "# This script was created by sbatch --wrap."
        return cls("wrap", f"#!/bin/sh\n\n{made}\n\n{command}\n")

    @property
    def interpreter(self) -> tuple[str, ...]:
        """The words by which the kernel would start it: of ``#!`` a path and at most one argument.

        Raises UsageError for a text that Slurm takes for no script.
        """
        if "\0" in self.text:
            raise UsageError(f"{self.name}: the script holds a NUL byte, which Slurm refuses")
        line = self.text.partition("\n")[0]
        words = line.removeprefix(_SHEBANG).strip(" \t\r").split(None, 1)
        if not line.startswith(_SHEBANG) or not words:
            raise UsageError(
                f"{self.name}: the first line of the script names no interpreter",
                "begin it with #! and a path, such as #!/bin/bash",
            )
        return tuple(words)

    @property
    def is_python(self) -> bool:
        """Whether Python is to run it, found in whatever way."""
        first, *others = " ".join(self.interpreter).split()
        named = others if PurePath(first).name == "env" else [first]
        return any(_PYTHON.fullmatch(word) for word in named)

    def head(self) -> list[list[str]]:
        """Its lines beginning with ``#`` before its first command, without the first line.

        One list a component of a heterogeneous job; the line that begins a component ends the list
        before.
        """
        lines = self.text.split("\n")
        first = read_directives(self.text, self.name).first_command or len(lines) + 1
        sections: list[list[str]] = [[]]
        for line in lines[1 : first - 1]:
            if line.startswith("#"):
                sections[-1].append(line)
            if _begins_component(line):
                sections.append([])
        return sections


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job script has from the site and the submission, besides the script.

    `python` runs gsched on the nodes. `checkpoints`: the job has a folder of them, below
    `checkpoint_root`, and one is written each `every_s` seconds (None: as the runtime chooses).
    `notice_s` seconds before its time limit (of `time_limit_s`) the job is told, unless the user's
    own ``--signal`` is another; `grace_s` are from SIGTERM to SIGKILL. None: not known. `profile_s`
    of a profile run: for how long it goes on after its first step.
    """

    python: str
    checkpoints: bool = False
    checkpoint_root: str = "gsched-checkpoints"
    every_s: float | None = None
    grace_s: int | None = None
    notice_s: int = 120
    time_limit_s: int | None = None
    own_signal: str = ""
    heartbeat_dir: str = ""
    phases: tuple[str, ...] = ()
    profile_s: float | None = None


def render(
    library: Library,
    template: Template,
    values: Mapping[str, Value],
    script: UserScript,
    around: Surroundings,
) -> bytes:
    """The job script for sbatch. Raises UsageError for a script that is none, ConfigError for a
    faulty template.
    """
    text = script.text
    seconds = notice_s(whole(values, "grace") or around.notice_s, around.time_limit_s)
    context = {
        "template": template.name,
        "values": values,
        "job_name": script.name,
        "path": script.path,
        "head": script.head(),
        "body": text,
        "lacks_line_end": not text.endswith("\n"),
        "size": len(_bytes(text)),
        "delimiter": delimiter(text),
        "interpreter": Markup(shlex.join(script.interpreter)),  # noqa: S704 - quoted
        "is_python": script.is_python,
        "names_usr1": "USR1" in text,
        "python": around.python,
        "checkpoints": around.checkpoints,
        "checkpoint_root": around.checkpoint_root,
        "every_s": None if around.every_s is None else f"{around.every_s:g}",
        "grace_s": around.grace_s,
        "notice_s": seconds,
        "told_s": told_s(around.own_signal) if around.own_signal else seconds,
        "heartbeat_dir": around.heartbeat_dir,
        "phases": ",".join(around.phases),
        "profile_s": None if around.profile_s is None else f"{around.profile_s:g}",
    }
    try:
        return _bytes(library.environment.get_template(template.name + SUFFIX).render(context))
    except CODE_ERRORS as error:
        raise faulty(template.path, error) from None


def _begins_component(line: str) -> bool:
    if not line.startswith(SBATCH_MARK):
        return False
    words, _ = split_words(line.removeprefix(SBATCH_MARK))
    return bool(words) and words[0][1] in HET_SEPARATORS


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
