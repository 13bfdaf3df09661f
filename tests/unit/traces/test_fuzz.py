"""Every importer against bytes that no program has meant: only errors of gsched come out.

Whatever a file holds, each of its rows becomes an attempt or a reject or is skipped, the same
bytes give the same, and what an importer takes for an attempt can be stored and written.
"""

from __future__ import annotations

import gzip
import io
import json
import tomllib
import zipfile
from dataclasses import replace
from importlib import import_module

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.traces import check_columns

from gsched.app.trace_formats import FORMATS, reader_of
from gsched.errors import GschedError
from gsched.model.merge import fold
from gsched.model.trace import ReadOptions
from gsched.traces.gsched_writer import csv_writer
from gsched.traces.source import open_trace

MAP = """
[fields]
job_id = "id"
submit_time = "submit"
queueing_s = "wait"
duration_s = { column = "run", unit = "slurm" }
state = "state"
num_gpus = "gpus"
[requested]
mem = { column = "mem", unit = "suffix" }
"""


def parquet(rows):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


OWN = [
    {"job_id": n, "submit_time": 9, "state": "FAILED", "end_time": None, "requested": "cpu=1,mem=2"}
    for n in range(9)
]

SEEDS = {
    "sacct": """\
JobID|Submit|Start|End|State|User|JobName|AllocTRES|Elapsed
7|2026-01-02T03:04:05|2026-01-02T03:05:05|2026-01-02T04:05:05|COMPLETED|ada|a|cpu=2|01:00:00
7.batch|2026-01-02T03:04:05||Unknown|FAILED||batch||
8_[1-3]|2026-01-02T03:04:05|||PENDING|x|y||
""",
    "sacct-json": """{"meta": {}, "jobs": [{"job_id": 7, "cluster": "c", "name": "n", "user": "u",
"state": {"current": ["COMPLETED"]}, "steps": [],
"time": {"submission": 5, "start": 6, "end": 7, "limit": {"set": true, "number": 3}}},
{"job_id": 8, "state": ["FAILED"], "time": {"submission": 5}}]}""",
    "helios": """\
job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc
1,u1,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60,vc1
""",
    "philly": """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-01 00:00:00,100,2,200,"6214e9"
2017-10-01 00:00:00,100,2,200,6214e9
""",
    "acme": """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue
dlc1,u1,1,8,64,Pretrain,COMPLETED,2023-06-01 00:00:00+08:00,2023-06-01 00:01:00+08:00,2023-06-01 \
01:01:00+08:00,3600.0,60.0
""",
    "pai": """\
job_name,inst_id,user,status,start_time,end_time
a1,b2,c3,Terminated,100.0,200.0
a2,b3,c3,Failed,,
""",
    "swf": """\
; UnixStartTime: 9
1 2 3 4 5 -1 -1 5 60 -1 1 1 1 1 1 1 -1 -1
1 2 3 4 5 -1 -1 5 60 -1 2 1 1 1 1 1 -1 -1 x
""",
    "itp": """\
job_id,submission_time,duration,num_gpu
a1,100,3600,8
a2,101,3600,8
""",
    "openb": """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
scheduled_time
openb-pod-0,12000,16384,1,1000,,LS,Running,0,12537496,0.0
""",
    "chronus": """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,\
expect_value_list,best_effort,job_type
1,u,2,10,100,resnet,60,5,"[100, 200]","[1, 2]",0,strict
""",
    "elasticflow": """\
job_id,num_gpu,submit_time,iteration,model_name,duration,ddl,batch_size
1,2,3,4,vgg,5,6,7
""",
    "titan": """\
name,submission_time,application,num_gpus,target_batch_size
j1,5,bert,2,64
""",
    "muri": """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
1,2,3,4,vgg,5,6
""",
    "gsched": """\
# gsched attempts 1
cluster,job_id,submit_time,state,requested,extra,name
lab,7,8,FAILED,"cpu=1,mem=2","{""a"":1}",a\\x0ab
""",
    "csv": """\
id,submit,wait,run,state,gpus,mem,x
7,2020-01-01T00:00:00Z,5,1-00:00:00,FAILED,2,5gb,"a,b"
8_3,1,,,,,,
""",
}
PHILLY_LOG = """[{"status": "Pass", "vc": "v", "jobid": "a", "user": "u",
"submitted_time": "2017-10-01 00:00:00", "attempts": [{"start_time": "2017-10-01 00:01:00",
"end_time": "2017-10-01 00:02:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]"""
FILES = [
    *((name, text.encode()) for name, text in SEEDS.items()),
    ("gsched", parquet(OWN)),
    ("philly", PHILLY_LOG.encode()),
    ("csv", b'[{"id": 7, "submit": 8, "wait": 1.5, "x": {"y": [null]}}, {"id": "8"}, 5]'),
]


def options_of(name, data):
    column_map = tomllib.loads(MAP) if name == "csv" else None
    if column_map and data[:1] in b"[{":
        column_map["layout"] = "json"
    return ReadOptions("f.csv", column_map=column_map, chunk_rows=3)


