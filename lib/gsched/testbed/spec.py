"""What a testbed shall be: the specification and its checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from gsched.errors import DataError, UsageError

Accounting = Literal["filetxt", "slurmdbd", "none"]
Scheduler = Literal["sched/backfill", "sched/builtin"]

ACCOUNTING_KINDS: tuple[str, ...] = get_args(Accounting)
SCHEDULERS: tuple[str, ...] = get_args(Scheduler)

MAX_NODES = 500
"""More than this many slurmd on one machine say nothing; also bounds the block of ports."""
MAX_GPUS_PER_NODE = 64
MAX_ROOT_CHARS = 60
"""slurmstepd's socket <root>/spool/<node>/<node>_<job>.<step> must fit the 107 of sun_path."""
DEFAULT_SUSPEND_TIME_S = 8_640_000
"""Practically never, yet not -1, which would disable powering down by hand as well."""

FACTOR_KEYS: Mapping[str, str] = {
    "age": "PriorityWeightAge",
    "assoc": "PriorityWeightAssoc",
    "fairshare": "PriorityWeightFairshare",
    "jobsize": "PriorityWeightJobSize",
    "partition": "PriorityWeightPartition",
    "qos": "PriorityWeightQOS",
}

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_PATH = re.compile(r"/[A-Za-z0-9._+@/-]*")


def _default_weights() -> dict[str, int]:
    """The partition's million is the base that keeps every pending job far above SiteFactors."""
    return {"partition": 1_000_000, "age": 1_000, "fairshare": 10_000}


@dataclass(frozen=True, slots=True)
class TestbedSpec:
    """One private Slurm. Raises UsageError for values that Slurm could not work with."""

    root: Path
    """Folder of everything that the testbed has; absolute."""
    cluster: str = "testbed"
    num_nodes: int = 4
    gpus_per_node: int = 8
    gpu_type: str = "a100"
    cpus_per_node: int = 64
    mem_mib_per_node: int = 512_000
    accounting: Accounting = "filetxt"
    base_port: int | None = None
    """First of `num_ports` TCP ports on 127.0.0.1; None = a free block is looked for."""
    scheduler: Scheduler = "sched/backfill"
    priority_weights: Mapping[str, int] = field(default_factory=_default_weights)
    """PriorityWeight… by factor: age, assoc, fairshare, jobsize, partition, qos."""
    cred_expire_s: int = 10
    """A requeued job is eligible again this many seconds later; Slurm's own default is 120."""
    suspend_time_s: int = DEFAULT_SUSPEND_TIME_S
    """Seconds after which Slurm powers an idle node down by itself."""
    extra_conf: tuple[str, ...] = ()
    """Lines for slurm.conf. A key that is set here replaces the testbed's own value."""

    __test__ = False  # pytest: not a test class, whatever its name begins with

    def __post_init__(self) -> None:
        root = str(self.root)
        if not _PATH.fullmatch(root) or ".." in self.root.parts:
            raise UsageError(
                f"testbed root {root!r} is not an absolute path of plain characters",
                "slurm.conf knows no quoting: use letters, digits and . _ + @ - / only",
            )
        if len(root) > MAX_ROOT_CHARS:
            raise UsageError(
                f"testbed root {root!r} is longer than {MAX_ROOT_CHARS} characters",
                "sockets lie below it, and Linux allows them 107 characters: choose a shorter one",
            )
        for what, value in (("cluster name", self.cluster), ("GPU type", self.gpu_type)):
            if not _WORD.fullmatch(value):
                raise UsageError(f"{what} {value!r} is not a plain word of at most 32 characters")
        self._check_numbers()
        self._check_choices()

    def _check_numbers(self) -> None:
        for what, value, low, high in (
            ("number of nodes", self.num_nodes, 1, MAX_NODES),
            ("GPUs per node", self.gpus_per_node, 0, MAX_GPUS_PER_NODE),
            ("CPUs per node", self.cpus_per_node, 1, 4096),
            ("memory per node in MiB", self.mem_mib_per_node, 100, 2**31 - 1),
            ("first port", self.base_port or 1024, 1024, 65_536 - self.num_ports),
            ("cred_expire_s", self.cred_expire_s, 5, 86_400),
            ("suspend_time_s", self.suspend_time_s, 1, 2**31 - 1),
        ):
            if not low <= value <= high:
                raise UsageError(f"{what} is {value}, must be between {low} and {high}")

    def _check_choices(self) -> None:
        for what, value, allowed in (
            ("accounting", self.accounting, ACCOUNTING_KINDS),
            ("scheduler", self.scheduler, SCHEDULERS),
        ):
            if value not in allowed:
                raise UsageError(f"{what} {value!r} is none of {', '.join(allowed)}")
        for factor, weight in self.priority_weights.items():
            if factor not in FACTOR_KEYS:
                raise UsageError(
                    f"priority factor {factor!r} is none of {', '.join(sorted(FACTOR_KEYS))}"
                )
            if not 0 <= weight < 2**32:
                raise UsageError(f"weight of priority factor {factor} is {weight}")
        for line in self.extra_conf:
            if "\n" in line or "=" not in line:
                raise UsageError(f"line for slurm.conf {line!r} is not one KEY=VALUE line")

    @property
    def num_ports(self) -> int:
        """Ports taken: slurmctld, slurmdbd, MariaDB and one a node."""
        return 3 + self.num_nodes

    @property
    def node_names(self) -> tuple[str, ...]:
        """gn01, gn02, …"""
        width = max(2, len(str(self.num_nodes)))
        return tuple(f"gn{i:0{width}d}" for i in range(1, self.num_nodes + 1))

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the testbed's own record."""
        return asdict(self) | {"root": str(self.root), "extra_conf": list(self.extra_conf)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TestbedSpec:
        """The inverse of `to_json`. Raises DataError for what this release does not know."""
        try:
            return cls(
                **{
                    **values,
                    "root": Path(values["root"]),
                    "extra_conf": tuple(values["extra_conf"]),
                }
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"record of a testbed is not understood: {error}") from None
