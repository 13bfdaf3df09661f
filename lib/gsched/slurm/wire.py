"""The request token: what a user asks of gsched, carried at the end of the job's Comment.

``<the user's own comment> gs1{item,item,…}``: the version before the brace; within, printable
ASCII without blanks and braces; at most 300 bytes. Items::

    none                keep away from the job
    deadline=TIME       to have ended by this epoch time
    soft=TIME:REWARD    the same for a reward; once for each time
    phase=NAME+NAME     what the job does
    share               it may share its GPUs
    ckpt                it saves checkpoints when told to, and goes on after them
    profile=ID+ID       its profile runs, one or two jobs of the same user
    n=NUMBER            tells apart requests that are otherwise equal

Whoever can edit the comment can write a token: it is hostile, and never trusted beyond what its
user may ask for. Items of other names are counted and no error, so that an older daemon reads a
newer submit. A token that is wrong in any other way asks for nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gsched.errors import UsageError
from gsched.model.job import (
    MAX_DEADLINE,
    MAX_JOB_ID,
    MAX_PROFILES,
    MAX_REWARD,
    MAX_SOFT_DEADLINES,
    PHASES,
    Wants,
)

VERSION = 1
MAX_TOKEN_BYTES = 300
MAX_COMMENT_BYTES = 1024
"""Slurm cuts comments here."""

_NOTHING = Wants()
_OPENING = re.compile(r"(?:\A|(?<= ))gs([1-9]\d{0,8})\{", re.ASCII)
_BODY = re.compile(r"([!-z|~]*)\}", re.ASCII)
_TIME = re.compile(r"[1-9]\d{0,9}", re.ASCII)
_REWARD = re.compile(r"\d{1,10}(?:\.\d{1,20})?(?:e-?\d{1,3})?", re.ASCII)
_JOB_ID = re.compile(r"[1-9]\d{0,9}", re.ASCII)
_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a comment asks for.

    `token` is as it stands there, '' for none. With a `problem` (in words, without any text of
    the comment) it asks for nothing. `unknown` counts items of names that are not known here.
    """

    wants: Wants = _NOTHING
    token: str = ""
    problem: str = ""
    unknown: int = 0


def token(wants: Wants) -> str:
    """The one spelling of `wants`, '' when nothing is asked for.

    Raises UsageError when it takes more bytes than a token may have.
    """
    items = ["none"] if wants.opt_out else []
    if wants.deadline is not None:
        items.append(f"deadline={wants.deadline}")
    items += [f"soft={when}:{_number(reward)}" for when, reward in sorted(wants.soft_deadlines)]
    if wants.phases:
        items.append(f"phase={'+'.join(wants.phases)}")
    if wants.shareable:
        items.append("share")
    if wants.checkpoint:
        items.append("ckpt")
    if wants.profiles:
        items.append(f"profile={'+'.join(map(str, wants.profiles))}")
    if wants.number:
        items.append(f"n={wants.number}")
    if not items:
        return ""
    made = f"gs{VERSION}{{{','.join(items)}}}"
    if len(made) > MAX_TOKEN_BYTES:
        raise UsageError(
            f"the request takes {len(made)} bytes of the job's comment, {MAX_TOKEN_BYTES} at most",
            "ask for fewer soft deadlines, or for rewards with fewer digits",
        )
    return made


def append(comment: str, wants: Wants) -> str:
    """`comment` with the token of `wants` in place of an earlier one; without any when empty.

    Raises UsageError when the whole is longer than Slurm keeps, and when the user's own text
    holds what would be taken for a second token.
    """
    text, made = strip(comment), token(wants)
    if not made:
        return text
    if _OPENING.search(text):
        raise UsageError(
            "the comment holds a request of gsched, gs…{…}, that does not stand at its end",
            "leave it out of --comment",
        )
    whole = f"{text} {made}" if text else made
    if len(whole.encode("utf-8", "surrogateescape")) > MAX_COMMENT_BYTES:
        raise UsageError(
            f"the comment and gsched's request together exceed Slurm's {MAX_COMMENT_BYTES} bytes",
            "shorten --comment",
        )
    return whole


