"""What is exported and imported elsewhere makes the same database."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import GPUS, attempt, batch, running, url_of

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions
from gsched.traces.gsched_format import read
from gsched.traces.gsched_writer import writing_attempts
from gsched.traces.source import open_trace
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

times = st.none() | st.integers(90, 130)
records = st.builds(
    AttemptRecord,
    cluster=st.sampled_from(["alpha", "beta"]),
    job_id=st.integers(1, 2),
    array_task=st.sampled_from([None, 0]),
    het_offset=st.none(),
    submit_time=st.sampled_from([100, 105, 800]),
    state=st.sampled_from(JobState),
    state_text=st.sampled_from(["X", "CANCELLED by 7"]),
    source=st.sampled_from(["sacct", "jobcomp", "squeue", "philly"]),
    user=st.sampled_from([None, "alice", "bob"]),
    name=st.none() | st.text(max_size=3),
    start_time=times,
    end_time=times,
    num_gpus=st.sampled_from([None, 0, 2]),
    restarts=st.sampled_from([None, 0, 1]),
    start_assumed=st.sampled_from([None, 1]),
    requested=st.sampled_from([(), (Tres("cpu", 1),), (Tres("b,=%", 1), Tres("a", 2))]),
    node_list=st.sampled_from([None, "n1"]),
    extra=st.sampled_from([None, '{"a":"\\ud800"}']),
)


def dump(history):
    with reading(history._engine) as conn:
        return list(canonical_dump(conn))


def moved(history, other, file):
    """Export into a file of gsched's and import that into another database."""
    with writing_attempts(file, replace=True) as write:
        for part in history.export():
            write(part)
    with open_trace(str(file)) as stream:
        for chunk in read(stream, ReadOptions(str(file), chunk_rows=3)):
            assert chunk.rejects == ()
            other.import_chunk(chunk, source_key=None, cursor="")


@settings(max_examples=15)
@given(told=st.lists(records, max_size=8))
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_export_makes_the_same_database(sqlite_template, form, told):
    with TemporaryDirectory() as folder:
        one, other = (shutil.copy(sqlite_template, Path(folder) / f"{n}.db") for n in "ab")
        with History.open(url_of(one)) as history, History.open(url_of(other)) as copy:
            for record in told:
                history.ingest(batch(record), source_key=None)
            moved(history, copy, Path(folder) / f"x.{form}")
            assert dump(copy) == dump(history)


@pytest.fixture
def database(database_url):
    return database_url


def test_conflicts_and_weaker_claims_go_along(history, tmp_path, sqlite_template):
    history.ingest(batch(running(name="told by squeue alone")), source_key=None)
    history.ingest(batch(attempt(name=None)), source_key=None)
    history.ingest(batch(attempt(name=None, num_cpus=9)), source_key=None)
    exported = [record for part in history.export() for record in part.records()]
    assert len(exported) == 3
    assert {record.name for record in exported} == {None, "told by squeue alone"}
    assert {record.num_cpus for record in exported} == {8, 9, None}
    with History.open(url_of(shutil.copy(sqlite_template, tmp_path / "b.db"))) as copy:
        moved(history, copy, tmp_path / "x.csv.zst")
        assert dump(copy) == dump(history)


def test_one_cluster_alone_and_many_rows(history, monkeypatch):
    monkeypatch.setattr("gsched_sql.export.ROWS_AT_ONCE", 2)
    jobs = [attempt(n, cluster=c, allocated=GPUS) for n in range(1, 6) for c in ("alpha", "beta")]
    history.ingest(batch(*jobs), source_key=None)
    parts = list(history.export("beta"))
    assert [part.count for part in parts] == [2, 2, 1]
    assert [r for part in parts for r in part.records()] == [j for j in jobs if j.cluster == "beta"]
    assert sum(part.count for part in history.export()) == 10
    assert list(history.export("gamma")) == []


def test_an_empty_history_has_nothing(history):
    assert list(history.export()) == []
