"""gsched's own checkpoints: a folder a checkpoint, with a manifest of lengths and checksums."""

from __future__ import annotations

from gsched.ckpt import layout, manifest
from gsched.ckpt.found import Depth, Progress, Verdict
from gsched.ckpt.kinds.base import Facts
from gsched.ckpt.look import Look, RefusedError, torn
from gsched.errors import DataError


def claims(look: Look) -> bool:
    """A folder of such a name, or one with a manifest and a rank's file: a copy, renamed."""
    if not look.is_folder:
        return False
    name = look.path.name
    if layout.parse_step_name(name) is not None or layout.parse_partial_name(name) is not None:
        return True
    return layout.MANIFEST_NAME in look.entries and any(
        layout.parse_rank_file_name(entry) for entry in look.entries
    )


def read(look: Look, depth: Depth, tell: Progress) -> Facts:
    """Compare the files with the manifest."""
    name = look.path.name
    if layout.parse_partial_name(name) is not None:
        raise RefusedError(Verdict.UNCOMMITTED, "its writer has not committed it")
    try:
        found = manifest.decode(look.read(layout.MANIFEST_NAME, manifest.MAX_BYTES))
    except DataError as e:
        raise torn(f"{layout.MANIFEST_NAME}: {e.message}") from None
    named = layout.parse_step_name(name)
    if named is not None and named != found.step:
        raise torn(f"{layout.MANIFEST_NAME} is that of step {found.step}")
    for shard in found.shards:
        if look.size(shard.file) != shard.num_bytes:
            size = look.size(shard.file)
            raise torn(f"{shard.file} has {size:,} bytes instead of {shard.num_bytes:,}")
    if depth is Depth.CHECKSUMS:
        for shard in found.shards:
            if look.crc32(shard.file, tell) != shard.crc32:
                raise torn(f"checksum of {shard.file}")
    return Facts(depth, found.step, found.created)
