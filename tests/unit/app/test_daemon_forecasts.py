"""Forecasts in the daemon: real processes answer, a real database keeps, the clock is a test's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.forecast_children import MODULE, environment
from support.history import attempt, batch, pending, running
from support.queue import row
from support.scenes import predicted, state_of, view_of
from support.scenes import running as running_row

from gsched.app.daemon_forecasts import Forecasts, child_environment
from gsched.app.forecast.messages import Question
from gsched.app.forecast.work import REFRESH_S, Seen, record_of
from gsched.config.settings import ForecastSettings, Settings
from gsched.daemon.forecast_child import ForecastChild
from gsched.daemon.forecast_facts import Record
from gsched.errors import LostLeadershipError
from gsched.forecast.codec import from_json
from gsched.model.job import JobState
from gsched.model.start_forecast import FORECAST_MODEL, RAW_MODEL, StartForecast
from gsched.slurm.records import QueueRow, SlurmConfig
from gsched.testbed.wait import wait_for
from gsched_sql import History

NOW = int(time.time())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Daemon:
    """Rounds over rows of squeue, without all else that belongs to a daemon."""

    def __init__(self, folder: Path, forecasts: Forecasts, clock: Clock) -> None:
        self.folder = folder
        self.forecasts = forecasts
        self.clock = clock
        self.config: dict[str, str] = {}
        self.rows: Sequence[QueueRow] = (waiting(7),)

    def round(self, history: History | None = None, listing: Listing | None = None) -> None:
        """One round; with a history it keeps there what was foreseen."""
        views = [view_of(one, predicted(100.0)) for one in self.rows]
        state = replace(state_of(views), as_of=NOW + int(self.clock.now))
        rows = {view.key: one for view, one in zip(views, self.rows, strict=True)}
        seen = Seen(state, rows, SlurmConfig(self.config), False)
        journal = history.journal() if history else listing or NoJournal()
        self.forecasts.after_round(seen, journal)  # type: ignore[arg-type]

    def asked(self) -> list[Question]:
        """All questions so far."""
        wait_for(lambda: not self.forecasts._child._busy, "the answer", 60.0)
        files = sorted((self.folder / "asked").iterdir())
        return [from_json(Question, file.read_bytes()) for file in files]

    def said(self, job: int = 7) -> dict[str, Any]:
        return dict(self.forecasts.edition().of((str(job), NOW - 100)))


class NoJournal:
    def record_predictions(self, predictions: Any, at: int) -> None:
        """Keep nothing."""


class Listing(NoJournal):
    """Keeps what it is given, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, str]]] = []

    def record_predictions(self, predictions: Any, at: int) -> None:
        self.calls.append([(key.slurm_id, p.model_id) for key, _, p in predictions])


def waiting(raw_id: int, priority: int = 60, **facts: Any) -> QueueRow:
    """It waits since NOW - 100; what its priority is, so many seconds it will wait."""
    at = {"submit_time": NOW - 100, "eligible_time": NOW - 100}
    return row(raw_id, priority=priority, **{"time_limit_s": 86400, **at, **facts})


@contextmanager
def daemon(folder: Path, behaviour: str = "foresees", **chosen: Any) -> Iterator[Daemon]:
    url = f"sqlite:///{folder}/history.db"
    if not (folder / "history.db").exists():
        History.create(url)
        (folder / "asked").mkdir()
    settings = Settings(state_dir=folder, forecast=ForecastSettings(**{"samples": 8, **chosen}))
    env = {**environment(behaviour), "ASKED": str(folder / "asked")}
    clock = Clock()
    child = ForecastChild(MODULE, lambda: env, monotonic=clock)
    made = Daemon(folder, Forecasts(settings, "c", child, clock), clock)
    with made.forecasts.running():
        yield made


def test_a_round_asks_and_a_later_one_tells(tmp_path: Path) -> None:
    with daemon(tmp_path) as made:
        assert made.said() == {"no_start": "pending"}
        first = made.forecasts.edition()
        made.round()
        (question,) = made.asked()
        assert [job.job_id for job in question.situation.waiting] == ["7"]
        assert question.options.samples == 8
        start = made.said()["start"]
        assert (start["median"], start["low"], start["high"]) == (NOW + 60, NOW + 50, NOW + 70)
        assert made.said()["changes"]["tried"]
        assert made.forecasts.edition().number > first.number
        assert (
            made.forecasts.edition() is made.forecasts.edition()
        )  # so that a round may say the same
        facts = made.forecasts.facts
        assert facts is not None
        assert (facts.as_of, facts.jobs, facts.cpu_s) == (NOW, 1, 1.0)


def test_it_is_asked_once_in_the_interval_whatever_rounds_there_are(tmp_path: Path) -> None:
    with daemon(tmp_path, interval_s=60.0) as made:
        for at in (0.0, 1.0, 59.0, 60.0, 61.0):
            made.clock.now = at
            made.round()
            made.asked()
        assert len(made.asked()) == 2


