"""What the machine under the tests has: Slurm's release, and what root may do."""

from __future__ import annotations

import re
import subprocess

NO_NAMESPACES = "this machine lets root have no mount namespace of its own (a chroot, a container)"
"""Why a test that hides a machine's own folders is skipped."""


def slurm_release() -> tuple[int, int]:
    """``(22, 5)`` of Slurm 22.05."""
    # the clients of later releases say nothing without a configuration
    answer = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)\.(\d+)", answer.stdout)
    assert found is not None, answer.stdout
    return int(found[1]), int(found[2])


def has_mount_namespaces() -> bool:
    """Whether ``unshare -m`` works here."""
    return (
        subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )
