"""A program as several ranks on this host, as srun or torchrun would start them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent


def outcomes_of_ranks(
    module: str, arguments: list[str], world_size: int, num_groups: int = 3
) -> list[dict[str, Any]]:
    """What each rank prints as its last line: JSON. The program makes one process group after the
    other, each at a port of its own: its last argument has them, with commas."""
    command = [sys.executable, "-m", module, *arguments, _free_ports(num_groups)]
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "GSCHED_"))}
    plain |= {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    processes = [
        subprocess.Popen(
            command,
            env=plain | {"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(world_size)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(world_size)
    ]
    try:
        told = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * world_size, told
    return [json.loads(out.splitlines()[-1]) for out, _ in told]


def _free_ports(num: int) -> str:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(num)]
    ports = [str(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ",".join(ports)
