"""GPUs that are not there: recordings of them, and a library of a driver that makes figures up."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

GIB = 2**30

FAKE_NVML = r"""
extern int snprintf(char *, unsigned long, const char *, ...); /* Python has them loaded */
extern int sscanf(const char *, const char *, ...);
struct util { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };
static int gpus[8];
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "made up"; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 7) return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    *device = &gpus[index];
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    unsigned index;
    if (sscanf(uuid, "GPU-%u", &index) != 1) return 6; /* NVML_ERROR_NOT_FOUND */
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}
static int index_of(void *device) { return (int *)device - gpus; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    snprintf(text, size, "GPU-%d", index_of(device));
    return 0;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    snprintf(text, size, "Made Up");
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, struct util *use) {
    use->gpu = 75;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    memory->total = 80ull << 30;
    memory->used = (unsigned long long)(index_of(device) + 1) << 30;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { *mw = 412500; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    *celsius = 61;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *found) {
    if (!found) { *count = 1; return 7; } /* NVML_ERROR_INSUFFICIENT_SIZE */
    *count = 1;
    return 0;
}
"""
"""Eight GPUs, with what is asked of them but for the power limit, which some drivers lack."""


def gpu(index: int = 0, **facts: Any) -> dict[str, Any]:
    """One GPU of a recording, half in use unless `facts` differ."""
    usual = {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA A100",
        "utilisation": 0.5,
        "memory_used_bytes": 20 * GIB,
        "memory_total_bytes": 80 * GIB,
        "power_w": 200.0,
        "power_limit_w": 400.0,
        "temperature_c": 50.0,
        "num_processes": 1,
    }
    return usual | facts


def recording(path: Path, *samples: list[dict[str, Any]]) -> Path:
    """A recording of `samples`, each a list of GPUs."""
    path.write_text("".join(json.dumps({"gpus": sample}) + "\n" for sample in samples))
    return path


def fake_nvml(folder: Path) -> Path:
    """The folder, to be named by LD_LIBRARY_PATH, of a compiled `FAKE_NVML`."""
    source = folder / "nvml.c"
    source.write_text(FAKE_NVML)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-o", library, source], check=True)
    return folder


def samplers(folder: Path) -> list[int]:
    """Process ids of samplers whose environment names a place in `folder`."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"gsched.telemetry.gpu_sampler" in (place / "cmdline").read_bytes()
            if is_one and os.fsencode(folder) in (place / "environ").read_bytes():
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
