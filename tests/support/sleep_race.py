"""Jobs that come for a node within moments of the order to put it to sleep."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from support.power_site import PowerSite

OFFSETS_S = (-0.3, 4.0)
"""From before the order until the node is off: the testbed's SuspendTimeout is 2 s."""
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Try:
    """A job that was submitted `offset_s` after its node's order; `state` is what Slurm called the
    node just before. `said` is what the job printed, or srun's complaint.
    """

    node: str
    offset_s: float
    state: str
    ordered: bool
    said: str
    wait_s: float

    @property
    def ran(self) -> bool:
        return self.said == self.node


def sleep_and_run(site: PowerSite, node: str, offset_s: float) -> Try:
    """One try, through gsched-helper."""
    client, began = site.client(), time.monotonic()
    ordered = client.power_down([node]).done if offset_s >= 0 else ()
    time.sleep(max(0.0, began + offset_s - time.monotonic()))
    state, submitted = site.state(node), time.monotonic()
    words = ("srun", "--quiet", "-w", node, "printenv", "SLURMD_NODENAME")
    job = subprocess.Popen(
        words, env=site.bed.env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if offset_s < 0:
        time.sleep(-offset_s)
        ordered = client.power_down([node]).done
    try:
        said = job.communicate(timeout=PATIENCE_S)[0].strip()
    except subprocess.TimeoutExpired:
        job.kill()
        said = f"nothing within {PATIENCE_S:g} s; {node} is {site.state(node)}"
    return Try(node, offset_s, state, bool(ordered), said, time.monotonic() - submitted)


def races(site: PowerSite, nodes: Sequence[str], rounds: int, seed: int) -> list[Try]:
    """So many tries on each node, one after the other, all nodes side by side."""

    def on(number: int) -> list[Try]:
        rng = random.Random(seed * 1000 + number)  # moments, no secrets
        return [sleep_and_run(site, nodes[number], rng.uniform(*OFFSETS_S)) for _ in range(rounds)]

    with ThreadPoolExecutor(len(nodes)) as side_by_side:
        return [each for tries in side_by_side.map(on, range(len(nodes))) for each in tries]


def by_state(tries: Sequence[Try]) -> dict[str, int]:
    """How many tries met which state of the node."""
    return dict(sorted(Counter(each.state for each in tries).items()))
