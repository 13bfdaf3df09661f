"""Which past jobs are simulated, and as what."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.history import attempt, pending, running
from support.sim_traces import chosen, gathered, ran

from gsched.app.sim.inputs import choose, read_files, sim_jobs
from gsched.app.sim.left_out import LEFT_OUT, LeftOut
from gsched.app.sim.rows import NONE, Gatherer, columns_of_jobs
from gsched.app.trace_formats import TraceOptions
from gsched.errors import DataError, UsageError
from gsched.model.history import Tres
from gsched.model.job import UNLIMITED_S, JobState
from gsched.model.past import logical_jobs
from gsched.model.progress import silent
from gsched.model.trace import AttemptColumns, Constant, columns_of


def made(records):
    """The jobs of a simulation, all in one pool."""
    past = chosen(records).past
    zeros = np.zeros(len(past), dtype=np.int64)
    return sim_jobs(past, zeros.astype(np.int32), zeros, zeros.astype(np.int32))


def counts(found):
    return {out.reason: out.jobs for out in found.left_out}


def test_requeues_are_one_job_with_the_first_submission_and_all_of_its_run_time():
    first = ran(7, 1000, 10, 100, 2, state=JobState.NODE_FAIL, restarts=0)
    second = ran(7, 1200, 50, 300, 2, restarts=1)
    (job,) = [made([first, second])]
    assert (len(job), job.origin, job.duration_s.tolist()) == (1, 1000, [400.0])
    assert gathered([first, second]).attempts.tolist() == [2]


def test_an_id_that_comes_again_later_is_another_job():
    jobs = made([ran(7, 1000, 0, 100, 1), ran(7, 90_000, 0, 50, 1)])
    assert jobs.submit_s.tolist() == [0, 89_000]


def test_a_row_that_comes_twice_is_one_job_and_counted():
    row = ran(7, 1000, 0, 100, 1)
    past = gathered([row, ran(8, 1000, 0, 30, 1), row])
    assert (len(past), past.repeated_rows) == (2, 1)
    assert sorted(past.run_s.tolist()) == [30, 100]


def test_jobs_of_one_attempt_are_what_the_rules_of_the_history_make_of_them():
    records = [
        ran(1, 1000, 5, 60, 2),
        pending(2),
        running(3),
        attempt(4, start_time=1500, end_time=1500, state=JobState.CANCELLED, node_list=None),
        attempt(5, num_nodes=0, state=JobState.CANCELLED),
        attempt(6, state=JobState.REQUEUED),
        attempt(8, state=JobState.COMPLETING, end_time=None),
        attempt(9, state=JobState.UNKNOWN, state_text="FUTURE_STATE"),
        attempt(10, start_time=None, end_time=1300, state=JobState.CANCELLED),
    ]
    quick = gathered(records)
    thorough = columns_of_jobs(sorted(logical_jobs(records), key=lambda job: job.key.job_id))
    for name in ("submit_time", "end_time", "run_s", "num_gpus", "attempts"):
        assert getattr(quick, name).tolist() == getattr(thorough, name).tolist(), name
    ended = quick.end_time != NONE
    assert quick.start_time[ended].tolist() == thorough.start_time[ended].tolist()


def test_what_cannot_be_simulated_is_left_out_by_its_first_reason():
    found = chosen(
        [
            ran(1, 1000, 0, 100, 4),
            ran(2, 1000, 0, 100, 0),
            ran(3, 1000, 0, 100, 1, num_gpus=None),
            ran(4, 1000, 0, 0, 1),
            ran(5, 1000, 0, -50, 1),
            ran(6, -5, 0, 100, 1),
            ran(9, 1000, 0, 2**40, 1),
            running(10),
            attempt(11, start_time=None, end_time=1300, state=JobState.CANCELLED),
            ran(12, 10**30, 0, 100, 1),
        ]
    )
    assert counts(found) == {
        "impossible-time": 3,
        "no-gpus": 1,
        "gpus-unknown": 1,
        "not-ended": 1,
        "never-ran": 1,
        "ended-before-start": 1,
        "zero-duration": 1,
    }
    assert found.past.job_id.tolist() == [1]
    (no_gpus,) = [out for out in found.left_out if out.reason == "no-gpus"]
    assert no_gpus.words == "1 job without GPUs (2)"
    assert set(counts(found)) <= set(LEFT_OUT)


def test_gpu_time_that_is_left_out_is_told():
    jobs = chosen([ran(1, 1000, 0, 9, 2), ran(2, 1000, 0, 9, 1)])
    (out,) = jobs.without("no-such-pool", np.array([True, False])).left_out
    assert out == LeftOut("no-such-pool", 1, 18.0, ("1",))


def test_nothing_to_simulate_is_an_error_that_says_why():
    with pytest.raises(DataError) as error:
        chosen([ran(1, 1000, 0, 100, 0), ran(2, 1000, 0, 0, 1)])
    assert "1 job without GPUs" in error.value.hint
    assert "less than a second (2)" in error.value.hint


def test_the_order_of_the_rows_does_not_matter():
    records = [
        ran(n, 1000 + n // 3, 0, 60 + n, n % 4 + 1, user=f"u{n % 3}", name=f"n{n % 5}",
            tenant=f"t{n % 2}", cluster=f"c{n % 2}", restarts=0)
        for n in range(60)
    ]  # fmt: skip
    records += [ran(5, 9000, 0, 5, 1, user="u2", cluster="c1", restarts=1)]
    shuffled = list(records)
    random.Random(1).shuffle(shuffled)
    one, other = made(records), made(shuffled)
    assert list(one.ids) == list(other.ids)
    for name in ("submit_s", "duration_s", "num_gpus", "user", "tenant", "name"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert (one.users, one.tenants, one.names) == (other.users, other.tenants, other.names)


def test_limits_texts_and_ids_as_told():
    jobs = made(
        [
            ran(1, 1000, 0, 9, 1, time_limit_s=UNLIMITED_S, user=None),
            ran(2, 1000, 0, 9, 1, array_task=3, time_limit_s=600, name=None),
            ran(3, 1000, 0, 9, 1, source_id="application_1", time_limit_s=None),
            ran(4, 1000, 0, 9, 1, het_offset=1),
        ]
    )
    assert list(jobs.ids) == ["1", "2_3", "application_1", "4+1"]
    assert jobs.ids[1:3] == ["2_3", "application_1"]
    assert np.isnan(jobs.time_limit_s).tolist() == [True, False, True, False]
    assert jobs.user.tolist() == [-1, 0, 0, 0]
    assert jobs.name.tolist() == [0, -1, 0, 0]


def test_types_of_gpu_come_from_what_was_asked_for():
    asked = (Tres("cpu", 8), Tres("gres/gpu", 2), Tres("gres/gpu:a100", 2))
    past = gathered([ran(1, 1000, 0, 9, 2, requested=asked), ran(2, 1000, 0, 9, 2)])
    assert [past.gpu_type.values[code] if code >= 0 else "" for code in past.gpu_type.codes] == [
        "a100",
        "",
    ]


@pytest.mark.parametrize(
    ("source", "extra", "deadline", "weight"),
    [
        ("elasticflow", '{"ddl": "5000"}', 5000, 1),
        ("itp", '{"deadline": "4000.5"}', 4000.5, 1),
        ("chronus", '{"expect_time_list": "10", "expect_value_list": "7"}', 1600, 7),
        ("chronus", '{"expect_time_list": "10", "best_effort": "1"}', None, 1),
        ("chronus", '{"expect_time_list": "x"}', None, 1),
        ("elasticflow", '{"ddl": null}', None, 1),
        ("philly", '{"deadline": "5000"}', None, 1),
    ],
)
def test_deadlines_that_traces_tell(source, extra, deadline, weight):
    past = gathered([ran(1, 1000, 0, 9, 2, source=source, extra=extra)])
    found = past.deadline.tolist()[0]
    assert (None if np.isnan(found) else found) == deadline
    assert past.weight.tolist() == [weight]


def test_a_deadline_stays_with_a_job_of_several_attempts():
    rows = [
        ran(1, 1000, 0, 9, 2, source="elasticflow", extra='{"ddl": "5000"}', restarts=0),
        ran(1, 2000, 0, 9, 2, source="elasticflow", extra='{"ddl": "5000"}', restarts=1),
    ]
    assert gathered(rows).deadline.tolist() == [5000]


def test_columns_that_are_the_same_for_all_rows_are_read_as_well():
    gatherer = Gatherer()
    gatherer.take(columns_of([ran(1, 1000, 0, 9, 2)]))
    gatherer.take(
        AttemptColumns(
            2,
            {
                "cluster": Constant("alpha"),
                "job_id": [2, 3],
                "submit_time": [1000, 1001],
                "state": Constant(JobState.COMPLETED),
                "start_time": [1000, 1001],
                "end_time": [1010, 1021],
                "num_gpus": Constant(4),
            },
        )
    )
    past = gatherer.jobs()
    assert past.run_s.tolist() == [9, 10, 20]
    assert past.num_gpus.tolist() == [2, 4, 4]
    assert past.time_limit_s.tolist() == [3600, NONE, NONE]


def write(path, *rows):
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(rows))
    return str(path)


def test_files_are_read_as_one_and_the_window_goes_by_the_first_submission(tmp_path):
    one = write(tmp_path / "a.csv", "2017-10-02 00:00:00,60,1,60,6214e9\n", "x,60,1,60,v\n")
    two = write(tmp_path / "b.csv", "2017-10-01 00:00:00,60,1,60,6214e9\n")
    day = 1506902400
    past = read_files([one, two], TraceOptions("philly"), (day, None), silent)
    assert past.jobs.submit_time.tolist() == [day]
    assert [job.submit_time for job in past.earlier()] == [day - 86_400]
    assert (past.rejected.jobs, len(past.rejected.examples)) == (1, 1)
    assert "line 3" in past.rejected.examples[0]
    assert past.jobs.tenant.values[past.jobs.tenant.codes[0]] == "6214e9"
    assert past.source == f"philly: {one}, {two}"
    assert choose(past).left_out[0].words.startswith("1 row that could not be understood")
    assert read_files([two], TraceOptions("philly"), (None, day), silent).jobs.run_s.tolist() == [
        60
    ]


def test_a_file_that_is_cut_off_gives_nothing(tmp_path):
    import gzip

    whole = write(tmp_path / "a.csv", "2017-10-02 00:00:00,60,1,60,v\n" * 500)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes())[:-30])
    with pytest.raises(DataError, match="cut off"):
        read_files([whole, str(cut)], TraceOptions("philly"), (None, None), silent)


def test_standard_input_can_be_read_once():
    with pytest.raises(UsageError, match="once"):
        read_files(["-", "-"], TraceOptions("philly"), (None, None), silent)


def test_a_file_of_a_header_alone_has_no_job(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobIDRaw|JobID|Submit|Start|End|State|AllocTRES|Partition\n")
    with pytest.raises(DataError, match="no job in it") as error:
        read_files([str(path)], TraceOptions("sacct"), (None, None), silent)
    assert "time" not in error.value.hint
