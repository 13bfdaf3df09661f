"""Any table of jobs by a map of its columns: CSV and JSON, times, units, states, mistakes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support.shared import SHARED, needs_shared
from support.traces import Read, read_bytes

from gsched.app.trace_formats import TraceOptions
from gsched.errors import DataError, UsageError
from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions
from gsched.traces.column_map import load
from gsched.traces.identity import job_id_of_text
from gsched.traces.mapped import read
from gsched.traces.source import open_trace

MAPS = Path(__file__).parents[2] / "data" / "maps"


def by_map(toml, data, file_name="x/my.csv", **options):
    return read_bytes("mapped", data, file_name, column_map=tomllib.loads(toml), **options)


def only(toml, data, **options):
    result = by_map(toml, data, **options)
    assert result.rejects == []
    [record] = result.records
    return record


FIELDS = """
[fields]
job_id = "id"
submit_time = "sub"
"""


def test_the_least_that_is_needed():
    record = only(FIELDS, "id,sub,more\n7,100,x\n")
    assert (record.job_id, record.submit_time, record.cluster) == (7, 100, "csv-my")
    assert (record.state, record.state_text) == (JobState.UNKNOWN, "")
    assert (record.source, record.extra) == ("csv", '{"more":"x"}')


def test_names_of_columns_are_compared_without_case():
    assert only(FIELDS.replace('"id"', '"Job ID"'), "SUB;job id\n100;7\n").job_id == 7


@pytest.mark.parametrize(
    ("spec", "cell", "epoch"),
    [
        ('"sub"', "1511784000", 1511784000),
        ('"sub"', "1511784000.4", 1511784000),
        ('"sub"', "2017-11-27T12:00:00Z", 1511784000),
        ('"sub"', "2017-11-27 13:00:00+01:00", 1511784000),
        ('"sub"', "2017-11-27 13:00:00", 1511784000),
        ('{ column = "sub", unit = "ms" }', "1511784000123", 1511784000),
        ('{ column = "sub", unit = "min" }', "2", 120),
        ('{ column = "sub", format = "%d.%m.%Y %H:%M" }', "27.11.2017 13:00", 1511784000),
    ],
)
def test_times(spec, cell, epoch):
    toml = f'timezone = "Europe/Berlin"\n[fields]\njob_id = "id"\nsubmit_time = {spec}\n'
    assert only(toml, f"id,sub\n7,{cell}\n").submit_time == epoch


def test_the_zone_of_the_command_line_holds_where_the_map_has_none():
    data = "id,sub\n7,2017-11-27 13:00:00\n"
    berlin = ZoneInfo("Europe/Berlin")
    assert only(FIELDS, data, timezone=berlin).submit_time == 1511784000
    assert only(f'timezone = "UTC"\n{FIELDS}', data, timezone=berlin).submit_time == 1511787600


@pytest.mark.parametrize(
    ("fields", "cells", "times"),
    [
        ('start_time = "a"\nend_time = "b"', "150,200", (150, 200)),
        ('queueing_s = "a"\nduration_s = "b"', "50,70", (150, 220)),
        ('start_time = "a"\nduration_s = "b"', "150,70", (150, 220)),
        ('duration_s = "a"\nend_time = "b"', "70,200", (130, 200)),
        ('duration_s = "a"', "70,", (100, 170)),
        ('duration_s = "a"', ",", (None, None)),
        ('duration_s = { column = "a", unit = "min" }', "2,", (100, 220)),
        ('duration_s = { column = "a", unit = "slurm" }', "1-00:00:01,", (100, 86501)),
        ('end_time = "b"', ",200", (None, 200)),
    ],
)
def test_start_and_end_from_what_there_is(fields, cells, times):
    record = only(f"{FIELDS}\n{fields}\n", f"id,sub,a,b\n7,100,{cells}\n")
    assert (record.start_time, record.end_time) == times
    expected = JobState.UNKNOWN if times[1] is None else JobState.COMPLETED
    assert (record.state, record.state_text) == (expected, "")


def test_states_by_the_map():
    toml = (
        f'{FIELDS}\nstate = "rc"\nexit_code = "rc"\n[states]\n0 = "COMPLETED"\nDEFAULT = "FAILED"'
    )
    toml = toml.replace("DEFAULT", "default")
    result = by_map(toml, "id,sub,rc\n1,1,0\n2,1,-11\n3,1,\n")
    assert [(r.state.value, r.state_text, r.exit_code) for r in result.records] == [
        ("COMPLETED", "0", 0),
        ("FAILED", "-11", -11),
        ("FAILED", "", None),
    ]


def test_states_that_the_map_does_not_have_are_unknown_and_kept():
    toml = f'{FIELDS}\nstate = "s"\n[states]\nok = "COMPLETED"\n'
    result = by_map(toml, "id,sub,s\n1,1,OK\n2,1,odd\n")
    assert [(r.state.value, r.state_text) for r in result.records] == [
        ("COMPLETED", "OK"),
        ("UNKNOWN", "odd"),
    ]


def test_slurms_own_states_need_no_map():
    record = only(f'{FIELDS}\nstate = "s"\n', "id,sub,s\n1,1,CANCELLED by 7\n")
    assert (record.state, record.state_text) == (JobState.CANCELLED, "CANCELLED by 7")


def test_resources_and_constants():
    toml = f"""
