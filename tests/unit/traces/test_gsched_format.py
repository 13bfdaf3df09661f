"""gsched's own file of attempts: what is written is what is read, in every form of it."""

from __future__ import annotations

import dataclasses
import io
import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.errors import DataError, UsageError
from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.phases import PHASE_VALUES
from gsched.model.trace import AttemptColumns, Constant, ReadOptions, columns_of
from gsched.traces.gsched_format import read
from gsched.traces.gsched_writer import form_of, writing_attempts
from gsched.traces.source import open_trace

FORMS = ("csv", "csv.gz", "csv.zst", "parquet", "parquet.gz", "parquet.zst")

numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
counts = st.none() | st.integers(0, 2**63 - 1)
texts = st.none() | st.text(st.characters(codec=None), max_size=12)
tres = st.lists(st.builds(Tres, st.text(max_size=8), st.integers(0, 2**63 - 1)), max_size=3).map(
    tuple
)
extras = st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2).map(
    json.dumps
)

records = st.builds(
    AttemptRecord,
    cluster=st.text(min_size=1, max_size=8),
    job_id=st.integers(0, 2**63 - 1),
    array_task=counts,
    het_offset=counts,
    submit_time=st.integers(0, 2**63 - 1),
    state=st.sampled_from(JobState),
    state_text=st.text(max_size=8),
    source=st.sampled_from(["sacct", "philly", "a,b\n"]),
    **dict.fromkeys(("user", "tenant", "partition", "qos", "name", "node_list"), texts),
    **dict.fromkeys(("eligible_time", "start_time", "end_time", "time_limit_s"), numbers),
    **dict.fromkeys(("num_nodes", "num_cpus", "num_gpus", "restarts"), numbers),
    **dict.fromkeys(("exit_code", "exit_signal"), numbers),
    requested=tres,
    allocated=tres,
    source_id=texts,
    phase=st.none() | st.sampled_from(PHASE_VALUES),
    extra=extras,
)


def written(path, *chunks):
    with writing_attempts(path, replace=True) as write:
        for chunk in chunks:
            write(chunk)
    return path


def chunks_of(path, **options):
    with open_trace(str(path)) as stream:
        found = list(read(stream, ReadOptions(str(path), **options)))
    for chunk in found:
        assert chunk.rows_in == chunk.attempts.count + len(chunk.rejects) + chunk.rows_skipped
    return found


def attempts_of(path, **options):
    found = chunks_of(path, **options)
    assert [chunk.rejects for chunk in found if chunk.rejects] == []
    return [record for chunk in found for record in chunk.attempts.records()]


def read_bytes(data, **options):
    return list(read(io.BytesIO(data), ReadOptions("x.csv", **options)))


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(st.lists(records, max_size=6))
def test_what_is_written_is_read(tmp_path_factory, form, some):
    path = tmp_path_factory.mktemp("own") / f"a.{form}"
    written(path, *(columns_of([record]) for record in some))
    assert attempts_of(path) == some
    assert attempts_of(path, chunk_rows=2) == some


def plain(number, **more):
    return AttemptRecord(
        "lab", number, None, None, 1_700_000_000 + number, JobState.COMPLETED, "COMPLETED", "sacct",
        **more,
    )  # fmt: skip


def test_every_field_of_an_attempt_is_a_column(tmp_path):
    path = written(tmp_path / "a.csv", columns_of([plain(1)]))
    head, names, _ = path.read_text().splitlines()
    assert head == "# gsched attempts 1"
    assert names.split(",") == [field.name for field in dataclasses.fields(AttemptRecord)]


def test_a_row_is_a_line_and_reads_as_it_should(tmp_path):
    job = plain(
        7,
        name="a\nb\\c",
        user="",
        requested=(Tres("mem", 2**34), Tres("gres/gpu:a,b=c", 2)),
        start_time=1_700_000_100,
    )
    path = written(tmp_path / "a.csv", columns_of([job]))
    row = path.read_text().splitlines()[2]
    assert len(path.read_text().splitlines()) == 3
    assert r"a\x0ab\\c" in row
    assert r",\-," in row
    assert '"mem=17179869184,gres/gpu:a%2Cb%3Dc=2"' in row


