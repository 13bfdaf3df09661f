"""Slurm's power saving through `gsched power`, on a real Slurm whose nodes are slurmd processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

BIN = Path(sys.executable).parent
TRIES = 3
RESUME_TIMEOUT_S = 10

SWITCH = """#!/bin/sh
# Switches a node of the testbed, and fails while a test wants it to.
verb=$1 node=$2
echo "$verb $node" >>{folder}/calls
if [ -e "{folder}/fails-$verb-$node" ]; then
    echo "$node does not obey" >&2
    exit 5
fi
if [ "$verb" = restart ]; then
    {python} -m gsched.testbed.node_power suspend {root} "$node"
    verb=resume
fi
exec {python} -m gsched.testbed.node_power "$verb" {root} "$node"
"""

CONFIG = """
state_dir = "{folder}/gsched"
[power]
tries = {tries}
backoff_s = 0.3
suspend_limit_s = 8
resume_limit_s = 8
stop_after = 4
[[power.backends]]
nodes = ["gn*"]
kind = "command"
suspend = ["{folder}/switch", "suspend", "%n"]
resume = ["{folder}/switch", "resume", "%n"]
restart = ["{folder}/switch", "restart", "%n"]
"""


class PowerSite:
    """A testbed whose nodes are switched by `gsched power`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = {
            "SuspendProgram": "gsched-suspend",
            "ResumeProgram": "gsched-resume",
            "ResumeFailProgram": "gsched-resume-failed",
        }
        lines = (f"{key}={folder}/{name}" for key, name in programs.items())
        timeout = f"ResumeTimeout={RESUME_TIMEOUT_S}"
        self.bed = Testbed.temporary(num_nodes=4, extra_conf=(*lines, timeout))
        for name in programs.values():  # only the configuration's place is said; streams stay
            self._program(
                name, f'#!/bin/sh\nexec env GSCHED_CONFIG={folder}/gsched.toml {BIN}/{name} "$@"\n'
            )
        words = {"folder": folder, "python": sys.executable, "root": self.bed.spec.root}
        self._program("switch", SWITCH.format(**words))
        (folder / "gsched.toml").write_text(CONFIG.format(tries=TRIES, **words))

    def _program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def state(self, node: str) -> str:
        """Slurm's word for the state of a node, such as IDLE+POWERED_DOWN."""
        text = self.bed.run(["scontrol", "-o", "show", "node", node]).stdout
        return text.partition("State=")[2].split()[0]

    def order(self, node: str, state: str) -> None:
        done = self.bed.run(["scontrol", "update", f"nodename={node}", f"state={state}"])
        assert done.returncode == 0, done.stderr

    def sleeps(self, node: str) -> None:
        wait_for(lambda: "POWERED_DOWN" in self.state(node), f"{node} to sleep")

    def is_up(self, node: str) -> bool:
        """Whether Slurm uses the node: no flag of power saving, and no drain."""
        return self.state(node) in ("IDLE", "MIXED", "ALLOCATED")

    def slurmds(self) -> set[str]:
        """The nodes whose slurmd runs."""
        processes = self.bed.status().processes
        return {p.argv[-1] for p in processes if p.program == "slurmd" and "-N" in p.argv}

    def gsched(self, *words: str) -> str:
        environment = {"GSCHED_CONFIG": str(self.folder / "gsched.toml")}
        done = self.bed.run([str(BIN / "gsched"), *words], extra_env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict:
        return json.loads(self.gsched("power", "status", "--json"))

    def outcome(self, node: str) -> tuple[str, str]:
        """The last verb for a node, and its outcome."""
        found = {entry["node"]: entry for entry in self.status()["nodes"]}
        return (found[node]["verb"], found[node]["outcome"]) if node in found else ("", "")

    def calls(self, node: str) -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[0] for line in lines if line.endswith(f" {node}")]

    def job(self, node: str, *words: str) -> int:
        return self.submit("-w", node, *words, "--wrap", "echo $SLURMD_NODENAME")

    def submit(self, *words: str) -> int:
        done = self.bed.run_as("games", ["sbatch", "--parsable", *words])
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def job_state(self, job: int) -> str:
        words = ["scontrol", "-o", "show", "job", str(job)]
        return self.bed.run(words).stdout.partition("JobState=")[2].split()[0]

    def runs_on(self, node: str) -> None:
        """A job comes and wakes the node. srun, for a batch job waits for Slurm's tick of 30 s."""
        done = self.bed.run_as("games", ["srun", "-w", node, "printenv", "SLURMD_NODENAME"])
        assert (done.returncode, done.stdout.strip()) == (0, node), done.stderr

    def completes(self, job: int) -> None:
        wait_for(lambda: self.job_state(job) == "COMPLETED", f"job {job} to complete")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PowerSite]:
    made = PowerSite(tmp_path_factory.mktemp("power"))
    with made.bed:
        yield made


def test_nodes_go_off_and_come_back_for_a_job(site: PowerSite) -> None:
    site.order("gn[01-02]", "power_down_asap")
    site.sleeps("gn01")
    site.sleeps("gn02")
    assert site.slurmds() == {"gn03", "gn04"}
    assert site.outcome("gn01") == ("suspend", "done")
    site.runs_on("gn01")
    assert site.outcome("gn01") == ("resume", "done")
    assert site.slurmds() == {"gn01", "gn03", "gn04"}
    site.order("gn02", "power_up")
    wait_for(lambda: site.is_up("gn02"), "gn02 to wake")
    assert (site.calls("gn01"), site.calls("gn02")) == (["suspend", "resume"],) * 2


