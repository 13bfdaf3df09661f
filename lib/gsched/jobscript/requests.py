"""What the ``--gs-…`` words of a command line and of ``#GSCHED`` lines ask for."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gsched.errors import DataError, UsageError
from gsched.jobscript.command_line import Word
from gsched.jobscript.directives import Directive
from gsched.jobscript.own_options import OPTIONAL, OPTIONS, VALUED
from gsched.jobscript.template_choice import TemplateChoice, parse_runtime
from gsched.model.job import MAX_DEADLINE, MAX_REWARD, MAX_SOFT_DEADLINES, PHASES, Wants
from gsched.model.times import Looking, parse_moment

MAX_WAIT_S = 86400.0
MAX_EVERY_S = 7 * 86400.0
MAX_PROFILE_S = 3600.0

Otherwise = Literal["best-effort", "cancel"]
"""What becomes of a job that gsched refused or did not answer."""

_REPEATABLE = "--gs-soft-deadline"
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_REWARD = re.compile(r"\d{1,10}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What a submission asks of gsched.

    `wants` goes into the token. `suggests`: what gsched expects of the job is to be told. `wait_s`
    None: do not wait for an answer. `template` wraps the script, None: nothing does. `profiles`: it
    is to be run for a short while before, for `profile_s` seconds (None: as is usual). `warnings`
    are for the user.
    """

    wants: Wants
    is_dry_run: bool = False
    suggests: bool = False
    wait_s: float | None = None
    otherwise: Otherwise = "best-effort"
    template: TemplateChoice | None = None
    profiles: bool = False
    profile_s: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def asks_for_something(self) -> bool:
        """Whether more is asked for than that gsched keeps away."""
        is_quiet = self.wants in (Wants(), Wants(opt_out=True))
        return self.wait_s is not None or self.template is not None or not is_quiet


def check_names(words: Sequence[Word]) -> None:
    """Raise UsageError for a word of the command line that is no option of gsched."""
    _in_force([_Given(word.name, word.value, "") for word in words])


