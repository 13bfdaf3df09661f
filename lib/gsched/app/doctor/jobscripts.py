"""Templates of job scripts, and the Python that runs gsched in jobs: whether they work."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_WHAT = "job scripts"
_OWN = "plain"
"""Of gsched's own templates, the one that is tried where the site has none."""


def check(walk: Walk) -> Iterator[Finding]:
    """The site's templates, their folder, and the Python, tried on this host."""
    from gsched.app.jobscript_check import check as tried
    from gsched.app.jobscript_check import templates

    settings = walk.settings
    if settings.jobscript.dir:
        yield from _exposed(Path(settings.jobscript.dir))
    listed = templates(settings)
    of_site = tuple(one.name for one in listed if one.template is None or one.template.is_site)
    is_sound = True
    for found in tried(settings, of_site or (_OWN,), ""):
        if found.problem:
            is_sound = False
            yield _finding(found.what, found.problem, found.hint)
    if is_sound:
        theirs = f", {len(of_site)} of the site's" if of_site else ""
        yield Finding("ok", "job-scripts", _WHAT, f"{len(listed)} templates{theirs}")


def _finding(what: str, problem: str, hint: str) -> Finding:
    if what.startswith("template "):
        return Finding("warn", "job-script-template", _WHAT, problem, hint or "mend the template")
    if what == "python":
        return Finding(
            "warn",
            "job-script-python",
            _WHAT,
            f"gsched submit --gs-checkpoint and --gs-runtime are refused: {problem}",
            hint,
        )
    return Finding(
        "note",
        "job-script-python-local",
        _WHAT,
        f"{problem}: on a node that has no such Python scripts run without gsched",
        "set jobscript.python to one that all nodes have, or to this one if they do; `gsched "
        "jobscript check -p PARTITION` tries it on a node",
    )


def _exposed(folder: Path) -> Iterator[Finding]:
    """Who can write a template decides what the jobs of all users run."""
    if not folder.is_dir():
        return
    for path in (folder, *sorted(folder.iterdir())):
        mode = path.stat().st_mode
        if mode & _WRITABLE_BY_OTHERS:
            yield Finding(
                "warn",
                "job-script-writable",
                _WHAT,
                f"{path} can be written by others than its owner (mode {stat.S_IMODE(mode):04o}), "
                "who then decide what the jobs of all users run",
                f"chmod go-w {path}",
            )
