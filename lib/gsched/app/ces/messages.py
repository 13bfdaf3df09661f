"""What the daemon asks the process that forecasts demand, and what that answers.

Times are epoch seconds. A *step* is STEP_S long and begins at a multiple of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gsched.errors import DataError
from gsched.forecast.codec import from_json, to_json
from gsched.model.decision import JsonValue, Reason
from gsched.model.demand_forecast import DemandForecast

UNREADABLE = "demand.history-unreadable"
STEP_S = 600
"""The paper's step; the forecasts were judged on it."""


@dataclass(frozen=True, slots=True)
class SeriesOptions:
    """How a pool's series is made and looked ahead of.

    It begins `history_days` ago; the newest `past_steps` are told. The calendar is that of `zone`
    ("" = this host's own), with the holidays of `country` and `subdivision`.
    """

    history_days: int
    steps_ahead: int
    past_steps: int
    zone: str = ""
    country: str = ""
    subdivision: str = ""


@dataclass(frozen=True, slots=True)
class AskedPool:
    """A pool, its nodes, and the peaks of the newest steps as the daemon saw them (start, nodes).

    Steps that it has not watched from end to end are not among them.
    """

    name: str
    nodes: tuple[str, ...]
    seen: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is foreseen of these pools at `now`; for `cpu_s` of processor time at most, or little
    more.
    """

    cluster: str
    now: int
    cpu_s: float
    options: SeriesOptions
    pools: tuple[AskedPool, ...]


@dataclass(frozen=True, slots=True)
class ToldPool:
    """What is known of a pool's demand up to `until`, the end of the last step of `past`.

    `code` and `params` (a JSON object) say where the forecast is from, or why there is none.
    """

    name: str
    until: int
    past: tuple[float, ...]
    forecast: DemandForecast | None
    code: str
    params: str = "{}"

    @property
    def why(self) -> Reason:
        """The code and its params."""
        return Reason(self.code, json.loads(self.params))


@dataclass(frozen=True, slots=True)
class Answer:
    """`left` pools are not told yet, for want of time: whoever asks again learns more.

    `problem` is why the history could not be read, '' where it could, or need not be.
    """

    told: tuple[ToldPool, ...]
    left: int
    problem: str
    cpu_s: float


def told_pool(
    name: str, until: int, past: tuple[float, ...], forecast: DemandForecast | None, why: Reason
) -> ToldPool:
    """A pool's answer with its reason as text."""
    return ToldPool(name, until, past, forecast, why.code, _text(why.params))


def _text(params: object) -> str:
    return json.dumps(dict(params), allow_nan=False)  # type: ignore[call-overload]


def read_answer(text: str, asked: Question) -> Answer:
    """The child's line. Raises DataError for what is no answer to this question."""
    try:
        found = from_json(Answer, text.encode())
        for one in found.told:
            _check_params(one.params)
    except (ValueError, RecursionError) as error:  # numbers that no forecast can have
        raise DataError(f"no forecast of demand: {error}") from None
    known = {pool.name for pool in asked.pools}
    if strange := [one.name for one in found.told if one.name not in known]:
        raise DataError(f"a forecast of a pool that nobody asked about: {strange[0]!r}")
    return found


def _check_params(text: str) -> None:
    params: dict[str, JsonValue] = json.loads(text)
    plain = (str, int, float, bool, type(None))
    if type(params) is not dict or not all(isinstance(each, plain) for each in params.values()):
        raise ValueError("params of a reason that are none")


def read_question(text: str) -> Question:
    """The daemon's line. Raises DataError for anything else."""
    return from_json(Question, text.encode())


def line(message: Question | Answer) -> str:
    """A message as a line of ASCII."""
    return to_json(message).decode()
