"""`manifest.json`: what a committed checkpoint consists of. Its presence is the commit mark.

Reading is bounded and strict: a folder on a shared file system is anybody's input.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsched.ckpt import layout
from gsched.errors import DataError

FORMAT = "gsched-checkpoint"
VERSION = 1
MAX_BYTES = 16 * 2**20
"""Of a manifest: a line for each of 99,999 ranks, and room to spare."""

_MAX_TEXT = 256
_MAX_VERSIONS = 64
_MAX_FILE_BYTES = 2**60


class Reason(enum.StrEnum):
    """Why a checkpoint was written."""

    INTERVAL = "interval"
    SIGNAL = "signal"
    END = "end"
    ASKED = "asked"
    TRAINER_DIED = "trainer-died"


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's file: its name, its length in bytes and the CRC-32 (zlib's) of all of them."""

    file: str
    num_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Job:
    """The Slurm job that wrote it: its id, and how often it had been restarted."""

    id: str
    restart: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole checkpoint. `created` is in epoch seconds; `shards` has one entry a rank, in order.

    `versions` tells what wrote it: gsched, torch, python.
    """

    step: int
    world_size: int
    run: str
    reason: Reason
    created: float
    shards: tuple[Shard, ...]
    job: Job | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Of all ranks' files together."""
        return sum(s.num_bytes for s in self.shards)


def encode(manifest: Manifest) -> bytes:
    """The contents of the file: JSON, readable by people too."""
    job = manifest.job
    document = {
        "format": FORMAT,
        "version": VERSION,
        "step": manifest.step,
        "world_size": manifest.world_size,
        "run": manifest.run,
        "reason": manifest.reason.value,
        "created": manifest.created,
        "job": {"id": job.id, "restart": job.restart} if job else None,
        "shards": [encode_shard(s) for s in manifest.shards],
        "versions": dict(manifest.versions),
    }
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def encode_shard(shard: Shard) -> dict[str, Any]:
    """A shard as JSON: in the manifest, and alone as a rank's mark."""
    return {"file": shard.file, "bytes": shard.num_bytes, "crc32": f"{shard.crc32:08x}"}


def decode(data: bytes) -> Manifest:
    """Read a manifest. DataError says what is wrong with it, also a version that is not known."""
    document = load_json_object(data, MAX_BYTES)
    if document.get("format") != FORMAT:
        raise DataError(f"it is no {FORMAT}")
    version = document.get("version")
    if version != VERSION:
        raise DataError(
            f"format version {str(version)[:20]} is not known, only {VERSION}",
            "a newer gsched wrote it: read it with that one",
        )
    world_size = _whole(document, "world_size", 1, layout.MAX_WORLD_SIZE)
    run = _text(document, "run")
    if not layout.is_run(run):
        raise DataError("run is not 12 hex digits")
    return Manifest(
        step=_whole(document, "step", 0, layout.MAX_STEP),
        world_size=world_size,
        run=run,
        reason=_reason(document),
        created=_created(document),
        shards=_shards(document, world_size),
        job=_job(document.get("job")),
        versions=_versions(document.get("versions")),
    )


def decode_shard(value: object, rank: int, world_size: int) -> Shard:
    """The shard of one rank from JSON. DataError when it is not that rank's."""
    if not isinstance(value, dict):
        raise DataError("a shard is no object")
    file = _text(value, "file")
    if layout.parse_rank_file_name(file) != (rank, world_size):
        raise DataError(f"the file of rank {rank} of {world_size} has another name: {file!r}")
    crc = _text(value, "crc32")
    try:
        crc32 = int.from_bytes(bytes.fromhex(crc))
    except ValueError:
        crc32 = -1
    if len(crc) != 8 or crc32 < 0:
        raise DataError("crc32 is not 8 hex digits")
    return Shard(file, _whole(value, "bytes", 0, _MAX_FILE_BYTES), crc32)


def load_json_object(data: bytes, max_bytes: int) -> dict[str, Any]:
    """A JSON object of at most `max_bytes`. DataError for anything else."""
    if len(data) > max_bytes:
        raise DataError(f"it has more than {max_bytes} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise DataError("it is no JSON") from None
    if not isinstance(document, dict):
        raise DataError("it is no JSON object")
    return document


def _shards(document: Mapping[str, Any], world_size: int) -> tuple[Shard, ...]:
    shards = document.get("shards")
    if not isinstance(shards, list) or len(shards) != world_size:
        raise DataError(f"shards is not a list of {world_size}")
    return tuple(decode_shard(s, rank, world_size) for rank, s in enumerate(shards))


def _job(value: object) -> Job | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise DataError("job is no object")
    return Job(_text(value, "id"), _whole(value, "restart", 0, 2**31))


def _versions(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MAX_VERSIONS:
        raise DataError("versions is no object, or a very long one")
    if any(len(name) > _MAX_TEXT for name in value):
        raise DataError("versions has a very long name")
    return {name: _text(value, name) for name in value}


def _reason(document: Mapping[str, Any]) -> Reason:
    try:
        return Reason(_text(document, "reason"))
    except ValueError:
        raise DataError("reason is not known") from None


def _created(document: Mapping[str, Any]) -> float:
    value = document.get("created")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        raise DataError("created is no time")
    return float(value)


def _whole(document: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise DataError(f"{key} is not a whole number between {low} and {high}")
    return value


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise DataError(f"{key} is no text of at most {_MAX_TEXT} characters")
    return value
