"""Submitting a job through sbatch: nothing of the user's is changed, little is added.

The command line goes to sbatch to the letter, without gsched's own options. What those ask for is
appended to the job's comment, behind the user's own text.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gsched.app.nested_submit import without_outer_job
from gsched.errors import ConfigError, GschedError, UsageError
from gsched.jobscript.command_line import SBATCH, Grammar, Kind, Word, scan
from gsched.jobscript.directives import Directives, read_directives
from gsched.jobscript.requests import Otherwise, SubmitOptions, check_names, read_options
from gsched.model.job import Wants
from gsched.slurm import wire
from gsched.slurm.run import run

ASKS_ONLY = {"help", "usage", "version"}
"""Options of sbatch after which it does nothing else."""

STDIN = 0
_NO_FILE = 0

_NOTHING = Wants()
_AWAY = Wants(opt_out=True)

_HELP_TIMEOUT_S = 10.0
_FLAG_IS_SET = re.compile(r"|yes|0*[1-9][0-9]*")
"""Values of a variable that switch an option without argument on, by sbatch(1)."""
_OPEN_FILE = re.compile(r"/dev/fd/(\d{1,9})|/proc/self/fd/(\d{1,9})|/dev/(stdin)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that is ready: run `argv` with `environ`.

    `wants` is what the job's comment asks for. `wait_s` and `otherwise`: how
    long to wait for gsched's answer (None: not at all), and what becomes of the job without a good
    one. `as_user` is the value of ``--uid``, '' without one. `piped` is what was read from an open
    file and shall be readable there once more: the file's number and the bytes. `script` is the
    text of the job script, None with ``--wrap`` or when it could not be read.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    is_dry_run: bool = False
    wants: Wants = _NOTHING
    wait_s: float | None = None
    otherwise: Otherwise = "best-effort"
    as_user: str = ""
    piped: tuple[int, bytes] | None = None
    script_name: str = ""
    script: str | None = None
    warnings: tuple[str, ...] = ()


def prepare(
    args: Sequence[str],
    environ: Mapping[str, str],
    read_open_file: Callable[[int], bytes],
    now: int,
    *,
    opts_out: Callable[[], bool] = lambda: False,
) -> Submission:
    """The submission that the words after ``gsched submit`` stand for.

    `read_open_file` is called with its number when the script comes from an open file: standard
    input, or a pipe that the shell has opened (``<(…)``). `now` is the time that times are relative
    to. `opts_out` gives the user's standing wish (``submit.opt_out``), or raises ConfigError: as
    nobody knows it then, gsched keeps away from the job, and ConfigError comes on when more is
    asked. Raises UsageError for what is wrong with gsched's own options.
    """
    words = scan_sbatch(args)
    clean_environ, scrubbed = without_outer_job(environ)
    if any(word.kind is Kind.OPTION and word.name in ASKS_ONLY for word in words):
        return Submission(("sbatch", *_assembled(args, words, None)), clean_environ)
    own = [word for word in words if word.kind is Kind.OWN]
    check_names(own)  # before a script is looked for that may be such an option's value
    script = _Script.find(words, environ, read_open_file)
    directives = read_directives(script.text or "", script.name)
    sections = [scan_sbatch(section, stops=False) for section in directives.sbatch]
    options = _options(own, directives, script.name, now, opts_out)
    is_test = _has(words, "test-only")
    if options.wait_s is not None and not is_test:
        _check_waiting(words, sections[0], clean_environ)
    comment = None
    warnings = [*_warnings(script, directives, scrubbed), *options.warnings]
    if options.wants != _NOTHING and not _is_cut_short(words) and not is_test:
        comment = wire.append(first_comment(words, sections), options.wants)
        warnings += _component_warnings(words, sections)
    return Submission(
        argv=("sbatch", *_assembled(args, words, comment)),
        environ=clean_environ,
        is_dry_run=options.is_dry_run,
        wants=options.wants,
        wait_s=None if is_test else options.wait_s,
        otherwise=options.otherwise,
        as_user=_first_value(words, sections, "uid"),
        piped=script.piped,
        script_name=script.name,
        script=script.text,
        warnings=tuple(warnings),
    )


def _options(
    own: Sequence[Word],
    directives: Directives,
    name: str,
    now: int,
    opts_out: Callable[[], bool],
) -> SubmitOptions:
    given = (own, directives.gsched, name, now)
    try:
        return read_options(*given, opts_out=opts_out())
    except ConfigError as error:
        asked = read_options(*given)
        if asked.wait_s is not None or asked.wants not in (_NOTHING, _AWAY):
            raise
        kept_away = read_options(*given, opts_out=True)
        warning = f"the job is submitted as with --gs-none, for {error.message}"
        return replace(kept_away, warnings=(*kept_away.warnings, warning))


# -- sbatch's grammar ----------------------------------------------------------------------------


def scan_sbatch(args: Sequence[str], *, stops: bool = True) -> list[Word]:
    """The words up to the script, or (`stops` False) all words of a script's directives.

    sbatch is asked about options that only this site may know.
    """
    words = scan(args, SBATCH, stops=stops)
    if any(not word.is_known and word.value is None for word in words):
        words = scan(args, _site_grammar(), stops=stops)
    return words


@functools.cache
def _site_grammar() -> Grammar:
    try:
        answer = run(["sbatch", "--help"], timeout_s=_HELP_TIMEOUT_S)
    except GschedError:
        return SBATCH  # sbatch will say itself what it does not know
    return SBATCH.learned(answer.stdout)


def _has(words: Sequence[Word], option: str) -> bool:
    return any(word.kind is Kind.OPTION and word.name == option for word in words)


def _value(words: Sequence[Word], option: str) -> str | None:
    """The last value of `option` before the first ``:``, which is the one that counts."""
    found = None
    for word in words:
        if word.kind is Kind.SEPARATOR:
            break
        if word.kind is Kind.OPTION and word.name == option:
            found = word.value
    return found


def _is_cut_short(words: Sequence[Word]) -> bool:
    """Whether the first component's last option lacks its argument: sbatch will refuse that."""
    options = list(itertools.takewhile(lambda word: word.kind in (Kind.OPTION, Kind.OWN), words))
    return any(word.name in SBATCH.valued and word.value is None for word in options[-1:])