def test_forecasts_that_cost_more_than_their_share_are_further_apart(tmp_path: Path) -> None:
    with daemon(tmp_path, interval_s=1.0, cpu_share=0.01) as made:  # a second each: 100 s
        for at in range(0, 400, 5):
            made.clock.now = float(at)
            made.round()
            made.asked()
        assert 3 <= len(made.asked()) <= 5


def test_whoever_asks_about_a_job_that_is_not_foreseen_yet_does_not_wait_for_the_interval(
    tmp_path: Path,
) -> None:
    with daemon(tmp_path) as made:
        made.round()
        made.asked()
        made.rows = (waiting(7), waiting(8), waiting(9))
        made.clock.now = 5.0
        made.round()
        assert len(made.asked()) == 1
        assert made.said(8) == {"no_start": "pending"}
        made.forecasts.asked(["8"])
        question = made.asked()[-1]
        assert question.wanted[0].job_id == "8"
        assert (question.certainly, question.cpu_s) == (1, 0.0)
        assert "start" in made.said(8)
        assert made.said(8)["changes"]["as_of"] == NOW + 5
        made.forecasts.asked(["8", "7"])  # known already
        assert len(made.asked()) == 2


def test_a_job_that_is_asked_about_before_a_round_has_seen_it_comes_with_that_round(
    tmp_path: Path,
) -> None:
    with daemon(tmp_path) as made:
        made.round()
        made.asked()
        made.forecasts.asked(["8", "nothing"])
        assert len(made.asked()) == 1
        made.rows = (waiting(7), waiting(8))
        made.clock.now = 5.0
        made.round()
        assert len(made.asked()) == 2
        assert "start" in made.said(8)


def test_arrivals_are_sent_when_they_are_new_the_ground_is_or_the_child_is(tmp_path: Path) -> None:
    with daemon(tmp_path) as made:

        def next_question() -> Question:
            made.clock.now += 60.0
            made.round()
            return made.asked()[-1]

        assert next_question().arrivals is not None
        assert next_question().arrivals is None
        made.rows = (waiting(7, partitions=("elsewhere",)), waiting(8))
        assert next_question().arrivals is None
        made.rows = (waiting(8),)
        os.kill(made.forecasts._child.state.pid or 0, signal.SIGKILL)
        before = len(made.asked())
        made.clock.now += 60.0
        made.round()
        assert len(made.asked()) == before  # it came to nothing
        assert next_question().arrivals is not None
        assert REFRESH_S >= 600


def test_what_was_foreseen_is_kept_once_an_attempt(tmp_path: Path) -> None:
    with daemon(tmp_path) as made, History.open(f"sqlite:///{tmp_path}/history.db") as history:
        made.round(history)
        made.asked()
        made.rows = (waiting(7, priority=90), waiting(8), waiting(9))
        for _ in range(3):
            made.clock.now += 60.0
            made.round(history)
            made.asked()
        history.ingest(
            batch(
                pending(7, NOW - 100, cluster="c"),
                running(8, NOW - 100, cluster="c", start_time=NOW + 65),
            ),
            source_key=None,
        )
        # cancelled while it waited, of which sacct tells a start
        gone = {"state": JobState.CANCELLED, "start_time": NOW + 70, "end_time": NOW + 70}
        history.ingest(batch(attempt(9, NOW - 100, cluster="c", **gone)), source_key=None)
        for model in (FORECAST_MODEL, RAW_MODEL):
            found = history.start_forecasts("c", model, NOW - 1000, 100)
            assert found == [
                StartForecast(NOW, NOW + 60.0, NOW + 50.0, NOW + 70.0, None, True),
                StartForecast(NOW + 60, NOW + 120.0, NOW + 110.0, NOW + 130.0, NOW + 65, False),
            ]
            assert history.start_forecasts("c", model, NOW + 1, 100) == found[1:]
            assert history.start_forecasts("c", model, NOW - 1000, 2) == found[1:]
        assert history.start_forecasts("other", RAW_MODEL, 0, 100) == []


def test_the_journal_is_given_each_first_forecast_once(tmp_path: Path) -> None:
    listing = Listing()
    with daemon(tmp_path) as made:
        for number in range(4):
            made.clock.now = 60.0 * number
            made.rows = (waiting(7), waiting(8)) if number > 1 else (waiting(7),)
            made.round(listing=listing)
            made.asked()
        made.round(listing=listing)
    models = (FORECAST_MODEL, RAW_MODEL)
    assert listing.calls == [[("7", m) for m in models], [("8", m) for m in models]]


def test_what_could_not_be_kept_is_kept_later(tmp_path: Path) -> None:
    class Broken(NoJournal):
        def record_predictions(self, predictions: Any, at: int) -> None:
            raise LostLeadershipError("gone")

    with daemon(tmp_path) as made, History.open(f"sqlite:///{tmp_path}/history.db") as history:
        made.round()
        made.asked()
        views = [view_of(one, predicted(100.0)) for one in made.rows]
        seen = Seen(state_of(views), dict(zip([v.key for v in views], made.rows, strict=True)),
                    SlurmConfig({}), False)  # fmt: skip
        with pytest.raises(LostLeadershipError):
            made.forecasts.after_round(seen, Broken())  # type: ignore[arg-type]
        made.round(history)
        assert len(history.start_forecasts("c", RAW_MODEL, NOW - 1000, 100)) == 1


