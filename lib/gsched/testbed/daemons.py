"""Starting, ending and questioning the daemons of a testbed."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed import conf, database, environment, processes
from gsched.testbed.layout import Layout, write_private
from gsched.testbed.ports import Ports
from gsched.testbed.processes import Process
from gsched.testbed.spec import TestbedSpec
from gsched.testbed.wait import wait_for

START_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 5.0
_END_PHASES = (
    # programs that end together, and how many seconds they are given; who asks before who serves
    (frozenset({"slurmstepd"}), 0.2),
    (frozenset({"slurmd"}), 0.5),  # would wait for the processes of jobs that resist
    (frozenset({"slurmctld"}), 10.0),
    (frozenset({"slurmdbd"}), 10.0),
    (frozenset({"mariadbd"}), 10.0),
)
_REST_GRACE_S = 0.5


class Daemons:
    """The daemons of the testbed in `layout`. Each call that starts one raises UnavailableError
    with the daemon's own last words when it does not come up.
    """

    def __init__(self, spec: TestbedSpec, layout: Layout) -> None:
        self._spec = spec
        self._layout = layout

    @cached_property
    def _environment(self) -> dict[str, str]:
        return processes.daemon_environment(self._layout, environment.search_path())

    def start_munged(self) -> None:
        """Start munged with a key of the testbed's own."""
        munge = self._layout.munge
        key = munge / "munge.key"
        if not key.exists():
            write_private(key, secrets.token_bytes(1024))
        log = munge / "munged.log"
        argv = (
            "munged",
            "--num-threads=4",
            f"--socket={self._layout.munge_socket}",
            f"--key-file={key}",
            f"--pid-file={munge}/munged.pid",
            f"--log-file={log}",
            f"--seed-file={munge}/seed",
        )
        self._launch(argv, "munged", log)

    def start_slurmdbd(self, ports: Ports) -> None:
        """Start MariaDB and slurmdbd, and make the accounts."""
        me = environment.own_user()
        password = database.start_mariadb(self._layout, ports, self._environment)
        write_private(
            self._layout.etc / "slurmdbd.conf",
            conf.slurmdbd_conf(self._layout, ports, me, password).encode(),
        )
        log = self._layout.log / "slurmdbd.log"
        self._launch(("slurmdbd",), "slurmdbd", log)
        wait_for(
            lambda: self._lives("slurmdbd", log) and database.slurmdbd_answers(self._environment),
            f"slurmdbd to answer, see {log}",
            START_TIMEOUT_S,
        )
        members = environment.account_members()
        database.add_accounts(self._spec, members, me, self._environment)

    def start_slurmctld(self) -> None:
        """Start the controller and wait until it answers."""
        log = self._layout.log / "slurmctld.log"
        self._launch(("slurmctld",), "slurmctld", log)
        wait_for(
            lambda: self._lives("slurmctld", log) and self.controller_answers(),
            f"slurmctld to answer, see {log}",
            START_TIMEOUT_S,
        )

    def start_slurmds(self) -> None:
        """Start every node's slurmd, all at once, and wait until Slurm calls them idle."""
        logs = {node: self._layout.log / f"slurmd-{node}.log" for node in self._spec.node_names}
        starting = {
            node: processes.start_daemon(
                ("slurmd", "-N", node), self._environment, log.with_suffix(".out")
            )
            for node, log in logs.items()
        }
        for node, process in starting.items():
            if processes.finish_start(process):
                raise self._failure(f"slurmd of {node}", logs[node])
        wait_for(
            lambda: (
                self._lives("slurmctld", self._layout.log / "slurmctld.log") and self._all_idle()
            ),
            f"{len(logs)} idle nodes, see {self._layout.log}",
            START_TIMEOUT_S,
        )

    def end_controller(self) -> None:
        """End slurmctld in order, so that it saves its state."""
        processes.end(self.running({"slurmctld"}), self._layout.root, grace_s=30.0)

    def kill_controller(self) -> None:
        """End slurmctld as a crash would."""
        processes.kill(self.running({"slurmctld"}), self._layout.root)

    def end_all(self) -> int:
        """End every process of the testbed; how many there were."""
        root = self._layout.root
        number = len(processes.find(root))
        for programs, grace_s in _END_PHASES:
            processes.end(self.running(programs), root, grace_s)
        # twice: what forks and ends while /proc is read may not be in the picture
        for _ in range(2):
            while left := processes.find(root):
                processes.end(left, root, _REST_GRACE_S)
        return number

    def cancel_jobs(self) -> None:
        """Ask Slurm to cancel every job."""
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.ask("scancel", "--quiet", f"--state={state}")

    def empty_queue(self, timeout_s: float) -> bool:
        """Cancel every job and wait for its end; False when some would not end in time."""

        def is_empty() -> bool:
            if not self.ask("squeue", "--noheader", "--format=%A", "--states=PD,CF,R,S,CG"):
                return True
            self.cancel_jobs()  # again: a requeued one, or one that somebody just submitted
            return False

        try:
            return wait_for(is_empty, "the end of all jobs", timeout_s, poll_s=0.05)
        except UnavailableError:
            return False

    def wait_for_nodes(self) -> None:
        """Wait until the controller knows all of its nodes, which takes 4 s after a restart."""
        wait_for(
            lambda: not any("unknown" in state for state in self._known_states()),
            "slurmctld to find its nodes",
            START_TIMEOUT_S,
        )

    def running(self, programs: Iterable[str]) -> list[Process]:
        """The live processes of these programs."""
        wanted = frozenset(programs)
        return [p for p in processes.find(self._layout.root) if p.program in wanted]

    def controller_answers(self) -> bool:
        """Whether slurmctld is up and takes requests."""
        return "UP" in self.ask("scontrol", "ping").split()

    def node_states(self) -> Mapping[str, str]:
        """State by node, as sinfo prints it (``idle``, ``mixed``, ``idle~``); {} if it cannot."""
        lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def ask(self, *argv: str) -> str:
        """Output of a Slurm command; '' when it fails, as it does while daemons come and go."""
        try:
            answer = subprocess.run(
                argv,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return ""
        return answer.stdout.decode(errors="replace") if answer.returncode == 0 else ""

    def _known_states(self) -> tuple[str, ...]:
        return tuple(self.node_states().values()) or ("unknown",)

    def _all_idle(self) -> bool:
        states = self.node_states()
        return all(states.get(node) == "idle" for node in self._spec.node_names)

    def _launch(self, argv: Sequence[str], name: str, log: Path) -> None:
        output = log.with_suffix(".out")
        if processes.finish_start(processes.start_daemon(argv, self._environment, output)):
            raise self._failure(name, log)

    def _lives(self, program: str, log: Path) -> bool:
        """True; raises UnavailableError when a daemon has ended after it went to the background."""
        for _ in range(3):  # one look may fall just between a daemon's forks
            if self.running({program}):
                return True
            time.sleep(processes.POLL_S)
        raise self._failure(program, log)

    def _failure(self, name: str, log: Path) -> UnavailableError:
        return UnavailableError(f"{name} did not start: {last_words(log)}", f"see {log}")


def last_words(log: Path) -> str:
    """The last fatal line that a daemon logged or printed, else its last error, else anything."""
    lines = [
        line
        for file in (log, log.with_suffix(".out"))
        if file.exists()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    for word in ("fatal", "error", ""):
        matching = [line for line in lines if word in line.lower()]
        if matching:
            return matching[-1].strip()
    return "it left no message"