def _check_waiting(
    words: Sequence[Word], script: Sequence[Word], environ: Mapping[str, str]
) -> None:
    """Refuse ``--gs-wait`` where its answer would come too late or for no known job."""
    given = [*words, *script]
    if _has(given, "wait") or _FLAG_IS_SET.fullmatch(environ.get("SBATCH_WAIT", "no")):
        raise UsageError(
            "--gs-wait waits for gsched's answer, --wait for the end of the job: take one of them",
            "the job's end is also seen by a job with --dependency=afterany:JOB",
        )
    if _has(given, "quiet") and not _has(given, "parsable"):
        raise UsageError("--quiet hides the job's id, which --gs-wait needs", "add --parsable")


def _assembled(args: Sequence[str], words: Sequence[Word], comment: str | None) -> list[str]:
    """`args` without gsched's options, with `comment` as the last option of the first component."""
    own = {
        index for word in words if word.kind is Kind.OWN for index in range(word.start, word.end)
    }
    ends = (word.start for word in words if word.kind not in (Kind.OPTION, Kind.OWN))
    end = next(ends, len(args))
    before = [arg for index, arg in enumerate(args[:end]) if index not in own]
    after = [arg for index, arg in enumerate(args[end:], start=end) if index not in own]
    return [*before, *([] if comment is None else [f"--comment={comment}"]), *after]


def first_comment(words: Sequence[Word], sections: Sequence[Sequence[Word]]) -> str:
    """The user's own comment on the job (of a heterogeneous one: its leader), '' for none."""
    return _first_value(words, sections, "comment")


def _first_value(words: Sequence[Word], sections: Sequence[Sequence[Word]], option: str) -> str:
    typed = _value(words, option)
    return (_value(sections[0], option) if typed is None else typed) or ""


# -- the script ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Script:
    """A job script: its name for messages ('' for none), its text when it can be read."""

    name: str = ""
    text: str | None = None
    piped: tuple[int, bytes] | None = None
    is_unseen: bool = False

    @classmethod
    def find(
        cls,
        words: Sequence[Word],
        environ: Mapping[str, str],
        read_open_file: Callable[[int], bytes],
    ) -> _Script:
        """The script that the command line names; without a name it is on standard input."""
        name = next((word.name for word in words if word.kind is Kind.OPERAND), None)
        if name is None and _has(words, "wrap"):
            return cls()
        number = STDIN if name is None else _open_file(name)
        if number is not None:
            data = read_open_file(number)
            shown = "standard input" if number == STDIN else name or ""
            return cls(shown, data.decode("utf-8", "surrogateescape"), (number, data))
        path = find_script(name or "", _value(words, "chdir"), environ)
        mode = _mode(path)
        text = None
        if stat.S_ISREG(mode):
            with suppress(OSError):
                text = path.read_bytes().decode("utf-8", "surrogateescape")
        is_unseen = mode != _NO_FILE and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
        return cls(name or "", text, is_unseen=is_unseen)


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


# -- what the user is told -----------------------------------------------------------------------


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


def _warnings(script: _Script, directives: Directives, scrubbed: Sequence[str]) -> list[str]:
    warnings = []
    if script.is_unseen:
        warnings.append(f"{script.name} is no regular file: #GSCHED lines in it are not seen")
    if directives.late:
        lines = ", ".join(f"line {line}" for line, _ in directives.late)
        marks = " and ".join(sorted({mark for _, mark in directives.late}))
        command = directives.first_command
        text = f"{lines}: {marks} after the first command (line {command}) is void"
        warnings.append(f"{script.name} {text}")
    if scrubbed:
        names = ", ".join(scrubbed)
        warnings.append(f"{names}: not passed on from inside a job, it may be the outer job's")
    return warnings


def _component_warnings(words: Sequence[Word], sections: Sequence[Sequence[Word]]) -> list[str]:
    """Without ``:`` on the command line its options, our comment too, hold for all components."""
    others = [_value(section, "comment") for section in sections[1:]]
    if any(others) and not any(word.kind is Kind.SEPARATOR for word in words):
        return ["the comment of the first component replaces those of the other components"]
    return []
