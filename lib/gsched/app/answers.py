"""What gsched answers to a submission, and what it expects of the job, in words for its user."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gsched.app.answer_places import Look, Watch
from gsched.app.aside import begin
from gsched.app.submitted import Submitted
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.daemon.request_answers import ACCEPTED, OPEN, REFUSED
from gsched.errors import TryAgainError
from gsched.explain.helpful import limit_change
from gsched.explain.policy_reasons import prediction_words
from gsched.explain.start_words import limit_words, no_start_words, start_words
from gsched.explain.target_words import (
    DEADLINES,
    alternatives_words,
    minute_after,
    plan_words,
    refusal_words,
    target_words,
)
from gsched.explain.words import moment
from gsched.model.job import JobState, Wants

GRACE_S = 3.0
"""For so long a place to look at may yet come to be, where there is none."""

_STAT_S = 0.25
_PENDING = "pending"
"""Says that there is no forecast yet (``no_start``)."""
_UNSAID = (_PENDING, "off")
_NOTHING = Wants()
_WANTS = {
    "none": "--gs-none",
    "deadline": "--gs-deadline",
    "soft_deadlines": "--gs-soft-deadline",
    "phases": "--gs-phase",
    "shareable": "--gs-shareable",
    "checkpoint": "--gs-checkpoint",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """gsched's answer about one job.

    `accepted` False: something that was asked for is refused (exit code 3). `lines` say it to
    people, without a prefix; `document` is the job's entry in the status file.
    """

    accepted: bool
    lines: tuple[str, ...]
    document: dict[str, Any]


def await_answer(
    settings: Settings,
    job: Submitted,
    wait_s: float,
    asked: Wants = _NOTHING,
    *,
    suggests: bool = False,
) -> Answer:
    """gsched's answer about the job that has just been submitted.

    `asked` is what the submission asked for; an answer to a job whose request did not arrive is a
    refusal. Whatever may pass (a daemon that restarts or is busy, a file that is old) is asked
    again until `wait_s` seconds are over; the looks end after GRACE_S already where there is no
    place to look at. With `suggests`, the forecast of an accepted job is waited for as well, within
    that time and for ``submit.suggest_wait_s`` at most, and told. Raises TryAgainError (exit code
    75) that says why there is no answer.
    """
    until = time.monotonic() + wait_s
    watch = Watch(settings, job, until)
    grace_until = min(until, time.monotonic() + GRACE_S)
    while True:
        looks = watch.looks()
        found = _newest(looks)
        is_open = found is not None and _open_reason(found)
        if found is not None and not is_open:
            break
        if not watch.pause(grace_until if _is_nowhere(looks) else until):
            raise _not_yet(is_open, job, wait_s) if is_open else _no_answer(looks, job, wait_s)
    answer = _answer(found, asked)
    if not suggests or not answer.accepted:
        return answer
    wait_s = min(settings.submit.suggest_wait_s, max(0.0, until - time.monotonic()))
    found = _with_forecast(watch, found, time.monotonic() + wait_s)
    answer = _answer(found, asked)
    return replace(answer, lines=(*answer.lines, *_hints(found, job, wait_s)))


def suggestions(settings: Settings, job: Submitted) -> tuple[str, ...]:
    """What gsched expects of the job that has just been submitted, and a limit that would help.

    Waits for it for ``submit.suggest_wait_s`` at most. Nothing where no daemon answers; where one
    works that has not got so far, who has it later.
    """
    wait_s = settings.submit.suggest_wait_s
    until = time.monotonic() + wait_s
    if not _has_place(settings):
        return ()
    try:
        watch = Watch(settings, job, until)
    except TryAgainError:
        return ()
    while True:
        looks = watch.looks()
        found = _newest(looks)
        if found is not None:
            break
        if _is_nowhere(looks) or any(look.is_deserted for look in looks):
            return ()
        if not watch.pause(until):
            late = [look.why for look in looks if look.comes_later]
            return (f"no forecast within {wait_s:g} s: {late[0]}; {_later(job)}",) if late else ()
    found = _with_forecast(watch, found, until)
    return (_expectation(found), *_hints(found, job, wait_s))


def _has_place(settings: Settings) -> bool:
    """Whether anything here can tell of jobs; a file system that hangs may."""
    if settings.daemon.query_address:
        return True
    with suppress(TimeoutError):
        return begin(lambda: _is_there(settings.status_file)).result(timeout=_STAT_S)
    return True


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _newest(looks: list[Look]) -> dict[str, Any] | None:
    return next((look.job for look in looks if look.job is not None), None)


def _is_nowhere(looks: list[Look]) -> bool:
    return all(look.is_nowhere for look in looks)


def _with_forecast(watch: Watch, job: dict[str, Any], until: float) -> dict[str, Any]:
    """The job's entry once it has all of its forecast, or the newest one when the time is over.

    Every place is asked: the daemon hurries with the forecast of a job that it is asked about.
    """
    while not _is_forecast(job) and watch.pause(until):
        found = [look.job for look in watch.looks(everywhere=True) if look.job is not None]
        job = next(filter(_is_forecast, found), found[-1] if found else job)
    return job


def _is_forecast(job: dict[str, Any]) -> bool:
    """Whether nothing is to be waited for: all is told, or that there will be no forecast."""
    if not _waits(job) or {"start", "changes"} <= job.keys():
        return True
    return bool(job.get("no_start", _PENDING) != _PENDING)


def _waits(job: dict[str, Any]) -> bool:
    return bool(job.get("state", JobState.PENDING.value) == JobState.PENDING.value)


def _open_reason(job: dict[str, Any]) -> str:
    """Why the daemon has not answered yet what the job asks for; "" where it has."""
    outcomes = job.get("outcomes", [])
    return next((str(found["reason"]) for found in outcomes if found["outcome"] == OPEN), "")


def _not_yet(why: str, job: Submitted, wait_s: float) -> TryAgainError:
    return TryAgainError(f"no answer within {wait_s:g} s: {why}", _later(job))


def _no_answer(looks: list[Look], job: Submitted, wait_s: float) -> TryAgainError:
    why = "; ".join(dict.fromkeys(look.why for look in looks if look.why))
    if _is_nowhere(looks):
        return TryAgainError(f"no answer: {why}", "the job is submitted; ask an administrator")
    comes_later = any(look.comes_later for look in looks)
    hint = f"`gsched show {job.job_id}` has it later, while the job waits" if comes_later else ""
    return TryAgainError(f"no answer within {wait_s:g} s: {why}", hint)


# -- in words ------------------------------------------------------------------------------------


def _answer(job: dict[str, Any], asked: Wants) -> Answer:
    accepted = bool(job.get("accepted", True))
    lines = outcome_words(job)
    if target := job.get("target"):
        lines.append(f"plan: {plan_words(target, now())}")
    if problem := job.get("request_problem"):
        lines.append(f"the request in the job's comment is ignored: {problem}")
    elif asked != _NOTHING and "request" not in job:
        accepted = False
        lines.append(
            "refused: the request did not arrive, something here has changed the job's comment"
        )
    if job.get("excluded") and not any(
        found["want"] == "none" for found in job.get("outcomes", [])
    ):
        lines.append(f"not moved: {job['excluded']['detail']}")
    return Answer(accepted, (*lines, _expectation(job)), job)


def _expectation(job: dict[str, Any]) -> str:
    """The predicted run, and the expected start of a job that waits."""
    if duration := job.get("duration_s"):
        text = f"predicted run {prediction_words(duration)}"
    elif _waits(job):
        text = "no prediction: nothing is known of jobs like this one"
    else:
        return "the job runs already"
    if start := job.get("start"):
        return f"{text}; expected start {start_words(start, now())}"
    if (code := job.get("no_start")) and code not in _UNSAID:
        return f"{text}; expected start not known: {no_start_words(code)}"
    return text


def _hints(job: dict[str, Any], submitted: Submitted, waited_s: float) -> list[str]:
    """A limit that would help; or that the forecast comes later."""
    change = limit_change(job, now())
    if change is not None:
        return [limit_words(change, job["limit_advice"], now())]
    if _waits(job) and "start" not in job and job.get("no_start", _PENDING) == _PENDING:
        return [f"no expected start within {waited_s:g} s; {_later(submitted)}"]
    return []


def _later(job: Submitted) -> str:
    return f"`gsched why {job.job_id}` has it later"


def outcome_words(job: dict[str, Any]) -> list[str]:
    """What became of each thing that was asked for, by a job's entry in the status file."""
    lines = [line for found in job.get("outcomes", []) for line in _outcome_lines(found, job)]
    return list(dict.fromkeys(lines))