def test_the_calibration_is_learnt_from_what_became_of_earlier_forecasts(tmp_path: Path) -> None:
    with daemon(tmp_path) as made:
        with History.open(f"sqlite:///{tmp_path}/history.db") as history:
            for hour in range(10):
                made.rows = tuple(waiting(100 + 5 * hour + number) for number in range(5))
                made.clock.now = 3600.0 * hour
                made.round(history)
                assert made.asked()[-1].calibration.learnt_from == 0
            made.round(history)
            late = [
                running(n, NOW - 100, cluster="c", start_time=NOW + 3600 * ((n - 100) // 5) + 600)
                for n in range(100, 150)
            ]
            history.ingest(batch(*late), source_key=None)
        made.forecasts._desk._refreshed_at -= REFRESH_S
        made.rows = (waiting(7),)
        made.clock.now = 36_700.0
        made.round()
        question = made.asked()[-1]
        assert question.calibration.learnt_from == 50
        start = made.said()["start"]
        assert start["calibrated_on"] == 50
        assert start["median"] - (NOW + 36_700) > 300  # they waited 600 s where 60 s were expected
        assert made.forecasts.facts is not None
        assert made.forecasts.facts.record == Record(50, 0, 540.0)


def test_a_forecast_that_is_old_says_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon(tmp_path) as made:
        made.round()
        made.asked()
        monkeypatch.setattr("gsched.app.daemon_forecasts.now", lambda: NOW + 901)
        assert made.said() == {"no_start": "pending"}


def test_a_child_that_fails_is_told_and_what_it_said_before_stands(tmp_path: Path) -> None:
    with daemon(tmp_path) as made:
        made.round()
        made.asked()
        os.kill(made.forecasts._child.state.pid or 0, signal.SIGKILL)
        made.clock.now = 60.0
        made.rows = (waiting(7), waiting(8))
        made.round()
        made.asked()
        assert "start" in made.said(7)
        assert made.said(8) == {"no_start": "unavailable"}
        made.clock.now = 120.0
        made.round()
        made.asked()
        assert "start" in made.said(8)


def test_a_history_that_cannot_be_read_is_no_reason_for_the_daemon_to_fail(tmp_path: Path) -> None:
    with daemon(tmp_path) as made:
        (tmp_path / "history.db").unlink()
        made.round()
        assert made.asked() == []
        assert made.said() == {"no_start": "unavailable"}


def test_it_can_be_switched_off_and_on(tmp_path: Path) -> None:
    with daemon(tmp_path, enabled=False) as made:
        made.round()
        assert made.asked() == []
        assert made.said() == {"no_start": "off"}
        assert made.forecasts.facts is None
        settings = made.forecasts._settings
        on = replace(settings, forecast=replace(settings.forecast, enabled=True))
        made.forecasts.configure(on)
        made.round()
        assert len(made.asked()) == 1
        assert "start" in made.said()
        made.forecasts.configure(settings)
        assert made.said() == {"no_start": "off"}
        wait_for(lambda: made.forecasts._child.state.pid is None, "the process to be dismissed")
        made.forecasts.configure(on)
        made.clock.now = 60.0
        made.round()
        assert len(made.asked()) == 2


@pytest.mark.parametrize(
    ("private", "owner", "told"),
    [("", "bob", True), ("jobs,users", "bob", False), ("jobs", "alice", True)],
)
def test_where_jobs_are_hidden_nobody_hears_of_anothers(
    tmp_path: Path, private: str, owner: str, told: bool
) -> None:
    with daemon(tmp_path) as made:
        made.config = {"PrivateData": private}
        at = {"submit_time": NOW - 500, "start_time": NOW - 300, "user": owner}
        made.rows = (waiting(7, user="alice"), row(**running_row(3, "gn1") | at))
        made.round()
        made.asked()
        assert made.said().get("next_free", {}).get("job") == ("3" if told else None)


def test_a_record_counts_those_that_wait_beyond_their_interval_as_missed() -> None:
    def shown(start: int | None, high: float = 120.0) -> StartForecast:
        return StartForecast(0, 100.0, 80.0, high, start, start is None)

    assert record_of([], 1000) == Record(0, 0, None)
    found = [shown(100), shown(80), shown(121), shown(None), shown(None, 2000.0)]
    assert record_of(found, 1000) == Record(4, 2, 20.0)


def test_what_numba_compiles_has_a_folder_where_the_packages_own_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert "NUMBA_CACHE_DIR" not in child_environment(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert child_environment(tmp_path)["NUMBA_CACHE_DIR"] == str(tmp_path / "numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/srv/numba")
    assert child_environment(tmp_path)["NUMBA_CACHE_DIR"] == "/srv/numba"


def test_the_daemon_itself_loads_no_simulator() -> None:
    loaded = "import sys, gsched.app.run_daemon; print({'numba', 'gsched.sim'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
