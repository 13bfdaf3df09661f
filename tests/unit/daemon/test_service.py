"""The daemon as a process: waiting until it can begin, opening anew, signals."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.loops import Daemon, daemon_in

from gsched.daemon.gate import Mode
from gsched.daemon.loop import DaemonLoop, ReplacedError
from gsched.daemon.service import Service
from gsched.daemon.wishes import Reloaded
from gsched.errors import (
    AnotherLeadsError,
    ConfigError,
    GschedError,
    LostLeadershipError,
    TryAgainError,
    UnavailableError,
)
from gsched.testbed.wait import wait_for


class Process:
    """A service over a simulated cluster; opening a loop does what `openings` say, in turn."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.openings: list[GschedError | Callable[[], None]] = []
        self.waits: list[Mode] = []
        self.opened = 0
        self.reloads = 0
        parts = daemon.loop.parts
        self.service = Service(
            open_loop=self.open_loop,
            reload=self.reload,
            retry_s=lambda: 0.01,
            waits=self.wait,
            wishes=daemon.wishes,
            board=parts.board,
            notifier=daemon.manager,
            clock=parts.clock,
        )

    @contextmanager
    def open_loop(self) -> Iterator[DaemonLoop]:
        step = self.openings.pop(0)
        if isinstance(step, GschedError):
            raise step
        step()
        self.opened += 1
        yield self.daemon.loop

    def reload(self) -> Reloaded:
        self.reloads += 1
        return Reloaded((), ())

    def wait(self, mode: Mode) -> None:
        self.waits.append(mode)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    with daemon_in(tmp_path, acting=True, watchdog_s=30.0) as daemon:
        yield Process(daemon)
    for number, handler in before.items():
        signal.signal(number, handler)


def end_after_a_round(daemon: Daemon) -> Callable[[], None]:
    def step() -> None:
        daemon.fresh = lambda: daemon.wishes.end()  # type: ignore[assignment,func-returns-value]

    return step


def test_what_is_away_is_waited_for_and_said_once(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    away = UnavailableError("slurmctld is away", "start it")
    process.openings = [
        away,
        away,
        TryAgainError("the database is locked"),
        AnotherLeadsError("host b leads"),
        end_after_a_round(process.daemon),
    ]
    process.service.run()
    assert (process.opened, process.waits) == (1, [Mode.WAITING] * 3 + [Mode.STANDBY])
    assert caplog.text.count("cannot begin yet, trying again: slurmctld is away (start it)") == 1
    told = process.daemon.manager.messages
    assert told[0].startswith("STATUS=waiting (what rounds need does not answer)")
    assert any(t.startswith("STATUS=standby (another host's daemon leads)") for t in told)
    assert told[1:3] == ["READY=1", "WATCHDOG=1"]
    assert "is away" not in "".join(told)  # everybody may read the status
    assert told[-1] == "STOPPING=1"


@pytest.mark.parametrize("error", [ConfigError("no SiteFactor"), LostLeadershipError("host b")])
def test_what_waiting_cannot_mend_ends_it(process: Process, error: GschedError) -> None:
    process.openings = [error]
    with pytest.raises(type(error)):
        process.service.run()
    assert "READY=1" not in process.daemon.manager.messages


def test_a_database_that_was_replaced_is_opened_in_the_same_process(process: Process) -> None:
    def replaced() -> None:
        def check() -> None:
            process.daemon.checking = lambda: None
            raise ReplacedError("the history database is another one")

        process.daemon.checking = check

    process.openings = [replaced, end_after_a_round(process.daemon)]
    process.service.run()
    assert process.opened == 2
    assert process.waits == []


def test_signals_while_it_stands_by(process: Process) -> None:
    away = UnavailableError("slurmctld is away")
    process.openings = [away] * 1000
    ended_by = []

    def send() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: process.reloads, "the reload")
        ended_by.append(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Timer(0.1, send)
    sender.start()
    process.service.run()
    sender.join()
    assert ended_by == [signal.SIGTERM]
    assert process.reloads == 1
    assert process.daemon.manager.messages[-1] == "STOPPING=1"
