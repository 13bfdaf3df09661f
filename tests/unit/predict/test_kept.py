"""Kept models, and the pin."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from support.jobs import T0, past_job

from gsched.errors import DataError, UnavailableError, UsageError
from gsched.predict.kept import KeptModels, Pin
from gsched.predict.model import DurationModel
from gsched.predict.store import load, save

JOBS = [past_job(i, 10 + i % 3, end=T0 + 100 + i, name="train") for i in range(12)]


def fitted(at: int) -> DurationModel:
    """A model of a name of its own, fitted `at` seconds after T0."""
    return DurationModel.fit([*JOBS, past_job(99, 5, end=T0 + 120 + at)], T0 + 10**6, T0 + at)


@pytest.fixture
def kept(tmp_path: Path) -> KeptModels:
    return KeptModels(tmp_path / "models" / "duration.gsmodel")


def names(kept: KeptModels) -> list[str]:
    return [one.model_id for one in kept.models()]


def use(kept: KeptModels, at: int) -> str:
    model = fitted(at)
    kept.keep(model)
    kept.put_in_use(model.info.model_id)
    return model.info.model_id


def test_at_first_there_is_nothing(kept: KeptModels) -> None:
    assert (kept.models(), kept.in_use_info(), kept.pin()) == ([], None, None)
    assert kept.prune(1) == ()
    kept.keep_in_use()
    assert not kept.release()


def test_a_kept_model_is_the_same_when_it_is_put_in_use(kept: KeptModels) -> None:
    first, second = use(kept, 1), use(kept, 2)
    assert names(kept) == [second, first]  # the last fitted first
    assert kept.put_in_use(first).model_id == first
    assert load(kept.in_use).info.trained_at == T0 + 1
    info = kept.in_use_info()
    assert info is not None
    assert info.model_id == first
    for path in (kept.in_use, kept.in_use.parent / "kept" / f"{first}.gsmodel"):
        assert path.stat().st_mode & 0o777 == 0o640


def test_fits_of_one_second_are_told_apart(kept: KeptModels) -> None:
    models = [
        DurationModel.fit([*JOBS, past_job(99, 5, end=T0 + 120 + n)], T0 + 10**6, T0)
        for n in range(3)
    ]
    by_name = sorted(models, key=lambda model: model.info.model_id)
    ids = [model.info.model_id for model in (by_name[1], by_name[0], by_name[2])]
    for model in models:
        kept.keep(model)
    for number, name in enumerate(ids):  # a file system's clock may be coarser than this test
        written_ns = (T0 * 1000 + number) * 10**6
        os.utime(kept.in_use.parent / "kept" / f"{name}.gsmodel", ns=(written_ns, written_ns))
    assert names(kept) == ids[::-1]
    kept.prune(2)
    assert names(kept) == [ids[2], ids[1]]


def test_only_the_newest_are_kept_and_what_is_needed(kept: KeptModels) -> None:
    made = [use(kept, at) for at in range(5)]
    kept.put_in_use(made[0])
    kept.set_pin(Pin(made[1], T0, "root"))
    assert kept.prune(3) == (made[3], made[2])
    assert names(kept) == [made[4], made[1], made[0]]
    assert kept.prune(1) == (made[4],)
    assert names(kept) == [made[1], made[0]]


def test_a_model_from_before_there_were_kept_ones_is_kept(kept: KeptModels) -> None:
    save(fitted(1), kept.in_use)
    kept.keep_in_use()
    assert names(kept) == [fitted(1).info.model_id]


@pytest.mark.parametrize("name", ["absent", "../duration", "", ".", "..", "a/b", ".hidden"])
def test_only_a_name_of_a_kept_model_is_taken(kept: KeptModels, name: str) -> None:
    known = use(kept, 1)
    with pytest.raises(UsageError) as error:
        kept.put_in_use(name)
    assert known in error.value.hint or "no name of a model" in error.value.message


def test_a_damaged_one_is_told_and_not_put_in_use(kept: KeptModels) -> None:
    first, second = use(kept, 1), use(kept, 2)
    path = kept.in_use.parent / "kept" / f"{first}.gsmodel"
    path.write_bytes(path.read_bytes()[:-100])
    (kept.in_use.parent / "kept" / "leftover.tmp").write_text("of a kill")
    assert names(kept) == [second, first]
    damaged = kept.models()[-1]
    assert damaged.info is None
    assert "damaged" in damaged.problem
    before = kept.in_use.read_bytes()
    with pytest.raises(DataError):
        kept.put_in_use(first)
    assert kept.in_use.read_bytes() == before


def test_the_pin_is_kept_until_it_is_released(kept: KeptModels) -> None:
    pin = Pin(use(kept, 1), T0, "root")
    kept.set_pin(pin)
    assert kept.pin() == pin
    assert kept.release()
    assert kept.pin() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model_id": "x", "since": "?", "by": ""}'])
def test_a_damaged_pin_is_an_error_that_says_what_to_do(kept: KeptModels, text: str) -> None:
    use(kept, 1)
    (kept.in_use.parent / "pinned.json").write_text(text)
    with pytest.raises(DataError) as error:
        kept.pin()
    assert "rollback --release" in error.value.hint
    assert kept.release()


def test_a_file_in_the_place_of_the_folder_is_told(kept: KeptModels) -> None:
    use(kept, 1)
    folder = kept.in_use.parent / "kept"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("a file")
    for call in (kept.models, kept.keep_in_use, lambda: kept.keep(fitted(2))):
        with pytest.raises(UnavailableError, match="kept: it is not a folder"):
            call()


def test_what_is_wrong_with_the_model_in_use_is_known(kept: KeptModels) -> None:
    model_id = use(kept, 1)
    info, problem = kept.look_in_use()
    assert (info and info.model_id, problem) == (model_id, "")
    with zipfile.ZipFile(kept.in_use) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["rolling.json"] = parts["rolling.json"].replace(b"1", b"2", 1)
    with zipfile.ZipFile(kept.in_use, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    info, problem = kept.look_in_use()
    assert info is None
    assert "the checksum of rolling.json is wrong" in problem
    kept.in_use.unlink()
    assert kept.look_in_use() == (None, "")


def test_folders_belong_to_whom_the_state_folder_does(tmp_path: Path) -> None:
    assert os.geteuid() == 0, "as in CI"
    os.chown(tmp_path, 12345, 12345)
    kept = KeptModels(tmp_path / "models" / "duration.gsmodel")
    use(kept, 1)
    places = [kept.in_use.parent, *kept.in_use.parent.rglob("*")]
    assert {path.stat().st_uid for path in places} == {12345}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    kept = KeptModels(tmp_path / "models" / "duration.gsmodel")
    with pytest.raises(UnavailableError, match="models: it is not a folder"):
        kept.keep(fitted(1))
