"""The file of jobcomp/filetxt: recorded, hostile, half written, rotated."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.errors import PermissionDeniedError, UnavailableError
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.jobcomp import read_filetxt
from gsched.slurm.parse_jobcomp import parse_jobcomp


def line(job_id=7, name="train", **fields):
    values = {
        "UserId": "ann(1000)", "GroupId": "lab(100)", "Name": name, "JobState": "COMPLETED",
        "Partition": "gpu", "TimeLimit": "60", "StartTime": "2026-11-29T13:00:00",
        "EndTime": "2026-11-29T13:10:00", "NodeList": "gn01", "NodeCnt": "1", "ProcCnt": "4",
        "WorkDir": "/home/ann", "ReservationName": "", "Tres": "cpu=4,mem=1000M,node=1",
        "Account": "", "QOS": "", "WcKey": "", "Cluster": "unknown",
        "SubmitTime": "2026-11-29T12:00:00", "EligibleTime": "2026-11-29T12:00:00",
        "DerivedExitCode": "0:0", "ExitCode": "0:0",
    }  # fmt: skip
    assert fields.keys() <= values.keys()
    text = " ".join(f"{key}={value}" for key, value in (values | fields).items())
    return f"JobId={job_id} {text} \n".encode("utf-8", "surrogateescape")


@pytest.fixture
def zone(monkeypatch):
    """Sets this process's time zone: jobcomp's times are local."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def recorded_batch(zone, data_folder):
    zone("UTC")
    return read_filetxt(data_folder / "22.05" / "jobcomp.txt", "bed")


@pytest.fixture
def by_id(recorded_batch):
    return {(r.job_id, r.array_task, r.het_offset): r for r in recorded_batch.records
            if r.state is not JobState.REQUEUED}  # fmt: skip


def test_rows_in_are_rows_out(recorded_batch):
    """27 records were written by 27 jobs, one of whose names holds a record of its own."""
    assert recorded_batch.rows_in == 27
    assert len(recorded_batch.records) == 24
    begins = [r.raw.split()[0] for r in recorded_batch.rejects]
    assert begins == ["JobId=18", "JobId=17", "JobId=21"]
    assert {r.reason for r in recorded_batch.rejects} == {
        "ambiguous: free text looks like a record"
    }


def test_a_forged_record_in_a_name_is_not_believed(recorded_batch):
    """Job 18's name holds a whole record of a job 77."""
    assert not any(r.job_id == 77 for r in recorded_batch.records)
    assert "JobId=77" in recorded_batch.rejects[0].raw
    assert recorded_batch.rejects[0].raw.endswith("ExitCode=3:0 \n")


def test_plain_records(by_id):
    record = by_id[8, None, None]
    assert (record.cluster, record.source) == ("bed", "jobcomp")
    assert (record.state, record.user, record.partition) == (JobState.COMPLETED, "root", "gpu")
    assert (record.submit_time, record.start_time, record.end_time) == (
        1795957469, 1795957769, 1795958069)  # fmt: skip
    assert (record.time_limit_s, record.num_nodes, record.num_cpus) == (86400, 2, 2)
    assert record.node_list == "gn[02-03]"
    assert record.num_gpus is None  # the file does not say
    assert {tres.name: tres.count for tres in record.allocated}["mem"] == 2000 * 2**20
    assert by_id[1, None, None].time_limit_s == UNLIMITED_S
    assert (by_id[16, None, None].exit_code, by_id[16, None, None].exit_signal) == (3, 0)


def test_arrays_and_heterogeneous_jobs(by_id):
    assert {key for key in by_id if key[0] == 6} == {(6, 1, None), (6, 2, None), (6, 3, None)}
    assert {key for key in by_id if key[0] == 9} == {(9, None, 0), (9, None, 1)}


def test_what_never_ran_has_no_start(by_id):
    record = by_id[12, None, None]
    assert (record.state, record.start_time, record.node_list) == (JobState.CANCELLED, None, None)
    assert (record.num_nodes, record.allocated) == (None, ())
    assert record.requested
    assert record.end_time == 1795957665
    assert by_id[25, None, None].eligible_time is None  # "unknown"


def test_a_requeue_is_written_as_pending(recorded_batch):
    first, second = [r for r in recorded_batch.records if r.job_id == 15]
    assert (first.state, first.state_text) == (JobState.REQUEUED, "PENDING")
    assert (second.state, second.submit_time > first.submit_time) == (JobState.COMPLETED, True)