def test_parquet_is_typed_and_versioned(tmp_path):
    path = written(tmp_path / "a.parquet", columns_of([plain(1, num_gpus=8), plain(2)]))
    table = pyarrow.parquet.read_table(path)
    assert table.schema.metadata[b"gsched.attempts"] == b"1"
    assert table["num_gpus"].type == pyarrow.int64()
    assert table["num_gpus"].to_pylist() == [8, None]


def test_small_chunks_become_large_row_groups(tmp_path):
    path = written(tmp_path / "a.parquet", *(columns_of([plain(n)]) for n in range(50)))
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 1
    same = {name: Constant(value) for name, value in vars_of(plain(1)).items()}
    many = AttemptColumns(120_000, same | {"job_id": range(120_000)})
    path = written(tmp_path / "b.parquet", many, many)
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 2
    assert sum(chunk.attempts.count for chunk in chunks_of(path)) == 240_000


def vars_of(record):
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def test_constants_are_written_in_every_row(tmp_path):
    record = vars_of(plain(3, user="ada"))
    columns = AttemptColumns(2, {name: Constant(value) for name, value in record.items()})
    assert attempts_of(written(tmp_path / "a.csv", columns)) == [AttemptRecord(**record)] * 2


def test_a_csv_by_hand_needs_three_columns():
    [chunk] = read_bytes(b"state,job_id,submit_time,note\nCOMPLETED,5,1700000000,by hand\n")
    [record] = chunk.attempts.records()
    assert (record.job_id, record.submit_time, record.cluster) == (5, 1_700_000_000, "gsched")
    assert (record.state, record.state_text) == (JobState.COMPLETED, "COMPLETED")
    assert (record.source, record.extra) == ("gsched", '{"note":"by hand"}')


def test_unknown_columns_join_extra():
    [chunk] = read_bytes(
        b'job_id,submit_time,state,extra,a,b\n1,1,FAILED,"{""a"":""old""}",new,\n2,2,FAILED,,,2\n'
    )
    assert chunk.attempts.column("extra") == ['{"a":"old"}', '{"b":"2"}']


def test_the_cluster_can_be_told():
    data = b"job_id,submit_time,state,cluster\n1,1,FAILED,venus\n"
    assert read_bytes(data)[0].attempts.column("cluster") == ["venus"]
    assert read_bytes(data, cluster="lab")[0].attempts.column("cluster") == ["lab"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,1,FAILED,,,,", "job_id: not a whole number: 'x'"),
        ("1_0,1,FAILED,,,,", "job_id: not a whole number: '1_0'"),
        (",1,FAILED,,,,", "job_id: missing"),
        ("-1,1,FAILED,,,,", "job_id: negative"),
        ("1,9223372036854775808,FAILED,,,,", "submit_time: not a whole number of 64 bits"),
        ("1,1,,,,,", "state: no state"),
        ("1,1,FAILED,cpu,,,", "requested: not a resource: 'cpu'"),
        ("1,1,FAILED,,[1],,", "extra: extra is no JSON object: '[1]'"),
        ("1,1,FAILED,,,nap,", "phase: no phase: 'nap'"),
        ("1,1,FAILED,,,,\\q", "name: not an escape"),
        ("1,1,FAILED,,", "5 fields where the header has 7"),
    ],
)
def test_a_row_that_is_not_understood_is_rejected_alone(row, reason):
    good = "2,2,COMPLETED,,,,"
    text = f"job_id,submit_time,state,requested,extra,phase,name\n{good}\n{row}\n{good}\n"
    [chunk] = read_bytes(text.encode())
    [reject] = chunk.rejects
    assert (reject.source, reject.line, chunk.attempts.count) == ("gsched:x.csv", 3, 2)
    assert reject.reason.startswith(reason)
    assert reject.raw == row


