"""Published files, whole: jobs, GPU-time, states and names are those that the rows add up to.

What is expected is counted here from the rows themselves, not by the readers.
"""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.shared import SHARED, needs_shared
from support.traces import Read, plain_bytes, read_bytes, read_file

pytestmark = needs_shared

TRACES = SHARED / "traces"
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a file as texts; blank lines are none."""
    return list(csv.DictReader(io.StringIO(plain_bytes(path).decode())))


def gpu_time(read: Read) -> int:
    """GPU-seconds of all jobs."""
    return sum(
        (r.num_gpus or 0) * (r.end_time - r.start_time)
        for r in read.records
        if r.start_time is not None and r.end_time is not None
    )


def by_tenant(read: Read) -> Counter[str | None]:
    return Counter(record.tenant for record in read.records)


def test_philly() -> None:
    path = TRACES / "philly/philly.csv.gz"
    rows, read = rows_of(path), read_file("philly", path)
    assert len(rows) == 82_247
    assert len({tuple(row.values()) for row in rows}) == len(rows) - 65
    assert (read.rows_in, len(read.records), read.rejects) == (82_247, 82_247, [])
    assert len({record.job_id for record in read.records}) == 82_247
    assert gpu_time(read) == sum(float(row["gpu_time"]) for row in rows) == 3_521_082_502
    assert by_tenant(read) == Counter(row["cluster"] for row in rows)
    assert by_tenant(read)["6214e9"] == 41_226
    assert {record.extra for record in read.records} == {None}
    assert {record.start_assumed for record in read.records} == {1}  # so that no wait is made up


def test_philly_has_the_same_ids_in_any_cut() -> None:
    header, *lines = plain_bytes(TRACES / "philly/philly.csv.gz").splitlines(keepends=True)
    lines = [*lines[:3000], *lines[1000:2000]]
    whole = read_bytes("philly", header + b"".join(lines))
    seen: dict[str, object] = {}
    parts = [b"".join(lines[first::3]) for first in range(3)]
    ids = [
        record.job_id
        for part in parts
        for record in read_bytes("philly", header + part, seen=seen, chunk_rows=700).records
    ]
    assert len(set(ids)) == 4000
    assert sorted(ids) == sorted(record.job_id for record in whole.records)


ITP = sorted((TRACES / "itp").glob("*.csv*"))


def test_itp_is_whole() -> None:
    assert len(ITP) == 11
    jobs = sum(len(rows_of(path)) for path in ITP if path.name.startswith("cluster"))
    assert jobs == 69_351


@pytest.mark.parametrize("path", ITP, ids=lambda path: path.name)
def test_itp(path: Path) -> None:
    rows, read = rows_of(path), read_file("itp", path)
    assert (len(read.records), read.rejects) == (len(rows), [])
    assert {record.cluster for record in read.records} == {f"itp-{path.name.split('.')[0]}"}
    assert gpu_time(read) == sum(int(row["duration"]) * int(row["num_gpu"]) for row in rows)
    assert {r.source_id: r.submit_time for r in read.records} == {
        row["job_id"]: int(row["submission_time"]) for row in rows
    }
    assert len({record.job_id for record in read.records}) == len(rows)


def test_openb() -> None:
    path = TRACES / "openb/openb_pod_list_default.csv"
    rows, read = rows_of(path), read_file("openb", path)
    assert (len(rows), len(read.records), read.rejects) == (8_152, 8_152, [])
    assert Counter(r.state_text for r in read.records) == Counter(row["pod_phase"] for row in rows)
    assert Counter(r.state.value for r in read.records) == {
        "CANCELLED": 5_193 + 897, "FAILED": 1_870, "COMPLETED": 192,
    }  # fmt: skip
    ran = [row for row in rows if row["scheduled_time"]]
    run_s = [int(row["deletion_time"]) - int(float(row["scheduled_time"])) for row in ran]
    assert gpu_time(read) == sum(int(r["num_gpu"]) * s for r, s in zip(ran, run_s, strict=True))
    shares = sum(
        int(row["num_gpu"]) * int(row["gpu_milli"]) * s for row, s in zip(ran, run_s, strict=True)
    )
    assert shares == sum(
        tres.count * ((r.end_time or 0) - (r.start_time or 0))
        for r in read.records
        for tres in r.allocated
        if tres.name == "gres/gpu_milli"
    )
    assert Counter(r.qos for r in read.records) == Counter(row["qos"] for row in rows)


@pytest.mark.parametrize("name", ["MIX1", "SLO"])
def test_chronus(name: str) -> None:
    path = TRACES / f"chronus/trace_job_Philly_{name}.csv.gz"
    rows, read = rows_of(path), read_file("chronus", path)
    assert (len(rows), len(read.records), read.rejects) == (30_940, 30_940, [])
    assert gpu_time(read) == sum(60 * int(r["duration"]) * int(r["num_gpu"]) for r in rows)
    assert [r.submit_time for r in read.records] == [60 * int(row["submit_time"]) for row in rows]
    assert by_tenant(read) == Counter(row["user"] for row in rows)
    with_gpus = sum(bool(record.num_gpus) for record in read.records)
    assert with_gpus == {"MIX1": 30_756, "SLO": 30_735}[name]


def _seconds(row: Row) -> int:
    return int(row["duration"]) * int(row["num_gpu"])


def _milliseconds(row: Row) -> float:
    return int(row["duration"]) / 1000 * int(row["num_gpu"])


@pytest.mark.parametrize(
    ("name", "file", "gpu_seconds"),
    [
        ("elasticflow", "elasticflow/elasticVpollux_e.csv", _seconds),
        ("elasticflow", "elasticflow/philly_103959.csv", _seconds),
        ("muri", "muri/trace1.csv.gz", _milliseconds),
        ("muri", "muri/trace3.csv.gz", _milliseconds),
    ],
)
def test_workloads(name: str, file: str, gpu_seconds: Callable[[Row], float]) -> None:
    rows, read = rows_of(TRACES / file), read_file(name, TRACES / file)
    assert (len(read.records), read.rejects) == (len(rows), [])
    assert gpu_time(read) == sum(map(gpu_seconds, rows))
    assert [record.job_id for record in read.records] == [int(row["job_id"]) for row in rows]
    assert Counter(r.name for r in read.records) == Counter(row["model_name"] for row in rows)


@pytest.mark.parametrize("path", sorted((TRACES / "titan").glob("FM*/*.csv")), ids=str)
def test_titan(path: Path) -> None:
    rows, read = rows_of(path), read_file("titan", path)
    assert (len(read.records), read.rejects) == (len(rows), [])
    assert [(r.source_id, r.submit_time, r.num_gpus) for r in read.records] == [
        (row["name"], int(row["submission_time"]), int(row["num_gpus"])) for row in rows
    ]
    assert Counter(r.name for r in read.records) == Counter(row["application"] for row in rows)


def test_muri_runs_of_a_cluster() -> None:
    with tarfile.open(TRACES / "muri/cluster_exp.tar.gz") as archive:
        members = [m for m in archive.getmembers() if m.name.endswith("/job.csv")]
        assert len(members) == 6
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
            rows = list(csv.DictReader(io.StringIO(data.decode())))
            read = read_bytes("muri", data, member.name)
            assert (len(read.records), read.rejects) == (len(rows), [])
            for record, row in zip(read.records, rows, strict=True):
                jct = (record.end_time or 0) - record.submit_time
                assert abs(jct - float(row["JCT"])) <= 1


@pytest.mark.parametrize("name", ["philly7t", "philly60min", "philly3d_q", "itp61min"])
def test_tables_in_the_schema_of_helios(name: str) -> None:
    path = TRACES / f"validation/{name}/cluster_log.csv.gz"
    rows, read = rows_of(path), read_file("helios", path)
    assert (len(read.records), read.rejects) == (len(rows), [])
    assert gpu_time(read) == sum(int(row["gpu_num"]) * float(row["duration"]) for row in rows)
    assert by_tenant(read) == Counter(row["vc"] for row in rows)
    assert Counter(r.state_text for r in read.records) == Counter(row["state"] for row in rows)
    assert {r.source_id for r in read.records} == {row["job_id"] for row in rows}
    assert len({r.job_id for r in read.records}) == len(rows)
