"""slurmctld down, hanging, restarting: what commands say, how they end, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.requests import MemoryRequests
from support.site import GSCHED

from gsched.daemon.lease_backend import LiveLeases
from gsched.daemon.requests import RequestBook
from gsched.errors import GschedError
from gsched.slurm.client import CommandClient
from gsched.slurm.exclusions import Rules
from gsched.testbed import processes
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

READERS = (("queue",), ("show", "1"), ("why", "1"), ("requeue", "1"), ("cancel", "--dry-run", "1"))


@pytest.fixture(scope="module")
def site():
    """A testbed whose commands give up on a dead controller in two seconds instead of nine."""
    with Testbed.temporary(num_nodes=1, extra_conf=("MessageTimeout=2",)) as bed:
        made = bed.run(["sbatch", "--parsable", "--hold"], "games", stdin="#!/bin/sh\ntrue\n")
        assert made.stdout == "1\n"
        bed.restart_slurmctld()  # writes the job down; killed within seconds, it would lose it
        yield bed


@pytest.fixture(scope="class")
def down(site):
    """The site without its slurmctld, which is back afterwards."""
    site.kill_slurmctld()
    yield site
    if not running(site, "slurmctld"):
        site.start_slurmctld()


@pytest.fixture
def hanging(site):
    """The site with a slurmctld that takes connections and never answers."""
    pid = controller(site)
    os.kill(pid, signal.SIGSTOP)
    yield site
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: site.run(["squeue", "-h"]).returncode == 0, "slurmctld to answer")


def controller(bed):
    return int((bed.layout.run / "slurmctld.pid").read_text())


def running(bed, program):
    return [p.pid for p in processes.find(bed.spec.root) if p.program == program]


def left_behind(bed):
    """Client commands of Slurm that still run."""
    found = processes.find(bed.spec.root)
    return [p.argv for p in found if p.program in {"squeue", "scontrol", "sprio", "scancel"}]


def gsched(bed, *words, patience_s=5, stdin=""):
    env = {"GSCHED_SLURM_COMMAND_TIMEOUT_S": str(patience_s)}
    return bed.run([GSCHED, *words], "games", extra_env=env, stdin=stdin)


def each_reader(bed, patience_s):
    """What every reading command gave, all run at once: command → result."""
    with ThreadPoolExecutor() as pool:
        results = pool.map(lambda words: gsched(bed, *words, patience_s=patience_s), READERS)
        return dict(zip(READERS, results, strict=True))


class TestDown:
    def test_every_reading_command_says_so(self, down):
        for words, done in each_reader(down, 3).items():
            assert (done.returncode, done.stdout) == (69, ""), (words, done.stderr)
            late, error, hint = done.stderr.splitlines()
            assert late == "gsched: slurmctld does not answer yet; trying for 3 s"
            assert "Unable to contact slurm controller" in error
            assert error.startswith("gsched: error: ")
            assert hint.startswith("hint: is slurmctld up")
        assert left_behind(down) == []

    @pytest.mark.parametrize(
        ("words", "plain", "stdin"),
        [
            (("cancel", "1"), ("scancel", "1"), ""),
            (("submit", "--gs-none"), ("sbatch",), "#!/bin/sh\n"),
        ],
    )
    def test_what_slurm_says_is_passed_on(self, down, words, plain, stdin):
        ours, slurms = gsched(down, *words, stdin=stdin), down.run(plain, "games", stdin=stdin)
        assert "Unable to contact slurm controller" in ours.stderr
        assert (ours.stderr, ours.stdout) == (slurms.stderr, slurms.stdout)
        assert ours.returncode == slurms.returncode

    def test_without_a_terminal_and_within_the_limit(self, down):
        """cron: closed standard input, and one line that tells."""
        done = subprocess.run(
            [GSCHED, "queue"],
            env=down.env() | {"GSCHED_SLURM_COMMAND_TIMEOUT_S": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (75, "")
        assert done.stderr.startswith("gsched: error: squeue -h --local gave no answer within 1 s")

    def test_a_restart_meanwhile_is_waited_for(self, down):
        with reading(down) as queue:
            wait_for(lambda: "does not answer yet" in queue.output(), "gsched to say that it waits")
            down.start_slurmctld()
            assert queue.process.wait(60) == 0
        assert "games" in queue.output()
        assert "error" not in queue.output()


def test_a_controller_that_hangs(hanging):
    for words, done in each_reader(hanging, 1.5).items():
        assert (done.returncode, done.stdout) == (75, ""), (words, done.stderr)
        assert "gave no answer within 1.5 s" in done.stderr
        assert "slurm.command_timeout_s" in done.stderr
        assert "Traceback" not in done.stderr
    assert left_behind(hanging) == []


def test_a_controller_that_goes_on_after_a_while_is_asked_again(hanging):
    with reading(hanging) as queue:
        wait_for(lambda: "does not answer yet" in queue.output(), "gsched to say that it waits")
        os.kill(controller(hanging), signal.SIGCONT)
        assert queue.process.wait(60) == 0
    assert "games" in queue.output()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_waiting_can_be_ended_at_once(hanging, number, status):
    with reading(hanging) as queue:
        wait_for(lambda: left_behind(hanging), "squeue to run")
        queue.signal(number)
        assert queue.process.wait(60) == status
    assert left_behind(hanging) == []
    assert "Traceback" not in queue.output()


def reading(bed):
    """`gsched queue` beside the test; a test run in the background would ignore signals."""
    log = bed.spec.root / "queue.log"
    log.unlink(missing_ok=True)
    return Background(bed, ["env", "--default-signal=INT,TERM", GSCHED, "queue"], log)


def test_a_limiter_of_slurm_is_waited_for(site, tmp_path):
    """As sites with rl_enable answer a client that has used up its share (23.02 and later)."""
    limited = tmp_path / "squeue"
    limited.write_text(
        f'#!/bin/sh\nif [ -e {tmp_path}/asked ]; then exec /usr/bin/squeue "$@"; fi\n'
        f"touch {tmp_path}/asked\n"
        'echo "slurm_load_jobs error: Rate limit exceeded, please retry momentarily" >&2\nexit 1\n'
    )
    limited.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{site.env()['PATH']}"}
    done = site.run([GSCHED, "queue"], extra_env=path)
    assert (done.returncode, "games" in done.stdout) == (0, True), done.stderr


# -- updates ---------------------------------------------------------------------------------------


@pytest.fixture
def waiting(site):
    """Ids of jobs whose SiteFactor can be set: they wait for a node that is full."""
    blocker = submit(site, "--exclusive")
    ids = [submit(site, "--exclusive") for _ in range(3)]
    shown = ["sprio", "-h", "-o", "%i"]
    wait_for(lambda: set(ids) <= set(site.run(shown).stdout.split()), "sprio to list the jobs")
    yield ids
    site.run(["scancel", blocker, *ids])


def submit(bed, *options):
    return bed.run(
        ["sbatch", "--parsable", *options], stdin="#!/bin/sh\nsleep 600\n"
    ).stdout.strip()


def factors(bed):
    words = bed.run(["sprio", "-h", "-o", "%i %S"]).stdout.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


@pytest.fixture
def client(site, monkeypatch):
    for name, value in site.env().items():
        monkeypatch.setenv(name, value)
    return CommandClient(timeout_s=4)


def test_updates_of_jobs_that_vanish_fail_one_by_one(site, client, waiting):
    site.run(["scancel", waiting[1]])
    values = [(job, 50) for job in waiting] + [("99999", 50)]
    outcomes = client.set_site_factors(values)
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, False, True]
    assert {job: factors(site).get(job) for job in waiting} == {
        waiting[0]: 50, waiting[1]: None, waiting[2]: 50,
    }  # fmt: skip


def test_a_controller_that_dies_in_the_middle_leaves_no_false_success(site, client, waiting):
    """Some of the lines are taken, then slurmctld is killed: all that is said is "look again"."""
    values = [(waiting[n % 2], n % 100 + 1) for n in range(100_000)] + [(waiting[2], 77)]
    raised = []

    def update():
        try:
            client.set_site_factors(values)
        except GschedError as error:
            raised.append(error)

    thread = threading.Thread(target=update)
    thread.start()
    wait_for(lambda: factors(site).get(waiting[0]), "the first values to be taken")
    site.kill_slurmctld()
    thread.join()
    site.start_slurmctld()
    assert len(raised) == 1
    assert raised[0].exit_code in (69, 75)
    assert factors(site).get(waiting[2]) in (None, 0)
    assert left_behind(site) == []


def test_an_update_is_not_sent_again(hanging, monkeypatch):
    """slurmctld may have taken it already."""
    for name, value in hanging.env().items():
        monkeypatch.setenv(name, value)
    client = CommandClient(timeout_s=1.5)
    with pytest.raises(GschedError) as caught:
        client.set_site_factors([("1", 5)])
    assert caught.value.exit_code == 75
    assert left_behind(hanging) == []


def test_after_a_restart_none_gives_way_until_nodes_have_registered(site, client):
    """Before, slurmctld 22.05 gives their GPUs to jobs whose steps then fail."""
    leases = LiveLeases(client, client.config(), Rules(), RequestBook(MemoryRequests()))
    wait_for(leases.starts_safely, "all nodes to be known")
    slurmds = [process.pid for process in site._daemons.running({"slurmd"})]
    site.kill_slurmctld()
    try:
        for pid in slurmds:
            os.kill(pid, signal.SIGSTOP)  # else they register before anybody has looked
        site._daemons.start_slurmctld()
        assert not leases.starts_safely()
    finally:
        for pid in slurmds:
            os.kill(pid, signal.SIGCONT)
    wait_for(leases.starts_safely, "all nodes to be known again")
    known = {"idle", "mixed", "allocated"}  # jobs of other tests may have it
    assert {node.view.state for node in client.node_facts()} <= known
