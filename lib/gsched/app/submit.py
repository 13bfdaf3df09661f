"""Submitting a job through sbatch: nothing of the user's is changed, little is added.

The command line goes to sbatch to the letter, without gsched's own options. What those ask for is
appended to the job's comment, behind the user's own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gsched.app.job_script import JobScript
from gsched.app.misplaced_options import after_script, refuse_value_apart
from gsched.app.nested_submit import without_outer_job
from gsched.app.sbatch_words import assembled, has, is_cut_short, last_of, scan_sbatch, value
from gsched.config.settings import Settings
from gsched.errors import ConfigError, DataError, UsageError
from gsched.jobscript.command_line import Kind, Word
from gsched.jobscript.directives import Directives, read_directives
from gsched.jobscript.requests import Otherwise, SubmitOptions, check_names, read_options
from gsched.model.job import Wants, finite_limit_s
from gsched.model.units import parse_time_limit
from gsched.slurm import wire

if TYPE_CHECKING:
    from gsched.app.injection import Injected
    from gsched.app.profile_runs import ProfileRuns

ASKS_ONLY = {"help", "usage", "version"}
"""Options of sbatch after which it does nothing else."""

_NOTHING = Wants()

_REQUEUE = {"requeue": "SBATCH_REQUEUE", "no-requeue": "SBATCH_NO_REQUEUE"}
"""Options of which the last one counts → their variables, of which the first one does."""

_FLAG_IS_SET = re.compile(r"|yes|0*[1-9][0-9]*")
"""Values of a variable that switch an option without argument on, by sbatch(1)."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that is ready: run `argv` with `environ`.

    `wants` is what the job's comment asks for. `suggests`: what gsched expects of the job is to be
    told. `wait_s` and `otherwise`: how long to wait for gsched's answer (None: not at all), and
    what becomes of the job without a good one. `as_user` is the value of ``--uid``, '' without one.
    `piped` is what was read from an open file and shall be readable there once more: the file's
    number and the bytes. `script` is the text of the job script, None with ``--wrap`` or when it
    could not be read. `is_wrapped`: it is gsched's, from a template, with the user's inside.
    `profiles` are runs to be submitted before it, `comment` is the user's own.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    is_dry_run: bool = False
    wants: Wants = _NOTHING
    suggests: bool = False
    wait_s: float | None = None
    otherwise: Otherwise = "best-effort"
    as_user: str = ""
    piped: tuple[int, bytes] | None = None
    script_name: str = ""
    script: str | None = None
    is_wrapped: bool = False
    warnings: tuple[str, ...] = ()
    profiles: ProfileRuns | None = None
    comment: str = ""

    def after_profiles(self, ids: tuple[int, ...]) -> Submission:
        """The job whose profile runs these are. Raises UsageError for a comment without room."""
        wants = replace(self.wants, profiles=ids)
        before = f"--comment={wire.append(self.comment, self.wants)}"
        after = f"--comment={wire.append(self.comment, wants)}"
        place = len(self.argv) - 1 - self.argv[::-1].index(before)
        argv = (*self.argv[:place], after, *self.argv[place + 1 :])
        return replace(self, argv=argv, wants=wants, profiles=None)


