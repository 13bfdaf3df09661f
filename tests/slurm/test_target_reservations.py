"""Reservations for promised jobs on a real Slurm: what keeps other hands from their nodes, and that
nothing of it is left over or lost, whoever dies when.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.site import Site, fresh_site

from gsched.engine.faults import RESERVATION_POINTS, FaultPoint
from gsched.model.target_records import RESERVED, UNRESERVED
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

ADMINS = "gsched_target_9999"
"""A reservation that an administrator has given a name like ours."""

STREAM_S = 2
URGENT = "--nice=-5000000"
"""More than gsched may lift any job."""


class Desk:
    """Two nodes of eight GPUs for jobs, a third that an administrator has reserved."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.log = site.bed.spec.root / "daemon.log"
        knobs = {"profile_s": "0", "lease_s": "600", "grace_s": "5", "resume_s": "5"}
        given = {"policy": '"chronus"', "leases": "true", "exclude_users": '["root"]'}
        site.configure("daemon", **given)
        site.configure("daemon.knobs", **knobs, spot_lease_s="3000", margin_s="5")
        site.configure("forecast", enabled="false")
        site.know_durations({"long": 400})
        site.configure("deadlines", reservations="false")
        words = ("users=news", "starttime=now", "duration=60", "nodes=gn03")
        site.slurm("scontrol", "create", "reservation", f"reservationname={ADMINS}", *words)

    def allow(self, *, reservations: bool) -> None:
        text = self.site.config.read_text()
        before = f"reservations = {str(not reservations).lower()}"
        after = f"reservations = {str(reservations).lower()}"
        self.site.config.write_text(text.replace(before, after))

    @contextmanager
    def daemon(self, point: FaultPoint | None = None) -> Iterator[Background]:
        env = {} if point is None else {"GSCHED_FAULT_POINT": point.value}
        with self.site.daemon("--act", env=env) as running:
            yield running

    def hold(self, node: str) -> int:
        """A job of another hand that has the node until it is cancelled."""
        words = ("-w", node, "--gres=gpu:8", "-o", "/dev/null", "--wrap", "sleep 2400")
        job = int(self.site.slurm("sbatch", "--parsable", "-t", "40", URGENT, *words))
        wait_for(lambda: self.state(job) == "RUNNING", "the other hand's job", 60)
        return job

    def target(self, gpus: int) -> int:
        """A job with a deadline that is due at once."""
        deadline = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3200))
        nodes = ("-N", str(gpus // 8 or 1), f"--gres=gpu:{min(8, gpus)}", "-t", "20")
        job = ("-J", "long", *nodes, "-o", "/dev/null", "--wrap", "sleep 1200")
        words = ("submit", "--parsable", "--gs-deadline", deadline, *job)
        return int(self.site.ok(*words, user="games").split()[-1])

    def is_due(self, job: int) -> bool:
        return '"is_due": true' in self.site.ok("why", "--json", str(job))

    def state(self, job: int) -> str:
        return self.site.states().get(job, "")

    def inside(self, job: int) -> str:
        """The reservation that a job is in."""
        words = ("squeue", "-h", "-t", "all", "-j", str(job), "-O", "Reservation:40")
        found = self.site.slurm(*words).strip()
        return "" if found == "(null)" else found

    def reserved(self) -> dict[str, str]:
        """Nodes by reservation, the administrator's left out, which always is there."""
        text = self.site.slurm("scontrol", "-a", "-o", "show", "reservation")
        lines = [dict(w.split("=", 1) for w in x.split() if "=" in w) for x in text.splitlines()]
        found = {x["ReservationName"]: x["Nodes"] for x in lines if "ReservationName" in x}
        assert found.pop(ADMINS) == "gn03"
        return found

    def stands(self, job: int) -> bool:
        name = f"gsched_target_{job}"
        return self.inside(job) == name and list(self.reserved()) == [name]

    def is_gone(self, job: int) -> bool:
        return not self.inside(job) and not self.reserved() and not self.known()

    def known(self) -> list[int]:
        """Jobs whose nodes SQL says are reserved."""
        with History.open(f"sqlite:///{self.site.state}/history.db") as history:
            records = history.targets().reserved(self.site.bed.spec.cluster)
            return [record.key.job_id for record in records]

    def events(self, job: int) -> list[str]:
        with History.open(f"sqlite:///{self.site.state}/history.db") as history:
            store = history.targets()
            asked = store.asked(self.site.bed.spec.cluster)
            (record,) = [r for r in asked if r.key.job_id == job]
            told = [event.what for event in store.events(record)]
            return [what for what in told if what in (RESERVED, UNRESERVED)]

    def clear(self) -> None:
        """`gsched daemon clear`, and the daemon may act again afterwards."""
        self.site.ok("daemon", "clear")
        self.site.ok("daemon", "clear", "--lift-halt")


@pytest.fixture
def desk() -> Iterator[Desk]:
    with fresh_site(num_nodes=3) as site:
        yield Desk(site)


class Stream:
    """Another hand's jobs, which come before all that gsched orders and take what is free."""

    def __init__(self, desk: Desk) -> None:
        script = f"sleep {STREAM_S}"
        words = f"sbatch -Q -t 1 {URGENT} -w {{node}} --gres=gpu:8 -o /dev/null --wrap '{script}'"
        self._words = "\n".join(words.format(node=node) for node in ("gn01", "gn02") * 2)
        self._desk = desk
        self._process: Background | None = None

    def refill(self) -> None:
        """At least two jobs wait for each node."""
        waiting = self._desk.site.slurm("squeue", "-h", "-u", "root", "-t", "PD", "-o", "%A")
        if len(waiting.split()) < 4:
            self._desk.site.slurm("bash", "-c", self._words)

    def begun(self) -> int:
        """How many of them have begun by now."""
        words = ("squeue", "-h", "-u", "root", "-t", "all", "-o", "%T")
        return sum(state != "PENDING" for state in self._desk.site.slurm(*words).split())

    def meanwhile(self, condition: object) -> bool:
        self.refill()
        assert callable(condition)
        return bool(condition())


def test_another_hands_stream_cannot_take_the_nodes_of_a_due_target(desk: Desk) -> None:
    """It takes them as long as nothing is reserved; with a reservation the target starts."""
    stream = Stream(desk)
    stream.refill()
    with desk.daemon() as daemon:
        job = desk.target(8)
        wait_for(lambda: stream.meanwhile(lambda: desk.is_due(job)), "the target to be due", 60)
        begun = stream.begun()
        wait_for(lambda: stream.meanwhile(lambda: stream.begun() >= begun + 8), "the stream", 120)
        assert desk.state(job) == "PENDING"  # eight others have begun on its nodes meanwhile
        assert desk.reserved() == {}
        desk.allow(reservations=True)
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: stream.meanwhile(lambda: desk.state(job) == "RUNNING"), "the target", 60)
        wait_for(lambda: stream.meanwhile(lambda: desk.is_gone(job)), "its end", 60)
        assert desk.state(job) == "RUNNING"
        assert desk.events(job) == [RESERVED, UNRESERVED]
        begun = stream.begun()
        wait_for(lambda: stream.meanwhile(lambda: stream.begun() >= begun + 2), "the others", 60)
        assert desk.state(job) == "RUNNING"


def test_less_than_a_node_gets_none(desk: Desk) -> None:
    desk.allow(reservations=True)
    desk.hold("gn01"), desk.hold("gn02")
    small = desk.target(4)
    with desk.daemon():
        wait_for(lambda: desk.is_due(small), "it to be due", 60)
        desk.site.slurm("scancel", str(small))  # there is no room for both until their deadlines
        whole = desk.target(16)
        wait_for(lambda: desk.stands(whole), "the reservation of the whole nodes", 60)
        assert desk.reserved() == {f"gsched_target_{whole}": "gn[01-02]"}
        assert desk.events(small) == []
        guest = desk.target(8)  # of the same user, who would have it before all others
        words = (f"jobid={guest}", f"reservationname=gsched_target_{whole}")
        desk.site.slurm("scontrol", "update", *words, user="games")
        wait_for(lambda: desk.is_gone(whole), "it to be gone", 60)
        assert not desk.inside(guest)


def test_a_kill_between_any_two_steps_is_mended_by_the_next_daemon(desk: Desk) -> None:
    desk.hold("gn01"), desk.hold("gn02")
    job = desk.target(8)
    for point in RESERVATION_POINTS:
        removes = point in (FaultPoint.RESERVATION_EMPTIED, FaultPoint.RESERVATION_REMOVED)
        desk.allow(reservations=True)
        if removes:
            with desk.daemon():
                wait_for(lambda: desk.stands(job), "a reservation to remove", 60)
            desk.allow(reservations=False)
        with desk.daemon(point) as daemon:
            wait_for(lambda: not daemon.is_running(), f"the daemon to die at {point.value}", 60)
            assert daemon.process.returncode == -signal.SIGKILL
        assert desk.known() == [job]  # SQL knows of whatever may be there
        assert set(desk.reserved()) <= {f"gsched_target_{job}"}
        with desk.daemon():
            if removes:
                wait_for(lambda: desk.is_gone(job), f"nothing to be left ({point.value})", 60)
            else:
                wait_for(lambda: desk.stands(job), f"the reservation ({point.value})", 60)
        if not removes:
            desk.clear()
            assert desk.is_gone(job)
        assert desk.state(job) == "PENDING"


def test_without_a_daemon_it_ends_by_itself_and_nothing_is_lost(desk: Desk) -> None:
    """Its job waits on, not held, or runs on; whoever takes it out is not contradicted."""
    desk.allow(reservations=True)
    first = desk.hold("gn01")
    desk.hold("gn02")
    runs, waits = desk.target(8), desk.target(8)
    both = {f"gsched_target_{runs}", f"gsched_target_{waits}"}
    with desk.daemon() as daemon:
        wait_for(lambda: set(desk.reserved()) == both, "two reservations", 60)
        wait_for(lambda: all(map(desk.inside, (runs, waits))), "both jobs to be in them", 60)
        daemon.signal(signal.SIGKILL)
    desk.site.slurm("scancel", str(first))  # flexible: whichever Slurm takes first may start there
    wait_for(lambda: "RUNNING" in (desk.state(runs), desk.state(waits)), "one of them to start", 60)
    if desk.state(waits) == "RUNNING":
        runs, waits = waits, runs
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3))
    for name in both:
        desk.site.slurm("scontrol", "update", f"reservationname={name}", f"endtime={end}")
    wait_for(lambda: not desk.reserved(), "Slurm to let them end", 120)
    wait_for(lambda: not desk.inside(waits), "its job to be out of it", 60)
    assert desk.state(runs) == "RUNNING"
    assert desk.state(waits) == "PENDING"
    shown = desk.site.slurm("squeue", "-h", "-j", str(waits), "-o", "%Q %r").split()
    assert int(shown[0]) > 0
    assert "Held" not in shown[1]
    with desk.daemon():
        wait_for(lambda: desk.stands(waits), "the next daemon to reserve for it alone", 60)
        desk.site.slurm("scontrol", "update", f"jobid={waits}", "reservationname=", user="games")
        wait_for(lambda: desk.is_gone(waits), "its user's word to stand", 60)
        desk.site.slurm("scancel", str(waits))
    assert desk.state(runs) == "RUNNING"
