"""Folders of `torch.distributed.checkpoint`: `.metadata` says what lies where in the data files.

It is written last, so it is the commit mark. Each item in a data file is an archive as `torch.save`
writes it, with checksums of its own, unless the writer was told to transform it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gsched.ckpt.found import Depth, Progress, Verdict
from gsched.ckpt.inert_pickle import MAX_BYTES, Inert, TooLargeError, read_tree
from gsched.ckpt.kinds import torch_file
from gsched.ckpt.kinds.base import Facts
from gsched.ckpt.look import Look, RefusedError, foreign, torn
from gsched.ckpt.zip_check import Archive, Window
from gsched.errors import DataError

METADATA_NAME = ".metadata"
LIGHTNING_NAME = "meta.pt"
_RANK_METADATA = re.compile(r"__\d+\.metadata", re.ASCII)
"""Where ranks save without collectives, each writes its own."""
_DATA = re.compile(r"__\d+_\d+\.distcp", re.ASCII)

_MAX_OPERATIONS = 20_000_000
"""Some twenty seconds of work: each part of a tensor takes about 70."""

Item = tuple[int, int, bool]
"""Where an item lies in its file: offset and length in bytes; and whether it was transformed."""


def claims(look: Look) -> bool:
    """A folder with metadata, or with data files and none yet."""
    return look.is_folder and any(
        _is_metadata(name) or _DATA.fullmatch(name) for name in look.entries
    )


def read(look: Look, depth: Depth, tell: Progress) -> Facts:
    """Compare the data files with the metadata; Lightning lays a file with the rest beside them."""
    facts = read_part(look, "", depth, tell)
    if LIGHTNING_NAME not in look.entries:
        return facts
    rest = torch_file.read_file(look, LIGHTNING_NAME, depth, tell)
    return Facts(min(facts.checked, rest.checked), rest.step, rest.created, rest.kind, rest.best)


def read_part(look: Look, prefix: str, depth: Depth, tell: Progress) -> Facts:
    """The same of a folder within: `prefix` is its name with a slash."""
    names = [name.removeprefix(prefix) for name in look.entries if name.startswith(prefix)]
    metadata = [name for name in names if _is_metadata(name)]
    if f"{METADATA_NAME}.tmp" in names:
        raise RefusedError(Verdict.UNCOMMITTED, f"{prefix}{METADATA_NAME}.tmp: it is being written")
    if not metadata:
        raise RefusedError(Verdict.UNCOMMITTED, f"it has no {prefix}{METADATA_NAME}")
    items: dict[str, list[Item]] = defaultdict(list)
    for name in metadata:
        _collect(look, prefix, name, items)
    for name, parts in items.items():
        end, size = max(offset + length for offset, length, _ in parts), look.size(prefix + name)
        if size < end:
            raise torn(f"{prefix}{name} has {size:,} bytes instead of {end:,}")
    if depth is Depth.LENGTHS:
        return Facts(depth)
    checked = [_check(look, prefix + name, parts, tell) for name, parts in items.items()]
    return Facts(Depth.CHECKSUMS if all(checked) else Depth.LENGTHS)


def _is_metadata(name: str) -> bool:
    return name == METADATA_NAME or _RANK_METADATA.fullmatch(name) is not None


def _collect(look: Look, prefix: str, name: str, items: dict[str, list[Item]]) -> None:
    """Add the items of one metadata file to `items`, by data file."""
    data = look.read(prefix + name, MAX_BYTES)
    try:
        tree = read_tree(data, _MAX_OPERATIONS)
    except TooLargeError as e:
        raise foreign(f"{prefix}{name}: {e.message}") from None
    except DataError as e:
        raise torn(f"{prefix}{name}: {e.message}") from None
    for value in _storage(tree, f"{prefix}{name}"):
        file, offset, length = (value.get(k) for k in ("relative_path", "offset", "length"))
        if not (isinstance(file, str) and isinstance(offset, int) and isinstance(length, int)):
            raise foreign(f"{prefix}{name} describes its files in an unknown way")
        if "/" in file or file in ("", ".", "..") or offset < 0 or length < 0:
            raise torn(f"{prefix}{name} names a file elsewhere: {file!r}")
        items[file].append((offset, length, bool(value.get("transform_descriptors"))))


def _storage(tree: Any, called: str) -> Iterable[dict[Any, Any]]:
    """The state of each item's place, from what `torch.distributed.checkpoint` has pickled."""
    fields = tree.state if isinstance(tree, Inert) else None
    places = fields.get("storage_data") if isinstance(fields, dict) else None
    if not isinstance(places, dict):
        raise foreign(f"{called} was not written by DCP's file writer: it names no files")
    for place in places.values():
        if not isinstance(place, Inert) or not isinstance(place.state, dict):
            raise foreign(f"{called} describes its files in an unknown way")
        yield place.state


def _check(look: Look, name: str, items: list[Item], tell: Progress) -> bool:
    """Read all items of a data file; whether each had checksums."""
    size, has_checksums = look.size(name), True
    with look.opened(name) as f:
        for offset, length, is_transformed in sorted(items):
            if is_transformed:
                has_checksums = False
                continue
            archive = Archive(Window(f, offset, length), name)
            archive.check(_telling(tell, name, offset, size))
            has_checksums &= archive.has_checksums
    return has_checksums


def _telling(tell: Progress, name: str, offset: int, size: int) -> Callable[[int], None]:
    return lambda done: tell(name, offset + done, size)
