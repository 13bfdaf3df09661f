"""What the daemon's user may do in Slurm, against what gsched does there."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.slurm.privileges import denied_to


def check(walk: Walk) -> Iterator[Finding]:
    """Whether the daemon, as the owner of its folder, could act."""
    user = walk.daemon_user
    if not walk.is_of_the_daemon:
        yield Finding(
            "note",
            "privilege-unseen",
            "privilege",
            f"the daemon runs as {user}: only {user} or root can see whether it may act",
        )
        return
    level = walk.client.privilege(user)
    denied = denied_to(level, "daemon")
    if not denied:
        yield Finding("ok", "privilege", "privilege", f"{user} is {level}: may set SiteFactor")
        return
    give = f"`sacctmgr -i modify user {user} set adminlevel=Operator`"
    if not walk.config.has_slurmdbd:
        give = "run the daemon as SlurmUser or root (only slurmdbd knows operators)"
    yield Finding(
        "fail",
        "privilege",
        "privilege",
        f"the daemon's user {user} ({level}) may not {', '.join(act.words for act in denied)}: "
        "`gsched daemon run --act` would be refused",
        give,
    )
