"""The unit's own command, as an ordinary account with the right of a Slurm operator.

Run as systemd runs it: with the environment and the system-call filter of the unit, a notify socket
and a watchdog. One testbed with slurmdbd for all tests here, which follow each other.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import sandbox
from support.site import GSCHED, Site, fresh_site

from gsched.daemon.locks import StateDir
from gsched.testbed import environment
from gsched.testbed.processes import MARK
from gsched.testbed.wait import wait_for
from gsched_sql import machine_id

pytestmark = pytest.mark.slurm

UNITS = Path(__file__).parents[2] / "slurm_plugins" / "systemd"
SERVICE, OPERATOR, STRANGER = "backup", "news", "games"
DURATIONS = [300, 5, 40]
SLURMS = {"scontrol", "sprio", "squeue"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Manager:
    """What systemd is to the daemon: its environment, its notify socket, its signals."""

    def __init__(self, site: Site, options: str) -> None:
        root = site.bed.spec.root
        self.log = root / "service.log"
        self.told: list[str] = []
        path = root / "notify"
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        unit = (UNITS / "gsched-daemon.service").read_text()
        (command,) = (w for w in unit.splitlines() if w.startswith("ExecStart="))
        words = shlex.split(command.partition("=")[2].replace("$GSCHED_RUN_OPTIONS", options))
        assert words[:3] == ["/usr/bin/gsched", "daemon", "run"]
        calls = root / "allowed-calls"
        calls.write_text(sandbox.filter_text([UNITS / path for path in DROP_INS]))
        confined = (sys.executable, sandbox.__file__, str(calls), GSCHED, *words[1:])
        with self.log.open("wb") as out:
            found = os.fstat(out.fileno())
            self.process = subprocess.Popen(
                environment.as_user(confined, SERVICE),
                env={
                    **environment.exports(site.bed.layout),
                    MARK: str(root),
                    "PATH": PATH,
                    "HOME": "/nonexistent",
                    "USER": SERVICE,
                    "LOGNAME": SERVICE,
                    "LANG": "C.UTF-8",
                    "NOTIFY_SOCKET": str(path),
                    "WATCHDOG_USEC": "3000000",
                    "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}",
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                umask=0o077,
            )

    def _listen(self) -> None:
        """Take messages at once, as systemd does: few fit into the socket."""
        while message := self._socket.recv(65536):
            self.told.append(message.decode())

    def has(self, *words: str) -> bool:
        """Whether one message has all of the words."""
        return any(all(word in message for word in words) for message in list(self.told))

    def stop(self) -> int:
        """SIGTERM; the exit status. Prints the log for whoever looks for a failure's cause."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self._socket.shutdown(socket.SHUT_RD)
            self._listener.join()
            self._socket.close()
            print(self.log.read_text())


