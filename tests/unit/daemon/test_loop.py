"""The loop around rounds: locks, modes, back-off, fresh predictors, reloads, the public answer."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.loops import JOBS, Daemon, daemon_in
from support.sim import TruePredictor, job, simulated

from gsched.daemon import loop as loop_module
from gsched.daemon.gate import Mode
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.locks import StateDir
from gsched.daemon.loop import NoForesight, ReplacedError
from gsched.daemon.wishes import Reloaded
from gsched.engine.round import RoundResult
from gsched.errors import (
    ConfigError,
    GschedError,
    LostLeadershipError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.job import Capability, Exclusion, JobKey
from gsched.sim.backend import SimBackend
from gsched.slurm.records import SlurmConfig


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path, acting=True) as made:
        yield made


@pytest.fixture
def observer(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path, acting=False) as made:
        yield made


# -- one round -----------------------------------------------------------------------------------


def test_acting_takes_the_writers_lock(acting: Daemon) -> None:
    with StateDir(acting.state_dir.path).writing(), pytest.raises(TryAgainError):
        acting.loop.once()
    assert acting.order() == [1, 2]
    acting.loop.once()
    assert acting.order() == [2, 1]


def test_observing_needs_no_lock_and_settles_nothing(observer: Daemon) -> None:
    with observer.state_dir.writing():
        observer.loop.once()
    assert observer.order() == [1, 2]


def test_the_halt_is_looked_up_under_the_lock(acting: Daemon) -> None:
    acting.state_dir.halt("by a test")
    assert acting.loop.once().info.acting is False
    assert acting.order() == [1, 2]
    assert acting.answer()["halted"] == "by a test"
    assert (acting.answer()["mode"], acting.answer()["why"]) == ("halted", "by a test")
    acting.state_dir.lift_halt()
    assert acting.loop.once().info.acting is True


def test_the_kill_switch_takes_back_once_and_lets_go_on_after_it(acting: Daemon) -> None:
    acting.loop.once()
    acting.settings.kill_switch.write_text("who\n")
    acting.refused_back = ((JobKey("c", 1), "Slurm is away"),)
    assert acting.loop.once().info.acting is False
    acting.refused_back = ()
    acting.loop.once()  # what was refused is tried again
    acting.loop.once()
    assert len(acting.taken_back) == 2
    assert acting.answer()["mode"] == "off"
    acting.settings.kill_switch.unlink()
    assert acting.loop.once().info.acting is True
    assert [mode for mode, _, _ in acting.spans] == ["act", "off", "off", "off", "act"]
    assert [writes for _, _, writes in acting.spans[:4]] == [2, 3, 2, 0]
    text = acting.metrics.text().decode()
    assert 'gsched_changes_total{state="confirmed"} 4.0' in text
    assert 'gsched_changes_total{state="rejected"} 1.0' in text
    assert f"gsched_last_write_timestamp_seconds {acting.now:.3e}" in text


def test_a_new_predictor_is_used_from_this_round_on(acting: Daemon) -> None:
    newer = TruePredictor(JOBS, "newer")
    acting.fresh = lambda: newer
    assert acting.loop.once().info.model_id == "newer"
    acting.fresh = lambda: None
    assert acting.loop.once().info.model_id == "newer"


def test_the_public_answer_shows_no_names_and_no_jobs_where_slurm_hides_them(
    acting: Daemon,
) -> None:
    acting.loop.once()
    assert set(acting.answer()["jobs"]) == {"1", "2"}
    assert "secret" not in acting.status.read_text()
    assert acting.answer()["summary"]["inversions"] == {"qos": 1, "fairshare": 0, "pairs": 3}
    acting.config["PrivateData"] = "accounts,jobs"  # changed while the daemon runs
    acting.loop.once()
    assert acting.answer()["jobs"] == {}
    assert acting.answer()["private"] is True


def test_a_steady_queue_is_told_from_what_was_told_before(observer: Daemon) -> None:
    observer.loop.once()
    first = observer.loop.bulletin
    observer.loop.once()
    assert observer.loop.bulletin is not None
    assert first is not None
    assert observer.loop.bulletin.answers is first.answers
    observer.loop.parts.runner.predictor = TruePredictor([JOBS[0], JOBS[1]], "another")
    observer.loop.once()
    assert observer.loop.bulletin.answers is not first.answers


def test_a_listener_that_cannot_be_opened_stops_no_round(acting: Daemon) -> None:
    is_taken = True

    @contextmanager
    def listening() -> Iterator[str]:
        if is_taken:
            raise UnavailableError("cannot listen at h:1: Address already in use")
        yield "h:1"

    kept = KeptListener("query socket", listening)
    acting.listeners["query"] = kept
    with kept.kept():
        acting.loop.once()
        problem = "cannot listen at h:1: Address already in use"
        assert (acting.answer()["query_address"], acting.answer()["query_problem"]) == ("", problem)
        is_taken = False
        acting.loop.once()
        assert (acting.answer()["query_address"], acting.answer()["query_problem"]) == ("h:1", "")


# -- round after round ---------------------------------------------------------------------------


def test_failed_rounds_back_off_and_end_nothing(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits: list[float] = []
    hurries: list[bool] = []
    problems: list[tuple[int, str]] = []
    outcomes: Iterator[bool] = iter([False, False, True, False, True])

    def fresh() -> None:
        if not next(outcomes):
            raise UnavailableError("slurmctld is away")

    def pause(seconds: float, may_hurry: bool) -> None:
        waits.append(round(seconds, 6))
        hurries.append(may_hurry)
        now = acting.loop.parts.board.now
        problems.append((now.failures, now.problem))
        if len(waits) == 5:
            acting.wishes.end()

    acting.fresh = fresh  # type: ignore[assignment]
    monkeypatch.setattr(acting.loop, "_pause", pause)
    good: list[RoundResult] = []
    with caplog.at_level("INFO"), suppress(StopIteration):
        acting.loop.run(good.append)
    assert waits == [0.01, 0.02, 0.01, 0.01, 0.01]
    assert hurries == [False, False, True, False, True]  # nobody hurries a Slurm that is away
    away = "slurmctld is away"
    assert problems == [(1, away), (2, away), (0, ""), (1, away), (0, "")]
    assert len(good) == 2
    assert caplog.text.count("round failed") == 3
    assert caplog.text.count("rounds succeed again") == 2
    status = "STATUS=acting; 2 rounds failed; see `gsched daemon status`, or the log"
    assert status in acting.manager.messages  # everybody may read it: no names, no paths
    errors = acting.loop.parts.board.document(trusted=True)["last_errors"]
    assert [e["message"] for e in errors] == [away] * 3
    assert acting.loop.parts.board.document(trusted=False)["last_errors"] is None
    text = acting.metrics.text().decode()
    assert 'gsched_rounds_total{mode="act",outcome="unavailable"} 3.0' in text
    assert 'gsched_rounds_total{mode="act",outcome="succeeded"} 2.0' in text


class Passing:
    """Time that passes by waiting alone, instead of the loop's own."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._wait = daemon.wishes.wait
        monkeypatch.setattr(loop_module, "time", self)
        monkeypatch.setattr(daemon.wishes, "wait", self.wait)

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> None:
        self._wait(0)
        self.now += seconds


