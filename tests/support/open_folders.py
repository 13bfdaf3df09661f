"""A test's folder that other users may reach."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path


def open_to_all(folder: Path) -> None:
    """Open a folder, and what pytest keeps closed above it: one folder more in a worker's run."""
    top = Path(tempfile.gettempdir())
    for each in (folder, *itertools.takewhile(lambda f: f != top, folder.parents)):
        each.chmod(0o755)
