"""What commands see inside a testbed, and as whom they run."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from gsched.errors import PermissionDeniedError, UnavailableError, UsageError
from gsched.testbed import loopback
from gsched.testbed.layout import Layout
from gsched.testbed.processes import MARK
from gsched.testbed.spec import Accounting

TEST_USERS: tuple[str, ...] = ("games", "news", "backup", "mail")
"""Ordinary users that every Debian has; nothing is added to /etc/passwd for a testbed."""
ACCOUNTS: Mapping[str, tuple[str, ...]] = {"lab1": ("games", "news"), "lab2": ("backup", "mail")}
"""Account → its users, where slurmdbd keeps accounts. Elsewhere any account may be named."""

_ACCOUNTING_DAEMONS = frozenset({"slurmdbd", "mariadbd"})
DAEMONS = frozenset({"munged", "slurmctld", "slurmd", "slurmstepd"}) | _ACCOUNTING_DAEMONS
"""Programs that only a testbed, not a command in it, has running."""

_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_FOREIGN = re.compile(
    r"(SLURM|SLURMD|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SACCTMGR|SINFO|SCANCEL|SPRIO|SSHARE|SREPORT"
    r"|SCONTROL|SDIAG|SATTACH|SBCAST|SCRONTAB|STRIGGER|PMI|PMIX|GSCHED(?!_DEBUG$))(_|$)"
)
_SLURM_PROGRAMS = (
    ("slurm-wlm", ("slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "scancel", "sbatch")),
    ("munge", ("munged",)),
    ("util-linux", ("setpriv", "setsid")),
)
_DATABASE_PROGRAMS = (
    ("slurmdbd", ("slurmdbd",)),
    ("slurm-wlm", ("sacctmgr", "sacct")),
    ("mariadb-server-core", ("mariadbd", "mariadb-install-db")),
    ("mariadb-client-core", ("mariadb",)),
)


def core_daemons(accounting: Accounting) -> frozenset[str]:
    """The daemons without which a testbed does not work. Nodes may sleep."""
    core = frozenset({"munged", "slurmctld"})
    return core | _ACCOUNTING_DAEMONS if accounting == "slurmdbd" else core


def search_path() -> str:
    """PATH of the caller, then the system's folders and the one that gsched is installed in."""
    own = str(Path(sys.executable).parent)
    parts = [*os.environ.get("PATH", "").split(":"), *_SYSTEM_PATH, own]
    return ":".join(dict.fromkeys(part for part in parts if part))


def check_programs(accounting: Accounting) -> None:
    """Raise UnavailableError that names the packages of what is missing."""
    wanted = _SLURM_PROGRAMS + (_DATABASE_PROGRAMS if accounting == "slurmdbd" else ())
    path = search_path()
    missing = {
        program: package
        for package, programs in wanted
        for program in programs
        if shutil.which(program, path=path) is None
    }
    if not loopback.is_local_name() and loopback.find_library() is None:
        missing[loopback.LIBRARY] = loopback.PACKAGE
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        raise UnavailableError(
            f"not installed: {', '.join(missing)}", f"apt-get install {packages}"
        )


def exports(layout: Layout) -> dict[str, str]:
    """What a shell must export to use the testbed."""
    return {
        "SLURM_CONF": str(layout.slurm_conf),
        "GSCHED_CONFIG": str(layout.gsched_toml),
        **loopback.variables(),
    }


def command_environment(layout: Layout, user: str | None = None) -> dict[str, str]:
    """The caller's environment, turned to the testbed; as `user` with that user's HOME."""
    environment = {key: value for key, value in os.environ.items() if not _FOREIGN.match(key)}
    environment |= {"PATH": search_path(), MARK: str(layout.root), **exports(layout)}
    if user is not None:
        environment |= {"HOME": str(layout.home(user)), "USER": user, "LOGNAME": user}
    return environment


def as_user(argv: tuple[str, ...], user: str) -> tuple[str, ...]:
    """`argv` run as `user`, with that user's group and no others.

    Raises UsageError for a user that the machine does not have, PermissionDeniedError when the
    caller is somebody else and not root.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise UsageError(f"this machine has no user {user!r}") from None
    if entry.pw_uid == os.getuid():
        return argv
    if os.getuid() != 0:
        raise PermissionDeniedError(
            f"only root may run a command as {user}", "start the testbed as root for several users"
        )
    look = () if _is_reachable(argv[0]) else _LOOK
    ids = (f"--reuid={user}", f"--regid={entry.pw_gid}", "--clear-groups")
    return ("setpriv", *ids, *look, *argv)


_LOOK = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def _is_reachable(program: str) -> bool:
    """Whether other users may enter the folders of `program` and of the interpreter behind it.

    A checkout in /root is closed to them; there the program of the testbed's owner runs with the
    right to look (not to write), so that a demo or a test needs no second installation.
    """
    found = shutil.which(program, path=search_path())
    if found is None or not Path(found).is_relative_to(sys.prefix):
        return True
    places = {Path(found), Path(found).resolve(), Path(sys.executable).resolve()}
    folders = {folder for place in places for folder in place.parents}
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)


def own_user() -> str:
    """Name of the calling user."""
    return pwd.getpwuid(os.getuid()).pw_name


def users() -> tuple[pwd.struct_passwd, ...]:
    """Who may use the testbed: the caller and, where that is root, the test users as well."""
    me = pwd.getpwuid(os.getuid())
    if me.pw_uid != 0:
        return (me,)
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return (me, *(known[name] for name in TEST_USERS if name in known))


def account_members() -> Mapping[str, tuple[str, ...]]:
    """Account → users, of those that this machine has; the caller is in the first one."""
    known = {entry.pw_name for entry in users()}
    members = {
        account: tuple(name for name in names if name in known)
        for account, names in ACCOUNTS.items()
    }
    return members | {"lab1": tuple(dict.fromkeys((own_user(), *members["lab1"])))}
