"""Logs without waits on a simulated cluster, logs with waits as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.forecast_log import LIMITS_S, ReplayLog, limits_s, recorded, simulated
from support.known_world import one_server

from gsched.model.history import PastJob


def without_waits() -> list[PastJob]:
    """Jobs of 1 to 4 GPUs that start when they are submitted, as Philly's do."""
    return [
        replace(
            job,
            start_time=job.submit_time,
            end_time=job.submit_time + job.duration_s,
            num_gpus=1 + row % 4,
        )
        for row, job in enumerate(one_server(500, seed=3).jobs)
    ]


@pytest.fixture(scope="module")
def log() -> ReplayLog:
    return simulated("without waits", without_waits())


def test_the_machine_is_as_large_as_the_jobs_fill_to_the_usual_load(log: ReplayLog) -> None:
    work = (log.units * (log.end - log.start)).sum()
    assert log.capacity == max(4, np.ceil(work / np.ptp(log.submit) / 0.85))


def test_run_times_are_those_of_the_log_and_never_more_units_run_than_there_are(
    log: ReplayLog,
) -> None:
    assert (log.end - log.start).tolist() == [job.duration_s for job in without_waits()]
    assert (log.start >= log.submit).all()
    assert (log.start > log.submit).any()
    held = [
        log.units[(log.start <= at) & (log.end > at)].sum() for at in np.unique(log.start).tolist()
    ]
    assert max(held) <= log.capacity
    assert log.jobs[7].start_time == log.start[7]


def test_who_is_predicted_to_need_little_overtakes(log: ReplayLog) -> None:
    waited = log.start - log.submit
    little = log.key < np.median(log.key)
    assert waited[little].mean() < waited[~little].mean() / 2


def test_limits_that_are_told_stay_and_others_are_drawn_above_the_run() -> None:
    jobs = without_waits()
    jobs[3] = replace(jobs[3], time_limit_s=jobs[3].duration_s + 77)
    drawn = limits_s(jobs)
    assert drawn[3] == jobs[3].duration_s + 77
    others = np.delete(drawn, 3)
    assert set(others.tolist()) <= set(LIMITS_S)
    assert (drawn >= [job.duration_s for job in jobs]).all()
    assert np.array_equal(drawn, limits_s(jobs))


def test_a_log_with_waits_is_as_it_was_on_the_machine_of_its_header_or_its_peak() -> None:
    jobs = one_server(50, seed=4).jobs
    log = recorded("with waits", jobs, cores=16)
    assert log.start.tolist() == [job.start_time for job in jobs]
    assert log.capacity == 16
    assert recorded("with waits", jobs, cores=None).capacity == 1
