"""The unit of systemd that runs the daemon: its user must own the state folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk

FOLDERS = tuple(
    Path(folder, "systemd/system")
    for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Where units lie, see systemd.unit(5); the first one of a name counts."""

_RUNS_DAEMON = re.compile(r"^ExecStart=\S*gsched\s+daemon\s+run\b", re.MULTILINE)
_USER = re.compile(r"^User=\s*(\S*)", re.MULTILINE)


def check(walk: Walk, folders: Sequence[Path] = FOLDERS) -> Iterator[Finding]:
    """Whether the user of the unit, root where it names none, is the owner of the state folder."""
    unit = _unit(folders)
    if unit is None or not walk.settings.state_dir.is_dir():
        return
    user = (_USER.findall(unit_text(folders)) or ["root"])[-1] or "root"  # the last one counts
    if user in {walk.daemon_user, "%i"}:
        yield Finding("ok", "unit", "systemd unit", f"{unit}, user {user}")
        return
    yield Finding(
        "warn",
        "unit-user",
        "systemd unit",
        f"{unit} runs the daemon as {user}, but {walk.settings.state_dir} is "
        f"{walk.daemon_user}'s: the daemon could not write there",
        f"chown -R --no-dereference {user} {walk.settings.state_dir}",
    )


def unit_text(folders: Sequence[Path] = FOLDERS) -> str:
    """The unit with all that is laid over it, in the order in which it counts; '' for none."""
    unit = _unit(folders)
    if unit is None:
        return ""
    paths = (unit, *_drop_ins(unit, folders))
    return "\n".join(path.read_text(errors="replace") for path in paths)


def _unit(folders: Sequence[Path]) -> Path | None:
    seen: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob("gsched*.service")):
            if path.name in seen:
                continue
            seen.add(path.name)
            if _RUNS_DAEMON.search(path.read_text(errors="replace")):
                return path
    return None


def _drop_ins(unit: Path, folders: Sequence[Path]) -> list[Path]:
    """What is laid over a unit, in the order in which systemd applies it: ``gsched-.service.d`` of
    all units of the name, then ``NAME.service.d``.
    """
    stem = unit.name.removesuffix(".service")
    parts = stem.split("-")
    shared = [f"{'-'.join(parts[:n])}-.service.d" for n in range(1, len(parts))]
    found: list[Path] = []
    for name in (*shared, f"{unit.name}.d"):
        by_name: dict[str, Path] = {}
        for folder in reversed(folders):
            by_name |= {path.name: path for path in (folder / name).glob("*.conf")}
        found += [by_name[key] for key in sorted(by_name)]
    return found
