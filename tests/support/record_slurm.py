"""Records what the installed release of Slurm says of the jobs of `lab_jobs`.

    PYTHONPATH=lib:tests python3 -m support.record_slurm FOLDER

starts a private Slurm of five small nodes with two types of GPUs, shards, slurmdbd, a reservation
and licences, runs the jobs, and writes into FOLDER the outputs that gsched's parsers read, text
and JSON of the same moment. Takes some two minutes: a job has to run into its time limit. Needs
nothing but Python and Debian's Slurm packages, so that it runs in a bare chroot of any release.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsched.slurm import parse_detail, parse_priority, parse_queue, parse_sacct
from gsched.slurm.detail import json_options
from gsched.slurm.run import run
from gsched.testbed.cluster import Testbed
from gsched.testbed.ports import Ports
from gsched.testbed.wait import wait_for
from support.lab_jobs import ENDED, HOSTILE_NAMES, PENDING, RUNNING, LabJob, hostile_jobs

SEPARATOR = "\x1frecorded-separator\x1e"
NODES = """\
NodeName=gn[01-02] {address} Port=[{p1}-{p2}] CPUs=64 RealMemory=64000 Gres=gpu:a100:8 \
Feature=fast,big
NodeName=gn03 {address} Port={p3} CPUs=64 RealMemory=64000 Gres=gpu:v100:8 Feature=fast,small
NodeName=gn04 {address} Port={p4} CPUs=64 RealMemory=64000 \
Gres=gpu:a100:2,gpu:v100:2,shard:16 Feature=small Weight=50
NodeName=gn05 {address} Port={p5} CPUs=8 RealMemory=16000
PartitionName=gpu Nodes=gn[01-04] Default=YES State=UP MaxTime=INFINITE
PartitionName=short Nodes=gn[01-04] State=UP DefaultTime=20 MaxTime=2:00:00 MaxNodes=2
PartitionName=spare Nodes=gn05 State=UP MaxTime=INFINITE
"""
GRES = """\
NodeName=gn[01-02] Name=gpu Type=a100 File={dev}/gpu[0-7]
NodeName=gn03 Name=gpu Type=v100 File={dev}/gpu[0-7]
NodeName=gn04 Name=gpu Type=a100 File={dev}/gpu[0-1]
NodeName=gn04 Name=gpu Type=v100 File={dev}/gpu[2-3]
NodeName=gn04 Name=shard Count=16
"""
CONF = (
    "GresTypes=gpu,shard",
    "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100,gres/shard",
    "Licenses=matlab:4",
    # the announced start of a waiting job must not move between two readings
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=30",
    "PriorityCalcPeriod=5",
)


class Lab(Testbed):
    """A testbed with nodes of several kinds."""

    def _write_files(self, ports: Ports) -> None:
        super()._write_files(ports)
        conf = self.layout.etc / "slurm.conf"
        lines = conf.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("NodeName=", "PartitionName="))]
        numbers = {f"p{n + 1}": ports.slurmd_first + n for n in range(5)}
        nodes = NODES.format(address="NodeHostname=localhost NodeAddr=127.0.0.1", **numbers)
        conf.write_text("\n".join(kept) + "\n" + nodes)
        (self.layout.etc / "gres.conf").write_text(GRES.format(dev=self.layout.root / "dev"))


class Recorder:
    """One lab, its jobs, and the folder that gets the outputs."""

    def __init__(self, bed: Testbed, folder: Path) -> None:
        self._bed = bed
        self._folder = folder

    # -- the jobs ---------------------------------------------------------------------------

    def ok(self, *argv: str, user: str | None = None) -> str:
        answer = self._bed.run(argv, user)
        if answer.returncode:
            sys.exit(f"{argv}: {answer.stderr or answer.stdout}")
        return answer.stdout

    def submit(self, job: LabJob) -> str:
        words = ["-J", job.name, *job.words]
        if ":" in words:
            words[words.index(":") + 1 : words.index(":") + 1] = ["-J", job.name]
        if "-o" not in words:
            words = ["-o", "/dev/null", *words]
        script = f"#!/bin/sh\n{job.command}\n"
        if job.script:
            file = self._bed.layout.home(job.user) / job.script
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(script)
            words += [str(file), "--epochs", "3"]
        answer = self._bed.run(["sbatch", "--parsable", *words], job.user, stdin=script)
        if answer.returncode:
            sys.exit(f"{job.name!r}: {answer.stderr}")
        return answer.stdout.strip()

    def wait(self, job_id: str, state: str, timeout_s: float = 30) -> None:
        def arrived() -> bool:
            return state in self.ok("squeue", "-h", "-j", job_id, "-t", "all", "-o", "%T").split()

        wait_for(arrived, f"job {job_id} to be {state}", timeout_s, 0.2)

    def run_jobs(self) -> None:
        """All jobs in the states in which they are recorded."""
        self.ok("sacctmgr", "-i", "add", "qos", "high", "priority=100")
        self.ok("sacctmgr", "-i", "modify", "user", "games", "set", "qos+=high")
        self.ok("scontrol", "create", "reservation", "reservationname=course", "users=games,news",
                "starttime=now+8hours", "duration=120", "nodes=gn02")  # fmt: skip
        ids = {job.name: self.submit(job) for job in (*RUNNING, *ENDED)}
        for job in RUNNING:
            self.wait(ids[job.name], "RUNNING")
        self.ok("scontrol", "suspend", ids["paused"])
        for name in ("cancelled", "node-fails", "again"):
            self.wait(ids[name], "RUNNING")
        self.ok("scancel", ids["cancelled"], ids["never"], user="games")
        self.ok("scontrol", "requeue", ids["again"])
        self.ok("scontrol", "hold", ids["again"])
        self.ok("scontrol", "update", "nodename=gn05", "state=down",
                "reason=fan")  # fmt: skip
        repair = "reservationname=repair starttime=now duration=600 nodes=gn04 users=root"
        self.ok("scontrol", "create", "reservation", *repair.split(), "flags=maint,ignore_jobs")
        dependent = LabJob("dependent", ("-d", f"afterok:{ids['typed']}", "-t", "10"), "PENDING")
        doomed = LabJob("doomed", ("-d", f"afterok:{ids['fails']}", "-t", "10"), "PENDING")
        pending = (*PENDING, *hostile_jobs(), dependent, doomed)
        ids |= {job.name: self.submit(job) for job in pending}
        self.ok("scontrol", "update", f"jobid={ids['dependent']}", "admincomment=seen by admin")
        self.ok("scontrol", "update", f"jobid={ids['resources']}", "sitefactor=-250")
        for job in (*ENDED, *pending):
            self.wait(ids[job.name], job.state, timeout_s=180)
        for name in ("done", "fails", "killed", "too-long", "cancelled", "never", "node-fails"):
            wait_for(lambda n=name: self._on_record(ids[n]), f"sacct to know {name}", 60, 0.5)
        why = "reason=fan State=IDLE\tbroken"
        self.ok("scontrol", "update", "nodename=gn05", "state=drain", why)

    def _on_record(self, job_id: str) -> bool:
        words = self.ok("sacct", "-X", "-n", "-P", "-j", job_id, "-o", "State,End").split("|")
        return words[0] not in {"PENDING", "RUNNING", ""} and "Unknown" not in words[-1]

    # -- the outputs ------------------------------------------------------------------------

    def _read(self, argv: Sequence[str]) -> str:
        return run(argv, timeout_s=60, env=self._bed.env()).check().stdout

    def _json(self, argv: Sequence[str]) -> str:
        """Without SLURM_TIME_FORMAT: ``sacct --json`` of 22.05 cannot read its own times in it."""
        extra = {"TZ": "UTC", "SLURM_BITSTR_LEN": "0"}
        answer = self._bed.run(argv, extra_env=extra)
        if answer.returncode:
            sys.exit(f"{argv}: {answer.stderr}")
        return answer.stdout

    def record(self) -> None:
        """Write every output; the queue does not move in the meantime, or it is read again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for _ in range(30):
            before = self._queue()
            outputs = {name: self._read(argv) for name, argv in text_commands().items()}
            documents = {n: self._json(a) for n, a in json_commands(self._version()).items()}
            if before == outputs["squeue.txt"] == self._queue():
                break  # what of it moves while nothing happens (LastSchedEval) is not compared
        else:
            sys.exit("the queue does not come to rest")
        for name, text in outputs.items() | documents.items():
            self._write(name, text)

    def _queue(self) -> str:
        return self._read(squeue_argv(parse_queue.QUEUE_FIELDS))

    def _version(self) -> str:
        return self.ok("squeue", "--version").split()[1]

    def _write(self, name: str, text: str) -> None:
        if name.endswith(".json"):
            document = smaller(name, json.loads(text))
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
        text = neutral(text, self._bed.layout.root)
        (self._folder / name).write_text(text, encoding="utf-8", newline="")


