"""What SlurmUser can read and run, as the kernel has it: told by root, asked of the user itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gsched.app.doctor.slurm_user import SlurmUser, Want

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")

GAMES = SlurmUser("games", 5, frozenset({60, 100}))
ROOT = SlurmUser("root", 0, frozenset({0}))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is open to all, as tmp_path is not."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def kernel_lets(user: SlurmUser, want: Want, path: Path) -> bool:
    """Whether a process of the user's may do it."""
    words = ("/usr/bin/head", "-c1", str(path)) if want == "read" else (str(path),)
    try:
        ended = subprocess.run(
            words, user=user.uid, group=100, extra_groups=sorted(user.groups), capture_output=True,
            check=False, cwd="/",
        )  # fmt: skip
    except OSError:
        return False
    return ended.returncode == 0


def made(path: Path, mode: int, uid: int = 0, gid: int = 0, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def closed_folder(folder: Path) -> Path:
    (folder / "in").mkdir(mode=0o700)
    return made(folder / "in" / "file", 0o755)


def link_into_a_closed_folder(folder: Path) -> Path:
    target = closed_folder(folder)
    (folder / "link").symlink_to(target)
    return folder / "link"


def script_of_a_closed_interpreter(folder: Path) -> Path:
    (folder / "in").mkdir(mode=0o700)
    (folder / "in" / "python").symlink_to("/bin/sh")
    (folder / "python").symlink_to(folder / "in" / "python")
    return made(folder / "script", 0o755, text=f"#!{folder}/python -s\n")


CASES: list[tuple[Callable[[Path], Path], str]] = [
    (lambda f: made(f / "a", 0o755), ""),
    (lambda f: made(f / "a", 0o700, 5), ""),
    (lambda f: made(f / "a", 0o700), "a is closed to games"),
    (lambda f: made(f / "a", 0o050, 0, 60), ""),
    (lambda f: made(f / "a", 0o055, 5), "a is closed to games"),
    (closed_folder, "in is closed to games"),
    (link_into_a_closed_folder, "in is closed to games"),
]


@pytest.mark.parametrize("want", ["read", "run"])
@pytest.mark.parametrize(("make", "why"), CASES)
def test_it_says_what_the_kernel_does(
    folder: Path, make: Callable[[Path], Path], why: str, want: Want
) -> None:
    path = make(folder)
    said = GAMES.why_cannot(want, path)
    assert (said == "") == kernel_lets(GAMES, "read", path)
    assert (said == "") == (why == "")
    assert said.endswith(why)
    assert ROOT.why_cannot("read", path) == ""


def test_a_script_is_run_by_its_interpreter(folder: Path) -> None:
    path = script_of_a_closed_interpreter(folder)
    assert not kernel_lets(GAMES, "run", path)
    assert "is run by" in GAMES.why_cannot("run", path)
    assert "in is closed to games" in GAMES.why_cannot("run", path)
    assert GAMES.why_cannot("read", path) == ""
    (folder / "in").chmod(0o711)
    assert kernel_lets(GAMES, "run", path)
    assert GAMES.why_cannot("run", path) == ""


def test_what_is_not_there_or_is_no_file(folder: Path) -> None:
    assert "no such file" in GAMES.why_cannot("read", folder / "b")
    assert GAMES.why_cannot("read", folder) == "it is no file"
