"""Files that ``[power]`` names, and the folder that keeps what was asked and what failed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.errors import GschedError
from gsched.model.hostlist import fold
from gsched.model.power import PowerBackend
from gsched.power.state import Store
from gsched.secret_files import mend_not_ours, why_exposed, why_not_ours

_WHAT = "power back-ends"
_NOT_OURS_TO_SEE = stat.S_IRWXG | stat.S_IRWXO


def check(walk: Walk) -> Iterator[Finding]:
    """Whether keys, hosts, passwords and programs of the back-ends are there and kept well."""
    is_sound = True
    for number, backend in enumerate(walk.settings.power.backends.tables, 1):
        for path, problem, mend in _problems(backend):
            is_sound = False
            yield Finding("warn", "power-file", _WHAT, f"table {number}: {path} {problem}", mend)
    if is_sound and walk.settings.power.backends.tables:
        number = len(walk.settings.power.backends.tables)
        yield Finding("ok", "power-back-ends", _WHAT, f"{number} tables")


def _problems(backend: PowerBackend) -> Iterator[tuple[str, str, str]]:
    files: tuple[tuple[str, Callable[[os.stat_result], str]], ...] = (
        (backend.key_file, _key_problem),
        (backend.known_hosts, why_not_ours),
        (backend.ca_file, why_not_ours),
        (backend.password_file, why_exposed),
    )
    for path, problem_of in files:
        if path:
            try:
                problem = problem_of(Path(path).stat())
            except OSError as error:
                yield path, f"cannot be looked at: {error.strerror}", f"make {path}, or correct it"
                continue
            if problem:
                yield path, f"is not kept well: {problem}", f"chmod 600 {path}, and see whose it is"
    if backend.kind == "ssh":
        return
    for program in dict.fromkeys(backend.argv(verb, "node")[0] for verb in backend.verbs):
        if not os.access(program, os.X_OK):
            yield program, "cannot be executed", f"install {program}, or correct the table"


def _key_problem(status: os.stat_result) -> str:
    if status.st_mode & _NOT_OURS_TO_SEE:
        return "others than its owner can use the key"
    return why_not_ours(status)


def check_state(walk: Walk) -> Iterator[Finding]:
    """Whether nodes are suspended at all, and which wait for an administrator."""
    if not walk.settings.power.backends.tables:
        return
    folder = walk.settings.power_dir
    if not folder.is_dir():
        yield Finding(
            "warn",
            "power-folder-absent",
            "power state",
            f"{folder} does not exist: SlurmUser may not be able to make it",
            f"`install -d -m 755 -o SLURMUSER {folder}` with the SlurmUser of slurm.conf",
        )
        return
    found = folder.stat()
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = "others may write it"
        yield Finding(
            "warn", "power-folder-writable", "power state", f"{folder}: {why}",
            mend_not_ours(folder, found),
        )  # fmt: skip
    try:
        state = Store(folder).read()
    except GschedError as error:
        yield Finding("warn", "power-state", "power state", error.message, error.hint)
        return
    if state.stopped:
        yield Finding(
            "warn",
            "power-stopped",
            "power state",
            f"no node is suspended any more: {state.stopped.why}",
            "look at `gsched power status`, mend it, then `gsched power clear`",
        )
    if failed := state.failed_nodes:
        yield Finding(
            "warn",
            "power-failed",
            "power state",
            f"given up, and not suspended again: {fold(failed)}",
            "look at `gsched power status`, mend them, then `gsched power clear NODE`",
        )
