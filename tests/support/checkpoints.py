"""gsched's own checkpoints, made by hand: their layout without a writer."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from gsched.ckpt import layout, manifest

CREATED = 1_800_000_000.0


def shard_bytes(step: int, rank: int, num_ranks: int) -> bytes:
    """A valid safetensors file of one small tensor."""
    data = f"step {step} rank {rank} of {num_ranks} ".encode().ljust(64, b".")
    header = json.dumps(
        {
            "__metadata__": {"gsched": "1", "step": str(step), "rank": str(rank)},
            "w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]},
        }
    ).encode()
    return len(header).to_bytes(8, "little") + header + data


def write_checkpoint(
    folder: Path,
    step: int,
    *,
    num_ranks: int = 2,
    name: str = "",
    run: str = "0123456789ab",
    job: manifest.Job | None = None,
) -> Path:
    """A whole, committed checkpoint of `step`."""
    place = folder / (name or layout.step_name(step))
    place.mkdir(parents=True)
    shards = []
    for rank in range(num_ranks):
        data = shard_bytes(step, rank, num_ranks)
        file = layout.rank_file_name(rank, num_ranks)
        (place / file).write_bytes(data)
        shards.append(manifest.Shard(file, len(data), zlib.crc32(data)))
    made = manifest.Manifest(
        step=step,
        world_size=num_ranks,
        run=run,
        reason=manifest.Reason.INTERVAL,
        created=CREATED + step,
        shards=tuple(shards),
        job=job,
    )
    (place / layout.MANIFEST_NAME).write_bytes(manifest.encode(made))
    return place


def tear(place: Path) -> Path:
    """Flip one bit in the middle of the first rank's file: only its checksum tells."""
    path = sorted(place.glob("rank-*.safetensors"))[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return place


def names(folder: Path) -> set[str]:
    """What lies in a folder."""
    return {path.name for path in folder.iterdir()}
