from __future__ import annotations

import hashlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.dummy import DummyRegressor
from support.jobs import T0, past_job, view

from gsched.errors import ConfigError, DataError, GschedError, UnavailableError
from gsched.predict import store
from gsched.predict.attributes import of_view
from gsched.predict.features import FEATURES
from gsched.predict.store import ModelMissingError, load, load_info, save

NOW = T0 + 10**6
ASKED = [view(i, user=user, name="sh") for i, user in enumerate(["ann", "bob", "eve"])]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "duration.gsmodel"


@pytest.fixture(params=["recurring_model", "blended_model"])
def model(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def written(blended_model, path):
    save(blended_model, path)
    return path


def rewrite(path, change):
    """Pass the parts (name → bytes) of the file through `change`; checksums are made right."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(parts.pop("meta.json"))
    change(meta, parts)
    meta["parts"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta))
        for name, data in parts.items():
            archive.writestr(name, data)


def test_a_model_survives_the_file(model, path):
    save(model, path)
    again = load(path)
    assert again.info == model.info
    assert again.model_id == model.model_id
    assert again.predict(ASKED, NOW) == model.predict(ASKED, NOW)
    assert again.predict(ASKED, NOW - 10**6 + 500) == model.predict(ASKED, NOW - 10**6 + 500)


def test_the_file_is_one_and_readable_for_all(blended_model, path):
    old = os.umask(0o077)
    try:
        save(blended_model, path)
    finally:
        os.umask(old)
    assert [p.name for p in path.parent.iterdir()] == ["duration.gsmodel"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_no_part_is_a_pickle(written):
    with zipfile.ZipFile(written) as archive:
        assert set(archive.namelist()) == {
            "meta.json",
            "rolling.json",
            "caution.json",
            "encoder.json",
            "background-gpu.json",
            "trees-gpu.skops",
        }
        for name in archive.namelist():
            if name.endswith(".json"):
                json.loads(archive.read(name))
        with zipfile.ZipFile(io.BytesIO(archive.read("trees-gpu.skops"))) as trees:
            for name in trees.namelist():
                if name.endswith(".npy"):
                    np.load(io.BytesIO(trees.read(name)), allow_pickle=False)
                else:
                    assert name == "schema.json"


def test_metadata_can_be_read_without_gsched(written, blended_model):
    with zipfile.ZipFile(written) as archive:
        meta = json.loads(archive.read("meta.json"))
    assert meta["format"] == "gsched-duration-model"
    assert meta["info"]["kinds"]["gpu"]["lam"] == 0.4 == blended_model.lam("gpu")
    assert meta["info"]["num_jobs"] == 240


def test_a_failed_write_leaves_the_old_model(recurring_model, blended_model, path, monkeypatch):
    save(recurring_model, path)

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UnavailableError, match="No space left"):
        save(blended_model, path)
    monkeypatch.undo()
    assert load(path).model_id == recurring_model.model_id
    assert [p.name for p in path.parent.iterdir()] == ["duration.gsmodel"]


def test_what_cannot_be_read_back_is_not_written(blended_model, path, monkeypatch):
    monkeypatch.setattr(store, "TRUSTED_TYPES", ())
    with pytest.raises(DataError):
        save(blended_model, path)
    assert not path.exists()


def test_a_missing_model_says_how_to_make_one(path):
    with pytest.raises(ModelMissingError, match=r"duration\.gsmodel") as caught:
        load(path)
    assert "gsched predict train" in caught.value.hint
    assert isinstance(caught.value, ConfigError)


def test_a_file_cut_anywhere_is_refused(written):
    whole = written.read_bytes()
    for size in [*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1]:
        written.write_bytes(whole[:size])
        with pytest.raises(DataError) as caught:
            load(written)
        assert "gsched predict train" in caught.value.hint


def test_flipped_bits_are_noticed_or_harmless(written, blended_model):
    whole = written.read_bytes()
    expected = blended_model.predict(ASKED, NOW)
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        written.write_bytes(damaged)
        try:
            found = load(written)
        except GschedError:
            refused += 1
        else:
            assert found.predict(ASKED, NOW) == expected
    assert refused > 100


def zip_of(**parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name.replace("_", "."), data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a zip",
        b"\x80\x04K\x01.",
        zip_of(),
        zip_of(schema_json="{}"),
        zip_of(meta_json="{"),
        zip_of(meta_json="[]"),
        zip_of(meta_json="null"),
        zip_of(meta_json="[" * 100_000),
        zip_of(meta_json='{"format": "something-else", "version": 2}'),
        zip_of(meta_json='{"format": "gsched-duration-model", "version": 2}'),
        zip_of(meta_json='{"format": "gsched-duration-model", "version": 2, "parts": []}'),
        zip_of(meta_json='{"format": "gsched-duration-model", "version": 2, "parts": {"a": 1}}'),
    ],
)
def test_foreign_files_are_refused(path, data):
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(DataError):
        load(path)


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return (open, (self.target, "w"))


@pytest.mark.parametrize(
    "part",
    ["rolling.json", "caution.json", "encoder.json", "background-gpu.json", "trees-gpu.skops"],
)
def test_a_pickle_inside_is_never_run(written, tmp_path, part):
    target = tmp_path / "executed"
    rewrite(written, lambda _, parts: parts.update({part: pickle.dumps(Bomb(target))}))
    with pytest.raises(DataError):
        load(written)
    assert not target.exists()


def test_a_pickle_in_an_array_of_the_trees_is_never_run(written, tmp_path):
    target = tmp_path / "executed"
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(target)], dtype=object), allow_pickle=True)

    def plant(_, parts):
        trees = io.BytesIO(parts["trees-gpu.skops"])
        changed = io.BytesIO()
        with zipfile.ZipFile(trees) as old, zipfile.ZipFile(changed, "w") as new:
            for name in old.namelist():
                new.writestr(name, buffer.getvalue() if name.endswith(".npy") else old.read(name))
        parts["trees-gpu.skops"] = changed.getvalue()

    rewrite(written, plant)
    with pytest.raises(DataError):
        load(written)
    assert not target.exists()


def test_types_outside_the_list_are_refused(written):
    schema = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 1}
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("schema.json", json.dumps({**schema, "content": {}, "protocol": 2}))
    rewrite(written, lambda _, parts: parts.update({"trees-gpu.skops": evil.getvalue()}))
    with pytest.raises(DataError, match=r"os\.system"):
        load(written)


@pytest.mark.parametrize("other", [DummyRegressor().fit([[0] * len(FEATURES)], [0]), [1, 2]])
def test_another_harmless_object_is_no_model(written, other):
    rewrite(written, lambda _, parts: parts.update({"trees-gpu.skops": skops.io.dumps(other)}))
    with pytest.raises(DataError):
        load(written)


def test_a_part_that_is_not_the_one_written_is_noticed(written):
    with zipfile.ZipFile(written) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["rolling.json"] = b'{"recent": [], "sizes": {}, "users": {}}'
    with zipfile.ZipFile(written, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(DataError, match=r"checksum of rolling\.json"):
        load(written)


def test_a_file_of_another_format_version_asks_for_training(written):
    rewrite(written, lambda meta, _: meta.update(version=1))
    with pytest.raises(ConfigError, match="version 1") as caught:
        load(written)
    assert "gsched predict train" in caught.value.hint


@pytest.mark.parametrize("library", ["scikit-learn", "numpy"])
def test_trees_of_another_library_version_ask_for_training(written, library):
    rewrite(written, lambda meta, _: meta["info"]["versions"].update({library: "0.1"}))
    with pytest.raises(ConfigError, match=rf"{library} 0\.1"):
        load(written)


def test_a_rolling_model_does_not_care_about_library_versions(recurring_model, path):
    save(recurring_model, path)
    rewrite(path, lambda meta, _: meta["info"]["versions"].update({"scikit-learn": "0.1"}))
    assert load(path).predict(ASKED, NOW) == recurring_model.predict(ASKED, NOW)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, _: gpu(meta).update(lam=7),
        lambda meta, _: gpu(meta).update(lam="x"),
        lambda meta, _: gpu(meta).update(extra=1),
        lambda meta, _: gpu(meta).update(validation=3),
        lambda meta, _: gpu(meta)["validation"].update(residuals={}),
        lambda meta, _: gpu(meta)["validation"].update(residuals={"any": [1.0]}),
        lambda meta, _: gpu(meta)["validation"].update(rolling_residuals={"any": [1e6] * 7}),
        lambda meta, _: gpu(meta)["validation"].update(residuals={"any": [math.nan] * 7}),
        lambda meta, _: meta["info"].pop("model_id"),
        lambda meta, _: meta["info"].update(extra=1),
        lambda meta, _: meta["info"].update(default_duration_s=-1),
        lambda meta, _: meta["info"]["kinds"].update(tpu=gpu(meta)),
        lambda meta, _: meta["info"]["kinds"].update(cpu=gpu(meta)),
        lambda _, parts: parts.pop("rolling.json"),
        lambda _, parts: parts.pop("caution.json"),
        lambda _, parts: parts.pop("trees-gpu.skops"),
        lambda _, parts: parts.pop("background-gpu.json"),
        lambda _, parts: parts.update({"rolling.json": b"[]"}),
        lambda _, parts: parts.update({"encoder.json": b"{}"}),
        lambda _, parts: parts.update({"caution.json": b"{}"}),
        lambda _, parts: parts.update({"caution.json": b'{"users": {}, "all": {}}'}),
        lambda _, parts: parts.update({"background-gpu.json": b"[[1, 2]]"}),
    ],
)
def test_contradictory_contents_are_refused(written, change):
    rewrite(written, change)
    with pytest.raises(DataError):
        load(written)


def gpu(meta):
    return meta["info"]["kinds"]["gpu"]


def test_how_a_model_was_made_is_read_alone(written, blended_model, path):
    assert load_info(written) == blended_model.info
    rewrite(written, lambda _, parts: parts.update({"trees-gpu.skops": b"damaged"}))
    assert load_info(written) == blended_model.info
    with pytest.raises(DataError):
        load(written)
    path.write_bytes(b"no model")
    with pytest.raises(DataError):
        load_info(path)
    with pytest.raises(ModelMissingError):
        load_info(path.with_name("none"))


def test_what_observed_jobs_have_taught_survives_the_file(blended_model, path):
    save(blended_model, path)
    model = load(path)
    for i in range(3):
        model.observe(past_job(900 + i, 500_000, end=NOW + i, user="ann", name="sh"))
    assert model.predict(ASKED, NOW + 5)[0].caution > 1
    save(model, path)
    assert load(path).look([of_view(job) for job in ASKED], NOW + 5) == (
        model.look([of_view(job) for job in ASKED], NOW + 5)
    )


def test_sizes_are_limited(written, monkeypatch):
    monkeypatch.setattr(store, "MAX_PART_BYTES", 1000)
    with pytest.raises(DataError, match="larger than 1000 bytes"):
        load(written)
    monkeypatch.setattr(store, "MAX_FILE_BYTES", 100)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        load(written)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_an_error_of_the_system(path, make):
    """A FIFO without a writer would be waited for without an end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    for look_into in (load, load_info):
        with pytest.raises(UnavailableError, match=r"not a file|Is a directory"):
            look_into(path)


def test_loading_needs_no_library_when_the_regression_has_no_share(recurring_model, path):
    """Seen from a fresh interpreter, where nothing has imported scikit-learn yet."""
    save(recurring_model, path)
    program = (
        "import sys; from pathlib import Path; from gsched.predict.store import load;"
        "load(Path(sys.argv[1])); print({'sklearn', 'skops', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
