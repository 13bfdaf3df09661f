"""What is said of gsched's own checkpoints, and of whatever else lies in a folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.checkpoints import CREATED, tear, write_checkpoint
from support.open_folders import open_to_all

from gsched.ckpt import layout
from gsched.ckpt.catalogue import examine, newest_valid, none_valid, scan
from gsched.ckpt.found import Depth, Verdict
from gsched.errors import NoCheckpointError, NoneValidError, PermissionDeniedError


def test_a_whole_one_is_described(tmp_path):
    place = write_checkpoint(tmp_path, 18240)
    found = examine(place, Depth.CHECKSUMS)
    size = sum(path.stat().st_size for path in place.iterdir())
    assert (found.path, found.kind, found.verdict) == (place, "gsched", Verdict.WHOLE)
    assert (found.step, found.created, found.num_bytes) == (18240, CREATED + 18240, size)
    assert (found.checked, found.reason, found.owner_uid) == (Depth.CHECKSUMS, "", os.getuid())


def test_the_newest_comes_first_whatever_order_they_were_written_in(tmp_path):
    for step in (100, 20_000, 3):
        write_checkpoint(tmp_path, step)
    assert [c.step for c in scan(tmp_path).checkpoints] == [20_000, 100, 3]


@pytest.mark.parametrize("file", [0, 1, "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "longer", "removed", "link", "folder"])
def test_each_file_that_is_not_what_it_was_is_found_by_lengths(tmp_path, file, damage):
    place = write_checkpoint(tmp_path, 7)
    path = place / (file if isinstance(file, str) else layout.rank_file_name(file, 2))
    data = path.read_bytes()
    path.unlink()
    if damage == "link":
        other = tmp_path / "elsewhere"
        other.write_bytes(data)
        path.symlink_to(other)
    elif damage == "folder":
        path.mkdir()
    elif damage != "removed":
        changed = {"cut": data[:-2], "emptied": b"", "longer": data + b"}"}[damage]
        path.write_bytes(changed)
    found = examine(place, Depth.LENGTHS)
    assert (found.verdict, found.step) == (Verdict.TORN, 7)
    assert path.name in found.reason


def test_a_flipped_bit_is_found_by_checksums_alone(tmp_path):
    place = tear(write_checkpoint(tmp_path, 7))
    assert examine(place, Depth.LENGTHS).verdict is Verdict.WHOLE
    found = examine(place, Depth.CHECKSUMS)
    assert (found.verdict, found.reason) == (
        Verdict.TORN,
        "checksum of rank-00000-of-00002.safetensors",
    )


def test_a_manifest_of_another_step_is_torn(tmp_path):
    write_checkpoint(tmp_path, 7).rename(tmp_path / layout.step_name(8))
    (found,) = scan(tmp_path).checkpoints
    assert (found.verdict, found.reason) == (Verdict.TORN, "manifest.json is that of step 7")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 2),
        ("format", "other"),
        ("world_size", 3),
        ("world_size", 10**9),
        ("step", -1),
        ("created", float("1e300")),
        ("shards", [{"file": "../../etc/passwd", "bytes": 1, "crc32": "00000000"}] * 2),
        ("shards", [["rank"] * 3]),
    ],
)
def test_a_hostile_manifest_is_torn(tmp_path, key, value):
    place = write_checkpoint(tmp_path, 7)
    path = place / layout.MANIFEST_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    found = examine(place, Depth.CHECKSUMS)
    assert found.verdict is Verdict.TORN
    assert found.reason.startswith("manifest.json: ")


def test_a_manifest_nested_without_end_is_torn(tmp_path):
    place = write_checkpoint(tmp_path, 7)
    (place / layout.MANIFEST_NAME).write_bytes(b"[" * 200_000)
    assert examine(place, Depth.LENGTHS).verdict is Verdict.TORN


def test_one_that_is_being_written_is_uncommitted(tmp_path):
    write_checkpoint(tmp_path, 9, name=layout.partial_name(9, "0123456789ab"))
    (found,) = scan(tmp_path, Depth.CHECKSUMS).checkpoints
    assert (found.verdict, found.step) == (Verdict.UNCOMMITTED, 9)


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    place = write_checkpoint(tmp_path, 7)
    path = place / layout.rank_file_name(0, 2)
    path.unlink()
    os.mkfifo(path)
    os.mkfifo(tmp_path / "model.pt")
    found = {c.path.name: c for c in scan(tmp_path, Depth.CHECKSUMS).checkpoints}
    assert found[place.name].reason == "rank-00000-of-00002.safetensors is not a plain file"
    assert found["model.pt"].reason == "it is neither a file nor a folder"


def test_links_are_not_followed(tmp_path):
    real = write_checkpoint(tmp_path / "real", 7)
    run = tmp_path / "run"
    run.mkdir()
    (run / real.name).symlink_to(real)
    (found,) = scan(run).checkpoints
    assert (found.verdict, found.kind) == (Verdict.FOREIGN, "")
    assert found.reason == "it is a symbolic link, which is not followed"


def test_a_folder_that_is_named_through_a_link_is_looked_into(tmp_path):
    real = write_checkpoint(tmp_path / "real", 7)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "one").symlink_to(real)
    assert newest_valid(tmp_path / "link").checkpoint.step == 7
    assert newest_valid(tmp_path / "one").checkpoint.path == real


def test_other_entries_are_counted_and_those_like_a_checkpoint_told(tmp_path):
    write_checkpoint(tmp_path, 7)
    (tmp_path / "events.out.tfevents.1").write_text("x")
    (tmp_path / "latest").write_text("step-000000000007\n")
    write_checkpoint(tmp_path / ".set-aside", 8)
    write_checkpoint(tmp_path, 9, name=".removing-step-000000000009-00")
    (tmp_path / "checkpoint_2").mkdir()
    (tmp_path / "weights.safetensors").write_bytes(b"x")
    found = scan(tmp_path)
    assert found.num_others == 2
    assert {c.path.name: c.reason for c in found.of(Verdict.FOREIGN)} == {
        "checkpoint_2": "no format of it is known",
        "weights.safetensors": "no format of it is known",
    }


def test_hostile_names_do_no_harm(tmp_path):
    for name in ("step-\n1\x1b[31m.pt", "epoch=1-step=99999999999999999999.ckpt", "é" * 80 + ".pt"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 and no end")
    (tmp_path / os.fsdecode(b"step-\xff1.pt")).write_bytes(b"")
    found = scan(tmp_path, Depth.CHECKSUMS).checkpoints
    assert {c.verdict for c in found} == {Verdict.TORN}
    assert len(found) == 4


def test_the_newest_valid_one_passes_over_what_is_not(tmp_path):
    for step in (1, 2, 3, 4):
        write_checkpoint(tmp_path, step)
    tear(tmp_path / layout.step_name(3))
    (tmp_path / layout.step_name(4) / "manifest.json").unlink()
    write_checkpoint(tmp_path, 5, name=layout.partial_name(5, "0123456789ab"))
    (tmp_path / layout.LATEST_NAME).write_bytes(layout.encode_latest(4))
    found = newest_valid(tmp_path)
    assert found.checkpoint.step == 2
    assert [(c.step, c.verdict) for c in found.passed_over] == [
        (5, Verdict.UNCOMMITTED),
        (4, Verdict.TORN),
        (3, Verdict.TORN),
    ]
    assert newest_valid(tmp_path, at_most_step=1).checkpoint.step == 1


def test_none_at_all_is_not_none_valid(tmp_path):
    write_checkpoint(tmp_path, 5, name=layout.partial_name(5, "0123456789ab"))
    first = newest_valid(tmp_path)
    assert first.is_empty
    assert isinstance(none_valid(tmp_path, first), NoCheckpointError)
    tear(write_checkpoint(tmp_path, 4))
    damaged = newest_valid(tmp_path)
    assert not damaged.is_empty
    error = none_valid(tmp_path, damaged)
    assert isinstance(error, NoneValidError)
    assert "step-000000000004: checksum of rank-00000" in error.message


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(NoCheckpointError):
        scan(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NoCheckpointError):
        scan(tmp_path / "file")


def test_what_vanishes_while_it_is_read_is_left_out(tmp_path):
    for step in (1, 2):
        write_checkpoint(tmp_path, step)

    def vanish(file: str, done: int, total: int) -> None:
        shutil.rmtree(tmp_path / layout.step_name(2), ignore_errors=True)

    assert [c.step for c in scan(tmp_path, Depth.CHECKSUMS, tell=vanish).checkpoints] == [1]


def test_what_vanishes_is_passed_over_without_a_word(tmp_path):
    for step in (1, 2):
        write_checkpoint(tmp_path, step)

    def vanish(file: str, done: int, total: int) -> None:
        shutil.rmtree(tmp_path / layout.step_name(2), ignore_errors=True)

    found = newest_valid(tmp_path, tell=vanish)
    assert (found.checkpoint.step, found.passed_over) == (1, ())


def test_what_may_not_be_read_is_foreign_and_not_torn(tmp_path, as_nobody):
    place = write_checkpoint(tmp_path, 7)
    (place / layout.rank_file_name(1, 2)).chmod(0)
    found = as_nobody(lambda: examine(place, Depth.CHECKSUMS))
    assert found.verdict is Verdict.FOREIGN
    assert found.reason == "rank-00001-of-00002.safetensors cannot be read: Permission denied"
    place.chmod(0)
    (found,) = as_nobody(lambda: scan(tmp_path).checkpoints)
    assert found.reason == "it cannot be read: Permission denied"
    tmp_path.chmod(0)
    with pytest.raises(PermissionDeniedError):
        as_nobody(lambda: scan(tmp_path))
    tmp_path.chmod(0o755)


def test_a_copy_under_another_name_is_known_by_its_contents(tmp_path):
    shutil.copytree(write_checkpoint(tmp_path, 7), tmp_path / "best")
    found = {c.path.name: c for c in scan(tmp_path, Depth.CHECKSUMS).checkpoints}
    assert (found["best"].kind, found["best"].step) == ("gsched", 7)
    assert found["best"].is_whole


def test_progress_is_told(tmp_path):
    place = write_checkpoint(tmp_path, 7)
    told = []
    examine(place, Depth.CHECKSUMS, lambda *words: told.append(words))
    sizes = {p.name: p.stat().st_size for p in place.glob("rank-*")}
    assert told == [(name, sizes[name], sizes[name]) for name in sorted(sizes)]


@pytest.fixture
def as_nobody(tmp_path):
    """Call something with the rights of a stranger, where the tests run as root."""
    if os.geteuid() != 0:
        yield lambda call: call()
        return
    open_to_all(tmp_path)

    def call(what):
        os.seteuid(65534)
        try:
            return what()
        finally:
            os.seteuid(0)

    yield call


def test_the_folder_of_a_run_is_not_taken_for_a_checkpoint(tmp_path):
    """Hugging Face's scripts leave a trainer_state.json beside the checkpoints."""
    (tmp_path / "trainer_state.json").write_text('{"global_step": 9}')
    (tmp_path / "checkpoint-9").mkdir()
    write_checkpoint(tmp_path, 7)
    assert {c.path.name for c in scan(Path(tmp_path)).checkpoints} == {
        "checkpoint-9",
        "step-000000000007",
    }