def read_options(
    words: Sequence[Word],
    directives: Sequence[Directive],
    name: str,
    now: int,
    *,
    opts_out: bool = False,
) -> SubmitOptions:
    """The options on the command line and in the ``#GSCHED`` lines of script `name`.

    `words` are the command line's own ones (``Kind.OWN``: name and value). The command line wins
    over the script. `now` is the time that relative times count from. `opts_out`: the user keeps
    gsched away from all jobs (``submit.opt_out``); a request for something then becomes a
    warning. Raises UsageError naming the place of what is wrong.
    """
    typed = [_Given(word.name, word.value, "") for word in words]
    written = _of_directives(directives, name)
    given = _in_force(written) | _in_force(typed)
    single = {option: found[-1] for option, found in given.items()}
    wants = Wants(
        opt_out="--gs-none" in given,
        deadline=_deadline(single.get("--gs-deadline"), now),
        soft_deadlines=_soft_deadlines(given.get(_REPEATABLE, []), now),
        phases=_phases(single.get("--gs-phase")),
        shareable="--gs-shareable" in given,
    )
    if wants.opt_out and wants != Wants(opt_out=True):
        raise UsageError(
            "--gs-none keeps gsched away from the job, and other options ask it for something",
            "leave out --gs-none or the others",
        )
    wait_s = _wait(single.get("--gs-wait"))
    _check_profile(single, wants)
    warnings: list[str] = []
    if opts_out:
        if wants not in (Wants(), Wants(opt_out=True)):
            warnings.append(
                "submit.opt_out keeps gsched away from your jobs: what this one asks for is void "
                "(GSCHED_SUBMIT_OPT_OUT=false lets gsched have it)"
            )
        wants = Wants(opt_out=True)
    return SubmitOptions(
        wants=wants,
        is_dry_run="--gs-dry-run" in given,
        suggests="--gs-suggest" in given,
        wait_s=wait_s,
        otherwise=_otherwise(single.get("--gs-else"), wait_s),
        template=_template(single.get("--gs-runtime"), single.get("--gs-checkpoint")),
        profiles="--gs-profile" in single and not opts_out,
        profile_s=_profile_s(single.get("--gs-profile")),
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """One option as written; `place` names where when it is not the command line."""

    option: str
    value: str | None
    place: str

    def error(self, text: str, hint: str = "") -> UsageError:
        return UsageError(f"{self.place}{self.option}: {text}", hint)


def _of_directives(directives: Sequence[Directive], name: str) -> list[_Given]:
    """The words of ``#GSCHED`` lines as options; a value may be the next word of its line."""
    given: list[_Given] = []
    words = list(directives)
    while words:
        first = words.pop(0)
        option, equals, value = first.word.partition("=")
        follows = bool(words) and words[0].line == first.line
        if option in VALUED and not equals and follows:
            value, equals = words.pop(0).word, "="
        place = f"{name} line {first.line}: "
        given.append(_Given(option, value if equals else None, place))
    return given


def _in_force(given: Sequence[_Given]) -> dict[str, list[_Given]]:
    """By option: the last one written, or all of a repeatable one. Raises UsageError."""
    found: dict[str, list[_Given]] = {}
    for index, one in enumerate(given):
        if one.option not in OPTIONS:
            hint = _what_is_meant(one, given[:index])
            raise UsageError(f"{one.place}no such option {one.option!r}", hint)
        if one.option in VALUED and not one.value:
            raise one.error(f"a value is missing, {VALUED[one.option]}")
        if one.option in OPTIONAL and one.value == "":
            raise one.error(f"a value is missing, {OPTIONAL[one.option]}")
        if one.option not in {**VALUED, **OPTIONAL} and one.value is not None:
            raise UsageError(f"{one.place}option {one.option} takes no value")
        before = found.get(one.option, []) if one.option == _REPEATABLE else []
        found[one.option] = [*before, one]
    return found


def _what_is_meant(one: _Given, before: Sequence[_Given]) -> str:
    near = difflib.get_close_matches(one.option, OPTIONS, 1)
    if before and before[-1].option in OPTIONAL and before[-1].value is None:
        near = [f"{before[-1].option}={one.option}"]  # a value that stands apart
    return f"did you mean {near[0]}?" if near else "see `gsched submit --help`"


# -- values --------------------------------------------------------------------------------------


def _deadline(given: _Given | None, now: int) -> int | None:
    return None if given is None else _future(given, given.value or "", now)


def _future(given: _Given, text: str, now: int) -> int:
    try:
        moment = parse_moment(text, now, Looking.AHEAD)
    except DataError as error:
        raise given.error(error.message, error.hint) from None
    if moment <= now:
        raise given.error(f"{text!r} has passed already")
    if moment > MAX_DEADLINE:
        raise given.error(f"{text!r} is too far away")
    return moment


def _soft_deadlines(given: Sequence[_Given], now: int) -> tuple[tuple[int, float], ...]:
    rewards: dict[int, float] = {}
    for one in given:
        when, equals, reward = (one.value or "").rpartition("=")
        if not equals:
            raise one.error(f"{one.value!r} names no reward", "write TIME=REWARD")
        moment = _future(one, when, now)
        if moment in rewards:
            raise one.error(f"a second reward for the same time, {when}")
        rewards[moment] = _reward(one, reward)
    if len(rewards) > MAX_SOFT_DEADLINES:
        raise given[-1].error(f"at most {MAX_SOFT_DEADLINES} soft deadlines a job")
    return tuple(sorted(rewards.items()))


def _reward(given: _Given, text: str) -> float:
    value = float(text) if _REWARD.fullmatch(text) else math.nan
    if not 0 < value <= MAX_REWARD:
        raise given.error(
            f"the reward {text!r} is no number above 0 and at most {MAX_REWARD:g}",
        )
    return value


def _phases(given: _Given | None) -> tuple[str, ...]:
    if given is None:
        return ()
    phases = tuple((given.value or "").split(","))
    for phase in phases:
        if phase not in PHASES:
            raise given.error(f"no such phase {phase!r}", f"one or more of {','.join(PHASES)}")
    if len(set(phases)) < len(phases):
        raise given.error(f"a phase is named twice in {given.value!r}")
    return phases


def _template(runtime: _Given | None, checkpoint: _Given | None) -> TemplateChoice | None:
    """What ``--gs-runtime`` and ``--gs-checkpoint`` ask for; None for neither."""
    if runtime is None and checkpoint is None:
        return None
    every_s = None
    if checkpoint is not None and checkpoint.value is not None:
        every_s = _seconds(checkpoint, MAX_EVERY_S)
    has_checkpoints = checkpoint is not None
    if runtime is None:
        return TemplateChoice(asks_checkpoints=has_checkpoints, every_s=every_s)
    try:
        name, values = parse_runtime(runtime.value or "")
    except UsageError as error:
        raise runtime.error(error.message, error.hint) from None
    place = f"{runtime.place}--gs-runtime: "
    return TemplateChoice(name, values, has_checkpoints, every_s, place)


def _check_profile(single: Mapping[str, _Given], wants: Wants) -> None:
    """Raise UsageError for a profile run that would help nothing, or tell nothing."""
    given = single.get("--gs-profile")
    if given is None:
        return
    if wants.deadline is None and not wants.soft_deadlines:
        raise given.error(
            "is for a job with a deadline, and none is named", "add --gs-deadline or leave it out"
        )
    if not {"--gs-runtime", "--gs-checkpoint"} & single.keys():
        raise given.error("needs a script that gsched has wrapped", "add --gs-checkpoint")


def _profile_s(given: _Given | None) -> float | None:
    return None if given is None or given.value is None else _seconds(given, MAX_PROFILE_S)


def _wait(given: _Given | None) -> float | None:
    if given is None:
        return None
    return _seconds(given, MAX_WAIT_S)


def _seconds(given: _Given, most: float) -> float:
    text = given.value or ""
    seconds = float(text) if _SECONDS.fullmatch(text) else 0.0
    if not 0 < seconds <= most:
        raise given.error(f"{text!r} is no number of seconds above 0, at most {most:g}")
    return seconds


def _otherwise(given: _Given | None, wait_s: float | None) -> Otherwise:
    if given is None:
        return "best-effort"
    for known in get_args(Otherwise):
        if given.value == known:
            if wait_s is None:
                raise given.error(
                    "says what to do without an answer, but nothing waits for one",
                    "add --gs-wait SECONDS",
                )
            return known  # type: ignore[no-any-return]
    raise given.error(f"{given.value!r} is neither cancel nor best-effort")
