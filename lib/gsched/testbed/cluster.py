"""A private real Slurm on this machine: start, stop, look at and use it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import gsched
from gsched.errors import DataError, TryAgainError, UnavailableError, UsageError
from gsched.testbed import conf, environment, loopback, processes
from gsched.testbed.daemons import Daemons
from gsched.testbed.layout import (
    TEMPORARY_PREFIX,
    Layout,
    Owner,
    Record,
    base_folder,
    check_reachable,
    claim,
    exclusive,
    read_record,
    remove,
    temporary_root,
    write_record,
)
from gsched.testbed.ports import Ports, reserve
from gsched.testbed.spec import TestbedSpec

State = Literal["running", "incomplete", "abandoned", "stopped", "absent"]
COMMAND_TIMEOUT_S = 120.0
CANCEL_TIMEOUT_S = 30.0
STOP_CANCEL_TIMEOUT_S = 1.5


@dataclass(frozen=True, slots=True)
class Started:
    """What a start did."""

    already_running: bool
    duration_s: float
    cleared: int
    """Processes of an earlier testbed in the same folder that had to be ended first."""


@dataclass(frozen=True, slots=True)
class TestbedStatus:
    """What is there of a testbed."""

    root: Path
    state: State
    """`incomplete`: a daemon is missing; `abandoned`: the process that it belonged to is gone."""
    spec: TestbedSpec | None
    base_port: int | None
    processes: tuple[processes.Process, ...]
    nodes: Mapping[str, str]
    """State by node, as sinfo prints it."""

    __test__ = False

    def to_json(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        layout = Layout(self.root)
        return {
            "root": str(self.root),
            "state": self.state,
            "slurm_conf": str(layout.slurm_conf),
            "gsched_config": str(layout.gsched_toml),
            "base_port": self.base_port,
            "spec": self.spec.to_json() if self.spec else None,
            "processes": [
                {"pid": p.pid, "program": p.program, "command": " ".join(p.argv)}
                for p in self.processes
            ],
            "nodes": dict(self.nodes),
        }


class Testbed:
    """One testbed. As a context manager it starts on entry and stops on exit.

    A temporary one (see `temporary`) also takes its folder away.
    """

    __test__ = False

    def __init__(self, spec: TestbedSpec, *, is_temporary: bool = False) -> None:
        self.spec = spec
        self.layout = Layout(spec.root)
        self._is_temporary = is_temporary
        self._daemons = Daemons(spec, self.layout)

    @classmethod
    def temporary(cls, **overrides: Any) -> Testbed:
        """A testbed in a new folder, with TestbedSpec's fields changed by `overrides`."""
        return cls(TestbedSpec(root=temporary_root(), **overrides), is_temporary=True)

    @classmethod
    def existing(cls, root: Path) -> Testbed:
        """The testbed that was started in `root`. Raises UsageError when there is none."""
        record = read_record(Layout(root))
        if record is None:
            raise UsageError(f"there is no testbed in {root}", "gsched testbed start")
        return cls(record.spec, is_temporary=record.is_temporary)

    def __enter__(self) -> Testbed:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._is_temporary:
            self.remove()

    def start(self, *, stays: bool = False) -> Started:
        """Start it and wait until all nodes are idle; no jobs are left from an earlier start.

        Unless it `stays`, it belongs to the calling process: should that be killed, the next
        start of any testbed of this user ends it. Raises UnavailableError when a program is
        missing or a daemon does not come up, TryAgainError when it runs with another
        specification.
        """
        environment.check_programs(self.spec.accounting)
        clear_abandoned()
        claim(self.spec.root)
        if os.getuid() == 0:
            check_reachable(self.spec.root)
        try:
            with exclusive(self.layout):
                record = read_record(self.layout)
                if record is not None and _state(record) == "running":
                    _refuse_if_different(record.spec, self.spec)
                    return Started(already_running=True, duration_s=0.0, cleared=0)
                return self._start_anew(None if stays else processes.this_process())
        finally:
            with contextlib.suppress(OSError):
                self.spec.root.rmdir()  # succeeds only where not even a record was written

    def _start_anew(self, owner: Owner | None) -> Started:
        began = time.monotonic()
        cleared = self._daemons.end_all()
        with reserve(self.spec.num_ports, self.spec.base_port) as reservation, ExitStack() as undo:
            undo.callback(self._daemons.end_all)
            ports = reservation.ports
            record = Record(
                self.spec, ports.base, is_up=False, owner=owner, is_temporary=self._is_temporary
            )
            write_record(self.layout, record)
            self._write_files(ports)
            self._start_daemons(ports)
            write_record(self.layout, replace(record, is_up=True))
            undo.pop_all()
        return Started(False, time.monotonic() - began, cleared)

    def stop(self) -> int:
        """Cancel all jobs, end every process; how many processes there were (0: none ran)."""
        record = read_record(self.layout)
        if record is None:
            return 0
        with exclusive(self.layout):
            if self._daemons.controller_answers():
                # so that they are on record; who resists is ended below, and on record next time
                self._daemons.empty_queue(STOP_CANCEL_TIMEOUT_S)
            ended = self._daemons.end_all()
            # a temporary one keeps its owner, so that its folder goes even if we are killed now
            owner = record.owner if record.is_temporary else None
            write_record(self.layout, replace(record, is_up=False, owner=owner))
        return ended

    def remove(self) -> None:
        """Delete the folder. Raises TryAgainError while the testbed runs."""
        if processes.find(self.layout.root):
            raise TryAgainError(f"the testbed {self.layout.root} still runs", "stop it first")
        remove(self.layout)

    def status(self) -> TestbedStatus:
        """What runs of it just now."""
        return look_at(self.layout.root)

    def env(self, user: str | None = None) -> dict[str, str]:
        """Environment for commands inside the testbed; what they leave running ends with it."""
        return environment.command_environment(self.layout, user)

    def run(
        self,
        argv: Sequence[str],
        user: str | None = None,
        *,
        stdin: str = "",
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as `user` (default: the caller), in that user's home there.

        Raises UnavailableError when it cannot be started or takes longer than `timeout_s`.
        """
        name = user or environment.own_user()
        command = environment.as_user(tuple(argv), name)
        try:
            return subprocess.run(
                command,
                env=self.env(name) | dict(extra_env or {}),
                input=stdin,
                cwd=cwd or self.layout.home(name),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{argv[0]} did not end within {timeout_s:g} s") from None
        except FileNotFoundError as error:
            raise UnavailableError(f"cannot run {argv[0]}: {error.filename} not found") from None

    def run_as(
        self, user: str, argv: Sequence[str], **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """`run` with the user first."""
        return self.run(argv, user, **options)

    def cancel_jobs(self) -> None:
        """Cancel every job and wait for its end. Raises UnavailableError when some stay."""
        if not self._daemons.empty_queue(CANCEL_TIMEOUT_S):
            raise UnavailableError(f"jobs on the testbed {self.layout.root} do not end")

    def restart_slurmctld(self) -> None:
        """End the controller in order and start it again; returns when it knows its nodes."""
        self._daemons.end_controller()
        self.start_slurmctld()

    def kill_slurmctld(self) -> None:
        """End the controller as a crash would. `start_slurmctld` brings it back."""
        self._daemons.kill_controller()

    def start_slurmctld(self) -> None:
        """Start the controller after `kill_slurmctld`; returns when it knows its nodes."""
        self._daemons.start_slurmctld()
        self._daemons.wait_for_nodes()

    def _write_files(self, ports: Ports) -> None:
        spec, layout = self.spec, self.layout
        layout.make_folders()
        # nodes begin anew: a drained or sleeping one of the last time would never become idle
        for pattern in ("log/*", "state/node_state*"):
            for old in layout.root.glob(pattern):
                old.unlink()
        for entry in environment.users():
            home = layout.home(entry.pw_name)
            home.mkdir(exist_ok=True)
            os.chown(home, entry.pw_uid, entry.pw_gid)
        for index in range(spec.gpus_per_node):
            device = conf.gpu_device(layout, index)
            device.unlink(missing_ok=True)
            device.symlink_to(os.devnull)
        texts = {
            "slurm.conf": conf.slurm_conf(
                spec, layout, ports, environment.own_user(), loopback.variables()
            ),
            "task_prolog": conf.task_prolog(loopback.variables()),
            "gres.conf": conf.gres_conf(spec, layout),
            "cgroup.conf": conf.cgroup_conf(),
            "gsched.toml": conf.gsched_toml(spec, layout),
            "node_suspend": _power_program("suspend", layout),
            "node_resume": _power_program("resume", layout),
        }
        for name, text in texts.items():
            file = layout.etc / name
            file.write_text(text, encoding="utf-8")
            file.chmod(0o644 if file.suffix else 0o755)
        (layout.etc / "plugstack.conf").touch()

    def _start_daemons(self, ports: Ports) -> None:
        self._daemons.start_munged()
        if self.spec.accounting == "slurmdbd":
            self._daemons.start_slurmdbd(ports)
        self._daemons.start_slurmctld()
        # what was killed may have left jobs in the queue; without nodes they cannot start again
        self._daemons.cancel_jobs()
        self._daemons.start_slurmds()


def look_at(root: Path) -> TestbedStatus:
    """What there is of a testbed in `root` just now."""
    record = read_record(Layout(root)) if root.exists() else None
    state: State = "absent" if record is None else _state(record)
    nodes = (
        Daemons(record.spec, Layout(root)).node_states() if record and state == "running" else {}
    )
    return TestbedStatus(
        root=root,
        state=state,
        spec=record.spec if record else None,
        base_port=record.base_port if record else None,
        processes=tuple(processes.find(root)),
        nodes=nodes,
    )


def _state(record: Record) -> State:
    found = {process.program for process in processes.find(record.spec.root)}
    if not found & environment.DAEMONS:
        return "stopped"
    if record.owner is not None and not processes.is_alive(record.owner):
        return "abandoned"
    wanted = environment.core_daemons(record.spec.accounting)
    return "running" if record.is_up and wanted <= found else "incomplete"


def clear_abandoned() -> int:
    """End and remove this user's temporary testbeds whose process is gone; how many."""
    number = 0
    for root in sorted(base_folder().glob(f"{TEMPORARY_PREFIX}*")):
        try:
            record = read_record(Layout(root))
            if record is None or record.owner is None or processes.is_alive(record.owner):
                continue
            bed = Testbed(record.spec, is_temporary=True)
            with exclusive(bed.layout):
                bed._daemons.end_all()
                bed.remove()
        except (DataError, TryAgainError, FileNotFoundError):
            continue  # of another release, or just being cleared by somebody else
        number += 1
    return number


def _power_program(action: str, layout: Layout) -> str:
    return conf.power_program(action, layout, sys.executable, Path(gsched.__file__).parent.parent)


def _refuse_if_different(running: TestbedSpec, wanted: TestbedSpec) -> None:
    before, after = running.to_json(), wanted.to_json()
    changes = [f"{key}: {before[key]} → {after[key]}" for key in after if before[key] != after[key]]
    if changes:
        raise TryAgainError(
            f"the testbed {wanted.root} runs already, with another specification "
            f"({'; '.join(changes)})",
            "stop it first: gsched testbed stop",
        )
