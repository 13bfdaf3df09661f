"""Whether a safetensors file has the length that its header says. The format has no checksums."""

from __future__ import annotations

import json

from gsched.ckpt.look import Look, torn

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""


def check(look: Look, name: str) -> None:
    """Raise RefusedError where the file `name` of a folder is cut, or its header damaged."""
    size = look.size(name)
    with look.opened(name) as f:
        length = int.from_bytes(f.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise torn(f"{name} is cut, or no safetensors file")
        header = f.read(length)
    try:
        tensors = {k: v for k, v in json.loads(header).items() if k != "__metadata__"}
        ends = [int(tensor["data_offsets"][1]) for tensor in tensors.values()]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise torn(f"{name}: its header is damaged") from None
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        raise torn(f"{name} has {size:,} bytes instead of {expected:,}")
