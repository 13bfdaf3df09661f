"""Which file systems a host has for itself, and which other hosts see as well."""

from __future__ import annotations

import os
import re
from pathlib import Path

_OWN_DISKS = frozenset({
    "aufs", "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay",
    "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs",
})  # fmt: skip
"""Types of file systems that one host has for itself."""
_OCTAL = re.compile(r"\\([0-7]{3})")


def own_disk_of(path: str, mounts: str) -> str:
    """The type of the file system that `path` lies on where it is of this host alone, else ''.

    `mounts` is what /proc/self/mountinfo says.
    """
    real = Path(os.path.realpath(path))
    kind, depth = "", -1
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not rest:
            continue
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), words[4]))
        if real.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = rest.split(" ")[0], len(point.parts)
    return kind if kind in _OWN_DISKS else ""


def mounts_of_this_host() -> str:
    """/proc/self/mountinfo; '' where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
