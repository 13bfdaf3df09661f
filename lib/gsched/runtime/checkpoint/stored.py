"""A checkpoint on disk as its reader sees it: the trees and tensors of all its ranks.

safetensors reads the files; nothing of them is trusted, and no code of them runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from gsched.ckpt import layout
from gsched.errors import DataError
from gsched.runtime.checkpoint.parts import overlap
from gsched.runtime.checkpoint.tree import Decoder, StoredTensor

FORMAT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part of a distributed tensor lies: in the file of `rank`."""

    rank: int
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


class StoredCheckpoint:
    """One committed checkpoint. Files are opened when they are needed, and stay open."""

    def __init__(self, path: Path, world_size: int) -> None:
        self.path = path
        self.world_size = world_size
        self._files: dict[int, Any] = {}
        self._trees: dict[int, dict[str, Any]] = {}
        self._index: dict[str, list[_Place]] | None = None

    def tree(self, rank: int) -> dict[str, Any]:
        """The states of one rank by name, in their JSON form."""
        if rank not in self._trees:
            metadata = self._file(rank).metadata() or {}
            if metadata.get("gsched") != FORMAT_VERSION:
                raise DataError(
                    f"{self._name(rank)} has format version {str(metadata.get('gsched'))[:20]}, "
                    f"only {FORMAT_VERSION} is known",
                    "a newer gsched wrote it: go on with that one",
                )
            try:
                tree = json.loads(metadata.get("state", ""))
            except (ValueError, RecursionError):
                tree = None
            if not isinstance(tree, dict):
                raise DataError(f"{self._name(rank)} has no state that can be understood")
            self._trees[rank] = tree
        return self._trees[rank]

    def decoded(self, rank: int, name: str) -> Any:
        """A state of one rank, with `StoredTensor`s in place of its tensors."""
        return Decoder(lambda tensor: self.tensor(rank, tensor)).decode(self.tree(rank)[name])

    def home(self, rank: int, name: str) -> int:
        """The rank in whose file the state is: a replicated one is in that of rank 0."""
        form = self.tree(rank)[name]
        if not isinstance(form, dict) or "$of_rank" not in form:
            return rank
        home = form["$of_rank"]
        if not isinstance(home, int) or not 0 <= home < self.world_size:
            raise DataError(f"{self._name(rank)} refers to a rank that is not there")
        return home

    def tensor(self, rank: int, name: str) -> torch.Tensor:
        """A tensor of one rank's file, in memory of its own."""
        try:
            tensor: torch.Tensor = self._file(rank).get_tensor(name)
            return tensor.clone()  # the file's own memory goes with the file
        except SafetensorError as e:
            raise DataError(f"{self._name(rank)}: {e}") from None

    def shape(self, rank: int, name: str) -> tuple[int, ...]:
        """The shape of a tensor of one rank's file."""
        try:
            return tuple(self._file(rank).get_slice(name).get_shape())
        except SafetensorError as e:
            raise DataError(f"{self._name(rank)}: {e}") from None

    def block(
        self, rank: int, stored: StoredTensor, offsets: tuple[int, ...], shape: tuple[int, ...]
    ) -> torch.Tensor:
        """The part of a tensor that begins at `offsets`, whichever ranks' files it lies in."""
        wanted = offsets, shape
        own = self._own(rank, stored)
        if own is not None and (own.offsets, own.shape) == wanted:
            return self.tensor(rank, stored.name)
        places = [own] if own and stored.global_shape is None else self._places(stored.name)
        result: torch.Tensor | None = None
        filled = 0
        for place in places:
            if place.shape and (meet := overlap(wanted, (place.offsets, place.shape))):
                piece = self._slice(place.rank, stored.name, meet[1])
                result = torch.empty(shape, dtype=piece.dtype) if result is None else result
                result[meet[0]] = piece
                filled += piece.numel()
        if filled != prod(shape):
            raise DataError(f"{stored.name}: parts of it are in no rank's file")
        if result is None:  # nothing of it is wanted: an empty tensor of its type
            result = self._slice(places[0].rank, stored.name, (slice(0, 0),)).reshape(shape)
        return result

    def _own(self, rank: int, stored: StoredTensor) -> _Place | None:
        if stored.global_shape is not None and stored.offsets is None:
            return None
        shape = self.shape(rank, stored.name)
        return _Place(rank, stored.offsets or (0,) * len(shape), shape)

    def _places(self, name: str) -> list[_Place]:
        """All parts of a distributed tensor. The first question reads the trees of all ranks."""
        if self._index is None:
            self._index = {}
            for rank in range(self.world_size):
                for form in _parts(self.tree(rank)):
                    part = str(form["$tensor"])
                    offsets = tuple(int(n) for n in form["offsets"])
                    place = _Place(rank, offsets, self.shape(rank, part))
                    self._index.setdefault(part, []).append(place)
        places = self._index.get(name)
        if not places:
            raise DataError(f"{name}: no rank's file has a part of it")
        return places

    def _slice(self, rank: int, name: str, where: tuple[slice, ...]) -> torch.Tensor:
        try:
            part: torch.Tensor = self._file(rank).get_slice(name)[where]
            return part.clone()
        except SafetensorError as e:
            raise DataError(f"{self._name(rank)}: {e}") from None

    def _file(self, rank: int) -> Any:
        if rank not in self._files:
            path = self.path / self._name(rank)
            try:
                self._files[rank] = safe_open(path, framework="pt", device="cpu")
            except (OSError, SafetensorError) as e:
                raise DataError(f"{path} cannot be read: {e}") from None
        return self._files[rank]

    def _name(self, rank: int) -> str:
        return layout.rank_file_name(rank, self.world_size)


def _parts(form: Any) -> Iterator[dict[str, Any]]:
    """The forms of parts of distributed tensors within a tree."""
    pending = [form]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            if "$tensor" in value:
                if value.get("offsets") is not None:
                    yield value
            else:
                pending.extend(value.values())
