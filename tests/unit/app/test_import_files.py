"""What an import reads, keeps, counts and goes on with, over a format of few words."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import threading
from pathlib import Path

import pytest
from support.history import attempt

from gsched.app import import_files as module
from gsched.app.import_files import ImportInterrupted, ImportOrder, import_files
from gsched.app.trace_formats import TraceOptions
from gsched.errors import DataError, UnavailableError, UsageError
from gsched.model.history import Reject
from gsched.model.job import JobState
from gsched.model.trace import TraceChunk, columns_of
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

CHUNK = 4


def read_lines(stream, options):
    """``ID SUBMIT GPUS SECONDS STATE`` a line; four rows a chunk; for ``=`` it numbers itself."""
    lines = io.TextIOWrapper(stream, "utf-8")
    if next(lines, "") != "#lines\n":
        raise DataError(f"{options.file_name} does not begin with #lines")
    held, rejects = [], []
    for number, line in enumerate(lines, start=2):
        try:
            word, submit, gpus, seconds, state = line.split()
            if word == "=":
                word = options.seen["last"] = options.seen.get("last", 100) + 1
            start = int(submit) + 10
            facts = {"num_gpus": int(gpus), "start_time": start, "end_time": start + int(seconds)}
            facts |= {"state": JobState(state), "source": "lines", "restarts": 0}
            held.append(attempt(int(word), int(submit), **facts))
        except ValueError:
            rejects.append(Reject(f"lines:{options.file_name}", number, "not five words", line))
        if len(held) + len(rejects) == CHUNK:
            yield chunk(held, rejects)
            held, rejects = [], []
    yield chunk(held, rejects, "the last of it")


def chunk(records, rejects, *notes):
    rows = len(records) + len(rejects)
    return TraceChunk(columns_of(records), tuple(rejects), rows, 0, notes)


@pytest.fixture(autouse=True)
def lines_format(monkeypatch):
    monkeypatch.setattr(module, "reader_of", lambda _: read_lines)


@pytest.fixture
def database(sqlite_template, tmp_path):
    return shutil.copy(sqlite_template, tmp_path / "history.db")


@pytest.fixture
def history(database):
    with History.open(f"sqlite:///{database}") as opened:
        yield opened


@pytest.fixture
def other(sqlite_template, tmp_path):
    """A second database, for what nothing has disturbed."""
    with History.open(f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'other.db')}") as opened:
        yield opened


def order(*files, cluster=None, timezone=None):
    options = TraceOptions("philly", cluster=cluster, timezone=timezone)
    return ImportOrder(tuple(map(str, files)), options)


def written(path, rows, *, first=1):
    ends = ("COMPLETED", "FAILED")
    lines = [f"{n} {1000 * n} {n % 3} 60 {ends[n % 2]}" for n in range(first, first + rows)]
    path.write_text("\n".join(["#lines", *lines, ""]))
    return path


def stops_after(chunks, error=KeyboardInterrupt):
    """Progress that ends the import when so many chunks are kept."""
    met = iter(range(1, 10**6))

    def look(_progress):
        if next(met) == chunks:
            raise error

    return look


def dump(history):
    with reading(history._engine) as conn:
        return list(canonical_dump(conn))


def test_counts_are_those_of_the_file(history, tmp_path):
    report = import_files(order(written(tmp_path / "a", 10)), history)
    total = report.total
    assert (total.rows, total.attempts, total.attempts_new) == (10, 10, 10)
    assert total.states == {"FAILED": 5, "COMPLETED": 5}
    assert (total.gpu_time_s, total.gpu_time_attempts) == (
        60 * sum(n % 3 for n in range(1, 11)),
        10,
    )
    assert report.files[0].clusters == {"alpha"}
    assert report.files[0].notes == ["the last of it"]
    stats = history.stats()
    assert (stats.gpu_time_s, dict(stats.states)) == (total.gpu_time_s, dict(total.states))


def test_gpu_time_counts_only_who_tells_it(tmp_path, monkeypatch):
    told = [
        attempt(1, start_time=10, end_time=30, num_gpus=2),
        attempt(2, start_time=10, end_time=30, num_gpus=None),
        attempt(3, start_time=None, end_time=30, num_gpus=None),
        attempt(4, start_time=10, end_time=None),
        attempt(5, start_time=30, end_time=10),
    ]
    monkeypatch.setattr(module, "reader_of", lambda _: lambda *_: iter([chunk(told, [])]))
    total = import_files(order(written(tmp_path / "a", 1)), None).total
    assert (total.gpu_time_s, total.gpu_time_attempts, total.attempts) == (40, 2, 5)


def test_a_second_import_finds_everything_unchanged(history, tmp_path):
    path = written(tmp_path / "a", 10)
    import_files(order(path), history)
    before = dump(history)
    total = import_files(order(path), history).total
    assert (total.attempts_new, total.unchanged, total.earlier) == (0, 10, 0)
    assert dump(history) == before


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_an_interrupted_import_goes_on_where_it_was(history, other, tmp_path, chunks):
    files = [written(tmp_path / "a", 10), written(tmp_path / "b", 9, first=50)]
    import_files(order(*files), other)
    with pytest.raises(ImportInterrupted, match=r"\d rows of .* are kept; the same command"):
        import_files(order(*files), history, stops_after(chunks))
    kept = history.stats().rows["attempts"]
    assert kept == {1: 4, 2: 8, 3: 10, 4: 14}[chunks]
    total = import_files(order(*files), history).total
    assert (total.earlier, total.attempts_new) == (kept, 19 - kept)
    assert total.gpu_time_s == 60 * sum(n % 3 for n in [*range(1, 11), *range(50, 59)])
    assert dump(history) == dump(other)
    assert import_files(order(*files), history).total.unchanged == 19


def test_rows_without_numbers_find_theirs_when_the_import_goes_on(history, other, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("#lines\n" + "= 1000 1 60 COMPLETED\n" * 6)
    second.write_text("#lines\n" + "= 2000 1 60 COMPLETED\n" * 6)
    import_files(order(first, second), other)
    with pytest.raises(ImportInterrupted):
        import_files(order(first, second), history, stops_after(3))
    import_files(order(first, second), history)
    assert dump(history) == dump(other)
    assert history.stats().rows["attempts"] == 12


def test_a_changed_file_or_other_options_begin_anew(history, tmp_path):
    path = written(tmp_path / "a", 10)
    for again in (order(written(path, 11)), order(path, timezone="Europe/Berlin")):
        with pytest.raises(ImportInterrupted):
            import_files(order(written(path, 10)), history, stops_after(2))
        written(path, 11)
        assert import_files(again, history).total.earlier == 0


def test_another_gsched_begins_anew(history, tmp_path, monkeypatch):
    path = written(tmp_path / "a", 10)
    with pytest.raises(ImportInterrupted):
        import_files(order(path), history, stops_after(2))
    monkeypatch.setattr(module, "__version__", "another")
    assert import_files(order(path), history).total.earlier == 0


def test_the_same_content_is_read_once_however_it_is_packed(history, tmp_path):
    path, packed = written(tmp_path / "a", 5), tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    report = import_files(order(path, packed, path), history)
    assert [found.same_as for found in report.files] == [None, str(path), str(path)]
    assert report.total.rows == 5


def test_files_in_any_order_and_split_anywhere_give_the_same(history, other, tmp_path):
    whole = written(tmp_path / "whole", 30)
    header, *lines = whole.read_text().splitlines(keepends=True)
    parts = []
    for number, (begin, end) in enumerate([(17, 30), (0, 9), (5, 20)]):
        parts.append(tmp_path / f"part{number}")
        parts[-1].write_text("".join([header, *lines[begin:end]]))
    import_files(order(whole), other)
    import_files(order(*parts), history)
    assert dump(history) == dump(other)


def test_a_truncated_file_is_read_up_to_its_last_whole_line(history, tmp_path):
    good, cut = written(tmp_path / "good", 5, first=500), tmp_path / "cut.gz"
    data = b"".join(
        gzip.compress(f"{n} {1000 * n} 1 60 COMPLETED\n".encode()) for n in range(1, 10)
    )
    cut.write_bytes(gzip.compress(b"#lines\n") + data[:-20])
    report = import_files(order(cut, good), history)
    error = report.files[0].error
    assert isinstance(error, DataError)
    assert str(cut) in error.message
    assert report.files[0].totals.attempts_new == 8
    assert report.files[1].totals.attempts_new == 5
    whole = tmp_path / "cut.gz"
    whole.write_bytes(gzip.compress(b"#lines\n") + data)
    assert import_files(order(whole), history).total.attempts_new == 1


def test_rows_that_are_not_understood_are_counted_and_kept_each_time(history, tmp_path):
    path = written(tmp_path / "a", 3)
    path.write_text(path.read_text() + "what is this\n")
    for _ in range(2):
        report = import_files(order(path), history)
        assert report.total.rejected == 1
        assert [(r.line, r.reason) for r in report.files[0].rejects] == [(5, "not five words")]
        assert [r.line for r in history.rejects()] == [5]


def test_a_file_that_is_not_the_format_keeps_no_other_from_being_read(history, tmp_path):
    wrong, right = tmp_path / "wrong", written(tmp_path / "right", 3)
    wrong.write_text("something else\n")
    report = import_files(order(wrong, right), history)
    assert "does not begin with #lines" in report.files[0].error.message
    assert report.total.attempts_new == 3


def test_nothing_is_imported_when_one_of_the_files_is_missing(history, tmp_path):
    with pytest.raises(UsageError, match="missing"):
        import_files(order(written(tmp_path / "a", 3), tmp_path / "missing"), history)
    with pytest.raises(UsageError, match="directory"):
        import_files(order(tmp_path), history)
    with pytest.raises(UsageError, match="once only"):
        import_files(order("-", "-"), history)
    assert history.stats().rows["attempts"] == 0


def test_a_database_that_fails_keeps_what_it_has(history, tmp_path, monkeypatch):
    path = written(tmp_path / "a", 10)
    keep, calls = history.import_chunk, []

    def fails(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise UnavailableError("the server has gone", "look at its log")
        return keep(*args, **kwargs)

    monkeypatch.setattr(history, "import_chunk", fails)
    with pytest.raises(UnavailableError) as raised:
        import_files(order(path), history)
    assert raised.value.hint == (
        f"look at its log; 8 rows of {path} are kept; the same command goes on from there"
    )
    assert import_files(order(path), history).total.attempts_new == 2


def test_without_a_database_everything_is_read_and_counted(tmp_path):
    total = import_files(order(written(tmp_path / "a", 10)), None).total
    assert (total.rows, total.attempts_new, total.unchanged) == (10, 0, 0)


def test_a_pipe_is_read_once_and_leaves_no_cursor(history, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = written(tmp_path / "a", 10).read_text()
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    with pytest.raises(ImportInterrupted, match="are kept"):
        import_files(order(pipe), history, stops_after(2))
    writer.join()
    assert history.stats().rows["ingest_cursors"] == 0


def test_progress_tells_the_share_of_the_file(history, tmp_path):
    told = []
    import_files(order(written(tmp_path / "a", 10)), history, told.append)
    assert [p.rows for p in told] == [4, 8, 10]
    assert told[-1].share == 1.0
    assert Path(told[0].file).name == "a"
