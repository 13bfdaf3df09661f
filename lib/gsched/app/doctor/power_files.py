"""Files that ``[power]`` names, and the folder that keeps what was asked and what failed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.slurm_user import SlurmUser, slurm_user_name, unseen
from gsched.app.doctor.walk import Walk
from gsched.errors import GschedError
from gsched.model.hostlist import fold
from gsched.model.power import PowerBackend
from gsched.power.state import Store
from gsched.secret_files import mend_not_ours, why_exposed, why_not_ours

_WHAT = "power back-ends"
_OfStatus = Callable[[os.stat_result, int], str]
_NOT_OURS_TO_SEE = stat.S_IRWXG | stat.S_IRWXO


def check(walk: Walk) -> Iterator[Finding]:
    """Whether SlurmUser can use the keys, hosts, passwords and programs of the back-ends, and
    gsched's configuration, and others cannot.
    """
    tables = walk.settings.power.backends.tables
    user, name = SlurmUser.of(walk), slurm_user_name(walk)
    if not tables:
        return
    if user is None:
        found = f"SlurmUser {name} is no user of this host: nobody can tell here what it may read"
        yield Finding("note", "power-unseen", _WHAT, found, "run it on slurmctld's host")
        return
    is_sound = True
    closed: list[str] = []
    for source in walk.settings.sources:
        if problem := _seen(closed, partial(_problem, user, str(source), _no_problem)):
            is_sound = False
            found = f"{source}: {problem}, without which nothing is switched"
            yield Finding(
                "warn", "power-config", _WHAT, found,
                f"let {name} read it: chgrp it to a group of {name}'s, `chmod g+r {source}`",
            )  # fmt: skip
    for number, backend in enumerate(tables, 1):
        for path, look, mend in _looks(backend, user):
            if problem := _seen(closed, look):
                is_sound = False
                yield Finding(
                    "warn", "power-file", _WHAT, f"table {number}: {path} {problem}", mend
                )
    if closed:
        yield unseen(_WHAT, sorted(set(closed)))
    elif is_sound:
        yield Finding("ok", "power-back-ends", _WHAT, f"{len(tables)} tables")


def _looks(backend: PowerBackend, user: SlurmUser) -> Iterator[tuple[str, Callable[[], str], str]]:
    """Each file, what says what is wrong with it, and what helps."""
    for path, of_status in (
        (backend.key_file, _key_problem),
        (backend.known_hosts, why_not_ours),
        (backend.ca_file, why_not_ours),
        (backend.password_file, why_exposed),
    ):
        if path:
            mend = (
                f"`chown {user.name} {path}`, `chmod 600 {path}`, and see that it is as it must be"
            )
            yield path, partial(_problem, user, path, of_status), mend
    if backend.kind != "ssh":
        for program in dict.fromkeys(backend.argv(verb, "node")[0] for verb in backend.verbs):
            mend = f"install {program}, or correct the table"
            yield program, partial(_program_problem, user, program), mend


def _seen(closed: list[str], look: Callable[[], str]) -> str:
    """What is wrong; "" as well where this process cannot see it, which `closed` then tells."""
    try:
        return look()
    except PermissionError as error:
        closed.append(str(error.filename))
        return ""


def _problem(user: SlurmUser, path: str, of_status: _OfStatus) -> str:
    if why := user.why_cannot("read", Path(path)):
        return f"cannot be read by {user.name}: {why}"
    problem = of_status(Path(path).stat(), user.uid)
    return f"is not kept well: {problem}" if problem else ""


def _program_problem(user: SlurmUser, program: str) -> str:
    why = user.why_cannot("run", Path(program))
    return f"cannot be executed: {why}" if why else ""


def _key_problem(status: os.stat_result, uid: int) -> str:
    if status.st_mode & _NOT_OURS_TO_SEE:
        return "others than its owner can use the key"
    return why_not_ours(status, uid)


def _no_problem(_status: os.stat_result, _uid: int) -> str:
    return ""


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