def prepare(
    args: Sequence[str],
    environ: Mapping[str, str],
    read_open_file: Callable[[int], bytes],
    now: int,
    *,
    settings: Callable[[], Settings] = Settings,
) -> Submission:
    """The submission that the words after ``gsched submit`` stand for.

    `read_open_file` is called with its number when the script comes from an open file: standard
    input, or a pipe that the shell has opened (``<(…)``). `now` is the time that times are relative
    to. `settings` gives the configuration, or raises ConfigError: as nobody knows the user's
    standing wish then (``submit.opt_out``), gsched keeps away from the job, and ConfigError comes
    on when more is asked. Raises UsageError for what is wrong with gsched's own options, and what
    `injection.inject` raises.
    """
    words = scan_sbatch(args)
    clean_environ, scrubbed = without_outer_job(environ)
    if any(word.kind is Kind.OPTION and word.name in ASKS_ONLY for word in words):
        return Submission(("sbatch", *assembled(args, words, None)), clean_environ)
    own = [word for word in words if word.kind is Kind.OWN]
    check_names(own)  # before a script is looked for that may be such an option's value
    script = JobScript.find(words, environ, read_open_file)
    refuse_value_apart(words, script)
    directives = read_directives(script.text or "", script.name)
    sections = [scan_sbatch(section, stops=False) for section in directives.sbatch]
    line = _Line(args, words, sections, script, clean_environ)
    options, known = _options(own, directives, script.name, now, settings)
    suggests, void = _suggestion(options, line)
    injected = None if known is None else _injected(options, line, known)
    profiles = None if known is None else _profiles(options, line, known)
    wants = options.wants
    if injected is not None:
        script = script.replaced(injected.data)
        wants = replace(wants, checkpoint=injected.has_checkpoints and not wants.opt_out)
    comment = _comment(wants, line)
    return Submission(
        argv=("sbatch", *assembled(args, words, comment, from_stdin=injected is not None)),
        environ=clean_environ,
        is_dry_run=options.is_dry_run,
        wants=wants,
        suggests=suggests,
        wait_s=None if line.is_test else options.wait_s,
        otherwise=options.otherwise,
        as_user=line.first_value("uid"),
        piped=script.piped,
        script_name=script.name,
        script=script.text,
        is_wrapped=injected is not None,
        profiles=profiles,
        comment=first_comment(words, sections),
        warnings=(
            *after_script(args, words),
            *_warnings(script, directives, scrubbed),
            *options.warnings,
            *void,
            *(injected.warnings if injected else ()),
            *(() if comment is None else _component_warnings(words, sections)),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line, its words, those of its script's directives, the script, and the environment
    that sbatch gets.
    """

    args: Sequence[str]
    words: Sequence[Word]
    sections: Sequence[Sequence[Word]]
    script: JobScript
    environ: Mapping[str, str]

    @property
    def is_test(self) -> bool:
        """Whether sbatch shall submit nothing."""
        return has(self.words, "test-only")

    def first_value(self, option: str, variable: str = "") -> str:
        """The value of an option for the first component, '' for none."""
        typed = value(self.words, option)
        if typed is None:
            typed = self.environ.get(variable) or value(self.sections[0], option)
        return typed or ""

    @property
    def is_array(self) -> bool:
        """Whether a job array is submitted."""
        return bool(self.first_value("array", "SBATCH_ARRAY_INX"))

    @property
    def stays_ended(self) -> bool:
        """Whether the user's last word is that the job shall not be requeued."""
        typed = last_of(self.words, _REQUEUE)
        named = [option for option, variable in _REQUEUE.items() if variable in self.environ]
        word = typed or next(iter(named), None) or last_of(self.sections[0], _REQUEUE)
        return word == "no-requeue"

    @property
    def time_limit_s(self) -> int | None:
        """The limit in seconds, as Slurm rounds it up; None for none, and for one not known."""
        with suppress(DataError):
            limit = finite_limit_s(parse_time_limit(self.first_value("time", "SBATCH_TIMELIMIT")))
            return -(-limit // 60) * 60 if limit else None
        return None  # sbatch will say what it thinks of it


def _options(
    own: Sequence[Word],
    directives: Directives,
    name: str,
    now: int,
    settings: Callable[[], Settings],
) -> tuple[SubmitOptions, Settings | None]:
    """What is asked for, and the configuration where it can be read."""
    given = (own, directives.gsched, name, now)
    try:
        known = settings()
    except ConfigError as error:
        asked = read_options(*given)
        if asked.asks_for_something:
            raise
        kept_away = read_options(*given, opts_out=True)
        warning = f"the job is submitted as with --gs-none, for {error.message}"
        warnings = (*kept_away.warnings, warning)
        return replace(kept_away, suggests=False, warnings=warnings), None
    return read_options(*given, opts_out=known.submit.opt_out), known


def _suggestion(options: SubmitOptions, line: _Line) -> tuple[bool, list[str]]:
    """Whether to suggest, and what is void; raises UsageError for a wait that cannot be."""
    if line.is_test:
        return False, []
    if options.wait_s is not None:
        _check_waiting(line.words, line.sections[0], line.environ)
        _check_one_answer(options.wants, line)
    no_use = options.suggests and _why_no_waiting(line.words, line.sections[0], line.environ)
    if no_use:
        return False, [f"--gs-suggest is void: {no_use[0]}"]
    return options.suggests, []


def _comment(wants: Wants, line: _Line) -> str | None:
    """The comment with the token; None where none is to be set, or sbatch will refuse the line."""
    if wants == _NOTHING or is_cut_short(line.words) or line.is_test:
        return None
    return wire.append(first_comment(line.words, line.sections), wants)


def _profiles(options: SubmitOptions, line: _Line, settings: Settings) -> ProfileRuns | None:
    """The profile runs, where they are asked for and the job itself can be submitted.

    Raises UsageError for a job that cannot have any.
    """
    if not options.profiles or line.is_test:
        return None
    from gsched.app.profile_runs import DEFAULT_S, ProfileRuns, overrides

    _check_profiled(line, settings)
    seconds = DEFAULT_S if options.profile_s is None else options.profile_s
    injected = _injected(options, line, settings, seconds)
    if injected is None:
        return None
    more = overrides(line.first_value, seconds, line.time_limit_s)
    return ProfileRuns(
        tuple(
            ("sbatch", *assembled(line.args, line.words, None, from_stdin=True, last=last))
            for last in more
        ),
        injected.data,
    )


def _check_profiled(line: _Line, settings: Settings) -> None:
    """Refuse ``--gs-profile`` for jobs of which no short run tells the speed."""
    if not settings.heartbeat.dir:
        why = "jobs here have no way to tell how fast they are", "ask for heartbeat.dir"
    elif not settings.deadlines.profiles:
        why = "this site does not go by profile runs", "ask for deadlines.profiles"
    elif len(line.sections) > 1 or any(word.kind is Kind.SEPARATOR for word in line.words):
        why = "the job has several components", "leave it out"
    elif line.is_array:
        why = "the tasks of an array are different runs", "leave it out"
    elif no_use := _why_no_waiting(line.words, line.sections[0], line.environ):
        why = no_use
    else:
        return
    raise UsageError(f"--gs-profile cannot be had: {why[0]}", why[1])


def _injected(
    options: SubmitOptions, line: _Line, settings: Settings, profile_s: float | None = None
) -> Injected | None:
    """The user's script with gsched beside it, where that is asked for; or its profile run.

    None also for what sbatch itself will refuse: a script that is not there, one with --wrap, and a
    command line that is cut short.
    """
    if options.template is None or is_cut_short(line.words):
        return None
    from gsched.app.injection import OriginalJob, inject
    from gsched.jobscript.render import UserScript

    script = line.script
    operands = [word for word in line.words if word.kind is Kind.OPERAND]
    command = value(line.words, "wrap")
    if script.is_unseen:
        raise UsageError(
            f"{script.name} is no regular file: gsched cannot wrap it",
            f"gsched submit … < {script.name}",
        )
    if (command is not None and operands) or (command is None and script.text is None):
        return None
    if command is not None:
        user = UserScript.of_wrap(command)
    else:
        name = Path(script.name).name if operands else ""
        user = UserScript(name or "sbatch", script.text or "", script.path)
    job = OriginalJob(
        script=user,
        arguments=tuple(line.args[operands[0].end :]) if operands else (),
        folder=Path(line.first_value("chdir") or "."),
        is_array=line.is_array,
        stays_ended=line.stays_ended,
        time_limit_s=line.time_limit_s,
        signal=line.first_value("signal", "SBATCH_SIGNAL"),
        phases=options.wants.phases,
    )
    return inject(options.template, job, settings, profile_s)


def _check_waiting(
    words: Sequence[Word], script: Sequence[Word], environ: Mapping[str, str]
) -> None:
    """Refuse ``--gs-wait`` where its answer would come too late or for no known job."""
    if no_use := _why_no_waiting(words, script, environ):
        raise UsageError(f"--gs-wait cannot be had: {no_use[0]}", no_use[1])


def _check_one_answer(wants: Wants, line: _Line) -> None:
    """Refuse ``--gs-wait`` where no one answer is that of the whole submission."""
    if line.is_array and (wants.deadline is not None or wants.soft_deadlines):
        raise UsageError(
            "--gs-wait cannot be had: the deadline of an array is answered for each task, "
            "once Slurm has split it off",
            "leave it out: `gsched queue` and `gsched why JOB_TASK` have the answers",
        )


def _why_no_waiting(
    words: Sequence[Word], script: Sequence[Word], environ: Mapping[str, str]
) -> tuple[str, str] | None:
    """Why nothing can be told of the job once sbatch has ended, and what to do; None if it can."""
    given = [*words, *script]
    if has(given, "wait") or _FLAG_IS_SET.fullmatch(environ.get("SBATCH_WAIT", "no")):
        return (
            "sbatch --wait ends with the job, too late for gsched's answer",
            "the job's end is also seen by a job with --dependency=afterany:JOB",
        )
    if has(given, "quiet") and not has(given, "parsable"):
        return "sbatch --quiet hides the job's id", "add --parsable"
    return None


def first_comment(words: Sequence[Word], sections: Sequence[Sequence[Word]]) -> str:
    """The user's own comment on the job (of a heterogeneous one: its leader), '' for none."""
    typed = value(words, "comment")
    return (value(sections[0], "comment") if typed is None else typed) or ""


# -- what the user is told -----------------------------------------------------------------------


def _warnings(script: JobScript, directives: Directives, scrubbed: Sequence[str]) -> list[str]:
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
    others = [value(section, "comment") for section in sections[1:]]
    if any(others) and not any(word.kind is Kind.SEPARATOR for word in words):
        return ["the comment of the first component replaces those of the other components"]
    return []
