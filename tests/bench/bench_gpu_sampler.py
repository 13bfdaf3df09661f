"""What a sampler of GPUs costs: its start, a sample, and so the share of one core at its interval.

Writes tests/results/gpu_sampler.json. It shall take less than 1 % of one core. A sampler of eight
GPUs runs at its real interval; another one looks as often as it can, which gives the cost of one
sample. NVIDIA's bindings are those that a job uses, over a library that answers at once: time in a
real driver is not in these figures. Recorded, not asserted.

    python tests/bench/bench_gpu_sampler.py [INTERVALS]
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gpus import fake_nvml, gpu, recording

from gsched.telemetry import gpu_file
from gsched.telemetry.gpu_sampler import INTERVAL_S, command
from gsched.telemetry.user_folders import UserFolders
from gsched.testbed.wait import wait_for

RESULT = Path(__file__).parents[1] / "results" / "gpu_sampler.json"
BUDGET_SHARE = 0.01
NUM_GPUS = 8
SAMPLES = 2_000


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Time on a processor so far, by the kernel's scheduler."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def num_samples(folder: Path) -> int:
    with UserFolders(folder) as opened:
        size = gpu_file.FILE_BYTES
        data = opened.read(os.getuid(), gpu_file.file_name("7", "gn01"), size, 0, size)
        return gpu_file.decode(data).seq + 1 if data else 0


def measured(folder: Path, source: dict[str, str], intervals: int) -> dict[str, float]:
    """A sampler at its own interval, and one at none."""
    environ = source | {
        "GSCHED_HEARTBEAT_DIR": str(folder),
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "gn01",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(NUM_GPUS))),
    }
    argv = command(environ, os.getpid())
    assert argv is not None
    with subprocess.Popen([*argv, "--interval", "0"], env=environ) as often:
        wait_for(lambda: num_samples(folder) >= 100, "a hundred samples")
        before, begun = num_samples(folder), cpu_s(often)
        wait_for(lambda: num_samples(folder) >= before + SAMPLES, "all samples", poll_s=0.2)
        sample_s = (cpu_s(often) - begun) / (num_samples(folder) - before)
        often.kill()
    with subprocess.Popen(argv, env=environ) as usual:
        wait_for(lambda: num_samples(folder) == 1, "the first sample")
        start_s, started = cpu_s(usual), time.monotonic()
        wait_for(lambda: num_samples(folder) == 1 + intervals, "the last one", 600.0, poll_s=0.5)
        share = (cpu_s(usual) - start_s) / (time.monotonic() - started)
        memory = Path(f"/proc/{usual.pid}/status").read_text().partition("VmRSS:")[2].split()[0]
        usual.kill()
    return {
        "start_cpu_ms": round(start_s * 1e3, 1),
        "sample_cpu_us": round(sample_s * 1e6, 1),
        "share_of_a_core_by_samples": round(sample_s / INTERVAL_S, 7),
        "share_of_a_core_as_run": round(share, 7),
        "memory_mib": round(int(memory) / 1024, 1),
    }


def main() -> None:
    intervals = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gpus = [gpu(index) for index in range(NUM_GPUS)]
        sources = {
            "recorded": {"GSCHED_GPU_RECORDING": str(recording(folder / "recording", gpus))},
            "bindings_of_nvml": {"LD_LIBRARY_PATH": str(fake_nvml(folder))},
        }
        for number, (source, environ) in enumerate(sources.items()):
            place = folder / str(number)
            place.mkdir()
            figures[source] = measured(place, environ, intervals)
    document = {
        "what": "cost of the sampler of a job's GPUs on one node; a real driver's own is not in it",
        "budget_share_of_a_core": BUDGET_SHARE,
        "interval_s": INTERVAL_S,
        "intervals": intervals,
        "gpus": NUM_GPUS,
        "samples_at_once": SAMPLES,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load_at_the_end": [round(x, 2) for x in os.getloadavg()],
        "figures": figures,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