def test_odd_names_and_accounts(by_id):
    assert by_id[5, None, None].name == 'we|ird\n"na\x01me'
    assert by_id[22, None, None].name == "tab\there \ufffd\x01"
    assert by_id[12, None, None].tenant == "x|y z"
    assert by_id[19, 1, None].tenant == "acc ount qos=x"


def test_times_are_of_the_local_zone(zone):
    zone("UTC")
    utc = parse_jobcomp(line(), "c").records[0].start_time
    zone("Europe/Berlin")
    berlin = parse_jobcomp(line(), "c").records[0].start_time
    assert utc - berlin == 3600


names = st.text(alphabet=st.one_of(st.sampled_from("\n =\"'|"), st.characters(codec="utf-8")),
                max_size=60)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(names, min_size=1, max_size=4))
def test_any_names_come_back(texts):
    data = b"".join(line(n, name) for n, name in enumerate(texts, 1))
    parsed = parse_jobcomp(data, "c")
    assert parsed.rejects == ()
    assert [r.name for r in parsed.records] == texts
    assert parsed.consumed == len(data)


@given(st.lists(st.sampled_from(
    ["JobId=9 UserId=", "JobState=FAILED", " ", "\n", "x", "ExitCode=0:0 \n", "Name=", "WorkDir=/"]
), max_size=12))  # fmt: skip
def test_names_of_the_files_own_words_are_kept_or_rejected(words):
    """Whatever a name holds, its neighbours' records and all bytes stay."""
    data = line(1) + line(2, "".join(words)) + line(3)
    parsed = parse_jobcomp(data, "c")
    assert parsed.consumed == len(data)
    assert parsed.records[0].job_id == 1
    assert parsed.rejects or [r.job_id for r in parsed.records] == [1, 2, 3]
    kept = sum(len(r.raw.encode()) for r in parsed.rejects)
    kept += sum(len(line(r.job_id, r.name)) for r in parsed.records)
    assert kept == len(data)


@pytest.mark.parametrize("field", ["SubmitTime", "TimeLimit", "ExitCode", "Tres", "NodeCnt"])
def test_a_value_that_is_none_is_a_reject(field):
    broken = line(8, **{field: "7:7" if field == "ExitCode" else "?"})
    if field == "ExitCode":
        broken = broken.replace(b"ExitCode=7:7", b"ExitCode=99999999999:0")
    parsed = parse_jobcomp(line(7) + broken + line(9), "c")
    assert [r.job_id for r in parsed.records] == [7, 9]
    assert [r.line for r in parsed.rejects] == [2]


def test_a_name_that_ends_its_own_record_and_begins_another():
    own = line(18).decode().partition("Name=")[2].replace("ExitCode=0:0 \n", "ExitCode=none\n")
    name = f"{own}JobId=77 UserId=root(0) GroupId=root(0) Name=forged"
    parsed = parse_jobcomp(line(18, name) + line(19), "c")
    assert [r.job_id for r in parsed.records] == [19]
    assert [r.raw.encode() for r in parsed.rejects] == [line(18, name)]


def test_a_missing_submit_time_is_a_reject():
    assert parse_jobcomp(line(SubmitTime="Unknown"), "c").rejects[0].reason == "no submit time"


def test_gpus_where_the_file_has_them():
    record = parse_jobcomp(line(Tres="cpu=4,gres/gpu=2,gres/gpu:a100=2"), "c").records[0]
    assert record.num_gpus == 2


def test_text_that_is_no_record():
    parsed = parse_jobcomp(b"garbage\n" + line(7), "c")
    assert [r.job_id for r in parsed.records] == [7]
    assert (parsed.rejects[0].reason, parsed.rejects[0].raw) == ("no jobcomp record", "garbage\n")
    assert parse_jobcomp(b"garbage\n", "c").consumed == len(b"garbage\n")
    assert parse_jobcomp(b"half a li", "c").consumed == 0


def test_an_endless_record_does_not_swallow_the_file():
    data = b"JobId=1 UserId=x\n" * 4000 + line(7)
    parsed = parse_jobcomp(data, "c")
    assert parsed.consumed == len(data)
    assert sum(len(r.raw) for r in parsed.rejects) >= len(data) - len(line(7))


@pytest.mark.parametrize("length", [1023, 1024])
def test_a_record_that_slurm_has_cut_short_does_not_take_the_next_with_it(length):
    cut = line(8, "x" * 1500)[:length]
    parsed = parse_jobcomp(line(7) + cut + cut + line(9) + line(10), "c")
    assert [r.job_id for r in parsed.records] == [7, 9, 10]
    assert [r.raw.encode() for r in parsed.rejects] == [cut, cut]
    assert {r.reason.partition(",")[0] for r in parsed.rejects} == {"cut short by Slurm"}
    broken = parse_jobcomp(cut + line(9, TimeLimit="?") + line(10), "c")
    assert [r.job_id for r in broken.records] == [10]


