"""Jobs of the same seconds as their nodes' order to sleep, many times: results/sleep_race.json.

On a private Slurm each node is put to sleep through gsched-helper, and a job for it comes at a
random moment from just before the order until the node is off; then the next try. About three
minutes.

    python tests/bench/bench_sleep_race.py [--nodes N] [--rounds N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.power_site import PowerSite
from support.sleep_race import OFFSETS_S, Try, by_state, races

RESULT = Path(__file__).parents[1] / "results" / "sleep_race.json"


def document(tries: list[Try], usable: int) -> dict[str, Any]:
    """What became of the jobs; `usable` nodes took a job afterwards."""
    waits = sorted(each.wait_s for each in tries if each.ran)
    return {
        "what": f"a job for a node, from {OFFSETS_S[0]:g} to {OFFSETS_S[1]:g} s after the order to "
        "put the node to sleep; SuspendTimeout 2 s",
        "tries": len(tries),
        "orders that were new": sum(each.ordered for each in tries),
        "jobs that ran": len(waits),
        "jobs that did not": [asdict(each) for each in tries if not each.ran],
        "state of the node when the job came": by_state(tries),
        "seconds until the job ran": {
            "median": round(statistics.median(waits), 2),
            "longest": round(waits[-1], 2),
        },
        "nodes that took a job afterwards": usable,
    }


def main() -> None:
    """Try, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sleep-race-") as folder:
        site = PowerSite(Path(folder), num_nodes=chosen.nodes, conf=("ResumeTimeout=30",))
        with site.bed, site.helper():
            nodes = site.bed.spec.node_names
            tries = races(site, nodes, chosen.rounds, chosen.seed)
            for node in nodes:
                site.runs_on(node)
    found = document(tries, len(nodes))
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
