"""What a DriftWatch has seen, kept for the daemon's next start."""

from __future__ import annotations

import json
from pathlib import Path

from gsched.errors import DataError, PermissionDeniedError, UnavailableError
from gsched.files import read_bounded, write_atomically
from gsched.predict.drift import DriftWatch
from gsched.predict.store import MODE

_MOST_BYTES = 4 * 1024 * 1024


def write_watch(path: Path, watch: DriftWatch) -> None:
    """Replace `path` whole. Raises PermissionDeniedError or UnavailableError."""
    write_atomically(path, json.dumps(watch.to_json()).encode(), MODE)


def read_watch(path: Path, model_id: str) -> DriftWatch:
    """The watch of an earlier process, judged as of the model in use; empty where there was none.

    Raises DataError for a damaged file, PermissionDeniedError or UnavailableError.
    """
    try:
        return DriftWatch.from_json(json.loads(read_bounded(path, _MOST_BYTES)), model_id)
    except FileNotFoundError:
        return DriftWatch()
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {path}: {e.strerror}") from e
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as e:
        raise DataError(
            f"{path} is damaged: {type(e).__name__}",
            "the daemon begins anew with it; nothing else depends on it",
        ) from e