DROP_INS = (
    Path("gsched-.service.d") / "10-sandbox.conf",
    Path("gsched-daemon.service.d") / "20-forecast.conf",
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(accounting="slurmdbd") as made:
        for user in (SERVICE, OPERATOR):
            made.slurm("sacctmgr", "-i", "modify", "user", user, "set", "adminlevel=operator")
        made.configure(
            "daemon",
            interval_s="1",
            kill_switch=f'"{made.bed.spec.root}/off"',
            metrics_file=f'"{made.state}/gsched.prom"',
        )
        # its user may not write beside the package: the simulator would be compiled for a minute
        made.configure("forecast", enabled="false")
        made.queue_up(DURATIONS, user=STRANGER)
        first = min(made.factors())
        wait_for(
            lambda: made.bed.run(
                ["scontrol", "update", f"jobid={first}", "sitefactor=0"], SERVICE
            ).returncode == 0,
            "slurmctld to know its operators",
        )  # fmt: skip
        for path in (made.state, *made.state.rglob("*")):
            shutil.chown(path, SERVICE, SERVICE)
        yield made


@pytest.fixture(scope="module")
def manager(site: Site) -> Iterator[Manager]:
    made = Manager(site, "--act")
    try:
        wait_for(lambda: made.has("STATUS=acting; policy qssf, round"), "the first round")
        yield made
    finally:
        made.stop()


def right_order(site: Site) -> list[int]:
    ids = sorted(site.factors())
    return [job for _, job in sorted(zip(DURATIONS, ids, strict=True))]


def status(site: Site, user: str = SERVICE) -> dict[str, object]:
    answer = site.gsched("daemon", "status", "--json", user=user)
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


def test_an_operator_who_is_nobody_else_orders_the_queue(site: Site, manager: Manager) -> None:
    assert manager.has("READY=1")
    assert site.by_priority() == right_order(site)
    manager.told.clear()
    wait_for(lambda: manager.told.count("WATCHDOG=1") >= 3, "the watchdog")
    found = status(site)
    assert (found["running"], found["asked"], found["mode"]) == (True, True, "act")
    assert found["pid"] == manager.process.pid
    assert found["last_errors"] == []
    files = {p.name: (p.owner(), p.stat().st_mode & 0o777) for p in site.state.iterdir()}
    assert {owner for owner, _ in files.values()} == {SERVICE}
    assert files["status.json"][1] == files["leader.json"][1] == 0o644
    assert files["history.db"][1] & 0o007 == 0
    assert 'gsched_mode{mode="act"} 1.0' in (site.state / "gsched.prom").read_text()


def test_who_may_ask_it_what(site: Site, manager: Manager) -> None:
    found = status(site, STRANGER)
    assert (found["mode"], found["last_errors"], found["problem"]) == ("act", None, None)
    rows = site.gsched("daemon", "audit", "--json", user=OPERATOR)
    assert rows.returncode == 0, rows.stderr
    assert {row["state"] for row in json.loads(rows.stdout)} == {"confirmed"}
    for words in (("daemon", "audit"), ("daemon", "reload")):
        refused = site.gsched(*words, user=STRANGER)
        assert refused.returncode == 77
        assert f"user {STRANGER} may not" in refused.stderr
    refused = site.gsched("daemon", "reload", user=OPERATOR)
    assert refused.returncode == 77


def test_a_broken_configuration_keeps_the_last_good_one(site: Site, manager: Manager) -> None:
    good = site.config.read_text()
    manager.told.clear()
    site.config.write_text(good + "\n[daemon\n")
    manager.process.send_signal(signal.SIGHUP)
    wait_for(lambda: manager.has("STATUS=", "new configuration not in force"), "the refusal")
    wait_for(lambda: manager.has("READY=1"), "the end of the reload")
    assert "is not valid TOML" in str(status(site)["config_problem"])
    assert manager.has("RELOADING=1\nMONOTONIC_USEC=")
    assert "<3>new configuration refused" in manager.log.read_text()
    site.config.write_text(
        good.replace("interval_s", 'policy = "fifo"\nfreeze = ["Fri"]\ninterval_s')
    )
    refused = site.gsched("daemon", "reload", user=SERVICE)
    assert refused.returncode == 78
    assert "'Fri' is no window of time" in refused.stderr
    site.config.write_text(good)
    found = status(site)
    assert (found["config_in_force"], found["policy"]) == (False, "qssf")
    assert "'Fri' is no window of time" in str(found["config_problem"])  # the daemon has seen it
    assert site.by_priority() == right_order(site)
    done = site.gsched("daemon", "reload", "--json", user=SERVICE)
    assert (done.returncode, json.loads(done.stdout)["changed"]) == (0, [])
    assert status(site)["config_in_force"] is True


def test_a_reload_changes_the_policy_between_two_rounds(site: Site, manager: Manager) -> None:
    good = site.config.read_text()
    site.config.write_text(
        good.replace("interval_s", 'policy = "fifo"\nsocket = "/nowhere/else"\ninterval_s')
    )
    asked = {"GSCHED_DAEMON_SOCKET": str(site.state / "daemon.sock")}
    done = site.gsched("daemon", "reload", "--json", user=SERVICE, env=asked)
    assert json.loads(done.stdout) == {
        "changed": ["daemon.policy"],
        "needs_restart": ["daemon.socket"],
    }
    wait_for(lambda: site.by_priority() == sorted(site.factors()), "the order of fifo")
    site.config.write_text(good)
    manager.process.send_signal(signal.SIGHUP)
    wait_for(lambda: site.by_priority() == right_order(site), "the order of qssf")


def test_the_kill_switch_takes_everything_back(site: Site, manager: Manager) -> None:
    off = site.bed.spec.root / "off"
    off.write_text("maintenance\n")
    wait_for(lambda: not any(site.factors().values()), "everything to be taken back")
    wait_for(lambda: status(site)["mode"] == "off", "the status to say so")
    assert str(status(site)["why"]).endswith("off: maintenance")
    assert manager.has("STATUS=switched off, observing (kill switch")
    off.unlink()
    wait_for(lambda: site.by_priority() == right_order(site), "the daemon to go on")


def test_who_has_lost_the_lead_ends_and_stands_by_when_started_again(
    site: Site, manager: Manager
) -> None:
    lead(site, host="elsewhere", released=0)
    assert manager.process.wait(30) == 75
    (last,) = (w for w in manager.log.read_text().splitlines() if "gsched: error" in w)
    assert last.startswith("<3>gsched: error: the gsched daemon of host elsewhere (pid 1) has")
    before = site.factors()
    again = Manager(site, "--act")
    try:
        wait_for(
            lambda: again.has("STATUS=standby (another host's daemon leads)"), "it to stand by"
        )
        wait_for(lambda: again.has("READY=1"), "systemd to be told")
        assert status(site)["mode"] == "standby"
        assert site.factors() == before
        lead(site, host="elsewhere", released=1)
        wait_for(lambda: again.has("STATUS=acting; policy qssf, round"), "it to take over")
    finally:
        assert again.stop() == 0
    assert "STOPPING=1" in again.told
    assert StateDir(site.state).leader() is None
    assert not (site.state / "daemon.sock").exists()
    assert site.factors() == before  # what it ordered stands


def lead(site: Site, host: str, released: int) -> None:
    """Let the daemon of another host, of the same machine to SQLite, have taken over."""
    with sqlite3.connect(site.state / "history.db", timeout=30) as db:
        db.execute(
            "UPDATE leaders SET fence = fence + 1 - ?, host = ?, machine_id = ?, pid = 1,"
            " released = ?, renewed_at = ?",
            (released, host, machine_id(), released, int(time.time())),
        )
    db.close()


def test_a_second_signal_ends_it_at_once(site: Site) -> None:
    """In the middle of a round, for which slurmctld lets it wait."""
    daemon = Manager(site, "--act")
    slurmctld = [p.pid for p in site.bed.status().processes if p.program == "slurmctld"]
    try:
        wait_for(lambda: daemon.has("STATUS=acting; policy qssf, round"), "the first round")
        for pid in slurmctld:
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: asks_slurm(daemon.process.pid), "a round that waits")
        daemon.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(0.5)
        daemon.process.terminate()
        assert daemon.process.wait(10) == -signal.SIGTERM
    finally:
        for pid in slurmctld:
            os.kill(pid, signal.SIGCONT)
        daemon.stop()
    assert StateDir(site.state).leader() is None


def asks_slurm(pid: int) -> bool:
    """Whether the process has a command of Slurm running."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    names = [Path(f"/proc/{child}/comm") for child in children]
    return any(name.read_text().strip() in SLURMS for name in names if name.exists())
