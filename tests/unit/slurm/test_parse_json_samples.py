"""JSON that other projects and other releases have published: all of it is understood.

Reads ``shared/slurm-samples``, which lies beside the repository and is not part of it.
"""

from __future__ import annotations

import json
import re

import pytest
from support.shared import SHARED, needs_shared

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.slurm.parse_json import parse_nodes_json, parse_squeue_json
from gsched.slurm.sacct_json import parse_sacct_json

pytestmark = needs_shared

SAMPLES = SHARED / "slurm-samples"
SLURMRESTD = SAMPLES / "public" / "slurm-web-slurmrestd"
REFUSED = re.compile(r"unfound|archived|jwt|invalid")
"""Documents of an error: of what slurmrestd did not find, or did not let in."""


def documents(*patterns):
    """Files below the samples; one that names the folder where there are none."""
    found = sorted(path for pattern in patterns for path in SAMPLES.glob(pattern))
    names = [str(path.relative_to(SAMPLES)) for path in found]
    return names or [f"no such file: {SAMPLES}/{patterns[0]}"]


def text_of(name):
    return (SAMPLES / name).read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize(
    "name",
    documents(
        "2*/squeue.json", "2*/scontrol-show-job.json", "public/rivos*/squeue_out.json",
        "public/slurm-web-slurmrestd/*/*/slurm-job*.json",
    ),
)  # fmt: skip
def test_queues(name):
    text = text_of(name)
    if REFUSED.search(name):
        with pytest.raises(DataError, match="holds an error"):
            parse_squeue_json(text)
        return
    listing = parse_squeue_json(text)
    assert listing.rejects == ()
    assert len(listing.rows) == len(json.loads(text)["jobs"]) > 0
    for row in listing.rows:
        assert row.state is not JobState.UNKNOWN
        assert row.user
        assert row.partitions
        assert row.num_cpus >= row.min_nodes >= 1
        assert sum(option.count for option in row.gpu_options) == row.num_gpus
        assert (row.state is JobState.PENDING) == (not row.node_list and not row.state.is_terminal)
        if row.state is JobState.RUNNING:
            assert row.start_time >= row.submit_time
            assert row.end_time is None or row.end_time > row.start_time


KINDS = ("pending", "running", "completed", "gres", "type", "multi-types", "per-node",
         "per-socket", "per-task", "multi-nodes")  # fmt: skip


@pytest.mark.parametrize("version", documents("public/slurm-web-slurmrestd/*/*"))
@pytest.mark.parametrize("kind", KINDS)
def test_gpus_in_every_spelling(version, kind):
    """What Slurm gave to a job on its nodes is what its request adds up to.

    These sites do not account for GPUs: nothing but the request tells.
    """
    text = text_of(f"{version}/slurm-job-gpus-{kind}.json")
    [row] = parse_squeue_json(text).rows
    [job] = json.loads(text)["jobs"]
    given = re.findall(r"gpu:(\w+):(\d+)", ",".join(job["gres_detail"]))
    if not given:  # not any more, or not yet: those with --gpus=N
        given = re.findall(r"gres/gpu(:\w+)?:(\d+)", job["tres_per_job"])
    sockets = 2 if kind == "per-socket" else 1  # asked for; Slurm gave it the GPUs of one
    assert row.num_gpus == sum(int(number) for _, number in given) * sockets > 0
    assert "gres/gpu" not in {tres.name for tres in row.tres}
    if kind in {"type", "multi-types"}:
        held = {name: int(number) for name, number in given}
        assert {option.gpu_type: option.count for option in row.gpu_options} == held


@pytest.mark.parametrize(
    "name",
    documents("2*/sacct.json", "public/slurm-web-slurmrestd/*/*/slurmdb-job*.json"),
)
def test_accounting(name):
    text = text_of(name)
    batch = parse_sacct_json(text, counts_gpus=True)
    assert batch.rejects == ()
    assert batch.rows_in == len(json.loads(text)["jobs"])
    assert len(batch.records) + batch.rows_skipped == batch.rows_in
    for record in batch.records:
        assert record.state is not JobState.UNKNOWN
        assert record.cluster
        assert record.user
        assert record.num_cpus or record.state is JobState.PENDING
        times = (record.submit_time, record.start_time, record.end_time)
        known = [moment for moment in times if moment is not None]
        assert known == sorted(known)
        assert record.end_time is not None or not record.state.is_terminal


@pytest.mark.parametrize(
    "name",
    documents(
        "22.05/sinfo.json", "public/rivos*/sinfo_out.json",
        "public/slurm-web-slurmrestd/*/*/slurm-node*.json",
    ),
)  # fmt: skip
def test_nodes(name):
    text = text_of(name)
    if REFUSED.search(name):
        with pytest.raises(DataError, match="holds an error"):
            parse_nodes_json(text)
        return
    nodes = parse_nodes_json(text)
    assert len(nodes) == len(json.loads(text)["nodes"]) > 0
    for node in nodes:
        assert node.state in {"idle", "mixed", "allocated", "down"}
        assert node.num_cpus > 0
        assert node.mem_bytes > 2**30
        assert node.gpus_used <= node.num_gpus
    state = re.search(r"slurm-node-(allocated|idle|mixed|down|drain|draining)\.json", name)
    if state is not None:
        [node] = nodes
        assert state[1] in {node.state, *node.flags} or "drain" in node.flags
        assert node.is_usable == (state[1] not in {"down", "drain", "draining"})
    if "with-gpus-model" in name:
        assert nodes[0].num_gpus > 0
        assert nodes[0].gpus[0][0]
