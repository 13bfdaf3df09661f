"""A snapshot in a slot of shared memory: the exact bytes of the rank's safetensors file.

The header has a fixed room, padded with spaces, so that the place of every tensor stays the same
from snapshot to snapshot: then a snapshot is one copy a tensor, into views that are made once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gsched.errors import UsageError
from gsched.runtime.checkpoint.tree import dtype_word

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_MAX_HEADER_BYTES = 100_000_000
"""Readers of the format refuse a longer one."""

_SPARE_BYTES = 4096

Key = tuple[tuple[str, torch.dtype, torch.Size], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each tensor lies. `places` are (start, end) in bytes from the first tensor's start.

    `header_room` is the header's fixed length, `entries` its unchanging part.
    """

    key: Key
    header_room: int
    entries: str
    places: tuple[tuple[int, int], ...]

    @property
    def num_bytes(self) -> int:
        """Of the whole file."""
        return self.data_start + (max((end for _, end in self.places), default=0))

    @property
    def data_start(self) -> int:
        """Of the first tensor, in bytes from the start of the file."""
        return _LENGTH_BYTES + self.header_room


def key_of(tensors: Mapping[str, torch.Tensor]) -> Key:
    """What a layout depends on: names, types and shapes."""
    return tuple((name, t.dtype, t.shape) for name, t in tensors.items())


def plan(key: Key, metadata: Mapping[str, str]) -> Layout:
    """A layout with room for `metadata`, and for it to grow by a quarter."""
    # largest elements first: then all are aligned, with no holes, which the format forbids
    order = sorted(range(len(key)), key=lambda i: (-key[i][1].itemsize, i))
    places = [(0, 0)] * len(key)
    entries, position = [], 0
    for i in order:
        name, dtype, shape = key[i]
        end = position + shape.numel() * dtype.itemsize
        places[i] = (position, end)
        entry = {"dtype": dtype_word(dtype), "shape": list(shape), "data_offsets": [position, end]}
        entries.append(f"{json.dumps(name)}:{json.dumps(entry)}")
        position = end
    text = ",".join(entries)
    needed = len(_header(text, metadata))
    return Layout(key, _aligned(needed + needed // 4 + _SPARE_BYTES), text, tuple(places))


def header(layout: Layout, metadata: Mapping[str, str]) -> bytes | None:
    """The file's beginning, up to the first tensor; None when `metadata` needs more room."""
    text = _header(layout.entries, metadata)
    if layout.header_room > _MAX_HEADER_BYTES:
        raise UsageError(
            f"the state needs a header of {layout.header_room} bytes, "
            f"more than the {_MAX_HEADER_BYTES} of the file's format",
            "keep large lists of numbers as a tensor or an array",
        )
    if len(text) > layout.header_room:
        return None
    return layout.header_room.to_bytes(_LENGTH_BYTES, "little") + text.ljust(layout.header_room)


def views(layout: Layout, buffer: memoryview) -> list[torch.Tensor]:
    """The tensors' places in a slot, as tensors that share its memory, in the key's order."""
    if not layout.key:
        return []
    whole = torch.frombuffer(buffer, dtype=torch.uint8, count=layout.num_bytes)
    data = whole[layout.data_start :]
    return [
        data[start:end].view(dtype).view(shape)
        for (_, dtype, shape), (start, end) in zip(layout.key, layout.places, strict=True)
    ]


def _header(entries: str, metadata: Mapping[str, str]) -> bytes:
    own = f'"__metadata__":{json.dumps(dict(metadata))}'
    return ("{" + ",".join(filter(None, [own, entries])) + "}").encode()


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
