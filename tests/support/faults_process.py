"""Faults of the daemon itself: killed, stopped, doubled, its clock stepped, sockets attacked."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gsched.engine.faults import ROUND_POINTS, FaultPoint
from gsched.testbed.wait import wait_for
from support.faults import Fault, Step
from support.faults_check import findings
from support.faults_site import FaultSite
from support.site import GSCHED

DATA = Path(__file__).parent.parent / "data"
HOUR_S = 3600
FAULT_VARIABLE = "GSCHED_FAULT_POINT"


# -- killed ----------------------------------------------------------------------------------------


def at_point(point: FaultPoint) -> Fault:
    """The daemon kills itself at a named point."""

    def inject(site: FaultSite) -> None:
        site.stop()
        site.launch(env={FAULT_VARIABLE: point.value})
        site.enlarge()
        wait_for(site.gone, f"the daemon to come to {point.value}", 30)
        assert site.runner is not None
        code = site.runner.process.returncode
        assert code == -signal.SIGKILL, f"it ended with {code}: {site.said()[-2:]}"
        _reconciles_at_once(site)

    name = f"kill-at-{point.value}"
    return Fault(name, f"kill -9 at the fault point {point.value}", inject, ends=True)


def at_once(site: FaultSite, point: FaultPoint) -> None:
    """One acting round that is killed at `point`; the journal explains what it has left."""
    killed = site.once(env={FAULT_VARIABLE: point.value})
    assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
    _reconciles_at_once(site)


def _reconciles_at_once(site: FaultSite) -> None:
    found = findings(site, after_recovery=False)
    assert not found, f"before the restart: {found}"


def at_random(number: int) -> Fault:
    """Kill number `number`: its moment is drawn from that as the seed."""
    rng = random.Random(number)
    delay_s = rng.uniform(0.0, 3.0)

    def inject(site: FaultSite) -> None:
        site.stop()
        site.launch()
        site.enlarge()
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began >= delay_s, "the moment", poll_s=0.002)
        site.kill()
        _reconciles_at_once(site)

    what = f"kill -9 {delay_s:.2f} s after the start (seed {number})"
    return Fault(f"kill-random-{number:02}", what, inject, ends=True)


# -- stopped, doubled ------------------------------------------------------------------------------


def _stop(*asked: tuple[str, ...]) -> Step:
    def inject(site: FaultSite) -> None:
        assert site.runner is not None
        site.runner.signal(signal.SIGSTOP)
        site.enlarge()
        for words in asked:
            answer = site.bed.run([GSCHED, *words], timeout_s=60)
            assert "Traceback" not in answer.stderr, answer.stderr

    return inject


def _continue(site: FaultSite) -> None:
    assert site.runner is not None
    site.runner.signal(signal.SIGCONT)


def _second_daemon(site: FaultSite) -> None:
    for words in (("run", "--act"), ("once", "--act"), ("once",)):
        second = site.bed.run([GSCHED, "daemon", *words], extra_env=site.extra_env)
        assert second.returncode == 75, (words, second.returncode, second.stderr)
        assert "another gsched daemon is running" in second.stderr


# -- clock -----------------------------------------------------------------------------------------


def _step(seconds: int) -> Fault:
    def inject(site: FaultSite) -> None:
        began = site.status()["as_of"]
        clock(site).write_text(str(seconds))
        if seconds > 0:
            site.wait_for_round(began + seconds / 2)
        else:
            wait_for(lambda: site.status().get("as_of", began) < began, "a round in the past")
        site.enlarge()
        wait_for(site.is_in_order, "the right order all the same")

    def heal(site: FaultSite) -> None:
        clock(site).write_text("0")

    hours, way = abs(seconds) // HOUR_S, "forward" if seconds > 0 else "back"
    what = f"the daemon's clock is put {way} by {hours} h during rounds, and later set right"
    return Fault(f"clock-{way}", what, inject, heal, setting="clock")


def clock(site: FaultSite) -> Path:
    """The file by which the clock of this site's daemon is stepped."""
    return site.bed.spec.root / "clock"


def clock_environment(site: FaultSite) -> dict[str, str]:
    """What a daemon needs to have a clock that can be stepped."""
    return {**imports("stand_in_clock"), "STAND_IN_CLOCK": str(clock(site))}


def imports(folder: str) -> dict[str, str]:
    """Let a daemon import what lies in tests/data/`folder`."""
    path = (str(DATA / folder), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": ":".join(filter(None, path))}


# -- sockets ---------------------------------------------------------------------------------------

_JUNK = (b"", b"\n", b"{}\n", b"\x00" * 70_000, b"GET / HTTP/1.0\r\n\r\n", b"{" * 20_000 + b"\n")


@contextmanager
def attacked(site: FaultSite, threads: int = 6) -> Iterator[None]:
    """The daemon's sockets are flooded with connections and junk during the block."""
    ended = threading.Event()
    workers = [threading.Thread(target=_flood, args=(site, ended, n)) for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        ended.set()
        for worker in workers:
            worker.join()


def _flood(site: FaultSite, ended: threading.Event, seed: int) -> None:
    rng = random.Random(seed)
    while not ended.wait(0.01):
        with suppress(OSError, ValueError), _connection(site, rng) as connection:
            connection.settimeout(0.2)
            connection.sendall(rng.choice(_JUNK))
            if rng.random() < 0.5:
                connection.recv(10)


def _connection(site: FaultSite, rng: random.Random) -> socket.socket:
    address = str(site.status().get("query_address", ""))
    if address and rng.random() < 0.5:
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=0.2)
    unix = socket.socket(socket.AF_UNIX)
    unix.settimeout(0.2)
    try:
        unix.connect(str(site.state / "daemon.sock"))
    except OSError:
        unix.close()
        raise
    return unix


def _attack_sockets(site: FaultSite) -> None:
    with attacked(site):
        began = time.time()
        site.enlarge()
        site.wait_for_round(began + 3)
        wait_for(site.is_in_order, "the right order all the same")


PROCESS_FAULTS = (
    *(at_point(point) for point in ROUND_POINTS),
    Fault(
        "daemon-stopped",
        "the daemon is stopped by SIGSTOP, and continued",
        _stop(("queue",)),
        _continue,
    ),
    Fault(
        "daemon-stopped-and-asked",
        "the daemon is stopped by SIGSTOP while status and doctor ask it, and continued",
        _stop(("daemon", "status"), ("doctor",)),
        _continue,
    ),
    Fault(
        "two-daemons",
        "a second daemon on the same state folder, acting or observing",
        _second_daemon,
    ),
    _step(HOUR_S),
    _step(-HOUR_S),
    Fault(
        "sockets-attacked",
        "query and control socket flooded with connections, silence and junk",
        _attack_sockets,
    ),
)

RANDOM_KILLS = tuple(at_random(number) for number in range(1, 51))