def strip(comment: str) -> str:
    """The user's own comment: without the token at its end, if there is one of our form."""
    for opening in _OPENING.finditer(comment):
        begin = opening.start()
        if len(comment) - begin <= MAX_TOKEN_BYTES and _BODY.fullmatch(comment, opening.end()):
            return comment[: max(0, begin - 1)]
    return comment


def read(comment: str) -> Reading:
    """What the token of `comment` asks for. Never fails."""
    openings = list(_OPENING.finditer(comment))
    if not openings:
        return Reading()
    found = openings[-1]
    text = comment[found.start() :]
    body = _BODY.fullmatch(comment, found.end())
    problem = ""
    if len(openings) > 1:
        problem = "more than one token"
    elif len(text) > MAX_TOKEN_BYTES:
        problem = f"longer than {MAX_TOKEN_BYTES} bytes"
    elif body is None:
        problem = "not well-formed, or not at the end of the comment"
    elif int(found[1]) != VERSION:
        problem = f"of version {int(found[1])}, not {VERSION}"
    if problem or body is None:
        return Reading(token=text[:MAX_TOKEN_BYTES], problem=problem)
    try:
        wants, unknown = _read_items(body[1].split(",") if body[1] else [])
    except ValueError as error:
        return Reading(token=text, problem=str(error))
    return Reading(wants, text, "", unknown)


def _number(value: float) -> str:
    """The shortest text that gives `value` again."""
    return repr(float(value)).removesuffix(".0")


# -- items ---------------------------------------------------------------------------------------


def _read_items(items: list[str]) -> tuple[Wants, int]:
    """The wants and how many items are unknown. Raises ValueError that says what is wrong."""
    given: dict[str, Any] = {}
    soft: dict[int, float] = {}
    unknown = 0
    for item in items:
        name, equals, value = item.partition("=")
        if item in _FLAGS:
            _set_once(given, _FLAGS[item], True, item)
        elif name == "soft" and equals:
            when, _, reward = value.partition(":")
            _set_once(soft, _time(when), _reward(reward), "a soft deadline")
        elif name in _VALUES and equals:
            field, parse = _VALUES[name]
            _set_once(given, field, parse(value), name)
        elif name in _FLAGS or name in _VALUES or name == "soft":
            raise ValueError(f"{name} has a value that it must not have, or none")
        else:
            unknown += 1
    if len(soft) > MAX_SOFT_DEADLINES:
        raise ValueError(f"more than {MAX_SOFT_DEADLINES} soft deadlines")
    return replace(Wants(soft_deadlines=tuple(sorted(soft.items()))), **given), unknown


def _set_once(found: dict[Any, Any], key: Any, value: Any, name: str) -> None:
    if key in found:
        raise ValueError(f"{name} twice")
    found[key] = value


def _time(text: str) -> int:
    if not _TIME.fullmatch(text) or int(text) > MAX_DEADLINE:
        raise ValueError("a time that is none")
    return int(text)


def _reward(text: str) -> float:
    value = float(text) if _REWARD.fullmatch(text) else math.nan
    if not 0 < value <= MAX_REWARD:
        raise ValueError("a reward that is none")
    return value


def _phases(text: str) -> tuple[str, ...]:
    phases = tuple(text.split("+"))
    if not set(phases) <= set(PHASES) or len(set(phases)) < len(phases):
        raise ValueError("a phase that is none")
    return phases


def _profiles(text: str) -> tuple[int, ...]:
    ids = text.split("+")
    if not all(map(_JOB_ID.fullmatch, ids)) or len(set(ids)) < len(ids):
        raise ValueError("a profile run that is none")
    found = tuple(map(int, ids))
    if len(found) > MAX_PROFILES or max(found) > MAX_JOB_ID:
        raise ValueError("a profile run that is none")
    return found


def _request_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number that is none")
    return int(text)


_FLAGS = {"none": "opt_out", "share": "shareable", "ckpt": "checkpoint"}
_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "deadline": ("deadline", _time),
    "phase": ("phases", _phases),
    "profile": ("profiles", _profiles),
    "n": ("number", _request_number),
}
