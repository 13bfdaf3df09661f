"""Tables: columns by header, bad rows alone rejected, and what no reader may do with any bytes."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import read_bytes

from gsched.errors import DataError
from gsched.model.job import JobState

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
READERS = (
    "philly", "helios", "acme", "pai", "itp", "openb", "chronus", "elasticflow", "titan", "muri",
)  # fmt: skip


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_are_found_whatever_their_order_case_and_delimiter(
    delimiter: str, end: str
) -> None:
    plain = read_bytes("philly", f"{PHILLY}\n2017-10-09 07:01:55,66.0,2,132,6214e9\n")
    other = read_bytes(
        "philly",
        end.join(
            [
                delimiter.join(["Cluster", " GPU_time", "NUM_GPUS", "duration", "timestamp "]),
                delimiter.join(["6214e9", "132", "2", "66", "2017-10-09 07:01:55"]),
            ]
        ),
    )
    assert plain.records == other.records
    assert plain.records[0].tenant == "6214e9"


def test_columns_that_are_not_known_are_kept_as_they_stand() -> None:
    read = read_bytes(
        "philly",
        'timestamp,duration,num_gpus,GPU Type,,note\n2017-10-09 07:01:55,66,1,P40,x,"a, ""b"""\n'
        "2017-10-09 07:01:56,66,1,,,\n",
    )
    first, second = (record.extra for record in read.records)
    assert json.loads(first or "") == {"gpu type": "P40", "column 5": "x", "note": 'a, "b"'}
    assert second is None


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_another_kind_names_what_is_missing(name: str) -> None:
    for text in ("", "\n\n", "sn,cpu_milli\nx,1\n", "\x1b[31m\n"):
        with pytest.raises(DataError) as failure:
            read_bytes(name, text)
        assert "t.csv" in failure.value.message
        assert "\x1b" not in failure.value.message
    if name != "pai":
        assert "no column" in failure.value.message


def test_a_needed_column_that_stands_twice_is_not_guessed() -> None:
    with pytest.raises(DataError, match="duration stands twice"):
        read_bytes("philly", "timestamp,duration,duration,num_gpus\n")


def test_bad_rows_are_rejected_alone_with_line_reason_and_text() -> None:
    good = "2017-10-09 07:01:55,66,1,66,vc"
    bad = {
        3: ("2017-10-09 07:01:55,-1,1,66,vc", "duration: negative: '-1'"),
        5: ("soon,66,1,66,vc", "timestamp: not a time: 'soon'"),
        8: ("2017-10-09 07:01:55,66,1,66", "4 fields where the header has 5"),
        9: ("2017-10-09 07:01:55,66,,66,vc", "num_gpus: missing"),
        11: ("2017-10-09 07:01:55,66,1.5,66,vc", "num_gpus: not a count: '1.5'"),
    }
    lines = [PHILLY, *(bad[n][0] if n in bad else good for n in range(2, 13))]
    for chunk_rows in (1, 3, 20_000):
        read = read_bytes("philly", "\n".join(lines) + "\n\n", chunk_rows=chunk_rows)
        assert [(r.line, r.raw, r.reason) for r in read.rejects] == [
            (line, raw, reason) for line, (raw, reason) in sorted(bad.items())
        ]
        assert {r.source for r in read.rejects} == {"philly:t.csv"}
        assert len({r.job_id for r in read.records}) == len(read.records) == 6
        assert read.rows_in == 11


def test_a_derived_column_that_says_otherwise_is_kept_and_noted() -> None:
    rows = "2017-10-09 07:01:55,66,2,132.0,vc\n2017-10-09 07:01:56,66,2,999,vc\n"
    read = read_bytes("philly", f"{PHILLY}\n{rows}")
    assert [record.extra for record in read.records] == [None, '{"gpu_time":"999"}']
    assert any("gpu_time" in note for note in read.notes)


