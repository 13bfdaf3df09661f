"""A training without torch whose every state is known: step n's is made from step n-1's by a hash.

Its state is one long row of copies of a digest. So each byte of a checkpoint is known beforehand,
and one that holds bytes of two steps, or of another rank, is found although its checksum is right.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.catalogue import newest_valid

DIGEST_BYTES = 32


def state_after(steps: int, rank: int, start: bytes = b"", start_step: int = 0) -> bytes:
    """The digest that training holds after so many steps; `start` is the one after `start_step`."""
    digest = start or b"\0" * DIGEST_BYTES
    for step in range(start_step + 1, steps + 1):
        digest = hashlib.sha256(b"%b %d %d" % (digest, step, rank)).digest()
    return digest


def rank_file(step: int, rank: int, world_size: int, digest: bytes, num_bytes: int) -> bytes:
    """A rank's file of the checkpoint: safetensors with the state as one row of bytes."""
    size = num_bytes // DIGEST_BYTES * DIGEST_BYTES
    metadata = {
        "gsched": "1",
        "step": str(step),
        "rank": str(rank),
        "world_size": str(world_size),
        "state": json.dumps({"chain": {"$tensor": "chain"}}),
    }
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": metadata, "chain": tensor}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + digest * (size // DIGEST_BYTES)


def check(folder: Path, step: int, world_size: int, digests: dict[tuple[int, int], bytes]) -> None:
    """Raise AssertionError unless all ranks' files in a checkpoint hold what step `step` must.

    `digests` keeps what was computed, by (step, rank).
    """
    for rank in range(world_size):
        data = (folder / layout.rank_file_name(rank, world_size)).read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        payload = data[start:]
        if (step, rank) not in digests:
            digests[step, rank] = state_after(step, rank)
        expected = digests[step, rank]
        assert payload, f"{folder} is empty"
        assert payload == expected * (len(payload) // DIGEST_BYTES), (
            f"{folder.name}, rank {rank}: not the state of step {step}"
        )


def load(folder: Path, rank: int, world_size: int) -> tuple[int, bytes]:
    """(step, digest) of the newest valid checkpoint; (0, start) where there is none."""
    if not folder.is_dir():
        return 0, state_after(0, rank)
    newest = newest_valid(folder, kinds=("gsched",)).checkpoint
    if newest is None:
        return 0, state_after(0, rank)
    assert newest.step is not None
    data = (newest.path / layout.rank_file_name(rank, world_size)).read_bytes()
    return newest.step, data[-DIGEST_BYTES:]