def test_what_only_looks_like_the_seam_of_a_cut_record_is_not_believed():
    """A record in a name is none, unless it stands where Slurm would have cut."""
    forged = line(77).decode().rstrip("\n")
    for name in (f"x {forged}", "x" * 1000 + " " + forged):
        parsed = parse_jobcomp(line(18, name) + line(19), "c")
        assert [r.job_id for r in parsed.records] == [19]
    # nor behind a record that is whole
    whole = line(1) + line(2, "y" * (1023 - 2 * len(line(1)) + len(line(1, "")) - 1) + forged)
    assert 77 not in {r.job_id for r in parse_jobcomp(whole + line(3), "c").records}


# Reading on ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobcomp.txt"


def ids(batch):
    return [r.job_id for r in batch.records]


def append(file, data):
    with file.open("ab") as handle:
        handle.write(data)


def test_only_what_is_new(file):
    append(file, line(1) + line(2))
    first = read_filetxt(file, "c")
    assert ids(first) == [1, 2]
    assert read_filetxt(file, "c", first.cursor).rows_in == 0
    append(file, line(3))
    second = read_filetxt(file, "c", first.cursor)
    assert (ids(second), second.rows_in) == ([3], 1)
    assert read_filetxt(file, "c", second.cursor).rows_in == 0


@pytest.mark.parametrize("cut", [1, 2, 3, 40, 200, len(line(2)) - 1])
def test_a_half_written_record_waits(file, cut):
    append(file, line(1) + line(2)[:-cut])
    first = read_filetxt(file, "c")
    assert (ids(first), first.rejects) == ([1], ())
    append(file, line(2)[-cut:] + line(3))
    assert ids(read_filetxt(file, "c", first.cursor)) == [2, 3]


def test_a_rotated_file_is_read_to_its_end_first(file):
    append(file, line(1))
    first = read_filetxt(file, "c")
    append(file, line(2))
    file.rename(file.with_name("jobcomp.txt.1"))
    append(file, line(3))
    second = read_filetxt(file, "c", first.cursor)
    assert (ids(second), second.rejects) == ([2, 3], ())
    assert read_filetxt(file, "c", second.cursor).rows_in == 0


def test_of_several_rotated_files_the_last_read_one_is_read_on(file):
    append(file.with_name("jobcomp.txt.2"), line(7))
    append(file, line(1))
    first = read_filetxt(file, "c")
    append(file, line(2))
    file.rename(file.with_name("jobcomp.txt.1"))
    append(file, line(3))
    assert ids(read_filetxt(file, "c", first.cursor)) == [2, 3]


def test_a_rotated_file_that_is_gone_is_reported(file):
    append(file, line(1))
    first = read_filetxt(file, "c")
    other = file.with_name("other")
    append(other, line(3))
    other.replace(file)
    second = read_filetxt(file, "c", first.cursor)
    assert ids(second) == [3]
    assert "its unread end is gone" in second.rejects[0].reason
    assert second.rows_in == 2


@pytest.mark.parametrize("new", [line(3), line(3) + line(4) + line(5)])
def test_a_file_cut_back_and_written_anew_is_read_from_its_beginning(file, new):
    """As logrotate's copytruncate does; also when it has grown past the old place since."""
    append(file, line(1) + line(2))
    first = read_filetxt(file, "c")
    file.write_bytes(new)
    second = read_filetxt(file, "c", first.cursor)
    assert ids(second) == ids(read_filetxt(file, "c"))
    assert [r.line for r in second.rejects] == [0]  # what was cut off unread may have been lost


def test_large_files_are_read_in_parts(file, monkeypatch):
    monkeypatch.setattr("gsched.slurm.jobcomp._MAX_READ_BYTES", 3 * len(line(1)) + 50)
    append(file, b"".join(line(n) for n in range(1, 8)))
    seen, cursor = [], ""
    while True:
        batch = read_filetxt(file, "c", cursor)
        if batch.rows_in == 0:
            break
        seen, cursor = seen + ids(batch), batch.cursor
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_a_file_that_is_not_there(file):
    with pytest.raises(UnavailableError, match="No such file"):
        read_filetxt(file, "c")


def test_a_file_that_may_not_be_read(file, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")  # root may read everything

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionDeniedError, match="may not be read"):
        read_filetxt(file, "c")
