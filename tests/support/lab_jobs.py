"""The jobs that are recorded on every release of Slurm, so that their values can be compared.

Each has a name of its own. What the words ask for fits the four nodes of `record_slurm`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LabJob:
    """A job: sbatch's words, its script's one command, and the state in which it is recorded."""

    name: str
    words: tuple[str, ...]
    state: str
    command: str = "sleep 3600"
    script: str = ""
    """Name of a file to submit instead of standard input."""
    user: str = "games"


def _job(name: str, words: str, state: str, *, command: str = "sleep 3600") -> LabJob:
    return LabJob(name, tuple(words.split()), state, command)


RUNNING = (
    _job("typed", "-c4 --gres=gpu:a100:2 -t 1-02:03:04", "RUNNING"),
    _job("untyped", "-N1 -w gn01 --gpus=3 -t 60 --mem=4G", "RUNNING"),
    _job("per-task", "-n2 -N1 -w gn01 --gpus-per-task=a100:1 -t 60 --mem-per-cpu=2G", "RUNNING"),
    _job("per-socket", "-N1 -w gn02 --sockets-per-node=2 --gpus-per-socket=1 -t 60", "RUNNING"),
    _job("uneven", "-N2 -n2 -w gn[02-03] --gpus=5 -t 60 -C fast|big", "RUNNING"),
    _job("both-types", "-N1 -w gn04 --gres=gpu:a100:1,gpu:v100:2 -t 60", "RUNNING"),
    _job("shards", "-N1 -w gn04 --gres=shard:3 -t 60 -L matlab:2", "RUNNING"),
    _job("unlimited", "-c2", "RUNNING"),
    _job("default-time", "-p short -c2", "RUNNING"),
    _job("paused", "-c2 -t 60", "SUSPENDED"),
    _job("array", "-a 1-6:2%2 -c1 -t 60", "RUNNING"),
    _job("het", "-c2 -t 60 : -c1 --gres=gpu:1 -w gn03", "RUNNING"),
)

ENDED = (
    _job("done", "-t 5 --gres=gpu:a100:1", "COMPLETED", command="true"),
    _job("fails", "-t 5", "FAILED", command="exit 3"),
    _job("killed", "-t 5", "FAILED", command="kill -9 $$"),
    _job("too-long", "-t 1", "TIMEOUT"),
    _job("cancelled", "-t 60", "CANCELLED"),
    _job("never", "-t 60 --begin=now+9hours", "CANCELLED"),
    _job("node-fails", "-t 60 -p spare --no-requeue", "NODE_FAIL"),
    _job("again", "-t 60 --begin=now", "PENDING"),
)
"""`again` is requeued while it runs: it is recorded as it waits, with an attempt behind it."""

PENDING = (
    _job("held", "-H --nice=150 --gpus=2 -t 90", "PENDING"),
    _job("resources", "-N2 --gpus-per-node=a100:8 -t 60", "PENDING"),
    _job("begin", "--begin=now+9hours --gpus-per-task=a100:2 -n3 -t 5", "PENDING"),
    _job("sockets", "-H -N2 --sockets-per-node=2 --gpus-per-socket=a100:2 -t 10", "PENDING"),
    _job("bare-gpu", "-H --gres=gpu -t 10", "PENDING"),
    _job("both-spellings", "-H -N2 --gpus=16 --gpus-per-node=8 -t 10", "PENDING"),
    _job("shards-later", "-H -N2 --gres=shard:3 -t 10", "PENDING"),
    _job("tasks", "-H -a 0-900:3,1000%4 -t 10", "PENDING"),
    _job("one-task", "-H -a 7 -t 10", "PENDING"),
    _job("range", "-H -N2-4 -n8 --mem=3G -t 2-00", "PENDING"),
    _job("memory", "-H -n4 -c2 --mem-per-cpu=1500M -t 10", "PENDING"),
    _job("no-limit", "-H -t UNLIMITED", "PENDING"),
    _job("no-time", "-H -p short", "PENDING"),
    _job("no-time-twice", "-H -p gpu,short", "PENDING"),
    _job("features", "-H -C [big|small] -N2 -t 10", "PENDING"),
    _job("plain-features", "-H -C fast&big|small -t 10", "PENDING"),
    _job("licence", "-H -L matlab:3 -t 10", "PENDING"),
    _job("course", "--reservation=course -t 10 -w gn02", "PENDING"),
    _job("two-partitions", "-H -p gpu,short -t 10", "PENDING"),
    _job("placed", "-H -w gn02 -x gn03 --no-requeue -t 10", "PENDING"),
    _job("exclusive", "-H --exclusive -t 10 --deadline=now+2days", "PENDING"),
    _job("high", "-H -q high -t 10", "PENDING"),
    replace(
        _job("files", "-H -o out/%x-%j.txt -e /dev/null -i /dev/zero -D /usr -t 10", "PENDING"),
        script="train it.sh",
    ),
)

HOSTILE_NAMES = (
    "pipe|quote\"'back\\slash",
    "comma, equals=1; (null)",
    "ünï→漢字🚀",
    "evil\nJobId=1 JobName=x UserId=root(0) Command=/bin/evil NumNodes=64\n   Nodes=gn01 CPU_IDs=0 "
    "Mem=1 GRES=gpu:a100:8(IDX:0-7)",
    "tab\tbell\x07escape\x1b[31m",
    " Command=/forged WorkDir=/forged Nodes=gn09 CPU_IDs=0 Mem=1 GRES=gpu:8(IDX:0-7)",
)
LONG_COMMENT = "long " + "0123456789" * 100
HOSTILE_COMMENT = "a|b,c=d\n   StdOut=/forged\n\"quoted\" 'single' → é"


def hostile_jobs() -> tuple[LabJob, ...]:
    """Held jobs whose names imitate Slurm's output, and one of them running."""
    held = [
        LabJob(name, ("-H", "-t", "10", f"--comment={HOSTILE_COMMENT}"), "PENDING")
        for name in HOSTILE_NAMES[:-1]
    ]
    long = LabJob("long-comment", ("-H", "-t", "10", f"--comment={LONG_COMMENT}"), "PENDING")
    runs = LabJob(
        HOSTILE_NAMES[-1],
        ("-t", "60", "--gres=gpu:v100:1", "-w", "gn03"),
        "RUNNING",
        script="x WorkDir=/forged\n   Nodes=gn08 CPU_IDs=0 Mem=1 GRES=gpu:9(IDX:0-8).sh",
    )
    return (*held, long, runs)