def test_notes_are_said_once_a_file() -> None:
    rows = "2017-10-09 07:01:55,66,2,132.0,vc\n" * 9
    read = read_bytes("philly", f"{PHILLY}\n{rows}", chunk_rows=2)
    assert read.chunks > 3
    assert len(read.notes) == len(set(read.notes)) == 2


def test_an_unknown_state_is_kept_and_never_taken_for_another() -> None:
    text = "job_id,state,submit_time,gpu_num,duration\n7,Wandering,2020-01-01 00:00:00,1,5\n"
    (record,) = read_bytes("helios", text).records
    assert (record.state, record.state_text) == (JobState.UNKNOWN, "Wandering")


# -- anything at all --------------------------------------------------------------------------

HEADERS = {
    "philly": PHILLY,
    "helios": "job_id,user,vc,gpu_num,cpu_num,state,submit_time,start_time,end_time,duration",
    "acme": "job_id,user,gpu_num,type,state,submit_time,start_time,end_time,queue",
    "pai": "job_name,inst_id,user,status,start_time,end_time,plan_gpu",
    "itp": "job_id,submission_time,duration,num_gpu",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,pod_phase,deletion_time",
    "chronus": "job_id,user,num_gpu,submit_time,duration,best_effort",
    "elasticflow": "job_id,submit_time,num_gpu,duration,ddl",
    "titan": "name,submission_time,application,num_gpus,target_lr",
    "muri": "job_id,num_gpu,submit_time,duration,start_time,end_time",
}

cells = st.one_of(
    st.sampled_from(
        ["", "1", "0", "-1", "8.0", "1e9", "nan", "inf", "99999999999999999999",
         "2017-10-09 07:01:55", "2017-10-09 07:01:55+08:00", "COMPLETED", "Running", "V100|T4",
         '"', '"a"', "a\nb", "\0"]
    ),
    st.text(max_size=6),
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_rows_or_a_clear_error(name: str, data: bytes) -> None:
    with suppress(DataError):
        read_bytes(name, data)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_any_rows_below_a_header_are_counted(name: str, data: st.DataObject) -> None:
    width = HEADERS[name].count(",") + 1
    rows = data.draw(st.lists(st.lists(cells, min_size=width, max_size=width), max_size=6))
    text = "\n".join([HEADERS[name], *(",".join(row) for row in rows)])
    raw = text.encode("utf-8", "surrogatepass")
    read = read_bytes(name, raw, chunk_rows=3)
    again = read_bytes(name, raw, chunk_rows=3)
    assert (read.records, read.rejects) == (again.records, again.rejects)
    assert read.rows_in == len(read.records) + len(read.rejects) + read.rows_skipped
    for record in read.records:
        assert 0 <= record.job_id < 2**63
        assert 0 <= record.submit_time <= (record.start_time or 2**62)
        assert (record.start_time or 0) <= (record.end_time or 2**62)
        assert record.extra is None or isinstance(json.loads(record.extra), dict)
        "".join(filter(None, (record.user, record.name, record.extra, record.source_id))).encode()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**32),
            st.integers(0, 10**7),
            st.integers(0, 4096),
            st.sampled_from("ab"),
        ),
        max_size=20,
    ),
    st.integers(1, 6),
)
def test_valid_rows_come_back_as_they_were(
    rows: list[tuple[int, int, int, str]], chunk_rows: int
) -> None:
    lines = [f"{i},{t},{d},{g},{m}" for i, (t, d, g, m) in enumerate(rows)]
    text = "\n".join(["job_id,submit_time,duration,num_gpu,model_name", *lines])
    read = read_bytes("elasticflow", text, chunk_rows=chunk_rows)
    assert not read.rejects
    assert [
        (r.job_id, r.submit_time, (r.end_time or 0) - (r.start_time or 0), r.num_gpus, r.name)
        for r in read.records
    ] == [(i, t, d, g, m) for i, (t, d, g, m) in enumerate(rows)]