def read_all(name, data, options=None):
    """(chunks, error) of some bytes; every row is accounted for, and of use."""
    chunks, error = [], None
    try:
        for chunk in reader_of(name)(io.BytesIO(data), options or options_of(name, data)):
            assert chunk.rows_in == chunk.attempts.count + len(chunk.rejects) + chunk.rows_skipped
            check_columns(chunk.attempts)
            chunks.append(chunk)
    except GschedError as e:
        error = e.message
    return chunks, error


def check(name, data):
    chunks, error = read_all(name, data)
    again, same_error = read_all(name, data)
    assert [chunk.attempts.columns for chunk in again] == [c.attempts.columns for c in chunks]
    assert ([c.rejects for c in again], same_error) == ([c.rejects for c in chunks], error)
    with csv_writer(io.BytesIO()) as write:
        for chunk in chunks:
            check_attempts(chunk.attempts)
            write(chunk.attempts)
    for reject in (reject for chunk in chunks for reject in chunk.rejects):
        assert reject.reason
        assert reject.line > 0
        assert len(reject.raw) < 10_000


def check_attempts(attempts):
    for record in attempts.records():
        assert 0 <= record.job_id < 2**63
        assert 0 <= record.submit_time < 2**63
        numbers = [value for value in vars_of(record) if isinstance(value, int)]
        assert all(-(2**63) <= number < 2**63 for number in numbers)
        assert all(0 <= tres.count < 2**63 for tres in (*record.requested, *record.allocated))
        assert record.extra is None or isinstance(json.loads(record.extra), dict)
        assert 1 <= len(record.source) <= 64
        fold([replace(record)])


def vars_of(record):
    return [getattr(record, name) for name in record.__slots__]


def test_every_format_has_a_seed_that_it_understands():
    assert SEEDS.keys() == FORMATS.keys()
    for name, data in FILES:
        chunks, error = read_all(name, data)
        assert error is None, name
        assert sum(chunk.attempts.count for chunk in chunks) > 0, name


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_any_bytes(name, data):
    check(name, data)


NASTY = [
    b'"', b"'", b"\\", b"\0", b"\n", b"\r", b"\r\n", b",", b"|", b";", b"-1", b"nan", b"inf",
    b"1e999", b"9" * 30, b"0", b"-", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
    b"{", b"}", b"[",
    b"null", b"1_0", b"\xd9\xa3", b"9999-12-31", b"2**63", b"9223372036854775808", b"=", b"%2C",
    b"\\ud800", b"\\u0000", b":", b"CANCELLED by 1", b"x" * 200,
]  # fmt: skip


@st.composite
def mutated(draw, data):
    """Valid bytes with some of them cut out, doubled, replaced or interrupted."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        piece = data[start:end]
        new = draw(
            st.one_of(
                st.sampled_from(NASTY),
                st.just(b""),
                st.just(piece * 2),
                st.binary(max_size=6),
                st.just(piece[::-1]),
            )
        )
        data = data[:start] + new + data[end:]
    return data


@pytest.mark.parametrize(
    ("name", "seed"), FILES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(FILES)]
)
@settings(max_examples=30, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_valid_files_that_were_altered(name, seed, data):
    check(name, data.draw(mutated(seed)))


HEADED = sorted(FORMATS.keys() - {"sacct-json", "swf"})


@pytest.mark.parametrize("name", HEADED)
def test_no_column_is_taken_for_granted(name):
    """Each column away, under another name, and twice."""
    lines = SEEDS[name].splitlines()
    first = lines.index(next(line for line in lines if not line.startswith("#")))
    delimiter = "|" if name == "sacct" else ","
    columns = lines[first].split(delimiter)
    for place, column in enumerate(columns):
        for other in ("other", "", columns[place - 1]):
            changed = [*columns[:place], other, *columns[place + 1 :]]
            header = delimiter.join(changed)
            check(name, "\n".join([*lines[:first], header, *lines[first + 1 :]]).encode())
            assert column


def zipped(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", data)
    return file.getvalue()


PACKERS = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress, "zip": zipped}


@pytest.mark.parametrize("packing", PACKERS)
@settings(max_examples=30, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_packed_files_that_were_altered_or_cut(tmp_path_factory, packing, data):
    whole = PACKERS[packing](SEEDS["philly"].encode() * 50)
    kind = data.draw(st.sampled_from(["cut", "altered"]))
    end = data.draw(st.integers(0, len(whole)))
    path = tmp_path_factory.mktemp("fuzz") / "f"
    path.write_bytes(whole[:end] if kind == "cut" else data.draw(mutated(whole)))
    said = message = ""
    try:
        with open_trace(str(path)) as stream:
            rows = read_philly(stream)
            said = stream.damage
    except GschedError as error:
        rows, message = 0, error.message
    assert not message or str(path) in message
    if kind == "cut" and end < len(whole) and rows:
        assert said


def read_philly(stream):
    try:
        reader = reader_of("philly")
        return sum(chunk.rows_in for chunk in reader(stream, ReadOptions("f")))
    except GschedError:
        return 0


def test_every_format_is_in_the_registry():
    modules = {target.partition(":")[0] for target in FORMATS.values()}
    for module in modules:
        assert import_module(module)
