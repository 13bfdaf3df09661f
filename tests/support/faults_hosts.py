"""Two hosts with one database: the second one is this machine under another name and machine id."""

from __future__ import annotations

import signal
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from support.faults import Fault
from support.faults_site import FaultSite
from support.faults_store import SERVERS
from support.site import GSCHED

ROUNDS = "policy qssf, act"
"""Said by a daemon that begins its rounds."""

_OTHER = """
hostname other-head
mount --bind "$1" /etc/machine-id
shift
exec "$@"
"""


class _OtherHost:
    """A daemon of the same cluster elsewhere, with a state folder of its own."""

    def __init__(self) -> None:
        self._daemon: Background | None = None
        self.log = Path()

    def start(self, site: FaultSite) -> None:
        root = site.bed.spec.root
        state, machine = root / "other-host", root / "other-machine-id"
        state.mkdir(mode=0o755, exist_ok=True)
        machine.write_text("0" * 31 + "2\n")
        self.log = root / "other-host.log"
        self.log.unlink(missing_ok=True)
        run = (GSCHED, "daemon", "run", "--interval", "0.5", "--act")
        argv = ("unshare", "--uts", "--mount", "bash", "-ec", _OTHER, "other", str(machine), *run)
        env = {**site.extra_env, "GSCHED_STATE_DIR": str(state)}
        self._daemon = Background(site.bed, argv, self.log, env)

    def says(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def stop(self, _site: FaultSite) -> None:
        if self._daemon is not None:
            self._daemon.stop()


_other = _OtherHost()


def _stand_by(site: FaultSite) -> None:
    _other.start(site)
    wait_for(lambda: _other.says("cannot begin yet"), "the other host's daemon to stand by")
    site.enlarge()
    wait_for(site.is_in_order, "the leader to go on")
    assert not _other.says(ROUNDS), _other.log.read_text()


def _take_over(site: FaultSite) -> None:
    """The leader falls silent for longer than its lead lasts, and wakes up when it is another's."""
    assert site.runner is not None
    site.runner.signal(signal.SIGSTOP)
    # stands for the minutes in which nobody hears of it
    silent = "UPDATE leaders SET renewed_at = renewed_at - 100000"
    server, database = SERVERS[str(site.bed.spec.root)]
    server.execute(silent, database=database)
    _other.start(site)
    try:
        wait_for(lambda: _other.says(ROUNDS), "the other host to take over", 150)
    except UnavailableError:
        raise UnavailableError(f"no other host took over: {_other.log.read_text()}") from None
    site.enlarge()
    wait_for(site.is_in_order, "the other host to order the queue")
    site.runner.signal(signal.SIGCONT)
    site.enlarge()
    wait_for(site.gone, "the former leader to end")
    assert site.runner.process.returncode == 75, site.said()[-2:]
    wait_for(site.is_in_order, "the other host to go on")


HOST_FAULTS = (
    Fault(
        "two-hosts",
        "a daemon of another host on the same PostgreSQL stands by, and ends",
        _stand_by,
        _other.stop,
        setting="postgres",
    ),
    Fault(
        "leader-silent",
        "the leader is stopped until another host has taken over, and continued",
        _take_over,
        _other.stop,
        setting="postgres",
        ends=True,
    ),
)
