"""A user's script with gsched beside it: ``gsched submit --gs-checkpoint`` and ``--gs-runtime``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.app.node_python import node_python, own_disk
from gsched.app.runtime_mention import unmentioned_in
from gsched.app.sbatch_words import scan_sbatch, value
from gsched.config.settings import Settings
from gsched.errors import GschedError, UsageError
from gsched.jobscript.directives import read_directives
from gsched.jobscript.notice import notice_s, told_s
from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.template_choice import TemplateChoice
from gsched.jobscript.templates import Library, Template, Value, whole
from gsched.slurm.client import CommandClient

FOR_JOBS, FOR_ARRAYS = "requeue", "array"
"""The templates of ``--gs-checkpoint`` alone."""


@dataclass(frozen=True, slots=True)
class Injected:
    """The script for sbatch. `has_checkpoints`: the job gets a folder for them."""

    data: bytes
    has_checkpoints: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OriginalJob:
    """What the user submits: the script, its arguments, the folder that the job runs in; whether it
    is an array, and whether the user's own options forbid a requeue; its time limit where that is
    known, the user's own ``--signal`` ('' for none), and the phases that the job is said to have.
    """

    script: UserScript
    arguments: tuple[str, ...] = ()
    folder: Path = Path()
    is_array: bool = False
    stays_ended: bool = False
    time_limit_s: int | None = None
    signal: str = ""
    phases: tuple[str, ...] = ()


def inject(
    choice: TemplateChoice,
    job: OriginalJob,
    settings: Settings,
    profile_s: float | None = None,
) -> Injected:
    """The script that a template makes of the user's; with `profile_s` that of its profile run.

    Raises UsageError for what is wrong with the choice or the script, ConfigError for a faulty
    template and for a Python that cannot run gsched.
    """
    library = Library(settings.jobscript.dir)
    try:
        template = library.get(choice.name or (FOR_ARRAYS if job.is_array else FOR_JOBS))
        values = template.values(choice.values)
        if choice.asks_checkpoints and template.checkpoints == "never":
            raise UsageError(
                f"template {template.name} writes no checkpoints", "leave out --gs-checkpoint"
            )
    except UsageError as error:
        raise UsageError(f"{choice.place}{error.message}", error.hint) from None
    has_checkpoints = choice.asks_checkpoints or template.checkpoints == "always"
    if not has_checkpoints:
        _refuse_void(choice, template)
    around = Surroundings(
        python=node_python(settings.jobscript),
        checkpoints=has_checkpoints,
        checkpoint_root=settings.jobscript.checkpoints,
        every_s=choice.every_s,
        grace_s=_kill_wait(settings),
        notice_s=settings.jobscript.grace_s,
        time_limit_s=job.time_limit_s,
        own_signal=job.signal,
        heartbeat_dir=settings.heartbeat.dir,
        phases=job.phases,
        profile_s=profile_s,
    )
    data = render(library, template, values, job.script, around)
    warnings = [*_of_python(around.python, settings), *_of_template(template, job)]
    warnings += _of_notice(values, job)
    if has_checkpoints:
        warnings += _of_runtime(job, _signal_of(data))
    return Injected(data, has_checkpoints, tuple(warnings))


def _refuse_void(choice: TemplateChoice, template: Template) -> None:
    """Raise UsageError for a value that has no effect on a job without checkpoints."""
    void = [
        key.name for key in template.keys if key.needs_checkpoints and key.name in choice.values
    ]
    if void:
        raise UsageError(
            f"{choice.place}{', '.join(void)}: without effect on a job without checkpoints",
            "add --gs-checkpoint",
        )


def _signal_of(script: bytes) -> str:
    """The ``--signal`` of a rendered script, '' for none."""
    text = script.decode("utf-8", "surrogateescape")
    words = scan_sbatch(read_directives(text, "").sbatch[0], stops=False)
    return value(words, "signal") or ""


def _kill_wait(settings: Settings) -> int | None:
    """Seconds from SIGTERM to SIGKILL on this cluster; None where Slurm does not say."""
    with suppress(GschedError, ValueError):
        client = CommandClient(settings.slurm.command_timeout_s, asks_again=False)
        return int(client.config().get("KillWait").removesuffix(" sec"))
    return None


# -- what the user is told -----------------------------------------------------------------------


def _of_python(python: str, settings: Settings) -> list[str]:
    kind = own_disk(python, settings.jobscript)
    if not kind:
        return []
    return [
        f"{python} lies on a disk of this host ({kind}): on a node without it the script runs "
        "without gsched; jobscript.python names one that all nodes have"
    ]


def _of_template(template: Template, job: OriginalJob) -> list[str]:
    warnings = []
    if template.name == FOR_ARRAYS and not job.is_array:
        warnings.append("template array is for job arrays, and there is no --array")
    if job.stays_ended and template.checkpoints == "always":
        warnings.append("with --no-requeue the job does not come back after a preemption")
    if "scontrol" in job.script.text and "Command=" in job.script.text:
        warnings.append(
            f"{job.script.name} asks Slurm for the script's path (Command=), which is /dev/stdin "
            "for this job; GSCHED_SCRIPT has it"
        )
    return warnings


def _of_notice(values: Mapping[str, Value], job: OriginalJob) -> list[str]:
    warnings = []
    if job.signal and whole(values, "at_timeout") and told_s(job.signal) is None:
        warnings.append(
            f"at_timeout is void: --signal={job.signal} does not bring USR1 to the batch process, "
            "as --signal=B:USR1@SECONDS does"
        )
    asked_s = whole(values, "grace")
    if not job.signal and notice_s(asked_s, job.time_limit_s) < asked_s:
        warnings.append(
            f"grace={asked_s} is more than half of the time limit: the job is told "
            f"{notice_s(asked_s, job.time_limit_s)} s before it"
        )
    return warnings


def _of_runtime(job: OriginalJob, signal: str) -> list[str]:
    looked = unmentioned_in(job.script.text, job.arguments, job.folder)
    if looked is None:
        return []
    where = _listed([job.script.name, *looked])
    if job.signal:
        means = f"by --signal={job.signal} and by SIGTERM"
    elif (seconds := told_s(signal)) is not None:
        means = f"by USR1 {seconds} s before its time limit and by SIGTERM"
    else:
        means = f"by --signal={signal} and by SIGTERM" if signal else "by SIGTERM alone"
    return [
        f"nothing in {where} mentions gsched.runtime: the job is told to save, {means}, and has to "
        "do it by itself; at USR1, which comes at the end of a lease of GPUs as well, it must not "
        "end; gsched-checkpointing(7) has the five lines that do"
    ]


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
