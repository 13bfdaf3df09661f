"""Demand kept up in the child: from a history once, then by the daemon's steps, within bounds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.daily_demand import DAY, NODES
from support.daily_demand import daily as daily_uses

from gsched.app.ces.keeper import DemandKeeper
from gsched.app.ces.kept_pool import REBUILT_S, UNNAMED
from gsched.app.ces.messages import (
    STEP_S,
    UNREADABLE,
    Answer,
    AskedPool,
    Question,
    SeriesOptions,
    ToldPool,
    line,
    read_answer,
    read_question,
)
from gsched.demand.forecaster import NO_ERRORS, NO_METHOD, NO_VALUE
from gsched.errors import ConfigError, DataError, UnavailableError
from gsched.model.node_use import NodeUse

T0 = 1_700_000_400 // STEP_S * STEP_S
OPTIONS = SeriesOptions(history_days=10, steps_ahead=12, past_steps=6)
Uses = Sequence[NodeUse]


def daily(days: float) -> list[NodeUse]:
    return daily_uses(days, T0)


class Reader:
    """A history, and what was asked of it."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self.asked: list[tuple[str, int, int]] = []
        self.is_broken = False

    def __call__(self, cluster: str, since: int, until: int) -> Uses:
        self.asked.append((cluster, since, until))
        if self.is_broken:
            raise UnavailableError("the database is away")
        return [u for u in self.uses if u.start < until and (u.end is None or u.end > since)]


def asked(now: int, *pools: AskedPool, cpu_s: float = 1e6, options: SeriesOptions = OPTIONS) -> Question:  # fmt: skip  # noqa: E501
    return Question("c", now, cpu_s, options, pools or (AskedPool("p", NODES, ()),))


def seen(now: int, peak: Callable[[int], int], count: int = 3) -> tuple[tuple[int, int], ...]:
    """The newest steps before `now`."""
    end = now - now % STEP_S
    return tuple((at, peak(at)) for at in range(end - count * STEP_S, end, STEP_S))


def only(answer: Answer) -> ToldPool:
    (told,) = answer.told
    return told


def test_a_history_gives_a_forecast_and_the_newest_steps() -> None:
    reader = Reader(daily(10))
    answer = DemandKeeper(reader).answer(asked(T0 + 17))
    told = only(answer)
    assert reader.asked == [("c", T0 - 10 * DAY, T0)]
    assert told.forecast is not None, told.why
    assert (told.until, told.forecast.made_at, len(told.forecast.mean)) == (T0, T0, 12)
    assert told.code == "demand.forecast"
    # the day before is over, and so are its jobs
    assert told.past == (0.0,) * 6
    assert (answer.left, answer.problem) == (0, "")


def test_steps_that_the_daemon_saw_need_no_history_and_change_nothing_said_before() -> None:
    reader = Reader(daily(10))
    keeper = DemandKeeper(reader)
    keeper.answer(asked(T0))
    (kept,) = keeper._kept.values()
    assert kept._forecaster is not None
    before = kept._forecaster.walk.predicted.copy()
    for number in range(1, 4):
        now = T0 + number * STEP_S
        told = only(keeper.answer(asked(now, AskedPool("p", NODES, seen(now, lambda _: 5)))))
        assert told.until == now
        assert told.past[-number:] == (5.0,) * number
        assert told.forecast is not None
        assert told.forecast.made_at == now
    assert len(reader.asked) == 1
    after = kept._forecaster.walk.predicted
    assert len(after) == len(before) + 3
    assert np.array_equal(after[: len(before)], before, equal_nan=True)


def test_steps_that_nobody_saw_come_from_the_history() -> None:
    reader = Reader(daily(10))
    keeper = DemandKeeper(reader)
    keeper.answer(asked(T0))
    reader.uses = [*reader.uses, NodeUse(T0 + 700, T0 + 900, 2, NODES[:2])]
    now = T0 + 3 * STEP_S
    told = only(keeper.answer(asked(now, AskedPool("p", NODES, seen(now, lambda _: 4, 1)))))
    assert reader.asked[1:] == [("c", T0, now)]
    assert told.past[-3:] == (0.0, 2.0, 4.0)


