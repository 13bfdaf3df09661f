"""Resources of jobs that share GPUs, as TRES."""

from __future__ import annotations

from functools import lru_cache

from gsched.model.history import Tres


@lru_cache(maxsize=65536)
def shared_tres(
    cpu_milli: int, mem_bytes: int, gpu_milli: tuple[tuple[str, int], ...]
) -> tuple[Tres, ...]:
    """TRES of a job with thousandths of CPUs, bytes, and thousandths of GPUs by type ("": any).

    ``gres/gpu`` and ``gres/gpu:TYPE`` count GPUs that it has wholly or in part, as Slurm shows both
    side by side; ``gres/gpu_milli`` are thousandths of GPUs in all.
    """
    total = sum(milli for _, milli in gpu_milli)
    counts = {
        "cpu": whole(cpu_milli),
        "mem": mem_bytes,
        "gres/gpu": whole(total),
        "gres/gpu_milli": total,
        **{f"gres/gpu:{kind}": whole(milli) for kind, milli in gpu_milli if kind},
    }
    return tuple(Tres(name, count) for name, count in sorted(counts.items()) if count)


def whole(milli: int) -> int:
    """Thousandths of things as things, a part of one as one."""
    return -(-milli // 1000)