def test_somebody_in_a_hurry_brings_the_next_round_forward(
    observer: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer.loop.options = replace(observer.loop.options, interval_s=3600.0)
    clock = Passing(observer, monkeypatch)
    rounds: list[float] = []

    def between(number: int) -> None:
        rounds.append(clock.now)
        if number < 3:
            observer.wishes.hurry()

    observer.run(4, between)
    gaps = [after - before for before, after in itertools.pairwise([*rounds, clock.now])]
    early_s = loop_module.EARLY_ROUND_S  # however often they ask
    assert gaps == pytest.approx([early_s, early_s, 3600.0])


def test_the_end_interrupts_a_pause(observer: Daemon) -> None:
    observer.loop.options = replace(observer.loop.options, interval_s=3600.0)
    observer.loop.run(lambda _: threading.Timer(0.05, observer.wishes.end).start())
    assert observer.loop.bulletin is not None


def test_who_has_lost_the_lead_does_nothing_more(acting: Daemon) -> None:
    def lost() -> None:
        raise LostLeadershipError("host b leads")

    acting.renewing = lost
    with pytest.raises(LostLeadershipError):
        acting.loop.run(lambda _: None)
    assert acting.order() == [1, 2]
    assert acting.spans == []


def test_a_database_that_was_replaced_is_opened_anew(acting: Daemon) -> None:
    def replaced() -> None:
        raise ReplacedError("the history database is another one")

    def lost() -> None:
        raise LostLeadershipError("the other database knows of no lead")

    acting.checking, acting.renewing = replaced, lost
    acting.loop.run(lambda _: pytest.fail("no round is good"))
    assert acting.wishes.ended is False  # whoever has opened the loop opens it again


def test_the_kill_switch_does_not_wait_for_the_next_round(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting.loop.options = replace(acting.loop.options, interval_s=3600.0)
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.02)
    acting.run(2, lambda _: acting.settings.kill_switch.touch())
    assert len(acting.taken_back) == 1


def test_a_mode_that_changes_while_rounds_fail_wakes_once_and_is_told(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting.loop.options = replace(acting.loop.options, interval_s=3600.0)
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.02)
    rounds = 0

    def away() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            acting.settings.kill_switch.write_text("who\n")  # after this round's look at the gate
            threading.Timer(0.3, acting.wishes.end).start()
        raise UnavailableError("the database is away")

    acting.checking = away
    acting.loop.run(lambda _: pytest.fail("no round is good"))
    assert rounds == 2  # the second one for the kill switch; the back-off holds after it
    board = acting.loop.parts.board
    assert board.now.mode is Mode.OFF
    assert board.now.why.endswith("off: who; what was written still stands")
    assert any(m.startswith("STATUS=switched off, observing") for m in acting.manager.messages)
    acting.checking = lambda: None
    acting.loop.once()
    assert board.now.why.endswith("off: who")


def test_a_long_pause_keeps_the_lead(observer: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    observer.loop.options = replace(observer.loop.options, interval_s=3600.0)
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.01)
    errors: list[GschedError] = [UnavailableError("the database is away")] * 2
    errors.append(LostLeadershipError("host b leads"))

    def renew() -> None:
        raise errors.pop(0)

    observer.renewing_in_time = renew
    with pytest.raises(LostLeadershipError):
        observer.loop.run(lambda _: None)
    assert errors == []


def test_a_queue_of_another_hands_values_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with daemon_in(tmp_path, acting=True) as daemon:
        set_by_others = Exclusion(Capability.REORDER, "foreign-site-factor", "")
        others = [job(n, exclusions=(set_by_others,)) for n in range(3, 8)]
        daemon.backend = daemon.runner.backend = SimBackend(*simulated([*JOBS, *others]))
        daemon.backend.advance()
        daemon.runner.predictor = TruePredictor([*JOBS, *others])
        daemon.run(2)
        assert caplog.text.count("does a second gsched") == 0  # 5 of 7
        daemon.backend = daemon.runner.backend = SimBackend(*simulated([JOBS[0], *others]))
        daemon.backend.advance()
        daemon.wishes.ended = False
        daemon.run(3)
        assert caplog.text.count("does a second gsched") == 1
        why = "5 of 6 jobs have another hand's SiteFactor and are left alone"
        assert daemon.loop.parts.board.now.why == why
        assert f"STATUS=acting ({why}); policy qssf" in "\n".join(daemon.manager.messages)


def test_rounds_follow_the_monotonic_clock_whatever_the_other_one_does(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(number: int) -> None:
        acting.now += -86400 if number % 2 else 3 * 86400

    clock = Passing(acting, monkeypatch)
    acting.run(5, step)
    assert clock.now == pytest.approx(1000 + 4 * acting.loop.options.interval_s)
    assert len(acting.spans) == 5


def test_the_watchdog_is_fed_by_the_loop_and_by_nothing_else(tmp_path: Path) -> None:
    with daemon_in(tmp_path, False, watchdog_s=0.15) as daemon:
        daemon.loop.options = replace(daemon.loop.options, interval_s=0.6)
        daemon.run(2)
        fed = daemon.manager.messages.count("WATCHDOG=1")
        assert fed >= 2 * 2 + 0.6 / 0.15  # in rounds, and all the time between them
    with daemon_in(tmp_path, False, watchdog_s=30.0) as daemon:
        seen = []

        def stuck() -> None:
            seen.append(daemon.manager.messages.count("WATCHDOG=1"))
            daemon.wishes.wait(0.2)
            seen.append(daemon.manager.messages.count("WATCHDOG=1"))

        daemon.fresh = stuck  # type: ignore[assignment]
        daemon.run(1)
        assert seen[0] == seen[1]


def test_metrics_are_written_after_failed_rounds_too(acting: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "gsched.prom"
    acting.loop.options = replace(acting.loop.options, metrics_file=path)

    def fail_once() -> None:
        acting.fresh = lambda: None
        raise UnavailableError("slurmctld is away")

    acting.fresh = fail_once  # type: ignore[assignment]
    seen = []
    acting.run(2, lambda _: seen.append(path.read_text()))
    assert 'outcome="unavailable"} 1.0' in seen[0]
    assert os.stat(path).st_mode & 0o777 == 0o644  # noqa: PTH116


# -- reloads -------------------------------------------------------------------------------------


def reload_in_thread(daemon: Daemon) -> tuple[threading.Thread, list[Reloaded | GschedError]]:
    found: list[Reloaded | GschedError] = []

    def ask() -> None:
        try:
            found.append(daemon.wishes.reload_and_wait(30))
        except GschedError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, found


def test_a_reload_is_done_at_once_and_told_to_who_asked(observer: Daemon) -> None:
    observer.loop.options = replace(observer.loop.options, interval_s=3600.0)
    done = Reloaded(("daemon.policy",), ("daemon.socket",))
    observer.reloading = lambda: done
    asked = []
    observer.run(2, lambda _: asked.append(reload_in_thread(observer)))
    thread, found = asked[0]
    thread.join()
    assert found == [done]
    told = observer.manager.messages
    reloading = next(i for i, m in enumerate(told) if m.startswith("RELOADING=1\nMONOTONIC_USEC="))
    assert told.index("READY=1") > reloading
    assert observer.loop.parts.board.now.needs_restart == ("daemon.socket",)


def test_a_broken_configuration_changes_nothing_and_is_said_everywhere(
    observer: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Reloaded:
        raise ConfigError("gsched.toml: is not valid TOML")

    observer.reloading = broken
    asked = []
    observer.run(2, lambda _: asked.append(reload_in_thread(observer)))
    thread, found = asked[0]
    thread.join()
    assert isinstance(found[0], ConfigError)
    document = observer.loop.parts.board.document(trusted=True)
    assert document["config_problem"] == "gsched.toml: is not valid TOML"
    assert document["config_in_force"] is False
    assert "new configuration refused, the former one stays in force" in caplog.text
    line = "STATUS=observing; new configuration not in force; "
    told = [message for message in observer.manager.messages if message.startswith(line)]
    assert told[0].endswith("; see `gsched daemon status`, or the log")
    assert "TOML" not in "".join(told)  # everybody may read the status


def test_a_reload_that_a_round_keeps_waiting_is_put_off(observer: Daemon) -> None:
    with pytest.raises(TryAgainError, match="in the middle of a round"):
        observer.wishes.reload_and_wait(0.01)
    assert observer.wishes.wants_reload is True


def test_a_fault_of_the_forecasts_does_not_end_the_rounds(acting: Daemon, caplog) -> None:
    class Faulty(NoForesight):
        fault: Exception = OSError("broken pipe")

        def after_round(self, result: RoundResult, config: SlurmConfig) -> None:
            raise self.fault

    foresight = Faulty()
    acting.loop.parts = replace(acting.loop.parts, foresight=foresight)
    acting.run(3)
    assert acting.kept_rounds == 3
    assert caplog.text.count("forecasts: a fault of gsched") == 1
    foresight.fault = UnavailableError("the journal does not answer")
    with pytest.raises(UnavailableError):
        acting.loop.once()
