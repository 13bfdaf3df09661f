"""`gsched` for trials of leases: as short as a trial can wait for, with kills at chosen moments.

    python -m support.leased_daemon daemon run --act …

LEASED_HAND_OVERS is how many hand-overs a lease lasts at least, in place of 20, and nobody is taken
to need a minute for saving before the first has saved. LEASED_PLAN is a file with a line for each
kill: what, and when. The first line waits for its moment; it is then written to LEASED_PLAN.done,
with what is needed to judge what came of it, taken from the plan, and done with SIGKILL:

    daemon POINT       this process, at a point of engine/faults.py
    slurmctld STATE    the controller, once a lease has come to that state
    batch STATE        all processes of the batch script of the lease's job
    step STATE         all processes of its step: the trainer, and the writer of its checkpoints

A job is killed only when it has a checkpoint from which it goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from gsched.app import daemon_leases
from gsched.ckpt.catalogue import newest_valid
from gsched.engine import lease_rules
from gsched.engine.faults import FaultHook, FaultPoint
from gsched.engine.leases import Move
from gsched.errors import GschedError
from gsched.model.accounts import LeaseGrant
from gsched.policy.registry import POLICIES
from gsched.testbed.cluster import Testbed
from gsched_cli.main import main as gsched


class Plan:
    """The kills that are still to come; both files are durable before a kill."""

    def __init__(self, path: Path) -> None:
        self._path, self._done = path, path.with_name(f"{path.name}.done")

    def next_is(self, what: str, when: str) -> bool:
        """Whether this is the kill that waits."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return bool(lines) and lines[0] == f"{what} {when}"

    def takes(self, **told: object) -> None:
        """Take the first line from the plan and keep it, with `told`, as done."""
        first, *rest = self._path.read_text().splitlines()
        what, when = first.split()
        with self._done.open("a") as out:
            out.write(json.dumps({"what": what, "when": when, "at": time.time(), **told}) + "\n")
            out.flush()
            os.fsync(out.fileno())
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in rest))
        new.replace(self._path)


def fault_hook(plan: Plan) -> Callable[[], FaultHook]:
    """In place of the daemon's own, which the environment tells of one point."""

    def hook(point: FaultPoint) -> None:
        if plan.next_is("daemon", point.value):
            plan.takes()
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: hook


def tell(plan: Plan, before: Callable[[LeaseGrant, Move], None]) -> Callable[..., None]:
    """What hears of each lease's new state; `before` is the daemon's own."""

    def told(grant: LeaseGrant, move: Move) -> None:
        before(grant, move)
        state, job = move.state.value, grant.key.slurm_id
        if plan.next_is("slurmctld", state):
            plan.takes(job=job)
            Testbed.existing(Path(os.environ["GSCHED_TESTBED"])).kill_slurmctld()
        for what in ("batch", "step"):
            saved = saved_step(job) if plan.next_is(what, state) else None
            victims = list(processes(job, of_step=what == "step"))
            if saved is not None and victims:
                plan.takes(job=job, saved_step=saved)
                for pid in victims:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    return told


def saved_step(job: str) -> int | None:
    """The step of the newest checkpoint that the job would go on from; None: it has none yet."""
    for notes in Path(os.environ["LEASED_DIR"]).glob("*.jobs"):
        last = notes.read_text().splitlines()[-1].split()
        if last[0] == job:
            try:
                found = newest_valid(Path(last[1])).checkpoint
            except GschedError:
                return None
            return None if found is None else found.step
    return None


def processes(job: str, *, of_step: bool) -> Iterator[int]:
    """The pids of a job's step, or of its batch script."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            raw = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        variables = dict(pair.partition("=")[::2] for pair in raw.split("\0"))
        is_here = variables.get("SLURM_CONF") == os.environ["SLURM_CONF"]  # not another testbed's
        if is_here and variables.get("SLURM_JOB_ID") == job:
            is_of_step = variables.get("SLURM_STEP_ID", "").isdigit()
            if is_of_step is of_step:
                yield int(entry.name)


def main() -> None:
    """Change what a trial needs changed, then be gsched."""
    if hand_overs := os.environ.get("LEASED_HAND_OVERS"):
        lease_rules.HAND_OVERS_A_LEASE = int(hand_overs)
        lease_rules.FIRST_SAVE_S = 1
        lease_rules.DEFAULT_LEASE_S = 1
    if path := os.environ.get("LEASED_PLAN"):
        plan = Plan(Path(path))
        daemon_leases.fault_hook = fault_hook(plan)
        daemon_leases.tell = tell(plan, daemon_leases.tell)
    POLICIES["handing-over"] = "support.leasing:HandingOver"
    sys.argv[0] = "gsched"
    sys.exit(gsched())


if __name__ == "__main__":
    main()
