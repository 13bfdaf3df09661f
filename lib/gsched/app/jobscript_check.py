"""``gsched jobscript``: the templates of job scripts, and whether they and their Python work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gsched.app.node_python import CHECK, node_python, own_disk
from gsched.app.sbatch_words import unknown_options
from gsched.config.settings import Settings
from gsched.errors import ConfigError, GschedError
from gsched.jobscript.directives import read_directives
from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.templates import Library, Template
from gsched.slurm.run import run

_SHELL_S = 10.0
_NODE_S = 120.0
_IMMEDIATE_S = 60
"""So long srun waits for a node."""

_SAMPLES = (
    UserScript("train's.sh", "#!/bin/bash -l\n#SBATCH -N1\n\necho \"$@\" 'it''s'\nEOF", "/it's.sh"),
    UserScript("train.py", "#!/usr/bin/env -S python3 -u\n#SBATCH -n2\n#SBATCH hetjob\nprint(1)\n"),
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A template, or why it cannot be used (`problem`)."""

    name: str
    template: Template | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried: what it is, and what is wrong with it ('' for nothing).

    `is_possible`: it may be wrong, which cannot be seen from here.
    """

    what: str
    problem: str = ""
    hint: str = ""
    is_possible: bool = False


def templates(settings: Settings) -> list[Listed]:
    """All templates in force, by name."""
    library = Library(settings.jobscript.dir)
    found = []
    for name in library.names():
        try:
            found.append(Listed(name, library.get(name)))
        except GschedError as error:
            found.append(Listed(name, None, error.message))
    return found


def template(settings: Settings, name: str) -> Template:
    """One template. Raises UsageError, ConfigError."""
    return Library(settings.jobscript.dir).get(name)


def check(settings: Settings, names: tuple[str, ...], partition: str) -> Iterator[Finding]:
    """Try templates (all, or those of `names`), the Python on this host, and where a `partition` is
    named on one of its nodes, by a job. Raises UsageError for a name of no template.
    """
    library = Library(settings.jobscript.dir)
    known = library.names()
    for name in names:
        if name not in known:
            library.get(name)  # says so
    for name in names or known:
        yield _finding(f"template {name}", _try_template, library, name)
    try:
        python = node_python(settings.jobscript)
    except GschedError as error:
        yield Finding("python", error.message, error.hint)
        return
    yield Finding("python")
    if partition:
        yield _finding(f"python on a node of partition {partition}", _try_node, python, partition)
    else:
        yield from _of_disk(python, settings)


def _finding(what: str, attempt: Callable[..., object], *args: object) -> Finding:
    try:
        attempt(*args)
    except GschedError as error:
        return Finding(what, error.message, error.hint)
    return Finding(what)


def _try_template(library: Library, name: str) -> None:
    """Render it for sample scripts, and let a shell read what comes out."""
    template = library.get(name)
    needed = {key.name: key.sample for key in template.keys if key.required}
    values = template.values(needed)
    allowed = {"always": (True,), "asked": (False, True), "never": (False,)}
    for script in _SAMPLES:
        for has_checkpoints in allowed[template.checkpoints]:
            around = Surroundings("/it's/python", has_checkpoints, every_s=60, grace_s=30)
            text = render(library, template, values, script, around).decode()
            if script.text not in text:
                raise ConfigError(
                    f"{template.path}: the user's script does not stand in its result"
                )
            _check_directives(template, text)
            answer = run(["sh", "-n"], stdin=text, timeout_s=_SHELL_S)
            if answer.status != 0 or answer.stderr:
                said = answer.stderr.strip() or f"status {answer.status}"
                raise ConfigError(f"{template.path}: the shell does not read its result: {said}")


def _check_directives(template: Template, text: str) -> None:
    for words in read_directives(text, template.name).sbatch:
        if unknown := unknown_options(words):
            raise ConfigError(f"{template.path}: sbatch has no option {unknown[0]}")


def _try_node(python: str, partition: str) -> None:
    where = ["--partition", partition, "--nodes=1", "--ntasks=1", f"--immediate={_IMMEDIATE_S}"]
    form = ["--quiet", "--time=2", "--job-name=gsched-check", "--chdir=/"]
    answer = run(["srun", *where, *form, python, *CHECK], timeout_s=_NODE_S)
    if answer.status != 0:
        said = answer.stderr.strip().splitlines()[-1:] or [f"status {answer.status}"]
        raise ConfigError(f"{python}: {said[0]}", "jobscript.python names one that nodes have")


def _of_disk(python: str, settings: Settings) -> Iterator[Finding]:
    if kind := own_disk(python, settings.jobscript):
        yield Finding(
            "python on nodes",
            f"{python} lies on a disk of this host ({kind})",
            "jobscript.python names one that nodes have; --partition NAME tries it on a node",
            is_possible=True,
        )
