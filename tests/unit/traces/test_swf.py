"""The Standard Workload Format: rows by the standard, and whole logs counted once more."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections import Counter

import pytest
from support.shared import SHARED, needs_shared
from support.traces import Read, read_bytes

from gsched.errors import DataError
from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions
from gsched.traces.source import open_trace
from gsched.traces.swf import read

HEADER = """\
; Version: 2.2
; Computer: IBM SP2
; UnixStartTime: 1000000
; TimeZoneString: Europe/Stockholm
; MaxNodes: 100
; Partition:  1  pbatch
; Queue: 4 night queue
;
"""
#      1  2   3  4   5  6   7  8  9    10 11 12 13 14 15 16 17 18
JOB = "17 20 30 400 8 -1 -1 16 600 1024 1 12 3 7 4 1 -1 -1"


def job(**changes):
    """The row JOB with fields changed by their number (f3="-1")."""
    fields = JOB.split()
    for number, text in changes.items():
        fields[int(number[1:]) - 1] = str(text)
    return " ".join(fields)


def swf(*rows, header=HEADER, **options):
    text = header + "".join(f"{row}\n" for row in rows)
    return read_bytes("swf", text, "x/Some-Log.swf.gz", **options)


def only(*rows, **options):
    result = swf(*rows, **options)
    assert result.rejects == []
    [record] = result.records
    return record


def test_each_field_by_the_standard():
    record = only(JOB)
    assert (record.cluster, record.job_id, record.source) == ("swf-Some-Log", 17, "swf")
    assert (record.submit_time, record.start_time, record.end_time) == (1000020, 1000050, 1000450)
    assert (record.num_cpus, record.num_gpus, record.num_nodes) == (8, 0, None)
    assert (record.user, record.tenant, record.name) == ("user12", "group3", "executable7")
    assert (record.partition, record.qos, record.time_limit_s) == ("pbatch", "night", 600)
    assert record.requested == (Tres("cpu", 16), Tres("mem", 16 * 1024 * 1024))
    assert record.allocated == (Tres("cpu", 8),)
    assert (record.state, record.state_text) == (JobState.COMPLETED, "COMPLETED")
    assert record.extra is None


def test_minus_one_is_not_known():
    unknown = {f"f{n}": -1 for n in (5, 8, 9, 10, 12, 13, 14, 15, 16)}
    record = only(job(**unknown))
    for name in ("user", "tenant", "name", "partition", "qos", "time_limit_s", "num_cpus"):
        assert getattr(record, name) is None, name
    assert (record.requested, record.allocated) == ((), ())


def test_what_has_no_place_is_kept():
    record = only(job(f6=12.5, f7=99, f17=5, f18=60) + " {1,2} q_1d")
    assert json.loads(record.extra) == {
        "average_cpu_time_s": 12,
        "used_memory_kb": 99,
        "preceding_job": 5,
        "think_time_s": 60,
        "column_19": "{1,2}",
        "column_20": "q_1d",
    }


def test_memory_that_no_processor_has_is_kept_as_it_is():
    record = only(job(f10=2**36))
    assert record.requested == (Tres("cpu", 16),)
    assert json.loads(record.extra) == {"requested_memory_kb": 2**36}


@pytest.mark.parametrize(
    ("changes", "state", "text", "start", "end"),
    [
        ({"f11": 0}, "FAILED", "FAILED", 50, 450),
        ({"f11": 5}, "CANCELLED", "CANCELLED", 50, 450),
        ({"f11": 5, "f4": 0, "f5": -1}, "CANCELLED", "CANCELLED", None, 50),
        ({"f11": 5, "f4": -1, "f5": -1}, "CANCELLED", "CANCELLED", None, 50),
        ({"f11": 5, "f3": -1, "f4": 0, "f5": -1}, "CANCELLED", "CANCELLED", None, 20),
        ({"f11": 5, "f4": 0}, "CANCELLED", "CANCELLED", 50, 50),  # it was given processors
        ({"f11": 5, "f4": 9, "f5": -1}, "CANCELLED", "CANCELLED", 50, 59),
        ({"f11": -1}, "COMPLETED", "", 50, 450),
        ({"f11": -1, "f4": -1}, "UNKNOWN", "", 50, None),
        ({"f3": -1}, "COMPLETED", "COMPLETED", 20, 420),
        ({"f3": -1, "f4": -1}, "COMPLETED", "COMPLETED", None, None),
        ({"f4": 0}, "COMPLETED", "COMPLETED", 50, 50),
    ],
)
def test_states_and_times(changes, state, text, start, end):
    record = only(job(**changes))
    assert (record.state.value, record.state_text) == (state, text)
    times = (record.start_time, record.end_time)
    assert times == tuple(None if t is None else 1_000_000 + t for t in (start, end))


def test_fractions_are_rounded():
    record = only(job(f2="20.5", f3="30.4", f4="399.6"))
    assert (record.submit_time, record.start_time, record.end_time) == (1000020, 1000050, 1000450)


def test_the_header_is_told_once_and_only_the_header():
    result = swf(JOB, "; UnixStartTime: 1000000", "; Note: 5", job(f1=18), chunk_rows=3)
    assert [record.submit_time for record in result.records] == [1000020, 1000020]
    assert result.notes[1:] == [
        "header: Computer: IBM SP2; UnixStartTime: 1000000; TimeZoneString: Europe/Stockholm; "
        "MaxNodes: 100"
    ]


def test_without_a_start_time_the_log_counts_from_1970():
    result = swf(JOB, header="")
    assert result.records[0].submit_time == 20
    assert result.notes[1:] == ["no UnixStartTime: times are taken to count from 1970"]


@pytest.mark.parametrize(
    "line", ["UnixStartTime: 5", "Computer: other", "Queue: 4 day", "Queue: 5 x"]
)
@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_a_second_log_behind_the_first_is_refused_with_its_line(line, chunk_rows):
    text = f"{HEADER}{JOB}\n; Version: 2.2\n; {line}\n{job(f1=18)}\n"
    chunks = read(io.BytesIO(text.encode()), ReadOptions("two.swf", chunk_rows=chunk_rows))
    found = []
    with pytest.raises(DataError, match=r"two.swf: line 11 begins another log") as error:
        found.extend(record for chunk in chunks for record in chunk.attempts.records())
    assert "split the file" in error.value.hint
    assert [(r.job_id, r.submit_time, r.qos) for r in found] == [(17, 1000020, "night")]


def test_the_cluster_s_name_hangs_on_that_of_the_file_and_this_is_said():
    (note,) = (note for note in swf(JOB).notes if "--cluster" in note)
    assert "--cluster swf-Some-Log" in note
    assert not any("--cluster" in note for note in swf(JOB, cluster="kth").notes)


def test_the_cluster_can_be_told():
    assert only(JOB, cluster="kth").cluster == "kth"


def test_partial_executions_are_skipped_and_counted():
    rows = [JOB, job(f11=2), job(f2=-1, f11=3), job(f1=18), job(f1=18, f11=4)]
    for chunk_rows in (1, 2, 100):
        result = swf(*rows, chunk_rows=chunk_rows)
        assert [record.job_id for record in result.records] == [17, 18]
        assert (result.rows_in, result.rows_skipped, result.rejects) == (5, 3, [])
        assert "partial executions (status 2 to 4) are skipped: see their jobs" in result.notes


def test_a_partial_execution_without_its_job_is_not_lost():
    result = swf(JOB, job(f1=18, f11=2), job(f1=19))
    assert len(result.records) == 2
    [reject] = result.rejects
    assert (reject.line, reject.raw) == (10, job(f1=18, f11=2))
    assert reject.reason == "a partial execution without the row of its whole job"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1 2 3", "3 fields where SWF has 18"),
        (job(f4=-5), "run_time_s: -5 is not within"),
        (job(f1=-1), "job_number: -1 is not within"),
        (job(f2="1_0"), "submit_time: not a number: '1_0'"),
        (job(f12="nan"), "user: not a number: 'nan'"),
        (job(f2=10**12), "submit_time: 1000001000000 is not within"),
        (job(f9=10**20), "requested_time_s: "),
        (job(f11=7), "status is none of -1 to 5"),
        (job(f2=-1), "submit_time"),
    ],
)
def test_a_bad_row_is_rejected_alone(row, reason):
    header = HEADER if row != job(f2=-1) else ""
    result = swf(JOB, row, job(f1=99), header=header)
    assert [record.job_id for record in result.records] == [17, 99]
    [reject] = result.rejects
    line = 10 if header else 2
    assert (reject.source, reject.line, reject.raw) == ("swf:x/Some-Log.swf.gz", line, row)
    assert reject.reason.startswith(reason)


def test_an_endless_line_is_a_reject():
    result = swf(JOB, f"{job(f1=18)} {'x' * 2**21}", job(f1=19))
    assert [record.job_id for record in result.records] == [17, 19]
    assert result.rejects[0].reason == "the line is too long"
    assert len(result.rejects[0].raw) < 5000


def test_another_file_is_refused_at_once():
    with pytest.raises(DataError, match=r"not an SWF log: 1 fields where SWF has 18 in line 1"):
        read_bytes("swf", "a,b,c\n1,2,3\n", "x.csv")


def test_a_log_of_a_header_alone_has_no_jobs_and_an_empty_file_is_none():
    assert swf().rows_in == 0
    for text in ("", "\n \n"):
        with pytest.raises(DataError, match="is empty"):
            swf(header=text)


LOGS = {
    "kth-sp2-1996/KTH-SP2.swf.gz": (28489, 0),
    "llnl-atlas-2006/LLNL-Atlas-2006-2.1-cln.swf.gz": (43778, 0),
    "nasa-ipsc-1993/NASA-iPSC-1993-3.1-cln.swf.zip": (18239, 0),
    "cea-curie-sample/CEA-Curie_sample.swf.gz": (29998, 0),
    "cerit-wagap-2013/wagap-2013.swf.gz": (17898, 2),
}


def text_of(path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            [name] = archive.namelist()
            return archive.read(name).decode()
    return gzip.decompress(path.read_bytes()).decode()


@needs_shared
@pytest.mark.parametrize("name", LOGS)
def test_whole_logs(name):
    path = SHARED / "traces" / "named" / name
    jobs, bad = LOGS[name]
    rows = [line.split() for line in text_of(path).splitlines() if line[:1] not in ("", ";")]
    good = [row for row in rows if float(row[3]) >= -1]
    result = Read()
    with open_trace(str(path)) as stream:
        for chunk in read(stream, ReadOptions(str(path))):
            result.add(chunk)
    assert (len(result.records), len(result.rejects)) == (jobs, bad)
    assert (len(good), len(rows)) == (jobs, jobs + bad)
    words = {"0": "FAILED", "1": "COMPLETED", "5": "CANCELLED", "-1": "COMPLETED"}
    assert Counter(r.state.value for r in result.records) == Counter(words[f[10]] for f in good)
    assert [r.job_id for r in result.records] == [int(f[0]) for f in good]
    users = [f"user{f[11]}" for f in good if f[11] != "-1"]
    assert Counter(r.user for r in result.records if r.user) == Counter(users)
    names = [f"executable{f[13]}" for f in good if f[13] != "-1"]
    assert Counter(r.name for r in result.records if r.name) == Counter(names)
    told = sum(int(f[3]) * max(int(f[4]), 0) for f in good if int(f[3]) > 0)
    found = sum(
        (r.end_time - r.start_time) * r.num_cpus
        for r in result.records
        if r.start_time is not None and r.allocated
    )
    assert found == told
    for r, f in zip(result.records, good, strict=True):
        assert (r.start_assumed == 1) == (f[2] == "-1" and r.start_time is not None)
    waited = [int(f[2]) for f in good if f[2] != "-1" and f[3] != "-1"]
    if waited:
        waits = (r.start_time - r.submit_time for r in result.records if r.start_time is not None)
        assert sum(waits) == sum(waited)
