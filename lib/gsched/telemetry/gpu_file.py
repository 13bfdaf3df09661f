"""The file by which a node of a job tells what its GPUs do: its bytes, and their meaning.

It is `FOLDER/UID/JOB.gpu.NODE` beside the job's heartbeats (see `heartbeat_file`), of FILE_BYTES,
written in place in two slots (see `slots`). Whoever owns the file may have put anything into it, so
each value is checked here; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gsched.telemetry.checked import Checked
from gsched.telemetry.slots import encode_slot, newest

SLOT_BYTES = 32_768
FILE_BYTES = 2 * SLOT_BYTES
MAX_GPUS = 48
"""Of a node with more, such as slices of MIG, only so many are told."""

_KIND = b"gsched-gpus 1"
MAX_NAME = 96


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What one GPU says of itself; None is what it does not say.

    `index` is the place among the job's GPUs on this node, as CUDA counts them there.
    `utilisation` is the share of the last second or less in which anything ran on it, 0 to 1;
    `num_processes` counts those with memory on it, of whatever job.
    """

    index: int
    uuid: str
    name: str
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    num_processes: int | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A GPU's last reading and what its samples since `GpuRecord.started_time` come to.

    `mean_utilisation` is that of the samples which told one, `max_memory_used_bytes` the largest,
    `busy_time` when a sample last found anything running on it (None: never).
    """

    last: GpuReading
    mean_utilisation: float | None = None
    max_memory_used_bytes: int | None = None
    busy_time: float | None = None


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """What the GPUs of one node do for one attempt of a job, sampled each `interval_s` seconds.

    `seq` counts the samples that were written; `ended_time` is when the sampler's work was over.
    """

    seq: int
    job: str
    restart: int
    node: str
    interval_s: float
    started_time: float
    written_time: float
    gpus: Sequence[GpuUse]
    ended_time: float | None = None


def file_name(job: str, node: str) -> str:
    """The name of a node's file in the folder of the job's owner."""
    return f"{job}.gpu.{node}"


def encode(record: GpuRecord) -> bytes:
    """One slot."""
    return encode_slot(_KIND, asdict(record), SLOT_BYTES)


def decode(data: bytes) -> GpuRecord:
    """The newest record of a file. Raises DataError where none is valid."""
    return newest(_KIND, data, SLOT_BYTES, _record)[1]


def reading(its: Checked) -> GpuReading:
    """One GPU as JSON has it. Raises DataError."""
    return GpuReading(
        index=its.number("index"),
        uuid=its.text("uuid", MAX_NAME),
        name=its.text("name", MAX_NAME),
        utilisation=its.maybe(its.share, "utilisation"),
        memory_used_bytes=its.maybe(its.number, "memory_used_bytes"),
        memory_total_bytes=its.maybe(its.number, "memory_total_bytes"),
        power_w=its.maybe(its.time, "power_w"),
        power_limit_w=its.maybe(its.time, "power_limit_w"),
        temperature_c=its.maybe(its.real, "temperature_c"),
        num_processes=its.maybe(its.number, "num_processes"),
    )


def _record(its: Checked) -> tuple[int, GpuRecord]:
    record = GpuRecord(
        seq=its.number("seq"),
        job=its.text("job", 32),
        restart=its.number("restart"),
        node=its.text("node", 256),
        interval_s=its.time("interval_s"),
        started_time=its.time("started_time"),
        written_time=its.time("written_time"),
        gpus=[_use(gpu) for gpu in its.objects("gpus", MAX_GPUS)],
        ended_time=its.maybe(its.time, "ended_time"),
    )
    return record.seq, record


def _use(its: Checked) -> GpuUse:
    return GpuUse(
        last=reading(its.object("last")),
        mean_utilisation=its.maybe(its.share, "mean_utilisation"),
        max_memory_used_bytes=its.maybe(its.number, "max_memory_used_bytes"),
        busy_time=its.maybe(its.time, "busy_time"),
    )
