"""Opening a file: what it is packed in is told by its bytes, damage by how far it goes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
import zstandard

from gsched.errors import DataError, GschedError, PermissionDeniedError, UsageError
from gsched.traces.source import file_stem, open_trace

TEXT = b"".join(b"%d,%d,a row of some job\n" % (n, n * n) for n in range(15_000))


def zstd(data):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zip_of(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tar_of(members, mode="w:gz"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two gzip": gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:]),
    "padded gzip": gzip.compress(TEXT) + b"\0" * 9,
    "zstd": zstd(TEXT),
    "two zstd": zstd(TEXT[:999]) + zstd(TEXT[999:]),
    "zip": zip_of({"x/": b"", "x/a.csv": TEXT, "README.md": b"-", "__MACOSX/._a.csv": b"-"}),
    "zip of gzip": zip_of({"a.csv.gz": gzip.compress(TEXT)}),
    "gzip of zstd": gzip.compress(zstd(TEXT)),
    "tar": tar_of({"x/a.csv": TEXT, "x/LICENSE": b"-"}, "w"),
    "tar.gz": tar_of({"x/a.csv": TEXT, "x/._a.csv": b"-"}),
    "tar.zst": zstd(tar_of({"a.csv": TEXT}, "w")),
}  # fmt: skip


@pytest.fixture
def put(tmp_path):
    def write(data, name="misnamed.txt"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def content(path):
    with open_trace(path) as stream:
        return stream.read(), stream.damage


@pytest.mark.parametrize("packing", PACKED)
def test_bytes_tell_the_packing_names_do_not(put, packing):
    assert content(put(PACKED[packing])) == (TEXT, "")


def read_from_stdin(data):
    program = (
        "import sys; from gsched.traces.source import open_trace\n"
        "with open_trace('-') as s: sys.stdout.buffer.write(s.read())\n"
        "sys.exit(s.damage or 0)"
    )
    return subprocess.run([sys.executable, "-c", program], input=data, capture_output=True)


@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd", "zip", "zip of gzip"])
def test_standard_input_is_unpacked_too(packing):
    done = read_from_stdin(PACKED[packing])
    assert (done.stdout, done.stderr, done.returncode) == (TEXT, b"", 0)


def test_standard_input_without_a_tar_archive():
    done = read_from_stdin(PACKED["tar.gz"])
    assert b"standard input is a tar archive, which needs a file" in done.stderr


def test_a_pipe_is_read_as_it_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = PACKED["gzip"]

    def write():
        with path.open("wb", buffering=0) as pipe:
            for start in (0, 1, 2, 5, 4000):  # the first bytes come one by one
                end = {0: 1, 1: 2, 2: 5, 5: 4000}.get(start, len(data))
                pipe.write(data[start:end])

    thread = threading.Thread(target=write)
    thread.start()
    with open_trace(str(path)) as stream:
        assert stream.read() == TEXT
        assert (stream.position, stream.size) == (0, None)
    thread.join()


def test_how_far_the_file_is_read(put):
    path = put(PACKED["gzip"])
    with open_trace(path) as stream:
        assert stream.size == len(PACKED["gzip"])
        assert stream.read(10) == TEXT[:10]
        assert 0 < stream.position <= stream.size
        stream.read()
        assert stream.position == stream.size


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("share", [0.3, 0.999])
def test_what_is_cut_off_ends_with_a_whole_line(put, packing, share):
    whole = PACKED[packing]
    found, damage = content(put(whole[: int(len(whole) * share)]))
    assert TEXT.startswith(found)
    assert found.endswith(b"\n")
    assert f"the {packing} data are cut off" in damage
    assert f"after {found.count(10):,} lines ({len(found):,} bytes)" in damage


def flipped(data, where):
    changed = bytearray(data)
    changed[where] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("packing", ["gzip", "zstd", "zip"])
def test_damage_in_the_middle_is_said(put, packing):
    whole = PACKED[packing]
    found, damage = content(put(flipped(whole, len(whole) // 2)))
    assert len(found) < len(TEXT)
    assert f"the {packing} data are damaged (" in damage


@pytest.mark.parametrize(
    "data",
    [
        PACKED["gzip"][:5],
        PACKED["zstd"][:5],
        gzip.compress(b"half a line")[:-9],
        PACKED["zip"][:-10],
        b"PK\x03\x04",
        PACKED["tar"][:600],
        gzip.compress(PACKED["tar"][:5000]),
    ],
    ids=lambda data: f"{data[:2].hex()}, {len(data)} bytes",  # gzip keeps the time
)
def test_nothing_whole_is_an_error_at_once(put, data):
    with pytest.raises(DataError, match="cut off"):
        content(put(data))


def test_no_line_of_a_cut_file_is_half(put):
    """Else 12 of 1234 GPUs would be taken for all of them."""
    whole = gzip.compress(b"1,1234\n2,5678\n")
    seen = set()
    for end in range(2, len(whole)):
        try:
            found, damage = content(put(whole[:end]))
        except DataError:
            continue
        assert damage
        seen.add(found)
    assert seen == {b"1,1234\n", b"1,1234\n2,5678\n"}


@pytest.mark.parametrize("make", [zip_of, tar_of])
def test_several_files_are_named_and_one_can_be_chosen(put, make):
    path = put(make({"a.csv": b"1\n", "b/c.csv": b"2\n", "README": b"-"}), "both.zip")
    with pytest.raises(DataError) as error:
        open_trace(path)
    assert error.value.message == f"{path} has 2 files of data: a.csv, b/c.csv"
    assert error.value.hint == f"name one: {path}:MEMBER"
    assert content(f"{path}:b/c.csv") == (b"2\n", "")
    assert content(f"{path}:README") == (b"-", "")
    with pytest.raises(DataError, match=r"has no file 'd.csv'"):
        open_trace(f"{path}:d.csv")


def test_a_name_with_a_colon_is_a_name(put):
    assert content(put(b"1\n", "a:b.csv")) == (b"1\n", "")


def test_a_member_of_no_archive(put):
    with pytest.raises(DataError, match="is no archive"):
        open_trace(put(gzip.compress(b"1\n"), "a.gz") + ":b.csv")


@pytest.mark.parametrize("data", [zip_of({}), zip_of({"README": b"-"})])
def test_an_archive_without_data(put, data):
    with pytest.raises(DataError, match="has no file of data"):
        open_trace(put(data))


def test_a_zip_entry_without_a_name_is_none(put):
    data = zip_of({"x": b"1\n", "a.csv": b"2\n"})
    directory = data.index(b"PK\x01\x02")
    nameless = bytearray(data)
    nameless[directory + 28] = 0  # the length of its name
    nameless[directory + 30] = 1  # so that the rest stays where it is
    assert content(put(bytes(nameless))) == (b"2\n", "")


def test_an_encrypted_zip_is_not_read_as_data(put):
    data = bytearray(zip_of({"a.csv": b"1\n"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DataError, match="is encrypted"):
        open_trace(put(bytes(data)))


@pytest.mark.parametrize(
    ("data", "kind"),
    [(bz2.compress(TEXT), "bzip2"), (lzma.compress(TEXT), "xz"), (b"7z\xbc\xaf\x27\x1c", "7z")],
)
def test_other_packings_are_named(put, data, kind):
    with pytest.raises(DataError, match=f"is packed by {kind}"):
        open_trace(put(data))


def test_layer_upon_layer_has_an_end(put):
    data = TEXT
    for _ in range(5):
        data = gzip.compress(data)
    with pytest.raises(DataError, match="packed more than"):
        open_trace(put(data))


@pytest.mark.parametrize("pack", [lambda d: gzip.compress(d, 9), zstd, lambda d: zip_of({"a": d})])
def test_a_bomb_takes_no_memory(put, pack):
    """64 MiB without a line end, read piece by piece within 32 MiB."""
    path = put(pack(bytes(2**26)))
    program = (
        "import resource, sys; from gsched.traces.source import open_trace\n"
        "with open_trace(sys.argv[1]) as s:\n"
        "    s.read(1)\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(1 + sum(map(len, iter(lambda: s.read(65536), b''))))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=True)
    size, grown_kb = map(int, done.stdout.split())
    assert size == 2**26
    assert grown_kb < 2**15


def test_missing_unreadable_and_no_file(tmp_path, put, monkeypatch):
    for path in ("", str(tmp_path / "none"), str(tmp_path), put(b"x") + "/y"):
        with pytest.raises(UsageError, match="cannot read"):
            open_trace(path)
    with pytest.raises(UsageError):
        open_trace("a\0b")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionDeniedError, match="Permission denied"):
        open_trace(str(tmp_path / "a"))


def open_files():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_the_file_is_closed_with_the_stream(put):
    before = open_files()
    for packing in PACKED:
        with open_trace(put(PACKED[packing])) as stream:
            stream.read(1)
    for bad in (PACKED["zip"][:-9], bz2.compress(b"")):
        with pytest.raises(GschedError):
            open_trace(put(bad))
    assert open_files() == before


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("x/KTH-SP2.swf.gz", "KTH-SP2"),
        ("a.csv.zip", "a"),
        ("cluster01.csv", "cluster01"),
        ("a.b.csv.ZST", "a.b"),
        ("noext", "noext"),
        ("a.tgz", "a"),
        ("-", ""),
    ],
)
def test_the_name_of_the_data_alone(path, stem):
    assert file_stem(path) == stem


def test_the_name_of_a_member_is_that_of_the_data(put):
    assert file_stem(put(PACKED["zip"], "a.zip") + ":x/logs.csv.gz") == "logs"
