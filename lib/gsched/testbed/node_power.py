"""What Slurm runs to put nodes of a testbed to sleep and to wake them.

A node sleeps when its slurmd is gone. Called as ``python -m gsched.testbed.node_power
suspend|resume ROOT HOSTLIST`` by the programs in the testbed's etc folder.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from gsched.model.hostlist import expand
from gsched.testbed import environment, processes
from gsched.testbed.layout import Layout

SUSPEND_GRACE_S = 5.0


def suspend(layout: Layout, nodes: list[str]) -> None:
    """End the slurmd of each node."""
    wanted = set(nodes)
    asleep = [
        process
        for process in processes.find(layout.root)
        if process.program == "slurmd" and process.argv[-2:-1] == ("-N",)
        if process.argv[-1] in wanted
    ]
    processes.end(asleep, layout.root, SUSPEND_GRACE_S)


def resume(layout: Layout, nodes: list[str]) -> int:
    """Start a slurmd for each node, in the next second; the highest exit status.

    Slurm takes a node for booted when its boot is not older than the call, in whole seconds, and
    slurmd -b may count one second too many: a node that boots at once would now and then be
    ignored until ResumeTimeout.
    """
    time.sleep(1.0 - time.time() % 1.0)
    # Slurm calls with an empty environment
    daemon_environment = processes.daemon_environment(layout, environment.search_path())
    starting = [
        # -b: Slurm ignores a registration whose boot is older than its own call to wake up
        processes.start_daemon(
            ("slurmd", "-b", "-N", node), daemon_environment, layout.log / f"slurmd-{node}.out"
        )
        for node in nodes
    ]
    return max((processes.finish_start(each) for each in starting), default=0)


def main(action: str, root: str, host_list: str) -> int:
    """Do `action` to the nodes of `host_list` and note it in the testbed's power.log."""
    # slurmscriptd blocks SIGTERM and others, and a slurmd would inherit that and never stop
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    layout = Layout(Path(root))
    nodes = expand(host_list)
    with (layout.log / "power.log").open("a", encoding="utf-8") as log:
        log.write(f"{time.time():.3f} {action} {' '.join(nodes)}\n")
    if action == "suspend":
        suspend(layout, nodes)
        return 0
    return resume(layout, nodes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
