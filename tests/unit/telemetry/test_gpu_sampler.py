"""The sampler of GPUs as a process of its own: what it tells, of whom, and when it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gpus import GIB, fake_nvml, gpu, recording

from gsched.errors import EXIT_UNAVAILABLE
from gsched.telemetry import gpu_file
from gsched.telemetry.gpu_file import GpuReading, GpuRecord
from gsched.telemetry.gpu_sampler import GpuFile, Watched, command, sample_until_end
from gsched.telemetry.gpu_sources import chosen_gpus
from gsched.telemetry.own_folder import OwnFolder
from gsched.telemetry.user_folders import UserFolders
from gsched.testbed.wait import wait_for

ME = os.getuid()
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """That of a job with two GPUs."""
    busy, idle = [gpu(0), gpu(1, utilisation=1.0)], [gpu(0), gpu(1, utilisation=0.0)]
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_UID": str(ME),
        "SLURMD_NODENAME": "gn01",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "GSCHED_HEARTBEAT_DIR": str(tmp_path),
        "GSCHED_GPU_RECORDING": str(recording(tmp_path / "recording", busy, idle)),
    }


@pytest.fixture
def watched() -> Iterator[subprocess.Popen[bytes]]:
    """A process with which samplers end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def start(watched: subprocess.Popen[bytes]) -> Iterator[Start]:
    """Starts samplers that look twenty times a second; their words can be read."""
    started = []

    def run(environ: dict[str, str], interval: float = 0.05) -> subprocess.Popen[bytes]:
        argv = command(environ, watched.pid)
        assert argv is not None
        argv += ["--interval", str(interval)]
        started.append(subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def told(folder: Path) -> GpuRecord | None:
    with UserFolders(folder) as opened:
        size = gpu_file.FILE_BYTES
        data = opened.read(ME, gpu_file.file_name("7", "gn01"), size, 0, size)
        return gpu_file.decode(data) if data else None


def told_often(folder: Path) -> GpuRecord:
    return wait_for(lambda: (r := told(folder)) and r.seq >= 3 and r, "four samples")


def test_samples_are_told_and_summed_up(tmp_path, environ, start):
    start(environ)
    record = told_often(tmp_path)
    assert (record.job, record.node, record.interval_s, record.ended_time) == (
        "7",
        "gn01",
        0.05,
        None,
    )
    first, second = record.gpus
    assert (first.last.uuid, first.last.utilisation, first.mean_utilisation) == ("GPU-0", 0.5, 0.5)
    assert first.busy_time == record.written_time
    is_busy = record.seq % 2 == 0
    assert second.last.utilisation == (1.0 if is_busy else 0.0)
    turns = record.seq + 1
    assert second.mean_utilisation == pytest.approx((turns + 1) // 2 / turns)
    assert (second.busy_time == record.written_time) is is_busy
    assert (tmp_path / str(ME) / "7.gpu.gn01").stat().st_size == gpu_file.FILE_BYTES


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_it_ends_with_the_process_that_it_watches(tmp_path, environ, start, watched, number):
    sampler = start(environ, interval=600.0)
    wait_for(lambda: told(tmp_path), "the first sample")
    watched.send_signal(number)
    assert sampler.wait(30) == 0
    assert told(tmp_path).ended_time is not None


def test_signals_are_not_meant_for_it(tmp_path, environ, start):
    sampler = start(environ)
    before = told_often(tmp_path)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        sampler.send_signal(number)
    wait_for(lambda: told(tmp_path).seq > before.seq + 2, "more samples")
    assert sampler.poll() is None


def test_a_process_that_has_ended_already_is_not_waited_for(tmp_path, environ, start, watched):
    watched.communicate(b"\n")
    assert start(environ).wait(30) == 0


def test_a_job_has_one_sampler_a_node(tmp_path, environ, start):
    first = start(environ)
    told_often(tmp_path)
    assert start(environ).wait(30) == 0
    other_node = start(environ | {"SLURMD_NODENAME": "gn02"})
    wait_for((tmp_path / str(ME) / "7.gpu.gn02").exists, "the other node's file")
    assert (first.poll(), other_node.poll()) == (None, None)


def test_a_later_attempt_begins_its_file_anew(tmp_path, environ, start, watched):
    first = start(environ)
    told_often(tmp_path)
    first.kill()
    first.wait(30)
    start(environ | {"SLURM_RESTART_COUNT": "1"}, interval=600.0)
    record = wait_for(lambda: (r := told(tmp_path)) and r.restart == 1 and r, "the second attempt")
    assert record.seq == 0


def test_a_folder_that_comes_late_is_used_then(tmp_path, environ, start):
    late = tmp_path / "late"
    start(environ | {"GSCHED_HEARTBEAT_DIR": str(late)})
    late.mkdir()
    assert told_often(late)


def test_a_sample_that_is_cut_off_leaves_the_one_before(tmp_path, environ, start):
    sampler = start(environ)
    told_often(tmp_path)
    sampler.kill()
    sampler.wait(30)
    data = (tmp_path / str(ME) / "7.gpu.gn01").read_bytes()
    half = gpu_file.SLOT_BYTES
    one, other = gpu_file.decode(data[:half] + bytes(half)), gpu_file.decode(data[half:])
    assert abs(one.seq - other.seq) == 1


def test_a_write_that_fails_is_tried_again_with_the_next_sample(tmp_path, watched):
    late = tmp_path / "late"
    samples = []

    def source() -> list[GpuReading]:
        samples.append(GpuReading(0, "GPU-0", "A100"))
        if len(samples) == 2:
            late.mkdir()
        if len(samples) == 3:
            watched.kill()
            watched.wait(30)
        return samples[-1:]

    record = GpuRecord(0, "7", 0, "gn01", 0.01, 1.0, 1.0, [])
    file = GpuFile(OwnFolder(late, ME), gpu_file.file_name("7", "gn01"))
    sample_until_end(Watched(watched.pid), source, file, record)
    found = told(late)
    assert (found.seq, found.ended_time is not None) == (2, True)


def test_where_the_kernel_tells_no_end_it_is_looked_for(watched, monkeypatch):
    def none(_: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(os, "pidfd_open", none)
    seen = Watched(watched.pid)
    assert not seen.ends_within(0.01)
    watched.kill()
    watched.wait(30)
    assert seen.ends_within(600.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"CUDA_VISIBLE_DEVICES": ""},
        {"CUDA_VISIBLE_DEVICES": "NoDevFiles"},
        {"GSCHED_HEARTBEAT_DIR": ""},
        {"SLURM_JOB_ID": ""},
    ],
    ids=str,
)
def test_a_job_without_gpus_or_a_folder_has_no_sampler(environ, watched, changes):
    assert command(environ | changes, watched.pid) is None
    argv = command(environ, watched.pid)
    assert subprocess.run(argv, env=environ | changes, check=False).returncode == 0


def test_a_recording_that_is_none_is_said(tmp_path, environ, start):
    for text in ("", '{"gpus": [{"index": 0}]}\n', "gpus"):
        Path(environ["GSCHED_GPU_RECORDING"]).write_text(text)
        sampler = start(environ)
        assert sampler.wait(30) == EXIT_UNAVAILABLE
        assert b"gsched: error: recording" in sampler.stderr.read()


def test_a_recording_that_is_a_folder_is_said(tmp_path, environ, start):
    sampler = start(environ | {"GSCHED_GPU_RECORDING": str(tmp_path)})
    assert sampler.wait(30) == EXIT_UNAVAILABLE
    assert (
        sampler.stderr.read() == f"gsched: error: recording {tmp_path}: Is a directory\n".encode()
    )


def test_what_the_job_may_see_goes_before_what_slurm_says():
    environ = {"SLURM_JOB_GPUS": "0,1,2", "SLURM_STEP_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "1"}
    assert chosen_gpus(environ) == ["1"]
    assert chosen_gpus(environ | {"CUDA_VISIBLE_DEVICES": ""}) == ["0", "1"]
    assert chosen_gpus({"SLURM_JOB_GPUS": "0,1,2"}) == ["0", "1", "2"]


# -- NVML, by NVIDIA's own bindings over a library of ours -----------------------------------------


@pytest.fixture
def driver(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    (tmp_path / "driver").mkdir()
    del environ["GSCHED_GPU_RECORDING"]
    return environ | {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path / "driver"))}


@pytest.mark.parametrize("chosen", ["1,0", "GPU-1,GPU-0"])
def test_nvml_is_asked_for_the_jobs_gpus_in_the_jobs_order(tmp_path, driver, start, chosen):
    start(driver | {"CUDA_VISIBLE_DEVICES": chosen})
    first, second = told_often(tmp_path).gpus
    assert [gpu.last.uuid for gpu in (first, second)] == ["GPU-1", "GPU-0"]
    reading = first.last
    assert (reading.index, reading.name, reading.utilisation) == (0, "Made Up", 0.75)
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (2 * GIB, 80 * GIB)
    assert (reading.power_w, reading.power_limit_w, reading.temperature_c) == (412.5, None, 61)
    assert reading.num_processes == 1
    assert second.max_memory_used_bytes == GIB


def test_a_gpu_that_nvml_does_not_know_is_left_out(tmp_path, driver, start):
    start(driver | {"CUDA_VISIBLE_DEVICES": "9,1"})
    (only,) = told_often(tmp_path).gpus
    assert (only.last.index, only.last.uuid) == (1, "GPU-1")


def test_without_gpus_that_nvml_knows_it_ends(driver, start):
    sampler = start(driver | {"CUDA_VISIBLE_DEVICES": "9"})
    assert sampler.wait(30) == EXIT_UNAVAILABLE
    assert b"NVML knows none of the job's GPUs (9)" in sampler.stderr.read()


def test_a_driver_that_cannot_be_used_is_said(driver, start):
    (Path(driver["LD_LIBRARY_PATH"]) / "libnvidia-ml.so.1").write_bytes(b"")
    sampler = start(driver)
    assert sampler.wait(30) == EXIT_UNAVAILABLE
    assert b"NVML cannot be used" in sampler.stderr.read()
