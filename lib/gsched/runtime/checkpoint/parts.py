"""The part of a distributed tensor that one rank holds: where it begins, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from gsched.errors import UsageError

Block = tuple[tuple[int, ...], tuple[int, ...]]
"""A part of a tensor: its offsets and its shape, in elements."""


@dataclass(frozen=True, slots=True)
class Part:
    """`tensor` lies at `offsets` (one a dimension, in elements) of the whole."""

    tensor: torch.Tensor
    offsets: tuple[int, ...]


def part_of(value: DTensor, path: str) -> Part | None:
    """What this rank has of `value`, for it to write; None where another rank writes the same.

    UsageError for a placement whose part is no block of the whole.
    """
    placements = value.placements
    if not all(type(p) in (Shard, Replicate) for p in placements):
        raise UsageError(
            f"{path}: a tensor that is placed as {placements} cannot be kept",
            "only plain shards and replicas have a place of their own in a file",
        )
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    if any(c and type(p) is Replicate for c, p in zip(coordinate, placements, strict=True)):
        return None
    return Part(value.to_local(), local_offsets(value))


def local_offsets(value: DTensor) -> tuple[int, ...]:
    """Where this rank's part of `value` begins, in elements, one number a dimension."""
    # the protocol by which torch's own distributed checkpoints ask a tensor for its parts
    chunks = value.__create_chunk_list__()  # type: ignore[no-untyped-call]
    return tuple(chunks[0].offsets) if chunks else (0,) * value.dim()


def with_local(value: DTensor, local: torch.Tensor) -> DTensor:
    """A tensor that is placed as `value` is, with `local` as this rank's part."""
    return DTensor.from_local(
        local,
        value.device_mesh,
        value.placements,
        run_check=False,
        shape=value.shape,
        stride=value.stride(),
    )


def overlap(wanted: Block, stored: Block) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two blocks of one tensor meet: slices of each; None where they do not."""
    in_wanted, in_stored = [], []
    for w0, wn, s0, sn in zip(*wanted, *stored, strict=True):
        start, end = max(w0, s0), min(w0 + wn, s0 + sn)
        if start >= end:
            return None
        in_wanted.append(slice(start - w0, end - w0))
        in_stored.append(slice(start - s0, end - s0))
    return tuple(in_wanted), tuple(in_stored)
