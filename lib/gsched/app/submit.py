"""Submitting a job through sbatch: nothing of the user's is changed, little is added.

The command line goes to sbatch to the letter, without gsched's own options. What those ask for is
appended to the job's comment, behind the user's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsched.jobscript.command_line import Kind
from gsched.jobscript.directives import read_directives
from gsched.jobscript.requests import read_options
from gsched.model.job import Wants
from gsched.slurm import wire

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
    """A submission that is ready: run `argv` with `environ` and, when not None, `stdin`."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    stdin: bytes | None
    script_name: str
    script: str | None  # its text; None with --wrap, or when it could not be read
    warnings: tuple[str, ...]
    is_dry_run: bool


def prepare(
    args: Sequence[str], environ: Mapping[str, str], read_stdin: Callable[[], bytes]
) -> Submission:
    """The submission that the words after ``gsched submit`` stand for.

    `read_stdin` is called when the script comes on standard input. Raises UsageError for what is
    wrong with gsched's own options.
    """
    words = scan_sbatch(args)
    options = {word.name: word.value for word in words if word.kind is Kind.OPTION}
    clean_environ = without_job_variables(environ)
    if ASKS_ONLY & options.keys():
        return Submission(("sbatch", *args), clean_environ, None, "", None, (), False)
    stdin: bytes | None = None
    name, text = "", None
    script = next((word.name for word in words if word.kind is Kind.OPERAND), None)
    if script is not None:
        path = find_script(script, options.get("chdir"), environ)
        name, text = script, _read_text(path)
    elif "wrap" not in options:
        stdin = read_stdin()
        name, text = "standard input", stdin.decode("utf-8", "surrogateescape")
    directives = read_directives(text or "", name)
    own = [word.name for word in words if word.kind is Kind.OWN]
    wanted = read_options(own, directives.gsched, name)
    warnings = _late_warnings(directives, name)
    insertions: dict[int, str] = {}
    if wanted.opts_out:
        token = wire.encode(Wants(opt_out=True))
        comment = wire.append(first_comment(words, directives), token)
        insertions[_end_of_first_component(words, args)] = f"--comment={comment}"
        warnings += _het_warnings(words, directives)
    argv = ("sbatch", *_assembled(args, words, insertions))
    return Submission(argv, clean_environ, stdin, name, text, tuple(warnings), wanted.is_dry_run)
