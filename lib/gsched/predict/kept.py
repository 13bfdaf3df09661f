"""Earlier models, beside the one in use; and which one is pinned.

``duration.gsmodel`` is the model in use. Each model that was fitted is first written to ``kept/``
under its own name, and a copy is put in use: whatever is cut off in between, both places hold whole
models. ``pinned.json`` names the model that fits by timer must not replace. Whoever changes these
files holds ``StateDir.changing_model``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    UnavailableError,
    UsageError,
)
from gsched.files import give_to_owner_of_folder, read_bounded, write_atomically
from gsched.predict.model import DurationModel, ModelInfo
from gsched.predict.store import MODE, ModelMissingError, decode, load_info, read, save

SUFFIX = ".gsmodel"
_MOST_PIN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Pin:
    """The model that stays in use, since when (epoch) and by whom (a user name)."""

    model_id: str
    since: int
    by: str


@dataclass(frozen=True, slots=True)
class KeptModel:
    """One model that is kept. `problem` says why it cannot be used here; `info` is None then."""

    model_id: str
    info: ModelInfo | None
    size_bytes: int
    problem: str = ""


class KeptModels:
    """The models beside `in_use`. Any call may raise PermissionDeniedError or UnavailableError."""

    def __init__(self, in_use: Path) -> None:
        self.in_use = in_use
        self._folder = in_use.parent / "kept"
        self._pin = in_use.parent / "pinned.json"
        self.watch_file = in_use.parent / "drift.json"

    def in_use_info(self) -> ModelInfo | None:
        """How the model in use was made; None when there is none or it cannot be read."""
        return self.look_in_use()[0]

    def look_in_use(self) -> tuple[ModelInfo | None, str]:
        """How the model in use was made, and what is wrong with it; None and '' without one."""
        try:
            return load_info(self.in_use), ""
        except ModelMissingError:
            return None, ""
        except (ConfigError, DataError) as e:  # an outdated or damaged one is replaced by any other
            return None, e.message

    def keep(self, model: DurationModel) -> None:
        """Write `model` under its own name, beside the others."""
        for folder in (self._folder.parent, self._folder):
            _make(folder)
        save(model, self._path(model.info.model_id))

    def keep_in_use(self) -> None:
        """Keep the model in use as well, where it is whole and not kept yet."""
        info = self.in_use_info()
        if info is not None and not self._path(info.model_id).exists():
            _make(self._folder)
            write_atomically(self._path(info.model_id), read(self.in_use), MODE)

    def put_in_use(self, model_id: str) -> ModelInfo:
        """Put a kept model in use. Raises UsageError when none of that name is kept, DataError or
        ConfigError when it is damaged or of another version.
        """
        path = self._path(model_id)
        if not path.exists():
            known = ", ".join(kept.model_id for kept in self.models()) or "none"
            raise UsageError(f"no model {model_id!r} is kept", f"kept: {known}")
        data = read(path)
        info = decode(data, path).info
        write_atomically(self.in_use, data, MODE)
        return info

    def models(self) -> list[KeptModel]:
        """All kept models, the last fitted first; those that cannot be read at the end."""
        found = []
        for path in self._paths():
            model_id = path.name.removesuffix(SUFFIX)
            stat = path.stat()
            try:
                kept = KeptModel(model_id, load_info(path), stat.st_size)
            except GschedError as e:
                kept = KeptModel(model_id, None, stat.st_size, e.message)
            found.append((_newest_first(kept, stat.st_mtime_ns), kept))
        return [kept for _, kept in sorted(found, key=itemgetter(0))]

    def prune(self, number: int) -> tuple[str, ...]:
        """Remove all but the `number` fitted last, of those that are neither in use nor pinned."""
        info, pin = self.in_use_info(), self.pin()
        needed = {info.model_id if info else "", pin.model_id if pin else ""}
        idle = [kept for kept in self.models() if kept.model_id not in needed]
        gone = idle[max(0, number - (len(self.models()) - len(idle))) :]
        for kept in gone:
            try:
                self._path(kept.model_id).unlink(missing_ok=True)
            except OSError as e:
                raise PermissionDeniedError(f"cannot remove {kept.model_id}: {e.strerror}") from e
        return tuple(kept.model_id for kept in gone)

    def pin(self) -> Pin | None:
        """The pinned model, None when none is. Raises DataError when the mark is damaged."""
        try:
            stored = json.loads(read_bounded(self._pin, _MOST_PIN_BYTES))
            return Pin(str(stored["model_id"]), int(stored["since"]), str(stored["by"]))
        except FileNotFoundError:
            return None
        except PermissionError as e:
            raise PermissionDeniedError(f"cannot read {self._pin}: {e.strerror}") from e
        except OSError as e:
            raise UnavailableError(f"cannot read {self._pin}: {e.strerror}") from e
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise DataError(
                f"{self._pin} is damaged: {type(e).__name__}", "`gsched predict rollback --release`"
            ) from e

    def set_pin(self, pin: Pin) -> None:
        """Let no fit by timer replace this model."""
        told = {"model_id": pin.model_id, "since": pin.since, "by": pin.by}
        write_atomically(self._pin, json.dumps(told).encode(), MODE)

    def release(self) -> bool:
        """Let fits replace the model in use again; False when none was pinned."""
        try:
            self._pin.unlink()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise PermissionDeniedError(f"cannot remove {self._pin}: {e.strerror}") from e
        return True

    def _paths(self) -> list[Path]:
        try:
            paths = sorted(self._folder.iterdir())
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise _no_folder(self._folder) from None
        except OSError as e:
            raise PermissionDeniedError(f"cannot read {self._folder}: {e.strerror}") from e
        return [p for p in paths if p.name.endswith(SUFFIX) and not p.name.startswith(".")]

    def _path(self, model_id: str) -> Path:
        if Path(model_id).name != model_id or model_id.startswith("."):
            raise UsageError(f"{model_id!r} is no name of a model")
        return self._folder / f"{model_id}{SUFFIX}"


def _newest_first(kept: KeptModel, written_ns: int) -> tuple[bool, int, int, str]:
    """Fits of one second are told apart by when their files were written."""
    fitted_at = kept.info.trained_at if kept.info else 0
    return (kept.info is None, -fitted_at, -written_ns, kept.model_id)


def _no_folder(path: Path) -> UnavailableError:
    return UnavailableError(f"no model can be kept in {path}: it is not a folder", "move it away")


def _make(folder: Path) -> None:
    """Make a folder that belongs to the owner of the one that it lies in."""
    try:
        folder.mkdir(mode=0o755)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            give_to_owner_of_folder(fd, folder.parent)
        finally:
            os.close(fd)
    except FileExistsError:
        if not folder.is_dir():
            raise _no_folder(folder) from None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot make {folder}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot make {folder}: {e.strerror}") from e
