"""The settings that `gsched power` last worked by, for a resume while gsched.toml is wrong.

They lie beside the state, mode 0600. They say which programs run, so they are obeyed only where
nobody but root and the caller can have written them.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gsched.config.node_settings import PowerSettings
from gsched.errors import ConfigError
from gsched.files import read_bounded, write_atomically
from gsched.model.power import PowerBackend, PowerBackends

_NAME = "settings.json"
_MOST_BYTES = 16 * 1024**2


def keep(folder: Path, settings: PowerSettings) -> None:
    """Write them down, where they are others than before. Raises as `write_atomically` does."""
    path = folder / _NAME
    data = json.dumps(asdict(settings)).encode() + b"\n"
    try:
        is_new = read_bounded(path, _MOST_BYTES) != data
    except OSError:
        is_new = True
    if is_new:
        write_atomically(path, data, mode=0o600)


def kept(folder: Path) -> PowerSettings:
    """What was kept. Raises ConfigError where that is nothing, or nothing to be obeyed."""
    path = folder / _NAME
    try:
        for place in (folder, path):
            found = place.stat()
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(f"{place} cannot be trusted: others may write it")
            if found.st_uid not in (0, os.geteuid()):  # root, too, obeys no other user's
                raise ConfigError(f"{place} belongs to another user (uid {found.st_uid})")
        document = json.loads(read_bounded(path, _MOST_BYTES))
        tables = document.pop("backends")["tables"]
        backends = PowerBackends(tuple(_of(PowerBackend, table) for table in tables))
        return _of(PowerSettings, {**document, "backends": backends})  # type: ignore[no-any-return]
    except OSError as error:
        raise ConfigError(f"no settings are kept as {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path} holds no settings: {error}") from None


def _of(kind: Any, values: dict[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    given = {key: value for key, value in values.items() if key in known}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
