"""Cluster energy saving in words: why nodes sleep, wake, or stay as they are.

Codes and params are those of ``gsched.policy.ces_*``, ``gsched.demand.forecaster`` and whatever
makes the forecasts.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.explain.params import Params, amount, at, number, span, text
from gsched.explain.words import count, percent

_EXCLUSIONS = {
    "reserved": "it is reserved, now or soon",
    "drained": "it is drained",
    "down": "it is down",
    "failed-recently": "it failed, or did not wake, a short while ago",
    "excluded-by-site": "the site has excluded it",
    "power-changed-by-others": "another hand, or Slurm itself, changes its power",
}
_POWERS = {
    "falling": "it is going to sleep",
    "asleep": "it sleeps",
    "waking": "it is waking up",
}


def ces_reason(code: str, params: Params) -> str:
    """A reason in words, without a full stop; a code that is not known is shown as it is."""
    words = _WORDS.get(code)
    return words(params) if words else code


def ces_codes() -> frozenset[str]:
    """Every code that there are words for."""
    return frozenset(_WORDS)


def _nodes(params: Params, name: str) -> str:
    value = amount(params, name)
    return "? nodes" if value is None else f"{number(params, name)} node" + "s" * (value != 1)


def _arrival(params: Params) -> str:
    told = (
        f"jobs wait for {_nodes(params, 'wanted')}; {number(params, 'idle')} are idle and "
        f"{number(params, 'waking')} wake up"
    )
    if amount(params, "woken_by_slurm"):
        told += f"; Slurm woke {number(params, 'woken_by_slurm')} for jobs"
    spare = amount(params, "spare")
    return f"{told}; {number(params, 'spare')} more wake as spare" if spare else told


def _trend(params: Params) -> str:
    return (
        f"{number(params, 'past')} on average before, {number(params, 'now')} now, "
        f"{number(params, 'next')} expected"
    )


def _no_forecast(params: Params) -> str:
    why = params.get("why")
    if not isinstance(why, str) or not why.startswith("demand."):
        return "there is no forecast of demand"
    return f"there is no forecast of demand: {ces_reason(why, params)}"


def _at_its_switch(params: Params) -> str:
    switch = f"switch {text(params, 'switch')}" if params.get("switch") else "its part of the pool"
    return f"{switch} has {_nodes(params, 'running_there')} with jobs"


def _woken_before(params: Params) -> str:
    cycles = amount(params, "power_cycles")
    return (
        "never woken before" if cycles == 0 else f"woken {number(params, 'power_cycles')}× before"
    )


def _woken(params: Params) -> str:
    job = f"completes a block for job {text(params, 'job')}; " if params.get("job") else ""
    return f"{job}{_woken_before(params)}"


def _too_short(params: Params) -> str:
    if amount(params, "needed_s") is None:
        return "the job history is too short to learn from"
    return (
        f"the job history is too short to learn from: {_days(params, 'known_s')} days of demand "
        f"are known, {_days(params, 'needed_s')} are needed"
    )


def _days(params: Params, name: str) -> str:
    seconds = amount(params, name)
    return "?" if seconds is None else f"{seconds / 86400:.1f}"


def _made(params: Params) -> str:
    ratio = amount(params, "error_ratio")
    if ratio is None or not params.get("rival"):
        return "there is a forecast; nothing can be said yet of how good it is"
    return f"its mean error lately is {percent(ratio)} of that of {text(params, 'rival')}"


def _worse(params: Params) -> str:
    ratio = amount(params, "error_ratio")
    lately = "" if ratio is None else f" ({percent(ratio)} of its error)"
    return f"the forecast has lately been worse than {text(params, 'rival')}{lately}"


def _unnamed(params: Params) -> str:
    share = amount(params, "share")
    part = "part" if share is None else percent(share)
    return f"for {part} of the time the history has jobs without the names of their nodes"


_WORDS: dict[str, Callable[[Params], str]] = {
    # what becomes of a pool
    "ces.demand-unknown": lambda _: "nothing is known of the demand for these nodes",
    "ces.arrival": _arrival,
    "ces.staggered": lambda p: f"{_nodes(p, 'owed')} more of a wake-up that goes in parts",
    "ces.demand-expected": lambda p: (
        f"up to {_nodes(p, 'needed')} may be needed within {span(p, 'within_s')}"
    ),
    "ces.not-due": lambda _: "the next check is not due yet",
    "ces.nodes-failed-to-wake": lambda p: (
        f"{_nodes(p, 'failures')} did not wake lately, {number(p, 'limit')} are the limit: none is "
        "put to sleep"
    ),
    "ces.held-after-wake-up": lambda p: (
        f"nodes were woken a short while ago: none sleeps before {at(p, 'until')}"
    ),
    "ces.none-idle-for-long": lambda p: (
        f"none of {_nodes(p, 'idle')} has been idle for {span(p, 'min_idle_s')}"
        if amount(p, "idle")
        else "no node is idle"
    ),
    "ces.no-forecast": _no_forecast,
    "ces.forecast-too-old": lambda p: (
        f"the newest forecast of demand is that of {at(p, 'made_at')}"
    ),
    "ces.forecast-too-short": lambda p: (
        f"the forecast looks {span(p, 'length_s')} ahead, {span(p, 'window_s')} are needed"
    ),
    "ces.demand-has-not-fallen": lambda p: f"demand has not fallen ({_trend(p)})",
    "ces.demand-comes": lambda p: f"demand will not fall ({_trend(p)})",
    "ces.demand-rises-later": lambda p: (
        f"demand will rise again ({_trend(p)}, {number(p, 'later')} later)"
    ),
    "ces.needed-as-spare": lambda p: (
        f"{_nodes(p, 'awake')} awake, {number(p, 'keep')} have to be, {number(p, 'spare')} of them "
        "as spare"
    ),
    "ces.too-few-to-change": lambda p: (
        f"{number(p, 'awake')} are awake and {number(p, 'keep')} have to be: fewer than "
        f"{number(p, 'min_change')} are not worth a change"
    ),
    "ces.surplus": lambda p: (
        f"{_nodes(p, 'awake')} awake, {number(p, 'keep')} have to be: "
        f"{number(p, 'surplus')} too many"
    ),
    "ces.suspending-stopped": lambda p: (
        f"nothing is put to sleep (`gsched power status` tells of it): {text(p, 'why')}"
    ),
    # what becomes of a node
    "ces.put-to-sleep": lambda p: f"{_at_its_switch(p)}; {_woken_before(p)}",
    "ces.woken": _woken,
    "ces.runs-jobs": lambda _: "it runs jobs",
    "ces.excluded": lambda p: _EXCLUSIONS.get(text(p, "exclusion"), text(p, "exclusion")),
    "ces.power-changes": lambda p: _POWERS.get(text(p, "power"), text(p, "power")),
    "ces.idle-too-short": lambda p: (
        f"idle since {at(p, 'idle_since')}, not yet for {span(p, 'min_s')}"
        if p.get("idle_since") is not None
        else f"not known to have been idle for {span(p, 'min_s')}"
    ),
    "ces.block-of-a-pending-job": lambda p: f"job {text(p, 'job')} waits for it and its neighbours",
    "ces.partition-keeps-idle-nodes": lambda p: (
        f"partition {text(p, 'partition')} keeps {_nodes(p, 'least')} idle"
    ),
    "ces.kept-as-spare": lambda _: "no more nodes of its pool are to sleep now",
    "ces.planned-for-a-job": lambda _: "Slurm means it for a job that waits",
    "ces.order-failed-lately": lambda p: (
        f"the order to {text(p, 'verb')} came to nothing {number(p, 'tries')}×: not again before "
        f"{at(p, 'until')}"
    ),
    "ces.reserved-soon": lambda p: (
        f"reservation {text(p, 'reservation')} begins {at(p, 'start')} and needs it awake"
    ),
    # the forecast of a pool
    "demand.forecast": _made,
    "demand.history-too-short": _too_short,
    "demand.unknown-now": lambda _: "the demand of the last ten minutes is not known",
    "demand.too-few-errors": lambda p: (
        f"fewer than {count(int(amount(p, 'needed') or 0), 'forecast')} have met their truth"
    ),
    "demand.not-judged": lambda _: (
        "of the last two weeks nothing is known by which forecasts could be judged"
    ),
    "demand.worse-than-naive": _worse,
    "demand.not-forecast": lambda _: "demand is not forecast, only watched",
    "demand.not-made-yet": lambda _: "the first forecast is still being made",
    "demand.process-fails": lambda _: (
        "the process that makes forecasts fails, the daemon's log says why"
    ),
    "demand.history-unreadable": lambda _: "the job history cannot be read, the log says why",
    "demand.nodes-not-named": _unnamed,
}
