"""The loop around rounds: locks, halt, back-off, fresh predictors, the public answer."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.requests import MemoryRequests
from support.sim import TruePredictor, job, nodes

from gsched.daemon.locks import StateDir
from gsched.daemon.loop import DaemonLoop, LoopOptions
from gsched.daemon.query_socket import QuerySocket
from gsched.daemon.requests import RequestBook
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundResult, RoundRunner
from gsched.errors import TryAgainError, UnavailableError
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend
from gsched.slurm.records import SlurmConfig

JOBS = [job(1, duration_s=400, name="secret"), job(2, duration_s=5)]


class Daemon:
    """A loop over a simulated cluster in a folder of its own; `config` may be changed."""

    def __init__(self, folder: Path, acting: bool) -> None:
        self.backend = SimBackend("c", nodes(), JOBS)
        self.backend.advance()
        self.journal = MemoryJournal()
        self.config: dict[str, str] = {}
        self.upkeep: Callable[[int], Predictor | None] = lambda _: None
        numbers = itertools.count()
        self.runner = RoundRunner(
            self.backend,
            Qssf(),
            self.journal,
            TruePredictor(JOBS),
            lambda: self.backend.now,
            lambda: f"r{next(numbers)}",
        )
        self.state_dir = StateDir(folder)
        self.status = folder / "status.json"
        self.loop = DaemonLoop(
            self.runner,
            self.state_dir,
            lambda: SlurmConfig(self.config),
            LoopOptions(acting, 0.01, self.status),
            lambda at: self.upkeep(at),
            lambda: self.backend.now,
            RequestBook(MemoryRequests()),
        )

    def order(self) -> list[int]:
        return [key.job_id for key in self.backend.pending_order()]

    def answer(self) -> dict[str, object]:
        return dict(json.loads(self.status.read_text()))


@pytest.fixture
def acting(tmp_path: Path) -> Daemon:
    return Daemon(tmp_path, acting=True)


def test_acting_takes_the_writers_lock(acting: Daemon) -> None:
    with StateDir(acting.state_dir.path).writing(), pytest.raises(TryAgainError):
        acting.loop.once()
    assert acting.order() == [1, 2]
    acting.loop.once()
    assert acting.order() == [2, 1]


def test_observing_needs_no_lock_and_settles_nothing(tmp_path: Path) -> None:
    observer = Daemon(tmp_path, acting=False)
    with observer.state_dir.writing():
        observer.loop.once()
    assert observer.order() == [1, 2]


def test_the_halt_is_looked_up_under_the_lock(acting: Daemon) -> None:
    acting.state_dir.halt("by a test")
    assert acting.loop.once().info.acting is False
    assert acting.order() == [1, 2]
    assert acting.answer()["halted"] == "by a test"
    acting.state_dir.lift_halt()
    assert acting.loop.once().info.acting is True


def test_a_new_predictor_is_used_from_this_round_on(acting: Daemon) -> None:
    newer = TruePredictor(JOBS, "newer")
    acting.upkeep = lambda _: newer
    assert acting.loop.once().info.model_id == "newer"
    acting.upkeep = lambda _: None
    assert acting.loop.once().info.model_id == "newer"


def test_the_public_answer_shows_no_names_and_no_jobs_where_slurm_hides_them(
    acting: Daemon,
) -> None:
    acting.loop.once()
    assert set(acting.answer()["jobs"]) == {"1", "2"}  # type: ignore[call-overload]
    assert "secret" not in acting.status.read_text()
    acting.config["PrivateData"] = "accounts,jobs"  # changed while the daemon runs
    acting.loop.once()
    assert acting.answer()["jobs"] == {}
    assert acting.answer()["private"] is True


def test_failed_rounds_back_off_and_end_nothing(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits: list[float] = []
    hurries: list[bool] = []
    outcomes: Iterator[bool] = iter([False, False, True, False, True])

    def upkeep(_at: int) -> None:
        if not next(outcomes):
            raise UnavailableError("slurmctld is away")

    def pause(seconds: float, may_hurry: bool) -> None:
        waits.append(round(seconds, 6))
        hurries.append(may_hurry)
        if len(waits) == 5:
            acting.loop.end()

    acting.upkeep = upkeep  # type: ignore[assignment]
    monkeypatch.setattr(acting.loop, "_pause", pause)
    good: list[RoundResult] = []
    with caplog.at_level("INFO"), suppress(StopIteration):
        acting.loop.run(good.append)
    assert waits == [0.01, 0.02, 0.01, 0.01, 0.01]
    assert hurries == [False, False, True, False, True]  # nobody hurries a Slurm that is away
    assert len(good) == 2
    assert caplog.text.count("round failed") == 3
    assert caplog.text.count("rounds succeed again") == 2


def test_somebody_in_a_hurry_brings_the_next_round_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(tmp_path, acting=False)
    patient = replace(daemon.loop.options, interval_s=3600.0)
    daemon.loop.options = patient
    monkeypatch.setattr("gsched.daemon.loop.EARLY_ROUND_S", 0.1)
    rounds: list[float] = []

    def after_round(_: RoundResult) -> None:
        rounds.append(time.monotonic())
        daemon.loop.hurry()
        if len(rounds) == 4:
            daemon.loop.end()

    daemon.loop.run(after_round)  # three hours, did nobody hurry
    gaps = [after - before for before, after in itertools.pairwise(rounds)]
    assert min(gaps) > 0.05  # however often they ask


def test_a_query_socket_that_cannot_be_opened_stops_no_round(
    acting: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_taken = True

    class Server:
        @contextmanager
        def listening(self, address: str) -> Iterator[str]:
            if is_taken:
                raise UnavailableError(f"cannot listen at {address}: Address already in use")
            yield address

    acting.loop.query_socket = QuerySocket(Server(), "h:1")  # type: ignore[arg-type]
    with acting.loop.query_socket.kept():
        acting.loop.once()
        problem = "cannot listen at h:1: Address already in use"
        assert (acting.answer()["query_address"], acting.answer()["query_problem"]) == ("", problem)
        is_taken = False
        acting.loop.once()
        assert (acting.answer()["query_address"], acting.answer()["query_problem"]) == ("h:1", "")


def test_the_end_interrupts_a_pause(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, acting=False)
    daemon.loop.options = replace(daemon.loop.options, interval_s=3600.0)
    daemon.loop.run(lambda _: threading.Timer(0.05, daemon.loop.end).start())
    assert daemon.loop.bulletin is not None
