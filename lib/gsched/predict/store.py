"""The model file: one zip with JSON for everything but the trees, which are in skops' format.

No pickle is read or written: JSON holds data only, and skops refuses every type that is not
trusted. Every part's SHA-256 is in ``meta.json``; a damaged, foreign or outdated file is refused
before anything in it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsched.errors import ConfigError, DataError, PermissionDeniedError, UnavailableError
from gsched.files import read_bounded, write_atomically
from gsched.predict.attributes import KINDS
from gsched.predict.caution import Caution
from gsched.predict.features import FEATURES, FeatureEncoder
from gsched.predict.fitting import KindInfo
from gsched.predict.gbdt import BACKGROUND_ROWS, GbdtEstimator
from gsched.predict.memory import Memory
from gsched.predict.model import DurationModel, ModelInfo, library_versions
from gsched.predict.rolling import QUANTILES, RollingEstimator
from gsched.predict.validation import ANY_SOURCE, Score, Validation

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

FORMAT = "gsched-duration-model"
FORMAT_VERSION = 2
MODE = 0o640
"""Not for everybody: a model holds the users' job names."""
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_PART_BYTES = 512 * 1024 * 1024
MAX_RESIDUAL = 50.0
"""No run differs from its prediction by more than this power of e."""

_META, _ROLLING, _CAUTION, _ENCODER = "meta.json", "rolling.json", "caution.json", "encoder.json"
_TREES = {kind: f"trees-{kind}.skops" for kind in KINDS}
_BACKGROUND = {kind: f"background-{kind}.json" for kind in KINDS}
_PARTS = frozenset({_ROLLING, _CAUTION, _ENCODER, *_TREES.values(), *_BACKGROUND.values()})

TRUSTED_TYPES = (
    "functools.partial",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.utils.validation.check_array",
)
"""What a fitted HistGradientBoostingRegressor holds beyond the types that skops trusts itself.

A partial can only wrap functions that are trusted too: numpy's and scipy's ufuncs and check_array.
"""

_RETRAIN = "train a new one: `gsched predict train`"


class ModelMissingError(ConfigError):
    """There is no model file yet."""


def save(model: DurationModel, path: Path) -> None:
    """Write `model` to `path`, readable for its owner and group, whole or not at all.

    What is written has been read back before. Raises PermissionDeniedError or UnavailableError
    when it cannot be written, DataError when it is too large to be read again.
    """
    data = encode(model)
    decode(data, path)
    write_atomically(path, data, MODE)


def encode(model: DurationModel) -> bytes:
    """The bytes of a model file. A regression that has no share in any prediction is left out."""
    parts = {
        _ROLLING: _json_bytes(model.memory.rolling.to_json()),
        _CAUTION: _json_bytes(model.memory.caution.to_json()),
    }
    for kind, regression in model.regressions.items():
        if model.info.kinds[kind].lam == 1.0:
            continue
        import skops.io

        parts[_ENCODER] = _json_bytes(model.encoder.to_json())
        parts[_TREES[kind]] = skops.io.dumps(regression.regressor)
        rows = regression.background
        parts[_BACKGROUND[kind]] = _json_bytes(_without_nan(rows))
    meta = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "info": asdict(model.info),
        "parts": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_META, _json_bytes(meta))
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def load(path: Path) -> DurationModel:
    """The model in `path`.

    Raises ModelMissingError when there is none, DataError when the file is damaged or no model,
    ConfigError when another version of gsched or scikit-learn wrote it, PermissionDeniedError or
    UnavailableError when it cannot be read.
    """
    return decode(read(path), path)


def load_info(path: Path) -> ModelInfo:
    """How the model in `path` was made. Of the rest of the file only the checksums are looked at.

    Raises as `load`.
    """
    data = read(path)
    with _damage_told(path):
        meta, _ = _unpacked(data, path)
        return _info(meta["info"])


def read(path: Path) -> bytes:
    """The bytes of a model file, whatever they are, MAX_FILE_BYTES at most.

    Raises ModelMissingError when there is none, DataError when there are more,
    PermissionDeniedError or UnavailableError.
    """
    try:
        data = read_bounded(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ModelMissingError(f"there is no duration model at {path}", _RETRAIN) from None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {path}: {e.strerror}") from e
    _check_size(data, path)
    return data


def _without_nan(rows: NDArray[np.float64]) -> list[list[float | None]]:
    return [[None if math.isnan(value) else value for value in row] for row in rows.tolist()]


def decode(data: bytes, path: Path) -> DurationModel:
    """The model in the bytes `data`; `path` is named in errors. Raises what `load` raises."""
    _check_size(data, path)
    with _damage_told(path):
        meta, parts = _unpacked(data, path)
        info = _info(meta["info"])
        memory = Memory(
            RollingEstimator.from_json(_json(parts[_ROLLING])),
            Caution.from_json(_json(parts[_CAUTION])),
        )
        regressed = [kind for kind, found in info.kinds.items() if found.lam < 1.0]
        encoder = FeatureEncoder.fit([])
        if regressed:
            _check_versions(info, path)
            encoder = FeatureEncoder.from_json(_json(parts[_ENCODER]))
        regressions = {kind: _regression(parts, kind, path) for kind in regressed}
    return DurationModel(info, memory, encoder, regressions)


def _check_size(data: bytes, path: Path) -> None:
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than {MAX_FILE_BYTES} bytes", _RETRAIN)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Whatever is wrong with the contents of `path` becomes a DataError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as e:
        raise _damaged(path, str(e)) from e
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise _damaged(path, f"{type(e).__name__}: {e}") from e


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path} is no model file or is damaged: {why}", _RETRAIN)


