"""Forecasts of demand in the daemon: the real child on a real database, and children that fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support import forecast_children
from support.daily_demand import DAY, NODES, daily_history

from gsched.app.ces import foreseen
from gsched.app.ces.foreseen import FAILS, PENDING, WORKER, ForeseenDemand, options_of
from gsched.app.ces.messages import STEP_S, UNREADABLE
from gsched.config.node_settings import CesTable
from gsched.daemon.forecast_child import ForecastChild, Patience
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.testbed.wait import wait_for

T0 = 1_700_000_400 // STEP_S * STEP_S
TABLE = CesTable(mode="observe", history_days=10)
POOLS = {"gpu": PoolSight(NODES, 3)}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A daemon's looks, one after the other."""

    def __init__(self, demand: ForeseenDemand, child: ForecastChild, clock: Clock) -> None:
        self.demand, self.child, self.clock = demand, child, clock

    def look(self, at: int, pools: dict[str, PoolSight] | None = None) -> Outlook:
        """A look at T0 + `at`, once any answer has come."""
        self.clock.now += 1.0
        self.demand.seen(T0 + at, POOLS if pools is None else pools)
        wait_for(lambda: not self.child._busy, "the answer", 120.0)
        return self.demand.outlook("gpu", T0 + at)


def history(folder: Path) -> None:
    daily_history(folder, "c", 10, T0)


@contextmanager
def site(environment: dict[str, str], module: str = WORKER, table: CesTable = TABLE,
         patience: Patience | None = None) -> Iterator[Site]:  # fmt: skip
    clock = Clock()
    child = ForecastChild(module, lambda: environment, patience or Patience(), clock)
    demand = ForeseenDemand("c", table, child)
    with demand.running():
        yield Site(demand, child, clock)


def of_folder(folder: Path) -> dict[str, str]:
    config = folder / "gsched.toml"
    config.write_text(f'state_dir = "{folder}"\n')
    return {**os.environ, "GSCHED_CONFIG": str(config)}


def test_the_child_reads_the_history_and_a_later_look_has_its_forecast(tmp_path: Path) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        assert made.demand.outlook("gpu", T0).why.code == PENDING
        first = made.look(30)
        assert first.forecast is not None, first.why
        assert (first.forecast.made_at, first.step_s) == (T0, STEP_S)
        assert first.forecast.covers(2 * TABLE.future_window_s)
        pid = made.child.state.pid
        for at in range(60, STEP_S + 90, 30):  # one step more, seen from its beginning
            last = made.look(at)
        assert last.forecast is not None
        assert last.forecast.made_at == T0 + STEP_S
        facts = made.demand.facts
        assert (facts.made_at, facts.foreseen, facts.left) == (T0 + STEP_S, 1, 0)
        assert facts.cpu_s > 0
        assert facts.document()["problem"] == ""
        assert made.child.state.pid == pid
        niceness = os.getpriority(os.PRIO_PROCESS, pid or 0)
        assert niceness - os.getpriority(os.PRIO_PROCESS, 0) == 10


def test_looks_within_a_step_ask_nothing_new(tmp_path: Path) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        made.look(0)
        cpu_s = made.demand.facts.cpu_s
        made.look(30)
        made.look(590)
        assert made.demand.facts.cpu_s == cpu_s
        made.look(600)
        assert made.demand.facts.cpu_s > cpu_s


def test_what_there_was_no_time_for_is_gone_on_with_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history(tmp_path)
    monkeypatch.setattr(foreseen, "_QUESTION_CPU_S", 0.3)
    with site(of_folder(tmp_path)) as made:
        assert made.look(0).why.code == PENDING
        assert made.demand.facts.left == 1
        for at in range(1, 60):
            outlook = made.look(at)
            if not made.demand.facts.left:
                break
        assert outlook.forecast is not None


def test_what_the_daemon_saw_since_comes_behind_what_the_child_told(tmp_path: Path) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        told = made.look(0).past
        assert len(told) >= TABLE.past_window_s // STEP_S
        for at in range(-30, 1230, 30):  # as if from before the first look
            made.demand._steps.look(T0 + at, {"gpu": 2})
        assert made.demand.outlook("gpu", T0 + 1230).past == (*told, 2.0, 2.0)


def test_a_killed_child_is_followed_by_another_and_the_forecast_stands_meanwhile(
    tmp_path: Path,
) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        before = made.look(0)
        assert before.forecast is not None
        os.kill(made.child.state.pid or 0, signal.SIGKILL)
        after = made.look(STEP_S)
        assert after.forecast == before.forecast
        assert made.demand.facts.child.failures == 1
        late = made.demand.outlook("gpu", T0 + 4 * STEP_S)
        assert (late.forecast, late.why.code) == (None, FAILS)
        made.clock.now += 60.0  # the pause after a failure
        again = made.look(STEP_S + 30)
        assert again.forecast is not None
        assert again.forecast.made_at == T0 + STEP_S
        assert made.demand.facts.document()["problem"] == ""


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [("dies", "exit status 3"), ("silent", "time-out"), ("echo", "no list"), ("long", "bytes")],
)
def test_a_bad_child_costs_the_forecast_and_nothing_else(behaviour: str, says: str) -> None:
    environment = forecast_children.environment(behaviour)
    patience = Patience(first_answer_s=3.0, answer_s=3.0)
    with site(environment, forecast_children.MODULE, patience=patience) as made:
        for at in range(-30, 2 * STEP_S + 30, 30):
            made.demand._steps.look(T0 + at, {"gpu": 1})
        outlook = made.look(2 * STEP_S + 30)
        assert (outlook.forecast, outlook.why.code) == (None, FAILS)
        assert outlook.past == (1.0, 1.0)
        problem = made.demand.facts.document()["problem"]
        assert isinstance(problem, str)
        assert says in problem


def test_no_database_is_told_and_asked_for_again(tmp_path: Path) -> None:
    with site(of_folder(tmp_path)) as made:
        outlook = made.look(0)
        assert (outlook.forecast, outlook.why.code) == (None, UNREADABLE)
        assert "no job history" in str(made.demand.facts.document()["problem"])
        history(tmp_path)
        assert made.look(STEP_S).forecast is not None
        assert made.demand.facts.document()["problem"] == ""


def test_other_settings_are_followed_and_off_ends_the_child(tmp_path: Path) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        assert made.look(0).forecast is not None
        made.demand.configure(replace(TABLE, future_window_s=7200))
        assert made.demand.outlook("gpu", T0).why.code == PENDING
        found = made.look(30).forecast
        assert found is not None
        assert found.length_s == 2 * 7200
        made.demand.configure(replace(TABLE, mode="off"))
        wait_for(lambda: made.child.state.pid is None, "the child's end", 30.0)


def test_a_pool_that_is_gone_is_not_told_of_any_more(tmp_path: Path) -> None:
    history(tmp_path)
    with site(of_folder(tmp_path)) as made:
        made.look(0)
        assert made.look(30, {"other": PoolSight(("x",), 0)}).why.code == PENDING
        assert made.demand.facts.pools == 0


def test_options_cover_what_the_policy_compares() -> None:
    told = options_of(CesTable(future_window_s=86400, past_window_s=7 * DAY))
    assert told.steps_ahead * STEP_S == 86400 + 1800  # from the oldest that counts
    assert told.past_steps > 7 * DAY // STEP_S
    assert options_of(CesTable(future_window_s=600, peak_window_s=0)).steps_ahead == 12
    assert options_of(CesTable(future_window_s=600, peak_window_s=30000)).steps_ahead == 53
