"""Where readings of GPUs come from: NVML, NVIDIA's library of the driver, or a recording.

A recording is a text of JSON lines, one sample each: ``{"gpus": [{"index": 0, "uuid": "GPU-…",
"name": "NVIDIA H100", "utilisation": 0.9, …}]}``, with the fields of `GpuReading`. After its last
line it begins again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from gsched.errors import DataError, UnavailableError
from gsched.files import read_bounded
from gsched.telemetry.checked import Checked
from gsched.telemetry.gpu_file import MAX_GPUS, MAX_NAME, GpuReading, reading

RECORDING_VARIABLE = "GSCHED_GPU_RECORDING"
"""A file to read in place of NVML, where there are no GPUs: in tests, and to try gsched."""

Source = Callable[[], Sequence[GpuReading]]
"""Each call is one sample."""

_MAX_RECORDING_BYTES = 2**24


def chosen_gpus(environ: Mapping[str, str]) -> list[str]:
    """The job's GPUs on this node, by index or UUID; none of a job without.

    CUDA_VISIBLE_DEVICES counts within what the job may see, as NVML does; the others are for sites
    where Slurm does not set it.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if environ.get(name):
            words = environ[name].split(",")
            return [word for word in words if word.isdecimal() or word.startswith(("GPU-", "MIG-"))]
    return []


@contextmanager
def opened(environ: Mapping[str, str]) -> Iterator[Source]:
    """A source of what the job's GPUs do. Raises UnavailableError where there is none."""
    if recording := environ.get(RECORDING_VARIABLE):
        yield recorded(Path(recording), len(chosen_gpus(environ)))
        return
    try:
        import pynvml
    except ImportError:
        raise UnavailableError(
            "the package nvidia-ml-py is not installed", "pip install 'gsched[runtime]'"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as e:
        raise UnavailableError(f"NVML cannot be used: {e}") from None
    try:
        yield _nvml(pynvml, chosen_gpus(environ))
    finally:
        pynvml.nvmlShutdown()


def recorded(path: Path, num_gpus: int) -> Source:
    """The first `num_gpus` of a recording. Raises UnavailableError for one that cannot be read."""
    try:
        lines = read_bounded(path, _MAX_RECORDING_BYTES).splitlines()
        samples = [_sample(line, num_gpus) for line in lines if line.strip()]
    except OSError as e:
        raise UnavailableError(f"recording {path}: {e.strerror}") from None
    except DataError as e:
        raise UnavailableError(f"recording {path}: {e}") from None
    if not samples:
        raise UnavailableError(f"recording {path} has no samples")
    turns = cycle(samples)
    return lambda: next(turns)


def _sample(line: bytes, num_gpus: int) -> list[GpuReading]:
    return [reading(gpu) for gpu in Checked.parse(line).objects("gpus", MAX_GPUS)][:num_gpus]


def _nvml(nvml: ModuleType, chosen: Sequence[str]) -> Source:
    """Handles and names are asked once; a GPU that cannot be found is left out.

    What a driver, a virtual GPU or a slice of MIG does not tell is None.
    """

    def ask(function: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, function)(*arguments)
        except nvml.NVMLError:
            return None

    found = []
    for index, word in enumerate(chosen[:MAX_GPUS]):
        if word.isdecimal():
            handle = ask("nvmlDeviceGetHandleByIndex", int(word))
        else:
            handle = ask("nvmlDeviceGetHandleByUUID", os.fsencode(word))
        if handle is not None:
            uuid, name = ask("nvmlDeviceGetUUID", handle), ask("nvmlDeviceGetName", handle)
            known = GpuReading(index, (uuid or word)[:MAX_NAME], (name or "GPU")[:MAX_NAME])
            found.append((handle, known))
    if not found:
        raise UnavailableError(f"NVML knows none of the job's GPUs ({','.join(chosen)})")

    def now(handle: Any, known: GpuReading) -> GpuReading:
        use = ask("nvmlDeviceGetUtilizationRates", handle)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        power_mw = ask("nvmlDeviceGetPowerUsage", handle)
        limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
        return replace(
            known,
            utilisation=None if use is None else min(1.0, use.gpu / 100),
            memory_used_bytes=None if memory is None else memory.used,
            memory_total_bytes=None if memory is None else memory.total,
            power_w=None if power_mw is None else power_mw / 1000,
            power_limit_w=None if limit_mw is None else limit_mw / 1000,
            temperature_c=ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            num_processes=None if processes is None else len(processes),
        )

    return lambda: [now(handle, known) for handle, known in found]