def squeue_argv(fields: Sequence[str]) -> tuple[str, ...]:
    form = parse_queue.squeue_format(fields, SEPARATOR)
    return ("squeue", "-h", "-a", "--local", "--noconvert", "--states=all", "-O", form)


def text_commands() -> dict[str, Sequence[str]]:
    return {
        "squeue.txt": squeue_argv(parse_queue.QUEUE_FIELDS),
        "squeue-text.txt": squeue_argv(parse_queue.FREE_TEXT_FIELDS),
        "squeue-detail.txt": squeue_argv(parse_detail.DETAIL_FIELDS),
        "jobs.txt": ("scontrol", "-a", "-d", "-o", "show", "job"),
        "sprio.txt": ("sprio", "-h", "--local", "-o", parse_priority.sprio_format(SEPARATOR)),
        "sacct.txt": parse_sacct.sacct_argv(*window(), SEPARATOR),
        "config.txt": ("scontrol", "show", "config"),
        "nodes.txt": ("scontrol", "-a", "-d", "-o", "show", "node"),
        "partitions.txt": ("scontrol", "-a", "-o", "show", "partition"),
        "reservations.txt": ("scontrol", "-a", "-o", "show", "reservation"),
    }


def window() -> tuple[int, int]:
    """The last day and the next."""
    now = int(time.time())
    return now - 86400, now + 86400


