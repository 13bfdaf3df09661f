"""The model file: one zip with JSON for everything but the trees, which are in skops' format.

No pickle is read or written: JSON holds data only, and skops refuses every type that is not
trusted. Every part's SHA-256 is in ``meta.json``; a damaged, foreign or outdated file is refused
before anything in it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.errors import ConfigError, DataError, PermissionDeniedError, UnavailableError
from gsched.files import write_atomically
from gsched.predict.features import FEATURES, FeatureEncoder
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.model import DurationModel, ModelInfo, library_versions
from gsched.predict.rolling import QUANTILES, RollingEstimator
from gsched.predict.validation import ANY_SOURCE, Score, Validation

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

FORMAT = "gsched-duration-model"
FORMAT_VERSION = 1
MODE = 0o640
"""Not for everybody: a model holds the users' job names."""
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_PART_BYTES = 512 * 1024 * 1024

_META, _ROLLING, _ENCODER, _TREES = "meta.json", "rolling.json", "encoder.json", "trees.skops"
_PARTS = frozenset({_ROLLING, _ENCODER, _TREES})

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
    parts = {_ROLLING: _json_bytes(model.rolling.to_json())}
    if model.regression is not None:
        import skops.io

        parts[_ENCODER] = _json_bytes(model.regression.encoder.to_json())
        parts[_TREES] = skops.io.dumps(model.regression.regressor)
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
    _decode(buffer.getvalue(), path)
    write_atomically(path, buffer.getvalue(), MODE)


def load(path: Path) -> DurationModel:
    """The model in `path`.

    Raises ModelMissingError when there is none, DataError when the file is damaged or no model,
    ConfigError when another version of gsched or scikit-learn wrote it, PermissionDeniedError or
    UnavailableError when it cannot be read.
    """
    try:
        with path.open("rb") as f:
            data = f.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ModelMissingError(f"there is no duration model at {path}", _RETRAIN) from None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {path}: {e.strerror}") from e
    return _decode(data, path)


def _decode(data: bytes, path: Path) -> DurationModel:
    """The model in the bytes `data`; `path` is named in errors."""
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than {MAX_FILE_BYTES} bytes", _RETRAIN)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            meta = _meta(archive, path)
            parts = {
                name: _part(archive, name, digest)
                for name, digest in meta["parts"].items()
                if name in _PARTS
            }
        info = _info(meta["info"])
        rolling = RollingEstimator.from_json(_json(parts[_ROLLING]))
        regression = None if info.lam == 1.0 else _regression(parts, info, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as e:
        raise DataError(f"{path} is no model file or is damaged: {e}", _RETRAIN) from e
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise DataError(f"{path} is damaged: {type(e).__name__}: {e}", _RETRAIN) from e
    return DurationModel(info, rolling, regression)


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
    if values["validation"] is not None:
        validation = dict(values["validation"])
        ratios = {str(k): tuple(float(r) for r in v) for k, v in validation["ratios"].items()}
        if any(len(r) != len(QUANTILES) for r in ratios.values()) or ANY_SOURCE not in ratios:
            raise ValueError("the quantiles are incomplete")
        scores = {str(k): Score(**v) for k, v in validation["scores"].items()}
        values["validation"] = Validation(**(validation | {"ratios": ratios, "scores": scores}))
    values["features"] = tuple(values["features"])
    info = ModelInfo(**values)
    if not 0.0 < info.lam <= 1.0:
        raise ValueError(f"lambda is {info.lam}")
    return info


def _regression(parts: Mapping[str, bytes], info: ModelInfo, path: Path) -> GbdtEstimator:
    for library in ("scikit-learn", "numpy"):
        made_with, here = info.versions[library], library_versions()[library]
        if made_with != here:
            raise ConfigError(
                f"{path} was made with {library} {made_with}, here is {here}", _RETRAIN
            )
    if info.features != FEATURES:
        raise ConfigError(f"{path} was made with other features", _RETRAIN)
    encoder = FeatureEncoder.from_json(_json(parts[_ENCODER]))
    return GbdtEstimator(encoder, _trees(parts[_TREES], path))


def _trees(data: bytes, path: Path) -> HistGradientBoostingRegressor:
    import skops.io
    from sklearn.ensemble import HistGradientBoostingRegressor
    from skops.io.exceptions import UntrustedTypesFoundException

    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # skops unpacks whatever size it has
        if sum(member.file_size for member in archive.infolist()) > MAX_PART_BYTES:
            raise ValueError(f"unpacked, {_TREES} is larger than {MAX_PART_BYTES} bytes")
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
