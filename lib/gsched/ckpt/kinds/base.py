"""What every format has to answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gsched.ckpt import layout
from gsched.ckpt.found import Depth, Progress
from gsched.ckpt.look import Look

_STEP_IN_NAME = re.compile(
    r"(?:global[_-]?step|step|steps|iteration|iter|checkpoint|ckpt|epoch)[=_-]?([0-9]{1,12})(?![0-9])",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a format tells of a whole checkpoint; None where it does not tell.

    `checked` is what was compared: CHECKSUMS only where all bytes that matter have one.
    """

    checked: Depth
    step: int | None = None
    created: float | None = None
    kind: str | None = None
    """A closer name of the format than that of the module that has read it."""
    best: tuple[str, ...] = ()
    """Names of the checkpoints that the run counts as its best."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A format. `claims` says whether a place is one of it, whole or not.

    `read` looks closely: it gives facts, or raises RefusedError.
    """

    name: str
    claims: Callable[[Look], bool]
    read: Callable[[Look, Depth, Progress], Facts]


def step_in_name(name: str) -> int | None:
    """The step that a name tells: ``checkpoint-500``, ``epoch=1-step=20.ckpt``, ``iter_07``.

    Of several numbers that of the last word counts; an epoch where there is no better one.
    """
    found = list(_STEP_IN_NAME.finditer(name))
    better = [match for match in found if not match[0].lower().startswith("epoch")]
    return int((better or found)[-1][1]) if found else None


def as_step(value: object) -> int | None:
    """`value` where it is a number of steps."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= layout.MAX_STEP else None