def json_commands(version: str) -> dict[str, Sequence[str]]:
    """The version of the data parser is pinned where the release lets it be chosen."""
    major, minor = map(int, version.split(".")[:2])
    detailed = json_options((major, minor))
    pinned = "--json=v0.0.42" if detailed else "--json"
    sacct = parse_sacct.sacct_argv(*window(), SEPARATOR)
    span = sacct[sacct.index("-S") : sacct.index("-o")]
    commands: dict[str, Sequence[str]] = {
        "squeue.json": ("squeue", "-a", "--local", "--states=all", pinned),
        "sacct.json": ("sacct", "--local", "-a", "-D", *span, pinned),
        "sinfo.json": ("sinfo", "-a", "--local", pinned),
    }
    if detailed:
        commands["nodes.json"] = ("scontrol", "-a", "show", "node", pinned)
        commands["jobs.json"] = ("scontrol", "-a", "show", "job", detailed[0])
    return commands


def neutral(text: str, root: Path) -> str:
    """`text` without what is this machine's own: its name, its kernel, the testbed's folder."""
    text = text.replace(str(root), "/lab").replace(socket.gethostname(), "login")
    release = re.escape(os.uname().release)
    return re.sub(rf"Linux {release}[^\n\"]*?(?= RealMemory=|\"|\n)", "Linux 6.1.0", text)


DETAILED = frozenset(
    {"typed", "uneven", "both-types", "shards", "array", "het", "killed", "resources", "dependent",
     "files", "placed", "exclusive"}
)  # fmt: skip


def smaller(name: str, document: Any) -> Any:
    """JSON of Slurm without what gsched does not read and what takes the most room.

    ``jobs.json`` holds the jobs of squeue.json once more: some of them are enough.
    """
    for job in document.get("jobs", ()):
        job.pop("steps", None)
    if name == "jobs.json":
        wanted = DETAILED | set(HOSTILE_NAMES)
        document["jobs"] = [job for job in document["jobs"] if job["name"] in wanted]
    return document


def main() -> None:
    """Run the jobs, record them, and take the lab away."""
    folder = Path(sys.argv[1]).absolute()
    with Lab.temporary(num_nodes=5, accounting="slurmdbd", extra_conf=CONF) as bed:
        recorder = Recorder(bed, folder)
        recorder.run_jobs()
        recorder.record()


if __name__ == "__main__":
    main()
