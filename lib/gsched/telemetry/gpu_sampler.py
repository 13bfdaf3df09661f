"""Tells each quarter of a minute what a job's GPUs on one node do, beside the job's heartbeats.

::

    python -I -m gsched.telemetry.gpu_sampler --watch PID [--interval SECONDS]

It ends when process PID has ended, however that was; signals are not meant for it. Of a job without
GPUs, without GSCHED_HEARTBEAT_DIR, and where a sampler of the same job runs on this node, it ends
at once. `gpu_file` is what it writes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from gsched.errors import GschedError
from gsched.telemetry.gpu_file import (
    FILE_BYTES,
    SLOT_BYTES,
    GpuReading,
    GpuRecord,
    GpuUse,
    encode,
    file_name,
)
from gsched.telemetry.gpu_sources import RECORDING_VARIABLE, Source, chosen_gpus, opened
from gsched.telemetry.job_environment import job_name, own_folder, whole_number
from gsched.telemetry.own_folder import OwnFolder, write_all

INTERVAL_S = 15.0

_NOT_FOR_IT = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU),
)


def command(environ: Mapping[str, str], pid: int) -> list[str] | None:
    """What starts a sampler that ends with process `pid`.

    None where it would have nothing to do: a job without GPUs or without a heartbeat folder, a
    Python without nvidia-ml-py.
    """
    if own_folder(environ) is None or not chosen_gpus(environ):
        return None
    if not environ.get(RECORDING_VARIABLE) and find_spec("pynvml") is None:
        return None
    return [sys.executable, "-I", "-m", "gsched.telemetry.gpu_sampler", "--watch", str(pid)]


class Tally:
    """The samples of one sampler, summed up."""

    def __init__(self, record: GpuRecord) -> None:
        """`record` says of which job and node; it has no samples."""
        self.record = record
        self._shares: dict[int, tuple[float, int]] = {}

    def add(self, readings: Sequence[GpuReading], now: float) -> None:
        """One more sample."""
        before = {use.last.index: use for use in self.record.gpus}
        gpus = [self._joined(before.get(last.index, GpuUse(last)), last, now) for last in readings]
        self.record = replace(self.record, gpus=gpus, written_time=now)

    def _joined(self, before: GpuUse, last: GpuReading, now: float) -> GpuUse:
        total, num = self._shares.get(last.index, (0.0, 0))
        if last.utilisation is not None:
            total, num = total + last.utilisation, num + 1
            self._shares[last.index] = total, num
        seen = (last.memory_used_bytes, before.max_memory_used_bytes)
        return GpuUse(
            last=last,
            mean_utilisation=total / num if num else None,
            max_memory_used_bytes=max((x for x in seen if x is not None), default=None),
            busy_time=now if last.utilisation else before.busy_time,
        )


class GpuFile:
    """The file of one job and node. Raises OSError where it cannot be written."""

    def __init__(self, folder: OwnFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._seq = 0

    def write(self, record: GpuRecord) -> None:
        """Put `record` in place; what an attempt before has left in the other slot goes."""
        self._folder.make()
        with self._folder.open(self._name, os.O_RDWR | os.O_CREAT) as fd:
            if self._seq == 0 or os.fstat(fd).st_size != FILE_BYTES:
                os.ftruncate(fd, 0)
                os.ftruncate(fd, FILE_BYTES)
            place = self._seq % 2 * SLOT_BYTES
            write_all(fd, encode(replace(record, seq=self._seq)), place)
        self._seq += 1


class Watched:
    """The process with which a sampler ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd: int | None = None
        with suppress(OSError):  # Linux before 5.3 has none; or it has ended already
            self._fd = os.pidfd_open(pid)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end so long."""
        if self._fd is not None:
            return bool(select.select([self._fd], [], [], seconds)[0])
        until = time.monotonic() + seconds
        while Path(f"/proc/{self._pid}").exists():
            if (rest_s := until - time.monotonic()) <= 0:
                return False
            time.sleep(min(1.0, rest_s))
        return True


def sample_until_end(watched: Watched, source: Source, file: GpuFile, record: GpuRecord) -> None:
    """Sample and write until the process that is watched has ended.

    A write that fails is tried again with the next sample: disks fill up, and empty again.
    """
    tally = Tally(record)
    while True:
        tally.add(source(), time.time())
        with suppress(OSError):
            file.write(tally.record)
        if watched.ends_within(record.interval_s):
            break
    with suppress(OSError):
        file.write(replace(tally.record, ended_time=time.time()))


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a sampler. Raises UnavailableError where no GPU can be read."""
    parser = argparse.ArgumentParser(prog="gpu_sampler", description="Samples a job's GPUs.")
    parser.add_argument("--watch", type=int, required=True, metavar="PID")
    parser.add_argument("--interval", type=float, default=INTERVAL_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    for number in _NOT_FOR_IT:
        signal.signal(number, signal.SIG_IGN)
    folder = own_folder(environ)
    if folder is None or not chosen_gpus(environ):
        return
    watched = Watched(options.watch)
    job, node = job_name(environ), environ.get("SLURMD_NODENAME") or os.uname().nodename
    with socket.socket(socket.AF_UNIX) as place:
        try:
            place.bind(_only_place(folder, job, node))
        except OSError:
            return  # another one samples
        with opened(environ) as source:
            now = time.time()
            record = GpuRecord(
                seq=0,
                job=job,
                restart=whole_number(environ, "SLURM_RESTART_COUNT") or 0,
                node=node,
                interval_s=options.interval,
                started_time=now,
                written_time=now,
                gpus=[],
            )
            file = GpuFile(folder, file_name(job, node))
            sample_until_end(watched, source, file, record)


def _only_place(folder: OwnFolder, job: str, node: str) -> str:
    """The abstract unix socket that one sampler at a time can have; names are bounded."""
    words = "\0".join((os.fspath(folder.path), job, node))
    return "\0gsched-gpus-" + hashlib.sha256(os.fsencode(words)).hexdigest()


if __name__ == "__main__":
    try:
        main(sys.argv[1:], os.environ)
    except GschedError as e:
        print(f"gsched: error: {e.message}", file=sys.stderr)
        sys.exit(e.exit_code)
