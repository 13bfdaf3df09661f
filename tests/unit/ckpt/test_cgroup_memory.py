"""The memory that is left: both versions of cgroups, groups above, containers, the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.ckpt import cgroup_memory
from gsched.ckpt.cgroup_memory import SPARE_MIN_BYTES, Bound, tightest

GIB = 2**30
MEMINFO = "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   33554432 kB\nHugePages: 0\n"


def put(root: Path, files: dict[str, object]) -> Path:
    for name, contents in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{contents}")
    return root


def version_2(group: str, limit: object, used: int, cached: int = 0) -> dict[str, object]:
    return {
        f"sys/fs/cgroup{group}/memory.max": f"{limit}\n",
        f"sys/fs/cgroup{group}/memory.current": f"{used}\n",
        f"sys/fs/cgroup{group}/memory.stat": f"anon 5\ninactive_file {cached}\nshmem {GIB}\n",
    }


def test_the_limit_of_the_group(tmp_path):
    put(tmp_path, {"proc/self/cgroup": "0::/job\n", "proc/meminfo": MEMINFO})
    put(tmp_path, version_2("/job", 8 * GIB, 6 * GIB, cached=GIB))
    bound = tightest(tmp_path)
    assert bound is not None
    assert bound.name.endswith("/job")
    assert (bound.limit, bound.used) == (8 * GIB, 5 * GIB)
    assert bound.headroom == 3 * GIB - int(8 * GIB * cgroup_memory.SPARE_FRACTION)


def test_a_limit_above_counts(tmp_path):
    put(tmp_path, {"proc/self/cgroup": "0::/job/step/task\n", "proc/meminfo": MEMINFO})
    put(tmp_path, version_2("/job", 2 * GIB, GIB))
    put(tmp_path, version_2("/job/step", "max", GIB))
    put(tmp_path, version_2("/job/step/task", 4 * GIB, GIB))
    bound = tightest(tmp_path)
    assert bound is not None
    assert bound.limit == 2 * GIB


def test_version_1(tmp_path):
    group = "sys/fs/cgroup/memory/slurm/job_7"
    put(tmp_path, {"proc/self/cgroup": "9:cpu:/x\n4:memory:/slurm/job_7\n0::/\n"})
    put(
        tmp_path,
        {
            f"{group}/memory.limit_in_bytes": f"{4 * GIB}\n",
            f"{group}/memory.usage_in_bytes": f"{3 * GIB}\n",
            f"{group}/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n"
            f"total_active_file {GIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
        },
    )
    bound = tightest(tmp_path)
    assert bound is not None
    assert (bound.limit, bound.used) == (4 * GIB, GIB)


def test_a_container_sees_its_own_group_at_the_top(tmp_path):
    put(tmp_path, {"proc/self/cgroup": "0::/somewhere/else\n", **version_2("", GIB, 0)})
    bound = tightest(tmp_path)
    assert bound is not None
    assert bound.limit == GIB


def test_the_host(tmp_path):
    bound = tightest(put(tmp_path, {"proc/meminfo": MEMINFO}))
    assert bound == Bound("the memory of this host", 64 * GIB, 32 * GIB)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "nonsense\n0::relative\n0::/../../etc\n:::\n"},
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "much\n"},
        {"proc/meminfo": "MemTotal: lots kB\n"},
    ],
)
def test_nothing_is_known(files, tmp_path):
    assert tightest(put(tmp_path, files)) is None


def test_a_small_limit_leaves_something_free():
    assert Bound("x", GIB, 0).headroom == GIB - SPARE_MIN_BYTES
    assert Bound("x", SPARE_MIN_BYTES, SPARE_MIN_BYTES * 2).headroom == 0


def test_this_machine_has_one():
    assert tightest() is not None
