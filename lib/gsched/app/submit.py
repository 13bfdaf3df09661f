"""Submitting a job through sbatch: nothing of the user's is changed, little is added.

The command line goes to sbatch to the letter, without gsched's own options. What those ask for is
appended to the job's comment, behind the user's own text.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import GschedError
from gsched.jobscript.command_line import SBATCH, Kind, Word, scan
from gsched.jobscript.directives import Directives, read_directives
from gsched.jobscript.requests import read_options
from gsched.model.job import Wants
from gsched.slurm import wire
from gsched.slurm.run import run

ASKS_ONLY = {"help", "usage", "version"}
"""Options of sbatch after which it submits nothing."""

KEPT_INSIDE_JOB = {
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_CLUSTERS",
    "SLURM_TIME_FORMAT",
    "SLURM_BITSTR_LEN",
    "SLURM_DEBUG_FLAGS",
    "SLURM_EXIT_ERROR",
    "SLURM_JWT",
}
"""How to reach Slurm and how it shall talk: not of the job that a nested submit runs in."""

DROPPED_INSIDE_JOB = ("SLURM_", "SLURMD_", "SBATCH_CPU_BIND", "SBATCH_MEM_BIND")
"""Prefixes of what Slurm puts into a job's environment and sbatch would carry into the next."""

_HELP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that is ready: run `argv` with `environ` and, when not None, `stdin`.

    `script` is the text of the job script, None with ``--wrap`` or when it could not be read.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    stdin: bytes | None = None
    script_name: str = ""
    script: str | None = None
    warnings: tuple[str, ...] = ()
    is_dry_run: bool = False


def prepare(
    args: Sequence[str], environ: Mapping[str, str], read_stdin: Callable[[], bytes]
) -> Submission:
    """The submission that the words after ``gsched submit`` stand for.

    `read_stdin` is called when the script comes on standard input. Raises UsageError for what is
    wrong with gsched's own options.
    """
    words = scan_sbatch(args)
    given = {word.name: word.value for word in words if word.kind is Kind.OPTION}
    clean_environ = without_job_variables(environ)
    if ASKS_ONLY & given.keys():
        return Submission(("sbatch", *args), clean_environ)
    stdin: bytes | None = None
    name = next((word.name for word in words if word.kind is Kind.OPERAND), "")
    text: str | None = None
    if name:
        text = _read_text(find_script(name, given.get("chdir"), environ))
    elif "wrap" not in given:
        name, stdin = "standard input", read_stdin()
        text = stdin.decode("utf-8", "surrogateescape")
    directives = read_directives(text or "", name)
    own = [word.name for word in words if word.kind is Kind.OWN]
    wanted = read_options(own, directives.gsched, name)
    warnings = _warnings(name, text, directives)
    comment: str | None = None
    if wanted.opts_out and not _is_cut_short(words):
        comment = wire.append(first_comment(words, directives), Wants(opt_out=True))
        warnings += _component_warnings(words, directives)
    argv = ("sbatch", *_assembled(args, words, comment))
    return Submission(argv, clean_environ, stdin, name, text, tuple(warnings), wanted.is_dry_run)


def scan_sbatch(args: Sequence[str]) -> list[Word]:
    """The words up to the script. sbatch is asked about options that only this site may know."""
    words = scan(args, SBATCH)
    if any(not word.is_known and word.value is None for word in words):
        try:
            answer = run(["sbatch", "--help"], timeout_s=_HELP_TIMEOUT_S)
        except GschedError:
            return words  # sbatch will say itself what it does not know
        words = scan(args, SBATCH.learned(answer.stdout))
    return words


def find_script(name: str, chdir: str | None, environ: Mapping[str, str]) -> Path:
    """The file that sbatch takes for `name`: in the job's folder, on PATH, then the name itself."""
    if not name.startswith(("/", ".")):
        for folder in (chdir or ".", *environ.get("PATH", "").split(":")):
            path = Path(folder, name)
            if path.is_file() and os.access(path, os.R_OK):
                return path
    return Path(name)


def without_job_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what belongs to the job that this process runs in, if it does."""
    if "SLURM_JOB_ID" not in environ:
        return dict(environ)
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT_INSIDE_JOB or not name.startswith(DROPPED_INSIDE_JOB)
    }


def first_comment(words: Sequence[Word], directives: Directives) -> str:
    """The user's own comment on the job (of a heterogeneous one: its leader), '' for none."""
    return _last_comment(words) or _last_comment(scan(directives.sbatch[0], SBATCH)) or ""


def dry_run_text(submission: Submission) -> str:
    """What a submission would do: the command line quoted as for a shell, and the script."""
    text = " ".join(map(_quoted, submission.argv)) + "\n"
    if submission.script is not None:
        text += f"# {submission.script_name}:\n{submission.script}"
    return text if text.endswith("\n") else text + "\n"


def _quoted(word: str) -> str:
    """`word` as a shell takes it; what a terminal would obey becomes an escape of ``$'…'``."""
    if word.isprintable():
        return shlex.quote(word)
    shown = (
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in word
    )
    return f"$'{''.join(shown)}'"


def _assembled(args: Sequence[str], words: Sequence[Word], comment: str | None) -> list[str]:
    """`args` without gsched's options, with `comment` as the last option of the first component."""
    own = {word.start for word in words if word.kind is Kind.OWN}
    ends = (word.start for word in words if word.kind not in (Kind.OPTION, Kind.OWN))
    end = next(ends, len(args))
    before = [arg for index, arg in enumerate(args[:end]) if index not in own]
    after = [arg for index, arg in enumerate(args[end:], start=end) if index not in own]
    return [*before, *([] if comment is None else [f"--comment={comment}"]), *after]


def _last_comment(words: Sequence[Word]) -> str | None:
    """The last ``--comment`` before the first ``:``, which is the one that counts."""
    found = None
    for word in words:
        if word.kind is Kind.SEPARATOR:
            break
        if word.kind is Kind.OPTION and word.name == "comment":
            found = word.value
    return found


def _is_cut_short(words: Sequence[Word]) -> bool:
    """Whether the last option lacks its argument: sbatch will refuse the command line."""
    last = words[-1] if words else None
    return last is not None and last.name in SBATCH.valued and last.value is None


def _read_text(path: Path) -> str | None:
    """The script's text; None for what is no readable file (a pipe could be read only once)."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else None
    except OSError:
        return None


def _warnings(name: str, text: str | None, directives: Directives) -> list[str]:
    warnings = []
    if name and text is None and Path(name).exists():
        warnings.append(f"{name} is no regular file: #GSCHED lines in it are not seen")
    if directives.late:
        lines = ", ".join(f"line {line}" for line, _ in directives.late)
        marks = " and ".join(sorted({mark for _, mark in directives.late}))
        command = directives.first_command
        warnings.append(f"{name} {lines}: {marks} after the first command (line {command}) is void")
    return warnings


def _component_warnings(words: Sequence[Word], directives: Directives) -> list[str]:
    """Without ``:`` on the command line its options, our comment too, hold for all components."""
    others = [_last_comment(scan(section, SBATCH)) for section in directives.sbatch[1:]]
    if any(others) and not any(word.kind is Kind.SEPARATOR for word in words):
        return ["the comment of the first component replaces those of the other components"]
    return []
