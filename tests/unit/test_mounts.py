"""Which file systems a host has for itself."""

import pytest

from gsched.mounts import mounts_of_this_host, own_disk_of

MOUNTS = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:40 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:41 / /home/local\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /proc rw - proc proc rw
33 22 0:43 / /over rw - nfs server:/a rw
34 33 0:44 / /over rw - tmpfs tmpfs rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/opt/gsched/bin/python", "ext4"),
        ("/home/ada/venv/bin/python", ""),
        ("/home/local disk/venv/bin/python", "xfs"),
        ("/homes/ada", "ext4"),
        ("/over/x", "tmpfs"),
    ],
)
def test_the_innermost_and_newest_mount_counts(path, kind):
    assert own_disk_of(path, MOUNTS) == kind


def test_nothing_is_known_without_mounts():
    assert own_disk_of("/opt", "") == ""


def test_this_hosts_own_memory_is_its_own():
    assert own_disk_of("/dev/shm", mounts_of_this_host()) == "tmpfs"
