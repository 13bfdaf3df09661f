"""What Slurm 24.11 spells otherwise than 22.05, from recorded output."""

from __future__ import annotations

import pytest

from gsched.model.job import GpuOption, JobState
from gsched.slurm.parse_config import parse_config, parse_nodes, parse_partitions
from gsched.slurm.parse_jobcomp import parse_jobcomp
from gsched.slurm.parse_priority import parse_priorities
from gsched.slurm.parse_queue import parse_free_text, parse_queue
from gsched.slurm.parse_sacct import parse_sacct

NUM_GPUS = {
    "full": 24, "one": 3, "total": 5, "both": 16, "pertask": 6, "persocket": 8, "bare": 1,
    "range": 16, "arr": 8, "one-task": 8, "norequeue": 8, "later": 0, "held": 0, "never": 8,
    "manual": 8, "moved": 8, "fails": 0, "rq": 0,
}  # fmt: skip


@pytest.fixture
def read(recorded):
    return lambda name: recorded(name, "24.11")


@pytest.fixture
def names(read, separator):
    return {raw_id: text.name for raw_id, text in
            parse_free_text(read("squeue-text.txt"), separator).items()}  # fmt: skip


@pytest.mark.parametrize("file", ["squeue.txt", "squeue-without-slurmdbd.txt"])
def test_the_queue(read, separator, names, file):
    """``gres/gpu:a100:3`` per node, but ``gres/gpu=2`` per task."""
    listing = parse_queue(read(file), separator)
    assert listing.rejects == ()
    rows = {names[row.raw_id]: row for row in listing.rows}
    assert {name: rows[name].num_gpus for name in NUM_GPUS} == NUM_GPUS
    assert rows["one"].gpu_options == (GpuOption("a100", 3),)
    assert (rows["range"].min_nodes, rows["range"].max_nodes) == (2, 3)
    assert (rows["arr"].is_unsplit_array, rows["arr"].array_tasks) == (True, "1,3,5,7,9%2")
    assert rows["one-task"].is_unsplit_array
    assert not rows["norequeue"].can_requeue
    assert rows["full"].state is JobState.RUNNING
    assert any(name.startswith("evil\nJobId=1") for name in rows)


def test_priorities(read, separator, names):
    rows = {names[r.raw_id]: r for r in parse_priorities(read("sprio.txt"), separator).values()}
    assert (rows["manual"].total, rows["manual"].is_manual) == (4242, True)
    assert rows["moved"].site_factor == -250
    assert rows["moved"].total == rows["one"].total - 250
    assert [name for name, row in rows.items() if row.is_manual] == ["manual"]
    assert "held" not in rows


def test_the_cluster(read):
    assert parse_config(read("config.txt")).version == (24, 11, 5)
    node = parse_nodes(read("nodes.txt"))[0]
    assert (node.gpus, node.gpus_used) == ((("a100", 8),), 8)
    assert (node.flags, node.is_usable) == (("planned",), True)
    assert parse_partitions(read("partitions.txt"))[0].nodes == ("gn01", "gn02", "gn03")


def test_attempts(read, separator):
    batch = parse_sacct(read("sacct.txt"), separator, counts_gpus=True)
    assert batch.rejects == ()
    assert (batch.rows_in, batch.rows_skipped) == (19, 2)
    found = {(record.name, record.state): record for record in batch.records}
    assert found["fails", JobState.FAILED].exit_code == 3
    assert found["never", JobState.CANCELLED].start_time is None
    assert {state for name, state in found if name == "rq"} == {JobState.REQUEUED, JobState.PENDING}
    assert found["range", JobState.PENDING].num_gpus == 16


def test_the_file_of_finished_jobs(read):
    parsed = parse_jobcomp(read("jobcomp.txt").encode(), "c")
    assert [(r.name, r.state) for r in parsed.records] == [
        ("never", JobState.CANCELLED), ("fails", JobState.FAILED), ("rq", JobState.REQUEUED),
    ]  # fmt: skip
    assert parsed.rejects == ()