def _unpacked(data: bytes, path: Path) -> tuple[Mapping[str, Any], dict[str, bytes]]:
    """What the file says of itself, and its parts, whose checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        meta = _meta(archive, path)
        parts = {
            name: _part(archive, name, digest)
            for name, digest in meta["parts"].items()
            if name in _PARTS
        }
    return meta, parts


def _meta(archive: zipfile.ZipFile, path: Path) -> Mapping[str, Any]:
    meta = _json(_read(archive, _META))
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise DataError(f"{path} is no duration model of gsched", _RETRAIN)
    if meta.get("version") != FORMAT_VERSION:
        raise ConfigError(
            f"{path} has format version {meta.get('version')!r}, "
            f"this gsched reads version {FORMAT_VERSION}",
            _RETRAIN,
        )
    return meta


def _part(archive: zipfile.ZipFile, name: str, digest: str) -> bytes:
    data = _read(archive, name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the checksum of {name} is wrong")
    return data


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MAX_PART_BYTES:
        raise ValueError(f"{name} is larger than {MAX_PART_BYTES} bytes")
    return archive.read(name)


def _info(stored: Mapping[str, Any]) -> ModelInfo:
    values = dict(stored)
    values["kinds"] = {str(k): _kind_info(v) for k, v in dict(values["kinds"]).items()}
    if not set(values["kinds"]) <= set(KINDS):
        raise ValueError("it holds unknown kinds of jobs")
    values["features"] = tuple(values["features"])
    if not 0.0 < float(values["default_duration_s"]) < math.inf:
        raise ValueError(f"the default duration is {values['default_duration_s']}")
    return ModelInfo(**values)


def _kind_info(stored: Mapping[str, Any]) -> KindInfo:
    values = dict(stored)
    if values["validation"] is not None:
        validation = dict(values["validation"])
        for name in ("residuals", "rolling_residuals"):
            validation[name] = _residuals(validation[name])
        scores = {str(k): Score(**v) for k, v in validation["scores"].items()}
        values["validation"] = Validation(**(validation | {"scores": scores}))
    info = KindInfo(**values)
    if not 0.0 <= info.lam <= 1.0:
        raise ValueError(f"lambda is {info.lam}")
    return info


def _residuals(stored: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    residuals = {str(k): tuple(float(r) for r in v) for k, v in stored.items()}
    if any(len(r) != len(QUANTILES) for r in residuals.values()) or ANY_SOURCE not in residuals:
        raise ValueError("the quantiles are incomplete")
    if not all(abs(r) <= MAX_RESIDUAL for found in residuals.values() for r in found):
        raise ValueError("the quantiles are no logarithms of durations")
    return residuals


def _check_versions(info: ModelInfo, path: Path) -> None:
    for library in ("scikit-learn", "numpy"):
        made_with, here = info.versions[library], library_versions()[library]
        if made_with != here:
            raise ConfigError(
                f"{path} was made with {library} {made_with}, here is {here}", _RETRAIN
            )
    if info.features != FEATURES:
        raise ConfigError(f"{path} was made with other features", _RETRAIN)


def _regression(parts: Mapping[str, bytes], kind: str, path: Path) -> GbdtEstimator:
    rows = np.array(_json(parts[_BACKGROUND[kind]]), dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(FEATURES) or len(rows) > BACKGROUND_ROWS:
        raise ValueError(f"{_BACKGROUND[kind]} has the shape {rows.shape}")
    return GbdtEstimator(_trees(parts[_TREES[kind]], path), rows)


def _trees(data: bytes, path: Path) -> HistGradientBoostingRegressor:
    import skops.io
    from sklearn.ensemble import HistGradientBoostingRegressor
    from skops.io.exceptions import UntrustedTypesFoundException

    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # skops unpacks whatever size it has
        if sum(member.file_size for member in archive.infolist()) > MAX_PART_BYTES:
            raise ValueError(f"unpacked, the trees are larger than {MAX_PART_BYTES} bytes")
    try:
        found = skops.io.loads(data, trusted=list(TRUSTED_TYPES))
    except UntrustedTypesFoundException as e:
        raise DataError(f"{path} holds types that no model of gsched has: {e}", _RETRAIN) from e
    if not isinstance(found, HistGradientBoostingRegressor):
        raise ValueError(f"the trees are a {type(found).__name__}")
    if found.n_features_in_ != len(FEATURES):
        raise ValueError(f"the trees take {found.n_features_in_} features")
    return found


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
