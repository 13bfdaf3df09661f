"""A user's request as gsched captured it from the job's comment, and its form in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gsched.model.decision import JsonValue
from gsched.model.job import JobKey, Wants


@dataclass(frozen=True, slots=True)
class UserRequest:
    """What `user` asked for `key`: the token as it stood, and since when gsched knows it.

    `unknown` counts items of the token that this gsched does not know.
    """

    key: JobKey
    user: str
    token: str
    wants: Wants
    first_seen: int
    unknown: int = 0


def wants_document(wants: Wants) -> dict[str, JsonValue]:
    """`wants` as JSON: what is not asked for has no key."""
    found: dict[str, JsonValue] = {}
    if wants.opt_out:
        found["none"] = True
    if wants.deadline is not None:
        found["deadline"] = wants.deadline
    if wants.soft_deadlines:
        found["soft_deadlines"] = [[when, reward] for when, reward in wants.soft_deadlines]
    if wants.phases:
        found["phases"] = list(wants.phases)
    if wants.shareable:
        found["shareable"] = True
    if wants.checkpoint:
        found["checkpoint"] = True
    if wants.number:
        found["number"] = wants.number
    if wants.profiles:
        found["profiles"] = list(wants.profiles)
    return found


def wants_of(document: Mapping[str, Any]) -> Wants:
    """The inverse of `wants_document`, for what gsched itself has stored."""
    return Wants(
        opt_out=bool(document.get("none")),
        deadline=document.get("deadline"),
        soft_deadlines=tuple((when, reward) for when, reward in document.get("soft_deadlines", [])),
        phases=tuple(document.get("phases", [])),
        shareable=bool(document.get("shareable")),
        checkpoint=bool(document.get("checkpoint")),
        number=document.get("number", 0),
        profiles=tuple(document.get("profiles", [])),
    )
