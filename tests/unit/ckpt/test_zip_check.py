"""Archives of strangers: bounded in memory and time, and never unpacked."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile

import pytest

from gsched.ckpt.catalogue import examine
from gsched.ckpt.found import Depth, Verdict


@pytest.fixture
def path(tmp_path):
    return tmp_path / "step_1.pt"


def archive(path, compression=zipfile.ZIP_STORED, members=("x/data.pkl", "x/data/0")):
    with zipfile.ZipFile(path, "w", compression) as made:
        for name in members:
            made.writestr(name, b"N." * 500)
    return path


def verdict(path):
    found = examine(path, Depth.CHECKSUMS)
    return found.verdict, found.reason


def test_one_as_torch_writes_it_is_whole(path):
    assert verdict(archive(path)) == (Verdict.WHOLE, "")


def test_a_packed_one_is_not_unpacked(path):
    found, reason = verdict(archive(path, zipfile.ZIP_DEFLATED))
    assert (found, "packed" in reason) == (Verdict.FOREIGN, True)


def test_another_programs_archive_is_foreign(path):
    found, reason = verdict(archive(path, members=("x/readme",)))
    assert (found, reason) == (Verdict.FOREIGN, "step_1.pt is a zip archive, but not of torch")


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_a_table_as_long_as_the_file_says_costs_no_memory(path, size):
    """A file of holes: it says that its table of members has a terabyte."""
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, min(size, 2**40) - 200, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 2**40, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    with path.open("wb") as f:
        f.write(b"PK\3\4")
        f.seek(2**40)
        f.write(end + locator + last)
    tracemalloc.start()
    try:
        assert verdict(path)[0] is Verdict.TORN
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_members_that_lie_on_each_other_are_not_read_again_and_again(path):
    """A thousand entries for the same bytes: more in all than the file has."""
    data = archive(path, members=("x/data.pkl",)).read_bytes()
    start = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    count = 1000
    table = data[start:end] * count
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(table), start, 0)
    path.write_bytes(data[:start] + table + last)
    found, reason = verdict(path)
    assert (found, reason) == (
        Verdict.TORN,
        "step_1.pt: its members are longer than the file",
    )


@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40])
def test_encrypted_and_patched_members_are_refused(path, flag):
    data = bytearray(archive(path).read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 8] |= flag
    path.write_bytes(data)
    assert verdict(path)[0] is Verdict.TORN


def test_a_file_of_zeros_and_an_empty_one(path):
    path.write_bytes(bytes(5000))
    assert verdict(path) == (
        Verdict.TORN,
        "step_1.pt begins with zeros: its contents never reached the disk",
    )
    path.write_bytes(b"")
    assert verdict(path) == (Verdict.TORN, "step_1.pt is empty")