cluster = "lab"
{FIELDS}
num_gpus = {{ value = 0 }}
tenant = {{ value = "all" }}
num_cpus = "c"
[requested]
cpu = "c"
mem = {{ column = "m", unit = "suffix" }}
"gres/gpu:a100" = {{ value = 2 }}
[allocated]
mem = {{ column = "g", unit = "GB", none = ["0", -1] }}
"""
    result = by_map(toml, "id,sub,c,m,g\n1,1,8,50gb,2\n2,1,,64b,0\n3,1,8,512,-1\n")
    gpus = Tres("gres/gpu:a100", 2)
    assert [r.requested for r in result.records] == [
        (Tres("cpu", 8), Tres("mem", 50 * 2**30), gpus),
        (Tres("mem", 64), gpus),
        (Tres("cpu", 8), Tres("mem", 512), gpus),
    ]
    assert [r.allocated for r in result.records] == [(Tres("mem", 2 * 2**30),), (), ()]
    assert {(r.num_gpus, r.tenant, r.cluster) for r in result.records} == {(0, "all", "lab")}


def test_cluster_from_the_command_line_beats_the_column_and_that_the_map():
    toml = f'cluster = "lab"\n{FIELDS}\ncluster = "c"\n'
    data = "id,sub,c\n1,1,venus\n2,1,\n"
    assert [r.cluster for r in by_map(toml, data).records] == ["venus", "lab"]
    assert [r.cluster for r in by_map(toml, data, cluster="own").records] == ["own", "own"]


def test_ids_of_arrays_het_jobs_and_texts():
    result = by_map(FIELDS, "id,sub\n7,1\n8_3,1\n9[4],1\n10+1,1\nabc[1],1\n007,1\n")
    found = [(r.job_id, r.array_task, r.het_offset, r.source_id) for r in result.records]
    assert found == [
        (7, None, None, None),
        (8, 3, None, None),
        (9, 4, None, None),
        (10, None, 1, None),
        (job_id_of_text("abc[1]"), None, None, "abc[1]"),
        (job_id_of_text("007"), None, None, "007"),
    ]


def test_jobs_without_ids_are_numbered_by_what_they_are():
    toml = '[fields]\nsubmit_time = "sub"\nuser = "u"\n'
    data = "sub,u\n100,a\n100,a\n100,b\n"
    ids = [r.job_id for r in by_map(toml, data).records]
    assert len(set(ids)) == 3
    assert [r.job_id for r in by_map(toml, data, chunk_rows=1).records] == ids


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,,,", "submit_time: missing"),
        (",100,,", "job_id: missing"),
        ("7,noon,,", "submit_time: not a time: 'noon'"),
        ("7,100,90,", "it starts before it is submitted"),
        ("7,100,200,150", "it ends before it begins"),
        ("7,100,", "3 fields where the header has 4"),
    ],
)
def test_a_bad_row_is_rejected_alone(row, reason):
    toml = f'{FIELDS}\nstart_time = "s"\nend_time = "e"\n'
    result = by_map(toml, f"id,sub,s,e\n1,1,1,1\n{row}\n2,2,2,2\n")
    assert [r.job_id for r in result.records] == [1, 2]
    [reject] = result.rejects
    assert (reject.source, reject.line, reject.raw) == ("csv:x/my.csv", 3, row)
    assert reject.reason.startswith(reason)


def test_a_file_without_header():
    toml = f'delimiter = " "\nheader = ["sub", "id", "x"]\n{FIELDS}'
    record = only(toml, "100 7 more\n")
    assert (record.submit_time, record.job_id, record.extra) == (100, 7, '{"x":"more"}')


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(DataError) as error:
        by_map(FIELDS, "id,other\n1,2\n")
    assert "no column sub in its header" in error.value.message
    assert "other" in error.value.message + error.value.hint


JSON = f'layout = "json"\n{FIELDS}\nname = "n"\n'
OBJECTS = [
    {"id": 7, "sub": 100.0, "n": "a", "deep": {"x": [1, None]}, "nothing": None},
    {"ID": "8", "sub": "1970-01-01T00:01:40", "n": None},
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OBJECTS),
        f"\ufeff \n{json.dumps(OBJECTS, indent=1)}\n",
        "\n".join(map(json.dumps, OBJECTS)),
        "\n\n".join(map(json.dumps, OBJECTS)) + "\n",
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_json_lists_and_lines(text, chunk_rows):
    result = by_map(JSON, text, chunk_rows=chunk_rows)
    assert result.rejects == []
    assert [(r.job_id, r.submit_time, r.name) for r in result.records] == [
        (7, 100, "a"),
        (8, 100, None),
    ]
    assert [r.extra for r in result.records] == ['{"deep":{"x":[1,null]}}', None]


def test_json_rejects_name_their_place():
    result = by_map(JSON, '[{"id": 1, "sub": 1}, 5, {"id": 2}, {"id": 3, "sub": 3}]')
    assert [r.job_id for r in result.records] == [1, 3]
    assert [(r.line, r.reason, r.raw) for r in result.rejects] == [
        (2, "no JSON object", "5"),
        (3, "submit_time: missing", '{"id":2}'),
    ]
    result = by_map(JSON, '{"id": 1, "sub": 1}\n{broken\n[]\n{"id": 3, "sub": 3}\n')
    assert [(r.line, r.reason) for r in result.rejects] == [(2, "not JSON"), (3, "no JSON object")]


def test_json_that_breaks_off_keeps_what_stands_before():
    options = ReadOptions("x.json", column_map=tomllib.loads(JSON))
    chunks = read(io.BytesIO(b'[{"id": 1, "sub": 1}, {"id": 2, "s'), options)
    assert [r.job_id for r in next(chunks).attempts.records()] == [1]
    with pytest.raises(DataError, match=r"not a JSON list: the document ends at element 2"):
        next(chunks)


def test_json_texts_that_no_database_takes():
    text = '[{"id": "\\ud800", "sub": 1, "n": "a\\u0000b", "x": 1e999, "y": NaN}]'
    [record] = by_map(JSON, text).records
    assert (record.source_id, record.name) == ("\\ud800", "a\\x00b")
    assert json.loads(record.extra) is not None


def test_json_without_a_member_that_the_map_needs():
    with pytest.raises(DataError, match=r"no object has a member sub") as error:
        by_map(JSON, '[{"id": 1, "submitted": 1}]')
    assert error.value.hint == "found: id, submitted"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("nonsense = 1\n" + FIELDS, "unknown key nonsense"),
        (FIELDS + 'gpus = "g"', "unknown key fields.gpus"),
        ('[fields]\nsubmit_time = { column = "a", z = "b" }', "unknown key fields.submit_time.z"),
        ('[fields]\nuser = "u"', "fields.submit_time is needed"),
        ("[fields]\nsubmit_time = 5", "fields.submit_time: write the name of a column"),
        ('[fields]\nsubmit_time = { unit = "s" }', "fields.submit_time: either a column"),
        ('[fields]\nsubmit_time = { column = "a", unit = "y" }', "fields.submit_time.unit: 'y'"),
        ('[fields]\nsubmit_time = { value = "noon" }', "fields.submit_time.value: not a time"),
        (FIELDS + 'duration_s = { column = "d", unit = 5 }', "fields.duration_s.unit: not a text"),
        (FIELDS + 'start_time = "a"\nqueueing_s = "b"', "fields.start_time and fields.queueing_s"),
        (FIELDS + '[requested]\nmem = { column = "m", unit = "ms" }', "requested.mem.unit: 'ms'"),
        (FIELDS + '[states]\nok = "FINE"', "states.ok: no state of Slurm: 'FINE'"),
        ('layout = "xml"\n' + FIELDS, "layout: 'xml' is none of csv, json"),
        ('delimiter = "::"\n' + FIELDS, "delimiter: one character"),
        ('delimiter = ","\n' + FIELDS, "delimiter: where the file has a header"),
        ('header = ["a"]\n' + FIELDS, "header: no column 'id', which the map uses"),
        ("header = [1]\n" + FIELDS, "header: a list of names"),
        ('timezone = "Mars"\n' + FIELDS, "timezone: no such time zone: 'Mars'"),
        ("fields = 5", "fields: not a table"),
        ("[fields", "not TOML"),
    ],
)
def test_mistakes_in_a_map_name_the_file_and_the_key(tmp_path, toml, message):
    path = tmp_path / "m.toml"
    path.write_text(toml)
    with pytest.raises(DataError) as error:
        load(path)
    assert error.value.message.startswith(f"{path}: ")
    assert message in error.value.message
    assert error.value.hint


def test_a_map_that_is_missing(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="needs --columns"):
        read_bytes("mapped", "a\n")


# -- whole files ----------------------------------------------------------------------------


def whole(path, map_name):
    options = TraceOptions("csv", columns=MAPS / map_name).for_file(str(path), {})
    result = Read()
    with open_trace(str(path)) as stream:
        for chunk in read(stream, options):
            result.add(chunk)
    assert result.rejects == []
    return result.records


@needs_shared
def test_iu_mason_whole():
    path = SHARED / "traces" / "named" / "iu-mason-2017" / "mason_jobs.csv.gz"
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))
    records = whole(path, "iu-mason-2017.toml")
    assert len(records) == len(rows) == 16221
    assert len({(r.job_id, r.array_task) for r in records}) == 16221
    codes = Counter(row["exit_status"] for row in rows)
    assert Counter(r.state.value for r in records) == {
        "COMPLETED": codes["0"],
        "CANCELLED": codes["271"],
        "FAILED": 16221 - codes["0"] - codes["271"],
    }
    cpu_time = sum(int(row["runtime_s"]) * int(row["slots"]) for row in rows)
    assert sum((r.end_time - r.start_time) * r.num_cpus for r in records) == cpu_time
    waits = sum(int(row["start"]) - int(row["submit"]) for row in rows)
    assert sum(r.start_time - r.submit_time for r in records) == waits
    assert Counter(r.name for r in records) == Counter(row["job_name"] for row in rows)
    assert {r.extra is not None for r in records} == {True}


@needs_shared
def test_nrel_eagle_whole():
    path = SHARED / "traces" / "named" / "nrel-eagle-sample" / "sample_eagle_data.json"
    rows = json.loads(path.read_text())
    records = whole(path, "nrel-eagle.toml")
    # the tasks of an array have one id there, which is kept beside the id that is made of the row
    assert len({(r.job_id, r.submit_time) for r in records}) == len(rows)
    assert [json.loads(r.extra)["job_id"] for r in records] == [row["job_id"] for row in rows]
    assert Counter(r.state.value for r in records) == Counter(row["state"] for row in rows)
    for device, column in (("num_cpus", "processors_req"), ("num_gpus", "gpus_req")):
        told = sum(int(row["run_time"]) * row[column] for row in rows)
        assert sum((r.end_time - r.start_time) * getattr(r, device) for r in records) == told
    assert Counter(r.name for r in records) == Counter(row["name"] for row in rows)
    assert sum(bool(t.name == "mem") for r in records for t in r.requested) == 12


def test_a_time_that_comes_twice_is_told_apart_by_its_row():
    """On 27 October 2024 Berlin's clocks go from 03:00 back to 02:00, at 01:00 UTC."""
    toml = FIELDS + 'start_time = "a"\nend_time = "b"\n'
    data = "id,sub,a,b\n7,2024-10-27 02:50:00,2024-10-27 02:10:00,2024-10-27 02:20:00\n"
    record = only(toml, data, timezone=ZoneInfo("Europe/Berlin"))
    assert (record.start_time, record.end_time) == (1729990800 + 600, 1729990800 + 1200)
    data = "id,sub,run,b\n7,2024-10-27 02:50:00,60,2024-10-27 02:20:00\n"
    toml = FIELDS + 'duration_s = "run"\nend_time = "b"\n'
    assert only(toml, data, timezone=ZoneInfo("Europe/Berlin")).end_time == 1729990800 + 1200


@pytest.mark.parametrize("more", ["", 'layout = "json"\n', 'header = ["id", "sub"]\n'])
def test_an_empty_file_is_an_error(more):
    with pytest.raises(DataError, match=r"x/my.csv is empty"):
        by_map(more + FIELDS, "\n\n")