def test_what_the_daemon_saw_counts_more_than_a_history_that_lags() -> None:
    uses = [*daily(10), NodeUse(T0 - 9000, None, 1, ("gn1",))]  # it has ended, of which none tells
    pool = AskedPool("p", NODES, seen(T0, lambda _: 0))
    assert only(DemandKeeper(Reader(uses)).answer(asked(T0, pool))).past == (1.0,) * 3 + (0.0,) * 3


def test_a_history_that_is_away_later_leaves_gaps_and_its_reason() -> None:
    reader = Reader(daily(10))
    keeper = DemandKeeper(reader)
    keeper.answer(asked(T0))
    reader.is_broken = True
    answer = keeper.answer(asked(T0 + 2 * STEP_S))
    assert answer.problem == "the database is away"
    assert (only(answer).forecast, only(answer).code) == (None, NO_VALUE)
    now = T0 + 3 * STEP_S
    again = keeper.answer(asked(now, AskedPool("p", NODES, seen(now, lambda _: 1, 1))))
    assert only(again).code == "demand.forecast"


def test_a_history_that_cannot_be_read_is_asked_again_with_the_next_question() -> None:
    reader = Reader(daily(10))
    reader.is_broken = True
    keeper = DemandKeeper(reader)
    answer = keeper.answer(asked(T0))
    assert (only(answer).code, only(answer).past, answer.problem) == (
        UNREADABLE, (), "the database is away",
    )  # fmt: skip
    reader.is_broken = False
    assert only(keeper.answer(asked(T0))).forecast is not None


