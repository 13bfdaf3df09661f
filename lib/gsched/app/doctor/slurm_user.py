"""What SlurmUser, who runs Slurm's programs, can do with a file: not what this process can."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk

Want = Literal["read", "run"]
_BITS = {
    "read": (stat.S_IRUSR, stat.S_IRGRP, stat.S_IROTH),
    "run": (stat.S_IXUSR, stat.S_IXGRP, stat.S_IXOTH),
}
_MOST_BYTES = 256
_MOST_LINKS = 8


def slurm_user_name(walk: Walk) -> str:
    """As Slurm's configuration has it."""
    return re.sub(r"\(\d+\)$", "", walk.config.get("SlurmUser"))


def unseen(what: str, paths: Iterable[str]) -> Finding:
    """A finding for what this process cannot look at, so that nothing is said against it."""
    return Finding(
        "note",
        "power-unseen",
        what,
        f"closed to who asks here, so that nobody can tell what SlurmUser sees: {', '.join(paths)}",
        "run `gsched doctor` as root",
    )


@dataclass(frozen=True, slots=True)
class SlurmUser:
    """SlurmUser as a user of this host."""

    name: str
    uid: int
    groups: frozenset[int]

    @classmethod
    def of(cls, walk: Walk) -> SlurmUser | None:
        """None where this host does not know the user."""
        name = slurm_user_name(walk)
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            return None
        return cls(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))

    def why_cannot(self, want: Want, path: Path) -> str:
        """Why the user cannot read or run a file, "" where they can; with its interpreter.

        Raises PermissionError where this process cannot see it.
        """
        for place in _places(path):
            try:
                found = place.stat()
            except PermissionError:
                raise
            except OSError as error:
                return f"{place}: {(error.strerror or '').lower()} on this host"
            is_file = place == path or not stat.S_ISDIR(found.st_mode)
            if not self._may(want if is_file else "run", found):
                return f"{place} is closed to {self.name}"
        if not path.is_file():
            return "it is no file"
        interpreter = _interpreter(path) if want == "run" else None
        why = self.why_cannot("run", interpreter) if interpreter else ""
        return f"it is run by {interpreter}, and {why}" if why else ""

    def _may(self, want: Want, found: os.stat_result) -> bool:
        of_owner, of_group, of_others = _BITS[want]
        if self.uid == 0:
            return want == "read" or bool(found.st_mode & (of_owner | of_group | of_others))
        if found.st_uid == self.uid:
            return bool(found.st_mode & of_owner)
        return bool(found.st_mode & (of_group if found.st_gid in self.groups else of_others))


def _places(path: Path, links: int = 0) -> Iterator[Path]:
    """The folders on the way and the file, and those that links on the way lead to."""
    for place in (*reversed(path.parents), path):
        yield place
        if links < _MOST_LINKS and place.is_symlink():
            yield from _places(Path(os.path.normpath(place.parent / place.readlink())), links + 1)


def _interpreter(path: Path) -> Path | None:
    """What the first line of a script names; None for any other file, or one closed to us."""
    try:
        with path.open("rb") as file:
            first = file.read(_MOST_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    words = first.removeprefix(b"#!").split()
    if not first.startswith(b"#!") or not words or not words[0].startswith(b"/"):
        return None
    return Path(os.fsdecode(words[0]))
