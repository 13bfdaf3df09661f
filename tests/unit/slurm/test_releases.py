"""The same jobs on Slurm 22.05, 24.11 and 26.05, as text and as JSON: the same values everywhere.

The recordings in ``tests/data/slurm/<release>/lab`` were made by ``tests/support/record_slurm.py``.
Every difference between releases, or between text and JSON, is listed here with its reason.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from support.lab_jobs import ENDED, HOSTILE_NAMES, PENDING, RUNNING, hostile_jobs

from gsched.model.job import UNLIMITED_S, GpuOption, JobState
from gsched.slurm.parse_config import (
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)
from gsched.slurm.parse_json import parse_nodes_json, parse_squeue_json
from gsched.slurm.parse_priority import parse_priorities
from gsched.slurm.parse_queue import parse_free_text, parse_queue
from gsched.slurm.parse_sacct import parse_sacct
from gsched.slurm.sacct_json import parse_sacct_json

RELEASES = ("22.05", "24.11", "26.05")
NEWER = ("24.11", "26.05")
ANY = object()
"""Stands for any value in the lists of differences."""

SACCT_JSON_DIFFERS = {
    # who cancelled it is a field of its own in JSON
    "cancelled": {"state_text": ("CANCELLED by 5", "CANCELLED")},
    "never": {"state_text": ("CANCELLED by 5", "CANCELLED")},
}
EXIT_CODE_UNTOLD = {"exit_code": (3, None), "exit_signal": (0, None)}
"""``sacct --json`` of 22.05 calls every exit code SUCCESS."""
LIMIT_UNTOLD = {"time_limit_s": (UNLIMITED_S, None)}
"""``sacct --json`` of 22.05 writes null for UNLIMITED and for Partition_Limit alike."""

QUEUE_DIFFERS = {
    ("24.11", "killed"): {"reason": ("JobLaunchFailure", "RaisedSignal:9(Killed)")},
    ("26.05", "killed"): {"reason": ("JobLaunchFailure", "RaisedSignal:9(Killed)")},
    # where no most of nodes was named, 22.05 shows a guess of how many the job may need, 24.11 the
    # least, and 26.05 that there cannot be more nodes than tasks
    ("24.11", "memory"): {"max_nodes": (2, 1)},
    ("26.05", "memory"): {"max_nodes": (2, 4)},
    ("26.05", "begin"): {"max_nodes": (1, 3)},
    # 26.05 does not bill the parts of heterogeneous jobs
    ("26.05", "het"): {"tres": ANY},
}
SACCT_DIFFERS = {
    ("26.05", "het"): {"allocated": ANY},
    # a job whose node failed has an exit code in newer releases
    ("24.11", "node-fails"): {"exit_code": (0, 1)},
    ("26.05", "node-fails"): {"exit_code": (0, 1)},
}
MOVES = {"submit_time", "eligible_time", "start_time", "end_time"}
"""Fields of the moment when a release was recorded. Ids are the same: all began at 1."""


@pytest.fixture(scope="module")
def lab(recorded):
    """The text of one of a release's recordings."""
    return lambda release, name: recorded(f"lab/{name}", release)


@pytest.fixture(scope="module")
def queue(lab, separator):
    """The queue of a release by (name, array task, het offset), from its text."""

    def read(release):
        listing = parse_queue(lab(release, "squeue.txt"), separator)
        assert listing.rejects == ()
        names = parse_free_text(lab(release, "squeue-text.txt"), separator)
        return {
            (names[row.raw_id].name, row.array_task, row.het_offset): row for row in listing.rows
        }

    return read


@pytest.fixture(scope="module")
def attempts(lab, separator):
    """The accounting of a release by (name, task, offset, state), from its text."""

    def read(release):
        batch = parse_sacct(lab(release, "sacct.txt"), separator, counts_gpus=True)
        assert batch.rejects == ()
        return {(r.name, r.array_task, r.het_offset, r.state): r for r in batch.records}

    return read


def differences(one, other, ignored=frozenset()):
    """Field → both values, where two records of one type differ."""
    found = {}
    for field in fields(one):
        both = getattr(one, field.name), getattr(other, field.name)
        if field.name not in ignored and both[0] != both[1]:
            found[field.name] = both
    return found


def are(listed, found):
    """Whether exactly the listed differences were found: the lists shall not outlive the reason."""
    return listed.keys() == found.keys() and all(listed[k] in (found[k], ANY) for k in found)


