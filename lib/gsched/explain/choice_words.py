"""How `unisched` has chosen about a waiting job, and what would have changed it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsched.explain.params import Params, amount, at, text
from gsched.explain.policy_reasons import policy_reason
from gsched.explain.words import count

CHOSEN = "is_chosen"
"""The parameter of a reason with which it tells of a choice."""


def tells_choice(reason: Mapping[str, Any] | None) -> bool:
    """Whether a reason, as documents have it, tells of a choice."""
    return reason is not None and isinstance(reason["params"].get(CHOSEN), bool)


def choice_lines(code: str, params: Params) -> Iterator[tuple[str, str]]:
    """(what, words): the choice, what the job counts, and single changes that would have helped.

    Params come from files that anybody may have written: what is no number is shown as ``?``.
    """
    is_chosen = params.get(CHOSEN) is True
    yield "choice", f"gets GPUs now, on {text(params, 'where')}" if is_chosen else "waits"
    yield "because", policy_reason(code, params)
    yield "points", f"a lease counts {_points(params, 'points')} for it now"
    if is_chosen or "needed_points" not in params:  # held, or not ready: nothing would help
        return
    yield "more points", _needed(params)
    yield "fewer GPUs", _fewer(params)
    yield "earlier lease", _chance(params)


def _needed(params: Params) -> str:
    needed, own = amount(params, "needed_points"), amount(params, "points")
    if not needed:
        return "would not help now: nobody's GPUs can be had before leases end"
    words = f"it would need about {_points(params, 'needed_points')}"
    if own and needed > own:
        words += f", {needed / own:.2g} times as many: so much shorter a run, for one"
    elif own:
        words += ": other jobs that are worth more a GPU, or a target, have them"
    return words


def _fewer(params: Params) -> str:
    fits = amount(params, "fits_gpus")
    if not fits or fits < 1:
        return "would not help now: it could start on no single node with fewer"
    return f"with {count(round(fits), 'GPU')} it would have started, on one node"


def _chance(params: Params) -> str:
    if not amount(params, "chance_time"):
        return "no leases are known to end so that it would fit"
    return f"by {at(params, 'chance_time')} enough leases end for it to fit, if it is chosen then"


def _points(params: Params, name: str) -> str:
    value = amount(params, name)
    if value is None:
        return "? points"
    return f"{value:.3g} points"
