"""A slurmctld in memory, as far as the power of nodes goes, with the traps of the real one (22.05).

A power_down_asap shows as DRAIN+POWER_DOWN until the power thread's next turn, then as
POWERING_DOWN for SuspendTimeout; a power_up meanwhile is taken and forgotten. A job wakes the nodes
that it is given. Answers are texts of scontrol, and orders come through the real helper's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gsched.config.node_settings import HelperSettings
from gsched.daemon.helper import Helper
from gsched.daemon.helper_client import Outcome
from gsched.daemon.look import Description, Look
from gsched.daemon.unix_server import Asker
from gsched.errors import GschedError
from gsched.model.cluster import ReservationView
from gsched.model.hostlist import fold
from gsched.model.job import JobState
from gsched.slurm import parse_config
from gsched.slurm.node_admin import NodeCondition
from gsched.slurm.records import NodeFacts, QueueListing, QueueRow, SlurmConfig
from support.queue import partition, row

TURN_S = 2
SUSPEND_TIMEOUT_S = 5
BOOT_S = 20
RESUME_TIMEOUT_S = 60
START = 1_700_000_000

CONFIG = {
    "ClusterName": "alpha",
    "SuspendTime": "8640000 sec",
    "SuspendTimeout": f"{SUSPEND_TIMEOUT_S} sec",
    "ResumeTimeout": f"{RESUME_TIMEOUT_S} sec",
    "SuspendExcNodes": "(null)",
    "SuspendExcParts": "(null)",
}


@dataclass
class Machine:
    name: str
    power: str = "up"  # up, told, falling, off, rising, down
    since: int = START
    boot_time: int = START - 10 * 86400
    last_busy: int = START - 86400
    flags: tuple[str, ...] = ()
    reason: str = ""
    partitions: str = "gpu"
    job: int | None = None
    breaks: bool = False
    """It does not wake any more."""
    orders: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        base = "ALLOCATED" if self.job is not None else "IDLE"
        words = {
            "up": (),
            "told": ("DRAIN", "POWER_DOWN"),
            "falling": ("NOT_RESPONDING", "POWERING_DOWN"),
            "off": ("POWERED_DOWN",),
            "rising": ("NOT_RESPONDING", "POWERING_UP"),
        }
        if self.power == "down":
            return "+".join(("DOWN", *self.flags))
        return "+".join((base, *words[self.power], *self.flags))

    def line(self) -> str:
        reason = f" Reason={self.reason} [slurm@{self.since}]" if self.reason else ""
        return (
            f"NodeName={self.name} Arch=x86_64 CPUAlloc={64 if self.job is not None else 0} "
            f"CPUEfctv=64 CPUTot=64 CPULoad=0.68 AvailableFeatures=(null) ActiveFeatures=(null) "
            f"Gres=gpu:a100:8 NodeAddr={self.name} OS=Linux 6.1.0-18-amd64 #1 SMP  "
            f"RealMemory=512000 AllocMem=0 FreeMem=23112 State={self.state} ThreadsPerCore=1 "
            f"Partitions={self.partitions}  BootTime={self.boot_time} "
            f"SlurmdStartTime={self.boot_time} LastBusyTime={self.last_busy} "
            f"CfgTRES=cpu=64,mem=500G AllocTRES={reason}"
        )


class SleepingSlurm:
    """Machines and jobs; `time` goes on by `pass_time` alone."""

    def __init__(self, num_nodes: int = 8, prefix: str = "gn") -> None:
        names = [f"{prefix}{number:02}" for number in range(1, num_nodes + 1)]
        self.machines = {name: Machine(name) for name in names}
        self.rows: dict[int, QueueRow] = {}
        self.nodes_of: dict[int, list[str]] = {}
        self.time = START
        self.set_by = 0
        self.config_values = dict(CONFIG)
        self.reservations: tuple[ReservationView, ...] = ()
        self.loses: set[str] = set()
        """Nodes for which an order is taken and forgotten."""
        self._next_job = 1

    # -- clocks -------------------------------------------------------------------------------

    def clock(self) -> int:
        return self.time + self.set_by

    def stopwatch(self) -> float:
        return float(self.time)

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.time += 1
            for machine in self.machines.values():
                self._step(machine)

    def _step(self, machine: Machine) -> None:
        for_s = self.time - machine.since
        if machine.power == "told" and machine.job is None and for_s >= TURN_S:
            self._become(machine, "falling")
        elif machine.power == "falling" and for_s >= SUSPEND_TIMEOUT_S:
            self._become(machine, "off")
        elif machine.power == "rising" and for_s >= BOOT_S and not machine.breaks:
            self._become(machine, "up")
            machine.boot_time = machine.last_busy = self.time
            self._begin_jobs()
        elif machine.power == "rising" and for_s >= RESUME_TIMEOUT_S:
            self._become(machine, "down")
            machine.reason = "ResumeTimeout reached"
        if machine.job is not None:
            machine.last_busy = self.time

    def _become(self, machine: Machine, power: str) -> None:
        machine.power, machine.since = power, self.time

    # -- jobs ---------------------------------------------------------------------------------

    def submit(self, nodes: int = 1, **facts: Any) -> int:
        """A job of whole nodes that waits until `schedule`."""
        number, self._next_job = self._next_job, self._next_job + 1
        given: dict[str, Any] = {
            "min_nodes": nodes, "max_nodes": nodes, "num_gpus": 8 * nodes, "num_cpus": 64 * nodes,
            "submit_time": self.time, "eligible_time": self.time, "reason": "Resources",
        }  # fmt: skip
        self.rows[number] = row(number, **(given | facts))
        return number

    def schedule(self) -> None:
        """Slurm's scheduler: who waits gets nodes, those that are up first, and wakes them."""
        for number, waiting in sorted(self.rows.items()):
            if waiting.state is not JobState.PENDING:
                continue
            up = [
                m
                for m in self.machines.values()
                if m.job is None and m.power == "up" and not m.flags
            ]
            off = [
                m for m in self.machines.values() if m.job is None and m.power in ("off", "rising")
            ]
            chosen = [*up, *off][: waiting.min_nodes]
            if len(chosen) == waiting.min_nodes:
                self.run(number, [machine.name for machine in chosen])

    def run(self, number: int, names: Sequence[str]) -> None:
        """Give a job its nodes."""
        for name in names:
            machine = self.machines[name]
            machine.job = number
            if machine.power == "off":
                self._become(machine, "rising")
        self.nodes_of[number] = list(names)
        self._change(
            number, state=JobState.RUNNING, state_text="CONFIGURING", start_time=self.time,
            node_list=fold(names), reason="",
        )  # fmt: skip
        self._begin_jobs()

    def _begin_jobs(self) -> None:
        for number, names in self.nodes_of.items():
            is_ready = all(self.machines[name].power in ("up", "told") for name in names)
            if is_ready and self.rows[number].state_text == "CONFIGURING":
                self._change(number, state_text="RUNNING", start_time=self.time)

    def end(self, number: int) -> None:
        for name in self.nodes_of.pop(number, []):
            self.machines[name].job = None
            self.machines[name].last_busy = self.time
        del self.rows[number]

    def _change(self, number: int, **facts: Any) -> None:
        self.rows[number] = replace(self.rows[number], **facts)

    # -- what it shows ------------------------------------------------------------------------

    def read_nodes(self) -> Sequence[NodeFacts]:
        text = "".join(f"{machine.line()}\n" for machine in self.machines.values())
        return parse_config.parse_node_facts(text)

    def config(self) -> SlurmConfig:
        return SlurmConfig(dict(self.config_values))

    def look(self) -> Look:
        rows = tuple(self.rows.values())
        parts = {p for m in self.machines.values() for p in m.partitions.split(",")}
        described = Description(
            nodes=(),
            partitions=tuple(partition(name, tuple(self.machines)) for name in sorted(parts)),
            reservations=self.reservations,
            cron=frozenset(),
        )
        return Look(rows, {}, {}, QueueListing(rows, ()), described, True)

    def powers(self) -> str:
        """A letter a node, in order: Up, Told, Falling, Off, Rising, Down."""
        letters = {"up": "U", "told": "T", "falling": "F", "off": "O", "rising": "R", "down": "D"}
        return "".join(letters[machine.power] for machine in self.machines.values())

    # -- NodeAdmin, for the helper ------------------------------------------------------------

    def conditions(self) -> Mapping[str, NodeCondition]:
        return {
            facts.view.name: NodeCondition(
                frozenset(facts.view.flags), facts.reason, facts.view.state
            )
            for facts in self.read_nodes()
        }

    def order(self, names: Sequence[str], order: str, reason: str = "") -> str:
        for name in names:
            machine = self.machines[name]
            machine.orders.append(order)
            if name in self.loses:
                continue
            if order == "power_down_asap" and machine.power == "up":
                self._become(machine, "told")
            if order == "power_up" and machine.power == "off":
                self._become(machine, "rising")
        return ""


class HelperOf:
    """gsched-helper without its socket: NodeHelper by the real one's rules."""

    def __init__(self, slurm: SleepingSlurm, nodes: Sequence[str] | None = None) -> None:
        settings = HelperSettings(
            verbs=("power-down", "power-up"), nodes=tuple(nodes or slurm.machines), user="root"
        )
        self._helper = Helper(settings, slurm)  # type: ignore[arg-type]
        self.error: GschedError | None = None
        self.before: Callable[[], None] = lambda: None
        self.asked: list[tuple[str, list[str]]] = []

    def power_down(self, nodes: Sequence[str]) -> Outcome:
        return self._ask("power-down", nodes)

    def power_up(self, nodes: Sequence[str]) -> Outcome:
        return self._ask("power-up", nodes)

    def _ask(self, verb: str, nodes: Sequence[str]) -> Outcome:
        self.asked.append((verb, list(nodes)))
        self.before()
        if self.error is not None:
            raise self.error
        told = self._helper.answer({"verb": verb, "nodes": fold(nodes)}, Asker(0, 0, 0))
        return Outcome(tuple(told["done"]), tuple(told["already"]), dict(told["failed"]))
