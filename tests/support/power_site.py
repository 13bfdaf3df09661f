"""A private Slurm whose nodes are switched by `gsched power`, and gsched's helper beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsched.daemon.helper_client import HelperClient
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

BIN = Path(sys.executable).parent
TRIES = 3
RESUME_TIMEOUT_S = 10
HELPER_TIMEOUT_S = 60.0

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
connect_timeout_s = 0.5
stop_after = 4
{power}
{backends}
[[power.backends]]
nodes = ["gn*"]
kind = "command"
suspend = ["{folder}/switch", "suspend", "%n"]
resume = ["{folder}/switch", "resume", "%n"]
restart = ["{folder}/switch", "restart", "%n"]
[helper]
verbs = ["power-down", "power-up"]
nodes = ["gn[01-99]"]
user = "{owner}"
socket = "{folder}/helper.sock"
{more}
"""

PROGRAM = """#!/bin/sh
echo "$(date +%s.%3N) {name} $1" >>{folder}/programs
exec env GSCHED_CONFIG={folder}/gsched.toml {bin}/{name} "$@"
"""

PROGRAMS = {
    "SuspendProgram": "gsched-suspend",
    "ResumeProgram": "gsched-resume",
    "ResumeFailProgram": "gsched-resume-failed",
}


class PowerSite:
    """A testbed whose nodes are switched by `gsched power`.

    `power` are more lines of that table of gsched.toml, `backends` tables that go before the one
    that has all nodes, `settings` further tables; `conf` lines for slurm.conf, `spec` fields of
    TestbedSpec.
    """

    def __init__(
        self,
        folder: Path,
        *,
        power: str = "",
        backends: str = "",
        settings: str = "",
        conf: Sequence[str] = (),
        **spec: Any,
    ) -> None:
        self.folder = folder
        self.config = folder / "gsched.toml"
        lines = [f"{key}={folder}/{name}" for key, name in PROGRAMS.items()]
        if not any(line.startswith("ResumeTimeout=") for line in conf):
            lines.append(f"ResumeTimeout={RESUME_TIMEOUT_S}")
        lines += conf
        self.bed = Testbed.temporary(**{"num_nodes": 4, **spec, "extra_conf": tuple(lines)})
        for name in PROGRAMS.values():  # only the configuration's place is said; streams stay
            self.program(name, PROGRAM.format(folder=folder, name=name, bin=BIN))
        words = {"folder": folder, "python": sys.executable, "root": self.bed.spec.root}
        self.program("switch", SWITCH.format(**words))
        text = CONFIG.format(
            tries=TRIES, power=power, backends=backends, more=settings, owner="root", **words
        )
        self.config.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """Where gsched's programs find the settings."""
        return {"GSCHED_CONFIG": str(self.config)}

    def program(self, name: str, text: str) -> Path:
        """An executable file in the site's folder."""
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o755)
        return path

    # -- nodes --------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Slurm's word for the state of each node, such as IDLE+POWERED_DOWN."""
        found = {}
        for line in self.bed.run(["scontrol", "-o", "show", "node"]).stdout.splitlines():
            words = dict(word.partition("=")[::2] for word in line.split())
            found[words["NodeName"]] = words["State"]
        return found

    def state(self, node: str) -> str:
        return self.states()[node]

    def order(self, node: str, state: str) -> None:
        """An administrator's order by hand."""
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

    def calls(self, node: str) -> list[str]:
        """What the switch was told of a node."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[0] for line in lines if line.endswith(f" {node}")]

    # -- gsched -------------------------------------------------------------------------------

    def gsched(self, *words: str) -> str:
        """Output of a gsched command, which must succeed."""
        done = self.bed.run([str(BIN / "gsched"), *words], extra_env=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> Any:
        return json.loads(self.gsched("power", "status", "--json"))

    def outcome(self, node: str) -> tuple[str, str]:
        """The last verb for a node, and its outcome."""
        found = {entry["node"]: entry for entry in self.status()["nodes"]}
        return (found[node]["verb"], found[node]["outcome"]) if node in found else ("", "")

    def failures(self, node: str) -> list[str]:
        """Why a node was given up."""
        return [f["error"] for f in self.status()["failures"] if f["node"] == node]

    def helper(self) -> Background:
        """gsched-helper, which listens when this returns."""
        log = self.folder / "helper.log"
        began = log.stat().st_size if log.exists() else 0
        words = [sys.executable, "-m", "gsched_cli.helper"]
        made = Background(self.bed, words, log, self.environment)
        wait_for(lambda: "helper.sock" in log.read_text()[began:], "the helper to listen")
        return made

    def client(self) -> HelperClient:
        """Who asks the helper."""
        return HelperClient(self.folder / "helper.sock", HELPER_TIMEOUT_S)

    # -- jobs ---------------------------------------------------------------------------------

    def job(self, node: str, *words: str) -> int:
        """A batch job for one node; on one that wakes it begins at Slurm's next tick of 30 s."""
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
