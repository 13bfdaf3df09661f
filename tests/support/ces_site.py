"""A private Slurm with sleeping nodes, and gsched's daemon that puts them to sleep."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gsched.model.node_power import NodeOrderEntry
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History
from support.history import attempt, batch
from support.power_site import BIN, PowerSite

DAY_S = 86400
SPARE = 1
STEP_S = 600
CALM_S = 1300.0
"""Steps of demand end at full ten minutes. In the one after a step in which a job ran on all nodes
no node is put to sleep: demand has not fallen yet. Tests that cross such an end wait.
"""
SETTINGS = """
[daemon]
kill_switch = "{folder}/off"
[ces]
mode = "act"
spare = {spare}
min_idle_s = 1
hold_s = 0
period_s = 1
max_failures = 1
wakes_ahead = false
history_days = 7
time_zone = "UTC"
[forecast]
enabled = false
[predict]
estimator = "constant"
"""
"""Of expected starts there is no forecast: it would take the processor from that of demand."""


def begin_a_step(needed_s: int) -> None:
    """Wait until so much is left of a step that tests of this length cross no end of one."""
    wait_for(
        lambda: time.time() % STEP_S <= STEP_S - needed_s,
        "a step of demand to begin",
        timeout_s=STEP_S,
        poll_s=1.0,
    )


class CesSite(PowerSite):
    """Its history knows a quiet week, so that nodes that are idle are expected to stay so."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        settings = SETTINGS.format(folder=folder, spare=SPARE)
        super().__init__(folder, settings=settings, **spec)
        self.state_dir = folder / "gsched"
        self.state_dir.mkdir()
        self.url = f"sqlite:///{self.state_dir}/history.db"
        History.create(self.url)
        began = int(time.time()) - 7 * DAY_S + 3600
        first = attempt(
            1, began, cluster=self.bed.spec.cluster, start_time=began, end_time=began + 600,
            num_nodes=1, node_list="gn01",
        )  # fmt: skip
        with History.open(self.url) as history:
            history.ingest(batch(first), source_key=None)

    @property
    def nodes(self) -> Sequence[str]:
        return self.bed.spec.node_names

    def daemon(self, env: Mapping[str, str] | None = None) -> Background:
        """`gsched daemon run --act`, a round every half second."""
        words = [str(BIN / "gsched"), "daemon", "run", "--act", "--interval", "0.5"]
        log = self.folder / "daemon.log"
        return Background(self.bed, words, log, {**self.environment, **(env or {})})

    def daemon_status(self) -> dict[str, Any]:
        """The status file; {} where there is none that can be read."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.state_dir / "status.json").read_text())
            return found
        return {}

    def rounds(self, number: int, mode: str) -> None:
        """Wait for so many rounds in a mode."""
        seen: set[float] = set()

        def have_been() -> bool:
            status = self.daemon_status()
            if status.get("mode") == mode:
                seen.add(status["as_of"])
            return len(seen) > number

        wait_for(have_been, f"{number} rounds in mode {mode}")

    def asleep(self) -> set[str]:
        return {node for node, state in self.states().items() if "POWERED_DOWN" in state}

    def are_up(self) -> bool:
        """Whether Slurm uses all nodes."""
        return all(state in ("IDLE", "MIXED", "ALLOCATED") for state in self.states().values())

    def fall_asleep(self) -> None:
        """Wait until all but the spare nodes sleep."""
        wait_for(
            lambda: len(self.asleep()) == len(self.nodes) - SPARE,
            "all but the spare to sleep",
            CALM_S,
        )

    def run_on_all(self) -> None:
        """A job that needs every node."""
        number = len(self.nodes)
        words = ["srun", f"-N{number}", "--exclusive", "printenv", "SLURMD_NODENAME"]
        done = self.bed.run_as("games", words)
        assert sorted(done.stdout.split()) == list(self.nodes), done.stderr

    def orders(self) -> Sequence[NodeOrderEntry]:
        with History.open(self.url) as history:
            return history.power_log(self.bed.spec.cluster).orders(0, 2**33)

    def unsettled(self) -> Sequence[NodeOrderEntry]:
        with History.open(self.url) as history:
            return history.power_log(self.bed.spec.cluster).unsettled()
