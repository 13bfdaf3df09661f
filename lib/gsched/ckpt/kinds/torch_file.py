"""One file as `torch.save` writes it, Lightning's among them: a zip archive, checksums within."""

from __future__ import annotations

from pathlib import Path

from gsched.ckpt.found import Depth, Progress
from gsched.ckpt.inert_pickle import read_tree
from gsched.ckpt.kinds.base import Facts, as_step
from gsched.ckpt.look import Look, foreign, torn
from gsched.ckpt.zip_check import Archive, Window
from gsched.errors import DataError

_SUFFIXES = (".ckpt", ".pt", ".pth")
_SHARED_SUFFIXES = (".bin", ".tar")
"""Files of other programs have these, too: only an archive is claimed."""
_ZIP_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"
_MAX_PICKLE_BYTES = 32 << 20
_STEP_KEYS = ("global_step", "step", "iteration", "iter", "num_steps")
_LIGHTNING_KEY = "pytorch-lightning_version"


def claims(look: Look) -> bool:
    """A file of a usual suffix."""
    name = look.path.name.lower()
    if not look.is_file:
        return False
    if name.endswith(_SHARED_SUFFIXES):
        return _starts(look) == _ZIP_START
    return name.endswith(_SUFFIXES)


def read(look: Look, depth: Depth, tell: Progress) -> Facts:
    """Check the archive, and look for the step in its tree of values."""
    return read_file(look, "", depth, tell)


def read_file(look: Look, name: str, depth: Depth, tell: Progress) -> Facts:
    """The same of the file `name` in a folder."""
    called = name or look.path.name
    size = look.size(name) if name else look.status.st_size
    if size == 0:
        raise torn(f"{called} is empty")
    with look.opened(name) as f:
        start = f.read(len(_ZIP_START))
        if start != _ZIP_START and not _ends_as_zip(f, size):
            raise _no_archive(called, start)
        archive = Archive(Window(f, 0, size), called)
        if not archive.has("data.pkl"):
            raise foreign(f"{called} is a zip archive, but not of torch")
        if depth is Depth.CHECKSUMS:
            archive.check(lambda done: tell(called, done, size))
        pickle = archive.content("data.pkl", _MAX_PICKLE_BYTES)
    checked = depth if archive.has_checksums else Depth.LENGTHS
    return _facts(pickle, checked)


def _facts(pickle: bytes | None, checked: Depth) -> Facts:
    try:
        tree = None if pickle is None else read_tree(pickle)
    except DataError:  # its checksum is right: a pickle that is beyond this reader is no damage
        tree = None
    if not isinstance(tree, dict):
        return Facts(checked)
    steps = (as_step(tree.get(key)) for key in _STEP_KEYS)
    step = next((step for step in steps if step is not None), None)
    if _LIGHTNING_KEY not in tree:
        return Facts(checked, step)
    return Facts(checked, step, kind="lightning", best=_best(tree.get("callbacks")))


def _best(callbacks: object) -> tuple[str, ...]:
    """What Lightning's ModelCheckpoints say."""
    states = callbacks.values() if isinstance(callbacks, dict) else ()
    paths = (state.get("best_model_path") for state in states if isinstance(state, dict))
    return tuple(Path(path).name for path in paths if isinstance(path, str) and path)


def _no_archive(called: str, start: bytes) -> Exception:
    if not start.strip(b"\0"):
        return torn(f"{called} begins with zeros: its contents never reached the disk")
    if start.startswith(_PICKLE_START):
        return foreign(f"{called} is a bare pickle (torch.save before 1.6): it has no checksums")
    return foreign(f"{called} is no archive of torch.save")


def _starts(look: Look) -> bytes:
    with look.opened() as f:
        return f.read(len(_ZIP_START))


def _ends_as_zip(f: object, size: int) -> bool:
    import zipfile

    return zipfile.is_zipfile(Window(f, 0, size))  # type: ignore[arg-type]