def _outcome_lines(found: dict[str, Any], job: dict[str, Any]) -> list[str]:
    line = f"{_WANTS.get(found['want'], found['want'])}{_asked_time(found['want'], job)}"
    if found["outcome"] == REFUSED:
        return _refused_lines(line, found)
    if found["outcome"] == ACCEPTED:
        return _accepted_lines(line, found, job)
    is_open = found["outcome"] == OPEN
    return [f"{line} {'not answered yet' if is_open else 'not used'}: {found['reason']}"]


def _refused_lines(line: str, found: dict[str, Any]) -> list[str]:
    """Why, the earliest end that can be promised, and what would be taken instead."""
    line += f" refused: {refusal_words(found)}"
    if "earliest" in found:
        line += f"; earliest {minute_after(found['earliest'])}"
    return [line, *(f"would be taken: {words}" for words in alternatives_words(found))]


def _accepted_lines(line: str, found: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """How it stands; of what is no target, that it is accepted."""
    target = job.get("target")
    if target is not None and found["want"] in DEADLINES:
        return [f"{line}: {target_words(target, now())}"]
    line += f" accepted: {found['reason']}"
    if "finish_time" in found:
        line += f", should end {_minute(found['finish_time'])}"
    if "probability" in found:
        line += f" (probability {found['probability']:.2f})"
    return [line]


def _asked_time(want: str, job: dict[str, Any]) -> str:
    deadline = job.get("request", {}).get("wants", {}).get("deadline")
    return f" {_minute(deadline)}" if want == "deadline" and isinstance(deadline, int) else ""


def _minute(epoch: float) -> str:
    """Local time with its offset, to the minute."""
    return moment(epoch, "minutes")