# -- text and JSON of one moment ------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_the_queue_as_text_and_as_json(lab, queue, separator, release):
    listing = parse_squeue_json(lab(release, "squeue.json"))
    assert listing.rejects == ()
    assert listing.texts == parse_free_text(lab(release, "squeue-text.txt"), separator)
    rows = {row.raw_id: row for row in listing.rows}
    texts = queue(release)
    assert len(rows) == len(texts) == len(listing.rows)
    for key, row in texts.items():
        assert differences(row, rows[row.raw_id]) == {}, key


@pytest.mark.parametrize("release", RELEASES)
def test_the_accounting_as_text_and_as_json(lab, attempts, release):
    batch = parse_sacct_json(lab(release, "sacct.json"), counts_gpus=True)
    assert batch.rejects == ()
    found = {(r.name, r.array_task, r.het_offset, r.state): r for r in batch.records}
    texts = attempts(release)
    assert found.keys() == texts.keys()
    for key, record in texts.items():
        listed = dict(SACCT_JSON_DIFFERS.get(key[0], {}))
        if (release, key[0]) == ("22.05", "fails"):
            listed |= EXIT_CODE_UNTOLD
        if release == "22.05" and record.time_limit_s == UNLIMITED_S:
            listed |= LIMIT_UNTOLD
        assert are(listed, differences(record, found[key])), key


@pytest.mark.parametrize("release", RELEASES)
def test_the_nodes_as_text_and_as_json(lab, release):
    texts = parse_nodes(lab(release, "nodes.txt"))
    documents = parse_nodes_json(lab(release, "sinfo.json" if release == "22.05" else "nodes.json"))
    assert len(texts) == 5
    for one, other in zip(texts, documents, strict=True):
        assert differences(one, other, {"flags"}) == {}
        assert set(one.flags) == set(other.flags)  # scontrol sorts them otherwise in JSON


@pytest.mark.parametrize("release", NEWER)
def test_scontrol_s_json_is_that_of_squeue(lab, release):
    listing = parse_squeue_json(lab(release, "jobs.json"))
    rows = {row.raw_id: row for row in parse_squeue_json(lab(release, "squeue.json")).rows}
    assert listing.rejects == ()
    assert len(listing.rows) > 15
    for row in listing.rows:
        assert differences(row, rows[row.raw_id]) == {}


# -- one release and another ----------------------------------------------------------------


@pytest.mark.parametrize("release", NEWER)
def test_the_same_jobs_wait_and_run_alike_on_every_release(queue, release):
    first, other = queue("22.05"), queue(release)
    if release == "26.05":
        # it keeps the last task of an array together with the array until the task starts
        last = other.pop(("array", None, None))
        assert (last.is_unsplit_array, last.array_tasks) == (True, "5%2")
        assert first.pop(("array", 5, None)).job_id == last.job_id
    assert other.keys() == first.keys()
    for key, row in first.items():
        listed = QUEUE_DIFFERS.get((release, key[0]), {})
        assert are(listed, differences(row, other[key], MOVES)), key
        for moment in MOVES:
            known = [getattr(r, moment) is not None for r in (row, other[key])]
            assert known[0] == known[1], (key, moment)


@pytest.mark.parametrize("release", NEWER)
def test_the_same_jobs_are_accounted_for_alike(attempts, release):
    first, other = attempts("22.05"), attempts(release)
    assert other.keys() == first.keys()
    for key, record in first.items():
        listed = SACCT_DIFFERS.get((release, key[0]), {})
        assert are(listed, differences(record, other[key], MOVES)), key


# -- what the jobs are ----------------------------------------------------------------------

NUM_GPUS = {
    "typed": 2, "untyped": 3, "per-task": 2, "per-socket": 2, "uneven": 5, "both-types": 3,
    "shards": 0, "unlimited": 0, "held": 2, "resources": 16, "begin": 6, "sockets": 8,
    "bare-gpu": 1, "both-spellings": 16, "shards-later": 0, "done": 1, "range": 0,
}  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_every_job_is_there_in_its_state(queue, release):
    jobs = (*RUNNING, *ENDED, *PENDING, *hostile_jobs())
    states = {}
    for (name, _, _), row in queue(release).items():
        states.setdefault(name, set()).add(row.state.value)
    assert {job.name for job in jobs} | {"dependent", "doomed"} == states.keys()
    for job in jobs:
        assert job.state in states[job.name], job.name


