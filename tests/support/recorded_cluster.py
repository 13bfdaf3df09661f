"""A large cluster by a seed, written down as Slurm's commands would print it.

The lines are those of the real squeue, sprio and scontrol of ``tests/data/slurm/22.05``; the seed
decides what the jobs ask for.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from gsched.slurm.parse_queue import QUEUE_FIELDS, TEXT_FIELDS
from gsched.slurm.run import Completed
from support import stand_in_slurm

RECORDED = Path(__file__).parents[1] / "data" / "slurm" / "22.05"
FIELDS = QUEUE_FIELDS + TEXT_FIELDS
BASE = 1_000_000
PROGRAMS = ("squeue", "sprio", "scontrol")
NOW = 1_795_959_168
"""When the recorded listings were made."""

ROUNDS_SHOWN = 10
"""For so many rounds squeue shows a job that has ended."""

_UNSET = dict.fromkeys(FIELDS, "N/A") | dict.fromkeys(
    ("Reservation", "Feature", "Dependency", "Licenses", "NodeList"), "(null)"
)
_CHANGED = {  # no scrontab and no accounting, whose questions belong to no round
    "ScronParameters": "(null)",
    "AccountingStorageType": "(null)",
    "PriorityWeightFairShare": "10000",
    "SchedulerParameters": "bf_continue,bf_interval=30",
}


class RecordedCluster:
    """`num_jobs` waiting jobs and `num_nodes` nodes of eight GPUs, all of them busy."""

    def __init__(self, folder: Path, seed: int, num_jobs: int, num_nodes: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._num_nodes = num_nodes
        self._next_id = 1
        self._waiting: dict[int, str] = {}
        self._priorities: dict[int, str] = {}
        self._ended: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._running = [self._job(node) for node in range(num_nodes)]
        for _ in range(num_jobs):
            self._arrive()
        self._describe()
        (folder / "factors").write_text("{}")
        self.write()

    # -- the queue --------------------------------------------------------------------------

    def churn(self, jobs: int, at: int = NOW) -> None:
        """So many jobs are cancelled (`at` epoch) and as many come; the rest stays as it is.

        squeue shows ended jobs for a while, as Slurm does for MinJobAge.
        """
        for job in self._random.sample(sorted(self._waiting), jobs):
            fields = self._waiting.pop(job).split("\0")
            for name, value in (("State", "CANCELLED"), ("EndTime", str(at))):
                fields[FIELDS.index(name)] = value
            self._ended.append("\0".join(fields))
            del self._priorities[job]
        del self._ended[: -ROUNDS_SHOWN * jobs]
        for _ in range(jobs):
            self._arrive()
        factors = json.loads((self.folder / "factors").read_text())
        kept = {job: value for job, value in factors.items() if int(job) in self._waiting}
        (self.folder / "factors").write_text(json.dumps(kept))
        self.write()

    def age(self) -> None:
        """Every job's age factor grows by a point, as at each PriorityCalcPeriod."""
        for job, line in self._priorities.items():
            bare, nice, age, rest = line.split(" ", 3)
            self._priorities[job] = f"{int(bare) + 1} {nice} {int(age) + 1} {rest}"
            fields = self._waiting[job].split("\0")
            fields[FIELDS.index("PriorityLong")] = str(int(bare) + 1)
            self._waiting[job] = "\0".join(fields)
        self.write()

    def write(self) -> None:
        """Put the queue as it is now into the folder."""
        lines = [*self._waiting.values(), *self._running, *self._ended]
        (self.folder / "squeue").write_text("".join(lines))
        lines = [f"{job} {line}\n" for job, line in self._priorities.items()]
        (self.folder / "sprio").write_text("".join(lines))

    def _arrive(self) -> None:
        number = self._next_id
        fair, age, qos = self._random.randrange(10_000), self._random.randrange(1000), 0
        if self._random.random() < 0.1:
            qos = 5000
        bare = BASE + fair + age + qos
        self._waiting[number] = self._job(None, bare)
        self._priorities[number] = f"{bare} 0 {age} 0 {fair} 0 {BASE} {qos} cpu=0"

    def _job(self, node: int | None, priority: int = BASE) -> str:
        number, draw = self._next_id, self._random
        self._next_id += 1
        gpus = 8 if node is not None else draw.choice((0, 1, 1, 1, 2, 4, 8, 16, 32))
        nodes = max(1, gpus // 8)
        values = _UNSET | {
            "JobID": str(number),
            "JobArrayID": str(number),
            "ArrayJobID": str(number),
            "State": "PENDING" if node is None else "RUNNING",
            "Reason": "Priority" if node is None else "None",
            "UserName": f"user{draw.randrange(300):03}",
            "Account": f"lab{draw.randrange(20):02}",
            "QOS": "normal",
            "Partition": draw.choice(("gpu", "gpu", "gpu", "gpu,long", "long")),
            "PriorityLong": str(priority),
            "Nice": "0",
            "SubmitTime": str(NOW + number),
            "EligibleTime": str(NOW + number),
            "TimeLimit": f"{draw.randrange(1, 72)}:00:00",
            "NumNodes": str(nodes),
            "MaxNodes": str(nodes),
            "NumCPUs": str(max(1, gpus) * 8),
            "tres-alloc": f"cpu={max(1, gpus) * 8},mem={max(1, gpus) * 64}G,node={nodes},billing=8"
            + (f",gres/gpu={gpus},gres/gpu:a100={gpus}" if gpus else ""),
            "tres-per-node": f"gres:gpu:a100:{min(8, gpus)}" if gpus else "N/A",
            "NumTasks": "1",
            "Sockets": "*",
            "RestartCnt": "0",
            "BatchFlag": "1",
            "Requeue": "1",
            "Name": f"train-{draw.randrange(500)}-llama",
            "Comment": "sweep of the learning rate" if draw.random() < 0.3 else "(null)",
        }
        if node is not None:
            values |= {
                "StartTime": str(NOW + number),
                "EndTime": str(NOW + number + 7200),
                "NodeList": f"gn{node + 1:04}",
            }
        return "".join(f"{values[field]}\0" for field in FIELDS) + "\n"

    # -- what scontrol shows ----------------------------------------------------------------

    def _describe(self) -> None:
        folder = self.folder
        config = (RECORDED / "config.txt").read_text()
        for key, value in _CHANGED.items():
            config = re.sub(rf"(?m)^{key}( *)= .*", rf"{key}\1= {value}", config)
        (folder / "config").write_text(config)
        node = (RECORDED / "nodes.txt").read_text().splitlines()[0]
        (folder / "node").write_text(
            "".join(f"{node.replace('gn01', f'gn{n + 1:04}')}\n" for n in range(self._num_nodes))
        )
        partition = (RECORDED / "partitions.txt").read_text().splitlines()[0]
        names = f"gn[0001-{self._num_nodes:04}]"
        (folder / "partition").write_text(
            "".join(
                partition.replace("=gpu ", f"={name} ").replace("gn[01-04]", names) + "\n"
                for name in ("gpu", "long")
            )
        )
        (folder / "reservation").write_text("No reservations in the system\n")
        (folder / "federation").write_text("No federation\n")

    # -- the commands -----------------------------------------------------------------------

    def install(self, bin_folder: Path) -> None:
        """Programs by the names of Slurm's, for PATH."""
        bin_folder.mkdir(parents=True, exist_ok=True)
        source = Path(stand_in_slurm.__file__)
        for name in PROGRAMS:
            program = bin_folder / name
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -S -I {source} {self.folder} {name} "$@"\n'
            )
            program.chmod(0o755)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: str | None = None,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """The same without a process, as ``gsched.slurm.run.run`` would."""
        del timeout_s, env
        said = stand_in_slurm.answer(self.folder, argv, stdin or "")
        return Completed(tuple(argv), 0, said, "")
