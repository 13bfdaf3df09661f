"""The protocol of sd_notify(3) over real sockets, the journal's levels, and time limits."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gsched.daemon import log as daemon_log
from gsched.daemon.notify import Notifier
from gsched.daemon.time_limit import time_limit
from gsched.daemon.waker import Waker
from gsched.engine.ports import OverTimeError


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A manager's address as NOTIFY_SOCKET gives it, and its socket."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@gsched-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(name.replace("@", "\0", 1))
        s.settimeout(10)
        yield name, s


def test_what_the_manager_is_told(manager: tuple[str, socket.socket]) -> None:
    address, sock = manager
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000", "HOME": "/"}
    notifier = Notifier.from_environment(environ)
    assert environ == {"HOME": "/"}  # Slurm's commands must not speak for the daemon
    assert notifier.watchdog_s == 30
    notifier.ready()
    assert sock.recv(4096) == b"READY=1"
    notifier.status("round of \x1b[2J\nREADY=1 a job named like a message")
    told = sock.recv(4096)
    assert told == b"STATUS=round of \\x1b[2J\\nREADY=1 a job named like a message"
    notifier.status("round of \x1b[2J\nREADY=1 a job named like a message")  # no news
    notifier.alive()
    assert sock.recv(4096) == b"WATCHDOG=1"
    before = time.monotonic_ns() // 1000
    notifier.reloading()
    first, _, second = sock.recv(4096).decode().partition("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert before <= int(second.partition("=")[2]) <= time.monotonic_ns() // 1000
    notifier.stopping()
    assert sock.recv(4096) == b"STOPPING=1"
    notifier.status("x" * 5000)
    assert len(sock.recv(65536)) == len("STATUS=") + 400


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative/path"])
def test_without_a_manager_nothing_is_told(address: str) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address} if address else {})
    notifier.ready()
    notifier.status("anything")
    notifier.alive()
    assert notifier.watchdog_s == 0


def test_a_manager_that_has_gone_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(str(tmp_path / "nobody"), 5.0)
    notifier.ready()
    notifier.alive()
    assert caplog.text.count("the service manager cannot be told") == 1


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({"WATCHDOG_USEC": "-5"}, 0),
    ],
)
def test_whose_watchdog_it_is(environ: dict[str, str], expected: float) -> None:
    assert Notifier.from_environment(environ).watchdog_s == expected


LOGGER = """
import logging, os, sys
if sys.argv[1] == "journal":
    found = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
else:
    os.environ["JOURNAL_STREAM"] = "1:1"  # of a process that is ours no more
from gsched.daemon.log import set_up
set_up(logging.DEBUG)
log = logging.getLogger("gsched.daemon")
log.debug("d"); log.info("i"); log.warning("job \\x1b[31m\\n<0>named so"); log.error("e")
log.critical("c")
"""


def logged(kind: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOGGER, kind], capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()


def test_lines_for_the_journal_have_its_levels_and_strangers_cannot_feign_them() -> None:
    assert logged("journal") == [
        "<7>d", "<6>i", "<4>job \\x1b[31m\\n<0>named so", "<3>e", "<2>c",
    ]  # fmt: skip


def test_lines_for_people_have_words() -> None:
    assert logged("terminal")[1:3] == [
        "gsched: INFO: i",
        "gsched: WARNING: job \\x1b[31m\\n<0>named so",
    ]


def test_a_line_is_of_bounded_length() -> None:
    assert len(daemon_log.one_line("x" * 100_000)) == 4000
    assert daemon_log.priority(logging.NOTSET) == "<7>"


# -- time limits ---------------------------------------------------------------------------------


def test_a_block_that_is_done_in_time_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(30):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_loop_is_interrupted_even_where_it_catches_every_exception() -> None:
    def spin() -> None:
        while True:
            with suppress(Exception):
                sum(range(1000))

    with pytest.raises(OverTimeError), time_limit(0.05):
        spin()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_it_rings_again_for_whoever_swallows_the_first() -> None:
    rung = 0

    def swallow_one() -> None:
        nonlocal rung
        while rung < 2:
            try:
                while True:
                    sum(range(1000))
            except BaseException:
                rung += 1
                if rung == 2:
                    raise

    with pytest.raises(OverTimeError), time_limit(0.01):
        swallow_one()
    assert rung == 2


# -- waiting -------------------------------------------------------------------------------------


@pytest.fixture
def waker() -> Iterator[Waker]:
    made = Waker()
    yield made
    made.close()


def test_who_was_woken_before_does_not_wait(waker: Waker) -> None:
    waker.wake()
    waker.wake()
    assert waker.wait(60) is True
    assert waker.wait(0) is False


def test_another_thread_and_a_signal_handler_wake(waker: Waker) -> None:
    threading.Timer(0.05, waker.wake).start()
    assert waker.wait(60) is True
    before = signal.signal(signal.SIGUSR1, lambda _n, _f: waker.wake())
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert waker.wait(60) is True
    finally:
        signal.signal(signal.SIGUSR1, before)
