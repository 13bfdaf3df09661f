"""Model files that somebody has made to do harm."""

from __future__ import annotations

import hashlib
import io
import json
import resource
import zipfile
from pathlib import Path

import pytest

from gsched.errors import DataError
from gsched.predict.store import load, save

GIB = 2**30


@pytest.fixture
def parts(blended_model, tmp_path):
    path = tmp_path / "good.gsmodel"
    save(blended_model, path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: dict[str, bytes]) -> Path:
    """A model file of these parts, with checksums that are right."""
    meta = json.loads(parts["meta.json"])
    rest = {name: data for name, data in parts.items() if name != "meta.json"}
    meta["parts"] = {name: hashlib.sha256(data).hexdigest() for name, data in rest.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", json.dumps(meta))
        for name, data in rest.items():
            archive.writestr(name, data)
    return path


def zeros(name: str, size: int) -> bytes:
    """A zip file with one member that unpacks to `size` bytes."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return packed.getvalue()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("member", ["schema.json", "0.npy"])
def test_a_bomb_within_the_trees_is_not_unpacked(parts, tmp_path, member):
    path = write(tmp_path / "bomb", parts | {"trees-gpu.skops": zeros(member, GIB)})
    before = peak_bytes()
    with pytest.raises(DataError, match="larger than"):
        load(path)
    assert peak_bytes() - before < GIB // 2


def test_parts_that_no_model_has_are_not_read(parts, tmp_path):
    extra = {f"../../etc/cron.d/{n}": bytes(2**20) for n in range(3)}
    path = write(tmp_path / "model", parts | extra)
    load(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.gsmodel", "model"]


def test_a_member_that_lies_about_its_size_is_refused(parts, tmp_path):
    path = write(tmp_path / "model", parts)
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")  # the central directory: its sizes are believed
    path.write_bytes(data[: at + 24] + (2**31).to_bytes(4, "little") + data[at + 28 :])
    with pytest.raises(DataError):
        load(path)