@pytest.mark.parametrize("release", RELEASES)
def test_what_they_ask_for(queue, release):
    rows = {name: row for (name, task, offset), row in queue(release).items() if task is None}
    assert {name: rows[name].num_gpus for name in NUM_GPUS} == NUM_GPUS
    assert rows["uneven"].gpu_options == (GpuOption("a100", 4), GpuOption("v100", 1))
    assert rows["both-types"].gpu_options == (GpuOption("a100", 1), GpuOption("v100", 2))
    assert rows["held"].gpu_options == (GpuOption(None, 2),)
    assert (rows["shards"].shards, rows["shards-later"].shards) == (3, 6)
    assert rows["resources"].gpus_per_node == 8
    assert rows["typed"].time_limit_s == 86400 + 2 * 3600 + 4 * 60  # whole minutes
    for name in ("unlimited", "no-limit"):
        assert rows[name].time_limit_s == UNLIMITED_S
        assert rows[name].end_time is None
    assert rows["default-time"].time_limit_s == rows["no-time"].time_limit_s == 1200
    assert (rows["tasks"].is_unsplit_array, rows["tasks"].array_tasks[:6]) == (True, "0,3,6,")
    assert rows["tasks"].array_tasks.endswith("900,1000%4")
    assert (rows["range"].min_nodes, rows["range"].max_nodes) == (2, 4)
    assert rows["memory"].mem_bytes == 8 * 1500 * 2**20
    assert rows["plain-features"].features == "fast&big|small"
    assert rows["licence"].licences == "matlab:3"
    assert rows["course"].reservation == "course"
    assert rows["held"].nice == 150
    assert not rows["placed"].can_requeue
    assert (rows["paused"].state, rows["again"].restarts) == (JobState.SUSPENDED, 1)
    assert rows["dependent"].dependency.startswith("afterok:1")
    assert rows["doomed"].reason == "DependencyNeverSatisfied"
    assert [row.slurm_id for (name, _, offset), row in sorted(queue(release).items(), key=str)
            if name == "het"] == ["12+0", "12+1"]  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_hostile_names_and_long_comments_come_back_whole(lab, separator, release):
    texts = parse_free_text(lab(release, "squeue-text.txt"), separator).values()
    comments = {text.name: text.comment for text in texts}
    for job in hostile_jobs():
        wanted = [word.removeprefix("--comment=") for word in job.words if "--comment" in word]
        assert [comments[job.name]] == (wanted or [""])
    assert len(comments["long-comment"]) == 1005
    assert set(HOSTILE_NAMES) <= comments.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_attempts_behind_a_requeue(attempts, release):
    found = attempts(release)
    states = {state for name, _, _, state in found if name == "again"}
    assert states == {JobState.REQUEUED, JobState.PENDING}
    never = found["never", None, None, JobState.CANCELLED]
    assert (never.start_time, never.node_list, never.num_cpus) == (None, None, 1)
    assert found["too-long", None, None, JobState.TIMEOUT].time_limit_s == 60


@pytest.mark.parametrize("release", RELEASES)
def test_the_cluster(lab, release):
    config = parse_config(lab(release, "config.txt"))
    assert config.version[:2] == tuple(map(int, release.split(".")))
    assert config.has_slurmdbd
    nodes = {node.name: node for node in parse_nodes(lab(release, "nodes.txt"))}
    assert nodes["gn04"].gpus == (("a100", 2), ("v100", 2))
    assert (set(nodes["gn04"].flags), nodes["gn04"].is_usable) == ({"maint", "reserved"}, False)
    assert (nodes["gn05"].flags, nodes["gn05"].is_usable) == (("drain",), False)
    assert nodes["gn03"].gpus_used == 3
    partitions = {p.name: p for p in parse_partitions(lab(release, "partitions.txt"))}
    assert (partitions["short"].max_time_s, partitions["short"].max_nodes) == (7200, 2)
    assert (partitions["gpu"].is_default, partitions["gpu"].max_time_s) == (True, None)
    reservations = {r.name: r for r in parse_reservations(lab(release, "reservations.txt"))}
    assert reservations["course"].users == ("games", "news")


@pytest.mark.parametrize("release", RELEASES)
def test_priorities(lab, separator, queue, release):
    rows = {row.raw_id: name for (name, _, _), row in queue(release).items()}
    priorities = parse_priorities(lab(release, "sprio.txt"), separator)
    assert {rows[i]: p.site_factor for i, p in priorities.items()}["resources"] == -250
