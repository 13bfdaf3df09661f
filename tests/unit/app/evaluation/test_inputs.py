"""Past jobs from files, whatever the format."""

from __future__ import annotations

import pytest

from gsched.app.evaluation.inputs import read_past_jobs
from gsched.app.trace_formats import TraceOptions
from gsched.errors import DataError, UsageError
from gsched.model.job import JobState

SWF = """; UnixStartTime: 1000000000
1  0 10 100 4 -1 -1 4 3600 -1 1 7 2 5 -1 -1 -1 -1
2  5 -1  50 8 -1 -1 8   -1 -1 0 8 2 -1 -1 -1 -1 -1
3  9 -1  -1 -1 -1 -1 4 3600 -1 5 7 2 5 -1 -1 -1 -1
"""
DAY = "2026-01-01T00"
SACCT = f"""\
JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|Submit|Start|End|Restarts|AllocTRES
9|9|c|ann|lab|gpu|a|REQUEUED|{DAY}:00:00|{DAY}:01:00|{DAY}:02:00|0|cpu=4,gres/gpu=2
9|9|c|ann|lab|gpu|a|COMPLETED|{DAY}:02:00|{DAY}:03:00|{DAY}:13:00|1|cpu=4,gres/gpu=2
8_1|18|c|bob|lab|gpu|b|RUNNING|{DAY}:00:00|{DAY}:01:00|Unknown|0|cpu=4
"""


def read(tmp_path, text, name, **options):
    path = tmp_path / f"t.{name}"
    path.write_text(text)
    return read_past_jobs([str(path)], TraceOptions(name, **options))


def test_a_workload_archive_log(tmp_path):
    past = read(tmp_path, SWF, "swf")
    first, second = past.jobs
    assert (first.submit_time, first.start_time, first.end_time) == (10**9, 10**9 + 10, 10**9 + 110)
    assert (first.user, first.tenant, first.name) == ("user7", "group2", "executable5")
    assert (first.num_gpus, first.num_cpus, first.num_nodes) == (0, 4, None)
    assert (first.time_limit_s, second.time_limit_s) == (3600, None)
    assert (second.name, second.state) == ("", JobState.FAILED)
    assert past.left_out == {"not-ended": 1}
    assert past.waits_known


def test_a_log_without_starts_says_so(tmp_path):
    past = read(tmp_path, SWF.replace("0 10 100", "0 -1 100"), "swf")
    assert not past.waits_known


def test_attempts_of_one_job_are_one_job(tmp_path):
    past = read(tmp_path, SACCT, "sacct")
    (job,) = past.jobs
    assert job.job_id == 9
    assert job.duration_s == 600  # of the last attempt, as in the history
    assert job.end_time - job.submit_time == 780  # from the first submission
    assert job.num_gpus == 2
    assert past.left_out == {"not-ended": 1}


def test_accounts_stand_for_users_where_there_are_none(tmp_path):
    rows = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,6214e9\n"
    (job,) = read(tmp_path, rows, "philly").jobs
    assert (job.user, job.tenant, job.name) == ("6214e9", "6214e9", "")


def test_what_has_no_job_is_refused(tmp_path):
    with pytest.raises(DataError, match="no job that ran and ended") as refused:
        read(tmp_path, SWF.splitlines()[0] + "\n" + SWF.splitlines()[3] + "\n", "swf")
    assert "1 jobs still waiting" in refused.value.hint
    with pytest.raises(UsageError, match="once only"):
        read_past_jobs(["-", "-"], TraceOptions("swf"))


def test_rows_that_are_not_understood_are_counted(tmp_path):
    past = read(tmp_path, SWF + "4 1 2 3\n", "swf")
    assert past.left_out["rejected"] == 1
    assert len(past.jobs) == 2