@pytest.mark.parametrize(
    ("days", "code"), [(0.0, NO_METHOD), (0.9, NO_METHOD), (3.5, NO_METHOD), (4.6, NO_ERRORS)]
)
def test_a_short_history_gives_no_forecast_and_says_so(days: float, code: str) -> None:
    told = only(DemandKeeper(Reader(daily(days) if days else [])).answer(asked(T0)))
    assert (told.forecast, told.code) == (None, code)
    if code == NO_METHOD:
        assert told.why.params["needed_s"] == 4 * DAY
        known_s = T0 - min((u.end for u in daily(days) if u.end is not None), default=T0)
        assert told.why.params["known_s"] == (known_s // STEP_S * STEP_S if days else 0)


def test_a_short_history_becomes_long_enough_by_what_the_daemon_sees() -> None:
    keeper = DemandKeeper(Reader(daily(4.2)))
    assert only(keeper.answer(asked(T0))).code == NO_METHOD
    now = T0 + DAY
    pool = AskedPool("p", NODES, seen(now, lambda at: at // 3600 % 24 % 9, DAY // STEP_S))
    assert only(keeper.answer(asked(now, pool))).code == NO_ERRORS
    now += 2 * DAY
    pool = AskedPool("p", NODES, seen(now, lambda at: at // 3600 % 24 % 9, 2 * DAY // STEP_S))
    assert only(keeper.answer(asked(now, pool))).code in (
        "demand.forecast",
        "demand.worse-than-naive",
    )


def test_jobs_without_names_of_their_nodes_are_told_as_the_reason() -> None:
    uses = [replace(use, nodes=()) for use in daily(10)]
    pools = (AskedPool("p", NODES, ()), AskedPool("q", ("m1",), ()))
    shorter = replace(OPTIONS, history_days=8)
    answer = DemandKeeper(Reader(uses)).answer(asked(T0, *pools, options=shorter))
    for told in answer.told:
        assert told.code == UNNAMED
        assert told.why.params["share"] == pytest.approx(0.6, abs=0.1)
    # where there is one pool alone, they can but have run there
    assert only(DemandKeeper(Reader(uses)).answer(asked(T0))).forecast is not None


def test_a_job_of_months_counts_all_the_time() -> None:
    uses = [*daily(10), NodeUse(T0 - 200 * DAY, None, 1, ("gn7",))]
    answer = DemandKeeper(Reader(uses)).answer(asked(T0))
    assert only(answer).past == (1.0,) * 6


def test_a_question_takes_no_longer_than_it_may_and_the_next_one_goes_on() -> None:
    ticks = itertools.count()
    keeper = DemandKeeper(Reader(daily(10)), stopwatch=lambda: float(next(ticks)))
    pools = (AskedPool("p", NODES, ()), AskedPool("q", NODES[:4], ()))
    answers = [keeper.answer(asked(T0, *pools, cpu_s=3.0)) for _ in range(12)]
    assert [len(answer.told) for answer in answers[:2]] == [0, 0]
    lefts = [answer.left for answer in answers]
    assert lefts == sorted(lefts, reverse=True)
    assert (lefts[0], lefts[-1]) == (2, 0)
    assert {told.name for told in answers[-1].told} == {"p", "q"}
    whole = DemandKeeper(Reader(daily(10))).answer(asked(T0, *pools))
    assert whole.told == answers[-1].told  # in parts or at once: the same


def test_other_nodes_make_a_pool_anew_but_not_at_every_look() -> None:
    reader = Reader(daily(10))
    keeper = DemandKeeper(reader)
    keeper.answer(asked(T0))
    fewer = AskedPool("p", NODES[:4], seen(T0 + STEP_S, lambda _: 1, 1))
    keeper.answer(asked(T0 + STEP_S, fewer))
    assert len(reader.asked) == 1
    later = T0 + REBUILT_S
    keeper.answer(asked(later, replace(fewer, seen=seen(later, lambda _: 1, 40))))
    assert reader.asked[1:] == [("c", later - 10 * DAY, later)]
    assert keeper._kept["p"].origin.nodes == frozenset(NODES[:4])


def test_other_settings_another_cluster_or_a_clock_that_was_wrong_begin_anew() -> None:
    reader = Reader(daily(10))
    keeper = DemandKeeper(reader)
    for question in (
        asked(T0),
        asked(T0, options=replace(OPTIONS, country="DE")),
        replace(asked(T0), cluster="d"),
        asked(T0 + 400 * DAY),  # the clock jumps ahead, and back
        asked(T0),
    ):
        assert keeper.answer(question).told
    assert [since for _, since, _ in reader.asked] == [
        T0 - 10 * DAY, T0 - 10 * DAY, T0 - 10 * DAY,
        T0 + 390 * DAY, T0 - 10 * DAY,
    ]  # fmt: skip


def test_pools_that_are_gone_are_forgotten() -> None:
    keeper = DemandKeeper(Reader(daily(10)))
    keeper.answer(asked(T0))
    assert [t.name for t in keeper.answer(asked(T0, AskedPool("q", NODES, ()))).told] == ["q"]
    assert set(keeper._kept) == {"q"}


def test_an_unknown_country_is_refused() -> None:
    with pytest.raises(ConfigError, match="no holidays"):
        DemandKeeper(Reader(daily(10))).answer(asked(T0, options=replace(OPTIONS, country="QQ")))


# -- messages -----------------------------------------------------------------------------------


def test_messages_come_through_as_they_are() -> None:
    question = asked(T0 + 5, AskedPool("p", NODES, ((T0, 3),)), cpu_s=30.0)
    assert read_question(line(question)) == question
    answer = DemandKeeper(Reader(daily(10))).answer(question)
    assert read_answer(line(answer), question) == answer
    assert only(read_answer(line(answer), question)).why.params["rival"]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, told=(replace(a.told[0], name="elsewhere"),)),
        lambda a: replace(a, told=(replace(a.told[0], params="[]"),)),
        lambda a: replace(a, told=(replace(a.told[0], params='{"a": [1]}'),)),
        lambda a: replace(a, told=(replace(a.told[0], params="{"),)),
        lambda a: replace(a, told=(replace(a.told[0], params="[" * 100_000),)),
    ],
)
def test_what_is_no_answer_to_the_question_is_refused(change: Callable[[Answer], Answer]) -> None:
    question = asked(T0)
    answer = DemandKeeper(Reader(daily(10))).answer(question)
    with pytest.raises(DataError):
        read_answer(line(change(answer)), question)


def test_a_forecast_that_contradicts_itself_is_refused() -> None:
    question = asked(T0)
    text = line(DemandKeeper(Reader(daily(10))).answer(question))
    document = json.loads(text)
    forecast = document[0][0][3]
    forecast[2][0] = forecast[4][0] + 1.0  # the mean above its upper bound
    with pytest.raises(DataError, match="outside"):
        read_answer(json.dumps(document), question)