def test_rejects_of_parquet_name_their_row(tmp_path):
    path = tmp_path / "a.parquet"
    table = {"job_id": [1, 2, -3], "submit_time": [1.0, 2.5, 3.0], "state": ["FAILED"] * 3}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    [chunk] = chunks_of(path)
    assert chunk.attempts.column("job_id") == [1]
    assert [(reject.line, reject.reason.partition(":")[0]) for reject in chunk.rejects] == [
        (2, "submit_time"),
        (3, "job_id"),
    ]


def test_numbers_that_pandas_has_made_floats_are_read(tmp_path):
    path = tmp_path / "a.parquet"
    times = [1_700_000_000.0, None]
    table = {"job_id": [1, 2], "submit_time": [1, 2], "state": ["FAILED"] * 2, "end_time": times}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    assert chunks_of(path)[0].attempts.column("end_time") == [1_700_000_000, None]
    [chunk] = read_bytes(b"job_id,submit_time,state,end_time\n1,1,FAILED,1700000000.0\n")
    assert chunk.attempts.column("end_time") == [1_700_000_000]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# gsched attempts 2\njob_id\n", "version 2 of gsched's files is not known"),
        (b"job_id,state\n1,FAILED\n", "no column submit_time in its header"),
        (b"a\n", "no column job_id, submit_time, state in its header"),
        (b"", "is empty"),
        (b"PAR1 and then nothing", "the Parquet file is cut off or damaged"),
    ],
)
def test_what_is_no_such_file_is_said(data, message):
    with pytest.raises(DataError) as error:
        read_bytes(data)
    assert message in error.value.message


def test_nan_in_a_column_of_whole_numbers_is_nothing(tmp_path):
    """As pandas writes them."""
    path = tmp_path / "a.parquet"
    gpus = pyarrow.array([8.0, float("nan"), None], pyarrow.float64())
    table = {"job_id": [1, 2, 3], "submit_time": [5, 6, 7], "state": ["FAILED"] * 3}
    pyarrow.parquet.write_table(pyarrow.table({**table, "num_gpus": gpus, "other": gpus}), path)
    (chunk,) = chunks_of(path)
    assert chunk.rejects == ()
    assert chunk.attempts.column("num_gpus") == [8, None, None]
    assert chunk.attempts.column("extra") == ['{"other":"8"}', None, None]


def test_a_later_parquet_is_not_guessed_at(tmp_path):
    path = tmp_path / "a.parquet"
    schema = pyarrow.schema([("job_id", pyarrow.int64())], metadata={b"gsched.attempts": b"9"})
    pyarrow.parquet.write_table(pyarrow.table({"job_id": [1]}, schema), path)
    with pytest.raises(DataError, match="version 9"):
        chunks_of(path)


def test_a_parquet_that_is_cut_off_says_so(tmp_path):
    path = written(tmp_path / "a.parquet", columns_of([plain(n) for n in range(100)]))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="cut off or damaged"):
        chunks_of(path)


@pytest.mark.parametrize("name", ["a.txt", "csv", "a.csv.bz2", "a.gz"])
def test_a_name_must_say_the_form(name):
    with pytest.raises(UsageError, match="what shall be written"):
        form_of(name)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.csv.gz"
    nonsense = AttemptColumns(1, {"state": ["no JobState"]})
    with pytest.raises(AttributeError):
        written(path, columns_of([plain(1)]), nonsense)
    assert list(tmp_path.iterdir()) == []
    written(path, columns_of([plain(1)]))
    with pytest.raises(UsageError, match="exists"), writing_attempts(path, replace=False):
        pass
    assert attempts_of(path) == [plain(1)]


def test_the_same_attempts_give_the_same_bytes(tmp_path):
    some = columns_of([plain(n) for n in range(5)])
    for form in FORMS:
        one, other = (written(tmp_path / f"{n}.{form}", some).read_bytes() for n in "ab")
        assert one == other, form