def test_a_node_with_a_job_goes_off_when_the_job_has_ended(site: PowerSite) -> None:
    job = site.submit("-w", "gn03", "--wrap", "while [ ! -e go ]; do sleep 0.1; done")
    wait_for(lambda: site.job_state(job) == "RUNNING", "the job to run")
    site.order("gn03", "power_down_asap")
    wait_for(lambda: "POWER_DOWN" in site.state("gn03"), "the order to be known")
    assert "gn03" in site.slurmds()
    (site.bed.layout.home("games") / "go").touch()
    site.completes(job)
    site.sleeps("gn03")
    assert site.calls("gn03") == ["suspend"]
    site.runs_on("gn03")


MOMENTS = {"gn01": "", "gn02": "POWER_DOWN", "gn03": "POWERING_DOWN", "gn04": "POWERED_DOWN"}


def test_a_job_for_a_node_that_is_just_put_to_sleep_runs_in_the_end(site: PowerSite) -> None:
    jobs = {}
    before = {node: site.calls(node) for node in MOMENTS}
    for node, moment in MOMENTS.items():
        site.order(node, "power_down_asap")
        if moment:
            wait_for(lambda n=node, m=moment: m in site.state(n).split("+"), f"{node} {moment}")
        jobs[node] = site.job(node)
    for node, job in jobs.items():
        site.completes(job)
        assert site.is_up(node)
        assert site.calls(node) == [*before[node], "suspend", "resume"]


def test_a_node_whose_suspend_fails_is_tried_again_and_left_and_restarted(site: PowerSite) -> None:
    fails = site.folder / "fails-suspend-gn01"
    fails.touch()
    before = len(site.calls("gn01"))
    site.order("gn01", "power_down_asap")
    site.sleeps("gn01")  # as Slurm believes
    wait_for(lambda: site.outcome("gn01") == ("suspend", "failed"), "the suspend to be given up")
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES
    assert "gn01" in site.slurmds()
    site.runs_on("gn01")  # with a resume alone Slurm would wait for a new boot
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES + ["restart"]
    fails.unlink()
    site.order("gn01", "power_down_asap")
    wait_for(lambda: site.outcome("gn01") == ("suspend", "refused"), "the suspend to be refused")
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES + ["restart"]
    site.gsched("power", "clear", "gn01")
    site.sleeps("gn01")
    site.runs_on("gn01")


def failures(site: PowerSite, node: str) -> list[str]:
    return [f["error"] for f in site.status()["failures"] if f["node"] == node]


def test_a_node_that_does_not_wake_is_tried_again_reported_and_left(site: PowerSite) -> None:
    site.order("gn02", "power_down_asap")
    site.sleeps("gn02")
    fails = site.folder / "fails-resume-gn02"
    fails.touch()
    before = len(site.calls("gn02"))
    job = site.job("gn02")
    wait_for(lambda: "DOWN" in site.state("gn02").split("+"), "Slurm to give gn02 up")
    wait_for(lambda: len(failures(site, "gn02")) == 2, "Slurm's own word of it")
    assert "gn02 does not obey" in failures(site, "gn02")[0]
    assert "ResumeTimeout" in failures(site, "gn02")[1]
    assert site.calls("gn02")[before:] == ["resume"] * TRIES
    # an administrator has mended it
    fails.unlink()
    site.gsched("power", "clear", "gn02")
    site.gsched("power", "resume", "gn02")
    print("after a mend:", site.state("gn02"))
    wait_for(lambda: site.is_up("gn02"), "gn02 to be taken back")
    site.completes(job)
    assert failures(site, "gn02") == []


def test_after_too_many_failures_nothing_is_suspended_and_all_is_resumed(site: PowerSite) -> None:
    site.order("gn02", "power_down_asap")
    site.sleeps("gn02")
    for node in ("gn90", "gn91", "gn92", "gn93"):
        (site.folder / f"fails-suspend-{node}").touch()
    many = [str(BIN / "gsched-suspend"), "gn[90-93]"]
    done = site.bed.run(many, extra_env={"GSCHED_CONFIG": str(site.folder / "gsched.toml")})
    assert done.returncode == 69
    assert "CRITICAL: no node is suspended any more: 4 failures of 4 nodes" in done.stderr
    before = len(site.calls("gn03"))
    site.order("gn03", "power_down_asap")
    wait_for(lambda: site.outcome("gn03") == ("suspend", "refused"), "the suspend to be refused")
    site.sleeps("gn03")  # as Slurm believes
    assert {"gn01", "gn03"} <= site.slurmds()
    site.runs_on("gn02")
    site.runs_on("gn03")
    assert site.calls("gn03")[before:] == ["restart"]
    site.gsched("power", "clear")
    site.order("gn03", "power_down_asap")
    site.sleeps("gn03")
    assert site.outcome("gn03") == ("suspend", "done")


def test_doctor_knows_the_programs_and_sees_that_slurm_does_not_wait_for_them(
    site: PowerSite,
) -> None:
    environment = {"GSCHED_CONFIG": str(site.folder / "gsched.toml")}
    done = site.bed.run([str(BIN / "gsched"), "doctor", "--json"], extra_env=environment)
    found = {finding["code"]: finding["found"] for finding in json.loads(done.stdout)}
    assert "SuspendTimeout is 2 s, and a call of gsched's may take 8 s" in found["power-limit"]
    assert {code for code in found if code.startswith("power-")} == {
        "power-back-ends",
        "power-limit",
    }
