"""The real logs that judge and tune: what they are said to tell, they tell."""

from __future__ import annotations

import pytest
from support.named_logs import JUDGING, LOGS, TUNING, busiest, load
from support.shared import needs_shared

pytestmark = needs_shared

JOBS = {
    "iu-mason-2017": 16_221,
    "llnl-atlas-2006": 39_228,
    "nasa-ipsc-1993": 18_239,
    "kth-sp2-1996": 28_489,
    "cea-curie-sample": 29_998,
    "cerit-wagap-2013": 17_898,
    "nrel-eagle-sample": 1_000,
    "pozidriv": 11_285,
    "philly": 82_247,
    "itp": 69_351,
}


def test_all_are_there_and_those_that_judge_are_no_others():
    assert set(LOGS) == set(JOBS)
    assert set(TUNING) == {"nrel-eagle-sample", "pozidriv", "philly", "itp"}
    assert set(JUDGING) | set(TUNING) == set(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_a_log_tells_what_it_is_said_to_tell(name):
    log, jobs = LOGS[name], load(name)
    assert len(jobs) == JOBS[name]
    assert [job.submit_time for job in jobs] == sorted(job.submit_time for job in jobs)
    assert all(job.submit_time <= job.start_time <= job.end_time for job in jobs)
    assert any(job.name for job in jobs) == log.has_names
    assert any(job.user != job.tenant for job in jobs) == log.has_users
    assert any(job.start_time > job.submit_time for job in jobs) == log.has_waits
    assert any(job.time_limit_s is not None for job in jobs) == log.has_limits
    assert all(job.num_gpus > 0 for job in jobs) == (log.unit == "GPU")
    ids = {(job.job_id, job.array_task, job.submit_time, job.start_time) for job in jobs}
    assert len(ids) == len(jobs)


def test_the_machine_has_what_was_in_use_at_once():
    assert busiest(load("kth-sp2-1996")) == 104  # of 100 nodes: the log's clock is coarse
    assert busiest(load("iu-mason-2017")) == 575
    assert busiest(load("cea-curie-sample")) <= LOGS["cea-curie-sample"].cores
