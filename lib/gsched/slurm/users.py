"""What Slurm knows of a user: rights, and the accounts that they coordinate. Asks Slurm."""

from __future__ import annotations

from gsched.slurm.privileges import ADMIN_LEVELS, Privilege
from gsched.slurm.records import SlurmConfig
from gsched.slurm.run import Run


def privilege(run: Run, config: SlurmConfig, user: str) -> Privilege:
    """See SlurmClient."""
    if user == "root":
        return "root"
    if config.get("SlurmUser").partition("(")[0] == user:
        return "slurm-user"
    if not config.has_slurmdbd:
        return "user"
    found = _shown(run, user, "format=adminlevel")
    return ADMIN_LEVELS.get(found, "user")


def coordinated_accounts(run: Run, user: str) -> frozenset[str]:
    """See SlurmClient."""
    found = _shown(run, user, "withcoord", "format=coord")
    return frozenset(name for name in found.split(",") if name)


def _shown(run: Run, user: str, *words: str) -> str:
    argv = ("sacctmgr", "-n", "-P", "show", "user", "where", f"name={user}", *words)
    return run(*argv).check().stdout.strip()
