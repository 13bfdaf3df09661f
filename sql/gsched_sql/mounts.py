"""Which file system a path is on, as far as SQLite must know."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs|ceph|afs|9p|glusterfs|pvfs2|orangefs|panfs|ocfs2"
    r"|gfs2|wekafs|fuse\.(?!overlay|ext|ntfs|exfat|portal|lxcfs|gvfs).*"
)
"""Types of /proc/mounts where several hosts may share a file. Most FUSE types are such."""


def network_file_system(path: Path, mounts: str | None = None) -> str:
    """The type of the network file system that holds `path`, "" for a local one.

    `mounts` is the text of /proc/mounts; where there is none, nothing is known and nothing said.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(errors="replace")
        except OSError:
            return ""
    real = path.resolve()
    kind = ""
    longest = -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = Path(_unescaped(fields[1]))
        # Of two mounts on one folder the later one covers the earlier.
        if (real == mount or mount in real.parents) and len(mount.parts) >= longest:
            kind, longest = fields[2], len(mount.parts)
    return kind if _NETWORK.fullmatch(kind) else ""


def _unescaped(text: str) -> str:
    """Spaces and the like are octal in /proc/mounts."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
