"""Writes the manual pages from the commands' own help and from the settings' docstrings.

``make man`` runs ``python -m gsched_cli.manpages man sql/SCHEMA.md``; a test compares the result
with the files in the repository. A page holds no date: the same source gives the same bytes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click

from gsched.config import deadlines, loader, node_settings, settings
from gsched.model.phases import PhaseRules
from gsched.model.power import PowerBackends
from gsched_cli.checkpoint_page import checkpoint_page
from gsched_cli.format_pages import attempts_page, columns_page
from gsched_cli.main import COMMANDS, cli
from gsched_cli.roff import head, listed, paragraph, plain, verbatim
from gsched_cli.schema_pages import database_page, schema_document

EXIT_STATUS = {
    "0": "Done.",
    "2": "The command line is wrong; nothing was done.",
    "3": "Refused by policy: an answer, not a fault.",
    "65": "Input could not be understood.",
    "69": "Slurm, the database or a file system cannot be reached, or has failed.",
    "70": "A fault of gsched itself; GSCHED_DEBUG=1 shows where.",
    "75": "May work later: Slurm gave no answer within slurm.command_timeout_s or is busy, another "
    "daemon holds the lock, the database is busy.",
    "77": "A privilege is missing.",
    "78": "The configuration of gsched or of the site is wrong.",
    "130, 141": "Interrupted by Ctrl-C; the reader of the output has left.",
}

CKPT_EXIT_STATUS = {
    "4": "There are checkpoints, and none of them is valid.",
    "65": "A checkpoint is damaged, or cannot be read.",
    "66": "There is no checkpoint, and nothing says that there ever was one.",
}

FILES = {
    "/etc/gsched/gsched.toml": "Configuration for all, see gsched.toml(5).",
    "$XDG_CONFIG_HOME/gsched/gsched.toml": "One user's configuration (~/.config where unset).",
    "/var/lib/gsched": "The state folder: database, model, lock and status file of the daemon.",
}

ENVIRONMENT = {
    "GSCHED_CONFIG": "The only configuration file to be read.",
    "GSCHED_STATE_DIR, GSCHED_DATABASE_URL, GSCHED_<TABLE>_<KEY>": "Settings, see gsched.toml(5).",
    "GSCHED_DEBUG": "1 = show tracebacks.",
    "SLURM_CONF": "As for Slurm's own commands.",
}

_HEADED = re.compile(r"(?P<heading>[A-Z][A-Za-z ]+):\n(?P<body>.+)", re.DOTALL)


def pages() -> dict[str, str]:
    """Every page: its path below man/ → its text."""
    found = {
        f"man1/{'-'.join(path)}.1": command_page(path, command)
        for path, command in _commands(("gsched",), cli)
    }
    return found | {
        "man5/gsched.toml.5": settings_page(),
        "man5/gsched-attempts.5": attempts_page(),
        "man5/gsched-checkpoint.5": checkpoint_page(),
        "man5/gsched-columns.5": columns_page(),
        "man5/gsched-database.5": database_page(),
    }


def command_page(path: tuple[str, ...], command: click.Command) -> str:
    """The page of one command, in the man macros of groff_man(7)."""
    context = click.Context(command, info_name=" ".join(path))
    summary, *rest = inspect.cleandoc(command.help or "").split("\n\n")
    lines = [*head("-".join(path), "1", _summary(path, summary)), ".SH SYNOPSIS"]
    lines += [f".B {plain(' '.join(path))}", plain(" ".join(command.collect_usage_pieces(context)))]
    body, sections = _described([summary, *rest])
    lines += [".SH DESCRIPTION", *body]
    records = (param.get_help_record(context) for param in command.get_params(context))
    lines += listed("OPTIONS", dict(filter(None, records)))
    if isinstance(command, click.Group):
        lines += listed("COMMANDS", _member_pages(path, command, context))
    for heading, text in sections.items():
        lines += [f".SH {heading.upper()}", *verbatim(text)]
    lines += listed("EXIT STATUS", _exit_status(path))
    if path[-1] in ("submit", "cancel"):
        lines += [".PP", "What Slurm's command returns is returned as it is."]
    lines += listed("ENVIRONMENT", ENVIRONMENT) + listed("FILES", FILES)
    lines += [".SH SEE ALSO", ", ".join(_see_also(path))]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """gsched.toml(5), from the docstrings of the settings."""
    documented = _attribute_docs()
    lines = [*head("gsched.toml", "5", "configuration of gsched"), ".SH DESCRIPTION"]
    for part in (loader.__doc__ or "").split("\n\n", 1)[1].split("\n\n"):
        lines += [*paragraph(part.replace("``", "")), ".PP"]
    lines += [*listed("FILES", FILES), ".SH KEYS"]
    for key in loader.known_keys():
        table, _, name = key.rpartition(".")
        owner = getattr(settings.Settings(), table) if table else settings.Settings()
        default = next(getattr(owner, field.name) for field in fields(owner) if field.name == name)
        lines += [".TP", f".B {plain(key)}", *paragraph(documented[type(owner).__name__, name])]
        limits = [f"Default: {_toml(default)}."]
        if key in loader.BOUNDS:
            limits.append("Allowed: {} to {}.".format(*loader.BOUNDS[key]))
        if key in loader.CHOICES:
            limits.append(f"Allowed: {', '.join(loader.CHOICES[key])}.")
        if key not in loader.FILES_ONLY:
            limits.append(f"Variable: {loader.variable(key)}.")
        lines += [plain(" ".join(limits))]
    lines += [".SH SEE ALSO", "gsched(1), gsched\\-database(5), gsched\\-doctor(1)"]
    return "\n".join(lines) + "\n"


def main(folder: str, schema_file: str) -> None:
    """Write all pages below `folder`, without those of commands that are no more; and SCHEMA.md."""
    wanted = pages()
    for old in Path(folder).glob("man[15]/gsched*.[15]"):
        if str(old.relative_to(folder)) not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    Path(schema_file).write_text(schema_document(), encoding="utf-8")


def _commands(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None:
                yield from _commands((*path, name), member)


def _summary(path: tuple[str, ...], first_paragraph: str) -> str:
    line = COMMANDS[path[1]][1] if len(path) == 2 else " ".join(first_paragraph.split())
    return line[:1].lower() + line[1:].rstrip(".")


def _member_pages(
    path: tuple[str, ...], group: click.Group, context: click.Context
) -> dict[str, str]:
    members = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {
        f"{'-'.join((*path, name))}(1)": _summary(
            (*path, name), (member.help or "").split("\n\n")[0]
        )
        for name, member in members.items()
        if member is not None
    }


def _exit_status(path: tuple[str, ...]) -> dict[str, str]:
    own = EXIT_STATUS | (CKPT_EXIT_STATUS if "ckpt" in path else {})
    return dict(sorted(own.items(), key=lambda item: int(item[0].partition(",")[0])))


def _see_also(path: tuple[str, ...]) -> list[str]:
    slurm = {"submit": ["sbatch(1)"], "cancel": ["scancel(1)"], "queue": ["squeue(1)"]}
    above = ["-".join(path[:length]) + "(1)" for length in range(1, len(path))]
    formats = ["gsched-checkpoint(5)"] if "ckpt" in path else []
    others = [*slurm.get(path[-1], []), *formats, "gsched.toml(5)"]
    return [plain(name) for name in [*above, *others]]


def _described(paragraphs: list[str]) -> tuple[list[str], dict[str, str]]:
    """Running text, and the blocks that have a heading of their own (``Example:``)."""
    body: list[str] = []
    sections: dict[str, str] = {}
    for part in paragraphs:
        is_verbatim = part.startswith("\b\n")
        text = part.removeprefix("\b\n")
        headed = _HEADED.fullmatch(text) if is_verbatim else None
        if headed:
            sections[headed["heading"]] = inspect.cleandoc(" " * 2 + headed["body"].lstrip())
        else:
            body += [".PP", *(verbatim(text) if is_verbatim else paragraph(text))]
    return body[1:], sections


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | PhaseRules | PowerBackends):
        return "[]"
    if isinstance(value, dict):
        return "none"
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def _attribute_docs() -> dict[tuple[str, str], str]:
    """(class, attribute) → the docstring that follows the attribute in the source."""
    found = {}
    modules = (settings, node_settings, deadlines)
    for node in (node for module in modules for node in ast.parse(inspect.getsource(module)).body):
        if isinstance(node, ast.ClassDef):
            for attribute, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(attribute, ast.AnnAssign) and isinstance(text, ast.Expr):
                    key = (node.name, ast.unparse(attribute.target))
                    found[key] = str(ast.literal_eval(text.value)).replace("`", "")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
